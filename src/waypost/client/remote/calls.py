"""What the API asks for, as conversations with the daemon: the counterpart of waypost.client.calls and of Application.

A handle is a number that this end gives out. Only an exclusive one is also open at the daemon, and so is a cursor that
receives; the cursor of a browse reads pages ahead. Arguments are checked here, with the code of the embedded side,
before anything travels.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from waypost.api.names import Name, format_name, path_name
from waypost.api.operations import LONG_SECONDS
from waypost.api.properties import MessageProperties, QueueProperties
from waypost.client.queue_info import queue_attributes
from waypost.client.remote.exchanges import (
    Conversation,
    Decoder,
    accepted,
    any_request,
    delete,
    get,
    patch,
    post,
    read,
)
from waypost.client.remote.http11 import Response
from waypost.client.remote.open_schema import CursorRead, Handle, NewCursor, NewHandle
from waypost.client.remote.opened import OpenQueue, Pages, Unit, queue_path
from waypost.client.remote.packing import message_of, sent_again, sent_messages
from waypost.client.remote.properties import SEEK_WORDS, Outgoing
from waypost.client.remote.schema import (
    Move,
    MoveAll,
    MovedObject,
    NewQueue,
    PacketRow,
    Packets,
    Read,
    Resend,
    Send,
    SentIds,
    Status,
)
from waypost.client.sending import message_attributes
from waypost.core.message import Message
from waypost.core.queues import AccessType, ShareMode
from waypost.core.reading import MessageSeekAction
from waypost.core.writing import MovedPart
from waypost.errors import ConnectionLost, InvalidHandle, QueueNotFound, TransactionSequence
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.node.application import ReadOptions
from waypost.node.failures import failure
from waypost.node.sending import Copies
from waypost.wire.format_names import FormatName

# How long a transaction may rest before the daemon aborts it, unless told otherwise.
TRANSACTION_SECONDS: Final = 60.0

_sent_ids: Final = Decoder(SentIds)
_packets: Final = Decoder(Packets)
_moved: Final = Decoder(MovedObject)
_handle: Final = Decoder(Handle)
_status: Final = Decoder(Status)
_anything: Final = Decoder(Any)


def status() -> Conversation[Status]:
    found: Status = _status((yield get("/api/status")))
    return found


class RemoteCalls:
    """The operations on one daemon."""

    __slots__ = (
        "_cancel",
        "_cursors",
        "_handles",
        "_max_wait_s",
        "_numbers",
        "_pages",
        "application",
        "computer",
        "guid",
        "units",
        "used",
    )

    def __init__(self, status: Status, cancel: Callable[[int], None]) -> None:
        # Ends the waits under a handle.
        self._cancel: Final = cancel
        self.application: Final = self
        self.computer: Final = status.name
        self.guid: Final = status.guid
        # The queue objects that were given out and not found missing.
        self.used: Final[dict[FormatName, Any]] = {}
        self.units: Final[dict[bytes, Unit]] = {}
        self._max_wait_s: Final = max(status.max_wait_s, 0.01)
        self._numbers: Final = count(1)
        self._handles: Final[dict[int, OpenQueue]] = {}
        self._cursors: Final[dict[int, str]] = {}
        self._pages: Final[dict[int, Pages]] = {}

    # --- Arguments

    def name(self, name: Name) -> FormatName:
        return format_name(name, self.computer)

    def message(self, properties: MessageProperties) -> Outgoing:
        """A message to send, without its body. Raises InvalidParameter before anything is sent."""
        return Outgoing(properties, message_attributes(properties, computer=self.computer))

    def attributes(self, name: Name, transactional: object, properties: QueueProperties) -> NewQueue:
        """Of a new queue. Raises InvalidParameter before anything is created."""
        path = path_name(name, self.computer)
        queue_attributes(properties)
        return NewQueue(name=str(path), transactional=bool(transactional), **asdict(properties))

    def change(self, properties: QueueProperties) -> QueueProperties:
        """Of a queue. Raises InvalidParameter before anything is changed."""
        queue_attributes(properties)
        return properties

    # --- Queues

    def create_queue(self, queue: NewQueue) -> Conversation[None]:
        accepted((yield post("/api/queues", queue)))

    def set_queue(self, name: FormatName, properties: QueueProperties) -> Conversation[None]:
        accepted((yield patch(queue_path(name), properties)))

    def deleted(self, name: FormatName) -> None:
        """A queue was deleted: reads that wait on it end at the daemon."""
        for opened in tuple(self._handles.values()):
            opened.is_deleted = opened.is_deleted or opened.name == name

    def purge(self, handle: int) -> Conversation[None]:
        opened = self._opened(handle)
        self._accepted(opened, (yield post(opened.path("purge"), wait_s=LONG_SECONDS)))

    # --- Handles and cursors

    def open_queue(self, name: FormatName, access: AccessType, share: ShareMode) -> Conversation[int]:
        identifier: str | UnsetType = UNSET
        if share is not ShareMode.DENY_NONE:
            identifier = _handle((yield post("/api/handles", NewHandle(queue=str(name))))).id
        number = next(self._numbers)
        self._handles[number] = OpenQueue(number, name, access, identifier)
        return number

    def close_queue(self, handle: int) -> Conversation[None]:
        opened = self._handles.pop(handle, None)
        if opened is None:
            return
        opened.is_closed = True
        if not opened.is_deleted:
            self._cancel(handle)
        if opened.id is not UNSET:
            accepted((yield delete(f"/api/handles/{opened.id}")))

    def open_cursor(self, handle: int) -> Conversation[int]:
        opened = self._opened(handle)
        number = next(self._numbers)
        if opened.is_peek:
            self._pages[number] = Pages()
        else:
            cursor = NewCursor(queue=str(opened.name), outgoing=opened.is_outgoing, handle=opened.id)
            self._cursors[number] = _handle.of(self._accepted(opened, (yield post("/api/cursors", cursor)))).id
        return number

    def close_cursor(self, _handle: int, cursor: int) -> Conversation[None]:
        identifier = self._cursors.pop(cursor, None)
        if identifier is not None:
            accepted((yield delete(f"/api/cursors/{identifier}")))
        self._pages.pop(cursor, None)

    # --- Sending

    def send(self, handle: int, message: Outgoing, transaction: bytes | None) -> Conversation[Message | Copies]:
        (sent,) = yield from self.send_many(handle, message, (message.body,), transaction)
        return sent

    def send_many(
        self, handle: int, like: Outgoing, bodies: Sequence[bytes], transaction: bytes | None
    ) -> Conversation[list[Message | Copies]]:
        opened = self._opened(handle)
        # Of the bodies the daemon sees bytes only.
        properties = like.properties
        if properties.body_type is None:
            properties = replace(properties, body_type=like.body_type)
        request = Send(like=properties, bodies=list(bodies), answer="ids")
        unit = self._join(request, transaction)
        content = self._accepted(opened, (yield post(opened.messages, request)), unit)
        return sent_messages(like.message(opened.name, transaction), bodies, _sent_ids.of(content))

    # --- Reading

    def receive(self, handle: int, options: ReadOptions) -> Conversation[Message]:
        opened = self._opened(handle)
        if options.cursor is not None:
            return (yield from self._read_at(opened, "receive", options))
        (row,) = yield from self._wait(opened, opened.receive, self._read(opened), options)
        return message_of(row)

    def receive_many(self, handle: int, count: int, options: ReadOptions) -> Conversation[list[Message]]:
        opened = self._opened(handle)
        request = self._read(opened)
        request.count = count
        rows = yield from self._wait(opened, opened.receive, request, options)
        return [message_of(row) for row in rows]

    def receive_by_lookup_id(
        self, handle: int, found: tuple[int, MessageSeekAction], options: ReadOptions
    ) -> Conversation[Message]:
        opened = self._opened(handle)
        options = ReadOptions(0, None, options.transaction)
        (row,) = yield from self._wait(opened, opened.receive, self._read(opened, found), options)
        return message_of(row)

    def peek(self, handle: int, options: ReadOptions) -> Conversation[Message]:
        opened = self._opened(handle)
        if options.cursor in self._pages:
            return message_of((yield from self._turn(opened, self._pages[options.cursor], 0)))
        if options.cursor is not None:
            return (yield from self._read_at(opened, "peek", options))
        (row,) = yield from self._wait(opened, opened.peek, self._read(opened), options, is_repeatable=True)
        return message_of(row)

    def peek_next(self, handle: int, options: ReadOptions) -> Conversation[Message]:
        opened = self._opened(handle)
        if options.cursor in self._pages:
            return message_of((yield from self._turn(opened, self._pages[options.cursor], 1)))
        return (yield from self._read_at(opened, "next", options))

    def peek_by_lookup_id(self, handle: int, found: tuple[int, MessageSeekAction]) -> Conversation[Message]:
        opened = self._opened(handle)
        request = self._read(opened, found)
        (row,) = yield from self._wait(opened, opened.peek, request, ReadOptions(), is_repeatable=True)
        return message_of(row)

    def move(self, handle: int, lookup_id: int, target: int, transaction: bytes | None) -> Conversation[None]:
        opened = self._opened(handle)
        request = Move(lookup_id=lookup_id, to=str(self._opened(target).name))
        unit = self._join(request, transaction)
        self._accepted(opened, (yield post(opened.path("move"), request)), unit)

    def move_some(self, handle: int, target: int, part: MovedPart) -> Conversation[MovedPart]:
        opened = self._opened(handle)
        request = MoveAll(to=str(self._opened(target).name))
        if part.up_to:
            request.after, request.up_to = part.after, part.up_to
        content = self._accepted(opened, (yield post(opened.path("move-all"), request)))
        found = _moved.of(content)
        return MovedPart(found.moved, int(found.next or part.after), int(found.up_to), not found.next)

    def resend(self, handle: int, lookup_id: int, to: FormatName | None, _: bytes) -> Conversation[Message | Copies]:
        opened = self._opened(handle)
        request = Resend(lookup_id=lookup_id, form="packet")
        if to is not None:
            request.to = str(to)
        content = self._accepted(opened, (yield post(opened.path("resend"), request)))
        return sent_again(_packets.of(content).rows)

    # --- Transactions

    def begin(self, identifier: bytes, limit_s: float = TRANSACTION_SECONDS) -> Conversation[None]:
        """The daemon hears of it when it is used first."""
        self.units[identifier] = Unit(limit_s)
        yield from ()

    def commit(self, identifier: bytes) -> Conversation[None]:
        unit = self.units.get(identifier)
        if unit is not None and unit.is_told:
            exchange = post(f"/api/transactions/{guid_text(identifier)}/commit")
            # The daemon remembers what it has committed, unless it was started anew.
            exchange.is_repeatable = True
            response = yield exchange
            try:
                accepted(response)
            except TransactionSequence as error:
                self.units.pop(identifier, None)
                if exchange.is_repeated:
                    raise ConnectionLost(f"{error}; whether it was committed before is not known here") from None
                raise
        self.units.pop(identifier, None)

    def abort(self, identifier: bytes) -> Conversation[None]:
        unit = self.units.pop(identifier, None)
        if unit is not None and unit.is_told:
            accepted((yield post(f"/api/transactions/{guid_text(identifier)}/abort")))

    def farewell(self) -> Iterator[Conversation[None]]:
        """What to say when nobody uses it any more: the daemon need not wait until its leases are over."""
        for identifier in tuple(self.units):
            yield self.abort(identifier)
        for handle in [number for number, opened in self._handles.items() if opened.id is not UNSET]:
            yield self.close_queue(handle)

    # --- Anything else

    def request(self, method: str, target: str, content: object) -> Conversation[Any]:
        response = yield any_request(method, target, content)
        return None if response.status == 204 else _anything(response)

    def _opened(self, handle: int) -> OpenQueue:
        opened = self._handles.get(handle)
        if opened is None:
            raise InvalidHandle("the queue is not open")
        return opened

    def _accepted(self, opened: OpenQueue, response: Response, unit: Unit | None = None) -> bytes | bytearray:
        if unit is not None:
            unit.is_begun = True
        try:
            return accepted(response)
        except QueueNotFound:
            # Who asks for the name again gets another object.
            self.used.pop(opened.name, None)
            self._handles.pop(opened.number, None)
            raise

    def _join(self, request: Send | Read | CursorRead | Move, transaction: bytes | None) -> Unit | None:
        """Make a request part of a transaction, which begins with it if it is the first."""
        if transaction is None:
            return None
        request.transaction = guid_text(transaction)
        unit = self.units.get(transaction)
        if unit is not None:
            unit.is_told = True
            if not unit.is_begun:
                request.begin_s = unit.limit_s
        return unit

    def _read(self, opened: OpenQueue, found: tuple[int, MessageSeekAction] | None = None) -> Read:
        request = Read(form="packet", handle=opened.id)
        if found is not None:
            request.lookup_id, request.seek = found[0], SEEK_WORDS[found[1]]
        return request

    def _wait(
        self,
        opened: OpenQueue,
        target: str,
        request: Read | CursorRead,
        options: ReadOptions,
        *,
        is_repeatable: bool = False,
    ) -> Conversation[list[PacketRow]]:
        """Ask until there is something or the time is over: the daemon does not wait for ever."""
        unit = self._join(request, options.transaction)
        milliseconds = options.timeout_ms
        deadline = None if milliseconds is None else time.monotonic() + milliseconds / 1000
        while True:
            left = self._max_wait_s if deadline is None else deadline - time.monotonic()
            request.timeout_s = seconds = max(min(left, self._max_wait_s), 0.0)
            response = yield read(target, request, seconds, is_repeatable=is_repeatable)
            rows: list[PacketRow] = _packets.of(self._accepted(opened, response, unit)).rows
            if rows:
                return rows
            if deadline is not None and time.monotonic() >= deadline:
                raise failure(HResult.MQ_ERROR_IO_TIMEOUT)
            if opened.is_closed:
                raise failure(HResult.MQ_ERROR_OPERATION_CANCELLED)
            if unit is not None:
                request.begin_s = UNSET

    def _read_at(self, opened: OpenQueue, action: str, options: ReadOptions) -> Conversation[Message]:
        """At a cursor of the daemon."""
        identifier = self._cursors.get(options.cursor or 0)
        if identifier is None:
            raise InvalidHandle("the cursor is not open")
        target = f"/api/cursors/{identifier}/{action}"
        request = CursorRead(form="packet")
        (row,) = yield from self._wait(opened, target, request, options, is_repeatable=action == "peek")
        return message_of(row)

    def _turn(self, opened: OpenQueue, pages: Pages, step: int) -> Conversation[PacketRow]:
        """The row where a browse is, or the next."""
        pages.at += step
        while pages.at >= len(pages.rows):
            if pages.next == "":
                raise failure(HResult.MQ_ERROR_IO_TIMEOUT)
            response = yield get(pages.target(opened))
            found: Packets = _packets.of(self._accepted(opened, response))
            pages.rows, pages.at, pages.next = found.rows, 0, found.next
        return pages.rows[pages.at]
