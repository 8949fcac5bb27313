"""A client of the bulk interface, for threads: see waypost.client.bulk.schema for what the requests and answers mean.

It uses the connections of the HTTP transport, one for each thread that asks at the same time. Whatever the bulk
interface offers can be asked for twice, so a request whose answer was lost is asked again on another connection.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Final, Self, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from waypost.client.bulk.frame import MEDIA_TYPE, Frame
from waypost.client.bulk.paging import frames_ahead
from waypost.client.bulk.schema import (
    DEFAULT_READ,
    DEFAULT_READ_BYTES,
    BulkQueue,
    BulkQueues,
    Locked,
    PlannedRange,
    PlanRange,
    ReadRange,
    Removed,
    RemoveRange,
    SeqAt,
)
from waypost.client.bulk.writing import BulkWriting
from waypost.client.transports.http.address import DEFAULT_TIMEOUT, Address
from waypost.client.transports.http.blocking import Http
from waypost.client.transports.http.exchanges import Conversation, Decoder, Exchange, accepted, path_part
from waypost.client.transports.http.http11 import Response
from waypost.errors import DecodeError, InvalidParameter

A = TypeVar("A")

_PREFIX: Final = "/api/bulk"


class BulkClient(BulkWriting):
    """Thousands of messages at once, from the daemon at `url`. Close it, or use it in a `with` statement.

        with BulkClient("http://127.0.0.1:8181") as client:
            end = client.queue("orders").stable
            for frame in client.read_all("orders", 0, end):
                print(frame.count, len(frame.packets))

    A queue is named in any way that `waypost.connect` knows; the format name of an outgoing queue means that one.
    `token` is what the daemon expects, and `timeout` how many seconds a connection or an answer may take.

    Raises CannotConnect if no daemon answers, and the WaypostError that the daemon had.
    """

    __slots__ = ("_shell", "url")

    def __init__(self, url: str, token: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.url: Final = url
        self._shell: Final = Http(Address.parse(url, token, timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<BulkClient of {self.url}>"

    def close(self) -> None:
        """Let the connections go. A second time it does nothing."""
        self._shell.close()

    def queues(self, pattern: str = "", kind: str = "") -> list[BulkQueue]:
        """Those that applications have created, or of one kind: see GET /api/bulk/queues."""
        query = urlencode({"pattern": pattern, "kind": kind})
        return self.call("GET", f"/queues?{query}", None, BulkQueues).queues

    def queue(self, name: str) -> BulkQueue:
        return self.call("GET", queue_path(name), None, BulkQueue)

    def plan(self, name: str, wanted: PlanRange) -> PlannedRange:
        return self.call("POST", queue_path(name, "plan"), wanted, PlannedRange)

    def read(self, name: str, wanted: ReadRange) -> Frame:
        return self.frame(queue_path(name, "read"), wanted)

    def read_all(
        self,
        name: str,
        after: int,
        up_to: int,
        *,
        max_messages: int = DEFAULT_READ,
        max_bytes: int = DEFAULT_READ_BYTES,
        locked: Locked = "wait",
        epoch: str = "",
    ) -> Iterator[Frame]:
        """All of the range, in frames that have one message at least. The queue has to stay the same one meanwhile."""
        wanted = ReadRange(
            after=after, up_to=up_to, max_messages=max_messages, max_bytes=max_bytes, locked=locked, epoch=epoch
        )
        return frames_ahead(partial(self.read, name), wanted)

    def seq_at(self, name: str, time: datetime | float) -> int:
        """The number behind which messages are that arrived at this time or later. A datetime needs its time zone."""
        if isinstance(time, datetime):
            if time.tzinfo is None:
                raise InvalidParameter(f"{time} may be any hour of a day; give the time with its time zone")
            time = time.timestamp()
        return self.call("GET", f"{queue_path(name, 'seq')}?{urlencode({'time': repr(float(time))})}", None, SeqAt).seq

    def remove(self, name: str, wanted: RemoveRange) -> Removed:
        return self.call("POST", queue_path(name, "remove"), wanted, Removed)

    def call(self, method: str, path: str, content: Struct | None, answer: type[A]) -> A:
        """Ask for anything that is answered by a structure, or by nothing: then `answer` is NoneType."""
        response: Response = self._shell.carry(_exchange(method, path, content))
        if response.status == 204:
            return msgspec.convert(None, answer)
        found: A = Decoder(answer).of(response.body)
        return found

    def frame(self, path: str, content: Struct) -> Frame:
        """Ask for anything that is answered by a frame."""
        response: Response = self._shell.carry(_exchange("POST", path, content))
        if response.content_type != MEDIA_TYPE:
            raise DecodeError("docs/bulk.md", "frame", 0, "the answer is none; is this a daemon that is too old?")
        return Frame.decode(response.body)


def queue_path(name: str, action: str = "") -> str:
    """Of a queue, or of what can be done with it."""
    path = f"/queues/{path_part(name)}"
    return f"{path}/{action}" if action else path


def _exchange(method: str, path: str, content: Struct | None) -> Conversation[Response]:
    body = b"" if content is None else msgspec.msgpack.encode(content)
    response = yield Exchange(method, _PREFIX + path, body, is_repeatable=True)
    accepted(response)
    return response
