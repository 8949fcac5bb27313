"""The event stream of a daemon as its client reads it, without I/O: messages that come to a queue, and stay there.

A daemon without new messages sends a comment, immediately and then every 15 seconds. So the time that a program waits
counts from that comment, and a daemon that is silent for much longer is lost.
"""

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import msgspec

from waypost.api.events import Events
from waypost.client.transports.http.address import Address
from waypost.client.transports.http.exchanges import Exchange, accepted, path_part
from waypost.client.transports.http.http11 import ResponseParser
from waypost.client.transports.http.packing import error_of, message_of
from waypost.client.transports.http.schema import ErrorObject, PacketRow
from waypost.errors import ConnectionLost, DecodeError

if TYPE_CHECKING:
    from waypost.core.message import Message

# Three comments are missing.
_SILENT_SECONDS: Final = 45.0
_MAX_EVENT: Final = 1 << 26


def events_request(address: Address, wanted: Events, credentials: bytes = b"") -> bytes:
    query = urlencode({"form": wanted.form, **({"since": wanted.since} if wanted.since else {})})
    return address.request(Exchange("GET", f"/api/queues/{path_part(wanted.name)}/events?{query}"), credentials)


class EventReader:
    """Reader of the stream: `feed` takes its bytes, and `messages` has the messages until the caller removes them.

    `timeout_s` is the time to wait for a message.
    """

    __slots__ = ("_address", "_parser", "_quiet_since", "_text", "_timeout_s", "messages")

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address: Final = address
        self._timeout_s: Final = timeout_s
        self._parser: Final = ResponseParser()
        # Bytes of the current event.
        self._text = b""
        # The time of a comment of the daemon, if no message has come since.
        self._quiet_since = inf
        self.messages: Final[deque[Message]] = deque()

    @property
    def is_open(self) -> bool:
        """True when the daemon has answered: from then on every message comes."""
        return self._parser.status == 200

    @property
    def status(self) -> int:
        """The status of the answer, 0 until the daemon has answered."""
        return self._parser.status

    def feed(self, data: bytes, now: float) -> None:
        """Read bytes. Raises the error of the daemon, such as QueueNotFound, or ConnectionLost if the stream ended."""
        response = self._parser.feed(data)
        if not self.is_open:
            if response is not None:
                accepted(response)
                raise DecodeError("HTTP", "answer", 0, f"expected an event stream, but got status {response.status}")
            return
        *events, self._text = (self._text + self._parser.take()).split(b"\n\n")
        for event in events:
            self._take_in(event, now)
        if len(self._text) > _MAX_EVENT:
            raise DecodeError("HTTP", "event", 0, f"the event is longer than {_MAX_EVENT} bytes")
        if response is not None and not self.messages:
            raise self.lost("the daemon closed the event stream")

    def wait_s(self, now: float) -> float:
        """Seconds to wait for the next bytes; 0 if the time is over."""
        return max(min(self._quiet_since + self._timeout_s - now, _SILENT_SECONDS), 0.0)

    def lost(self, reason: object) -> ConnectionLost:
        error = ConnectionLost(f"the event stream of {self._address.url} was lost: {reason}")
        error.add_note("events(since=MESSAGE) continues after the last message that arrived")
        return error

    def _take_in(self, event: bytes, now: float) -> None:
        fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
        kind, data = fields.get(b"event"), fields.get(b"data", b"")
        try:
            if kind == b"message":
                self._quiet_since = inf
                self.messages.append(message_of(msgspec.json.decode(data, type=PacketRow)))
            elif kind == b"gone":
                raise error_of(msgspec.json.decode(data, type=ErrorObject))
            elif kind is None and self._quiet_since == inf:
                self._quiet_since = now
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DecodeError("HTTP", "event", 0, f"the event does not come from a Waypost daemon: {error}") from None
