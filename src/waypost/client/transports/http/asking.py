"""Operations as conversations with a daemon, and the handles that it keeps open for this client meanwhile.

The code of the queue manager checks arguments here, before anything is sent.
"""

import time
from math import inf
from typing import TYPE_CHECKING, Final, Never, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from waypost.api.bodies import BYTES
from waypost.api.frames import MEDIA_TYPE, Frame
from waypost.api.message_attributes import message_like
from waypost.api.messages import Received, Sent
from waypost.api.names import format_name, path_name
from waypost.api.opened import Handle
from waypost.api.operations import (
    AbortTransaction,
    CloseCursor,
    CloseQueue,
    CommitTransaction,
    CreateQueue,
    CursorRead,
    OpenCursor,
    OpenQueue,
    Operation,
    Read,
    Resend,
    Send,
    SetQueue,
)
from waypost.api.queue_attributes import queue_attributes
from waypost.api.status import ShowIdentity, Status, StoreReport, VerificationInfo
from waypost.client.transports.http.exchanges import (
    Conversation,
    Decoder,
    accepted,
    exchange_of,
    reply_of,
)
from waypost.client.transports.http.packing import message_of, sent_again, sent_messages
from waypost.client.transports.http.schema import Greeting, Packets, SentIds
from waypost.core.message_values import DeliveryGuarantee
from waypost.errors import ConnectionLost, DecodeError, InvalidParameter, StoreError, TransactionSequence
from waypost.hresult import HResult
from waypost.node.failures import failure

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

_sent_ids: Final = Decoder(SentIds)
_packets: Final = Decoder(Packets)
_greeting: Final = Decoder(Greeting)

# Interval of requests for the progress of a verification.
LOOK_SECONDS: Final = 0.2


def greeting() -> Conversation[Greeting]:
    """Every user may ask for the identity. A daemon that does not know the request shows its status to everybody."""
    try:
        return _greeting((yield exchange_of(ShowIdentity())))
    except InvalidParameter:
        return _greeting((yield exchange_of(Status())))


def report_of(state: VerificationInfo) -> StoreReport:
    """The report of a finished verification. Raises StoreError if it ended without a report."""
    if state.report is None:
        raise StoreError(state.error)
    return state.report


class Wait:
    """A read that waits. `on` is the key to cancel it: the name of a queue, or the id of an exclusive open."""

    __slots__ = ("is_cancelled", "on")

    def __init__(self, on: str) -> None:
        self.on: Final = on
        self.is_cancelled = False


class Asking:
    """The operations of one client as requests to one daemon."""

    __slots__ = ("_cursors", "_max_wait_s", "_on", "computer", "guid", "to_end")

    def __init__(self, greeting: Greeting) -> None:
        self.computer: Final = greeting.name
        self.guid: Final = greeting.guid
        self._max_wait_s: Final = max(greeting.max_wait_s, 0.01)
        # Operations that end what the daemon keeps for this client alone, by ids.
        self.to_end: Final[dict[str, Operation[None]]] = {}
        # Keys to cancel the reads of cursors.
        self._cursors: Final[dict[str, str]] = {}
        self._on: Final[dict[type[Operation[object]], Callable[[Never], Conversation[object]]]] = {
            Send: self._send,
            Resend: self._resend,
            OpenQueue: self._open_queue,
            OpenCursor: self._open_cursor,
            CloseCursor: self._close_cursor,
            CloseQueue: self._end,
            AbortTransaction: self._end,
            CommitTransaction: self._commit,
        }

    def ask(self, operation: Operation[object]) -> Conversation[object]:
        """Call an operation that does not wait for a message."""
        special = self._on.get(type(operation))
        if special is not None:
            return special(operation)  # type: ignore[arg-type]  # the type of its key
        if operation.row.reply is Received:
            return self._read(operation)
        if operation.row.reply is Frame:
            return _framed(operation)
        if isinstance(operation, CreateQueue):
            path_name(operation.name, self.computer)
        if isinstance(operation, CreateQueue | SetQueue):
            queue_attributes(operation)
        return self._ask(operation)

    def wait_of(self, operation: Read | CursorRead) -> Wait:
        """The Wait of a read."""
        if isinstance(operation, CursorRead):
            return Wait(self._cursors.get(operation.identifier, ""))
        return Wait(operation.name if operation.handle is UNSET else operation.handle)

    def read(self, operation: Read | CursorRead, wait: Wait) -> Conversation[Received]:
        """Repeat the request until a message comes or the time is over: the daemon limits the time of a wait."""
        self._join(operation.transaction)
        deadline = time.monotonic() + operation.timeout_s
        while True:
            left = self._max_wait_s if deadline == inf else deadline - time.monotonic()
            seconds = max(min(left, self._max_wait_s), 0.0)
            exchange = exchange_of(replace(operation, timeout_s=seconds))
            exchange.wait_s = seconds
            found = _received(accepted((yield exchange)))
            if found.messages:
                return found
            if time.monotonic() >= deadline:
                raise failure(HResult.MQ_ERROR_IO_TIMEOUT)
            if wait.is_cancelled:
                raise failure(HResult.MQ_ERROR_OPERATION_CANCELLED)
            operation = replace(operation, begin_s=UNSET)

    def _ask(self, operation: Operation[R]) -> Conversation[R]:
        self._join(getattr(operation, "transaction", UNSET))
        return reply_of(operation, accepted((yield exchange_of(operation))))

    def _read(self, operation: Operation[object]) -> Conversation[Received]:
        return _received(accepted((yield exchange_of(operation))))

    def _send(self, operation: Send) -> Conversation[Sent]:
        like = operation.like
        assert like is not UNSET, "a client must send with `like` and `bodies`"
        message = message_like(like, computer=self.computer)
        # The daemon gets all bodies as bytes.
        message.body_type = BYTES if like.body_type is None else like.body_type
        message.destination_queue_format_name = format_name(operation.name, self.computer)
        if operation.transaction is not UNSET:
            # MS-MQMQ 2.2.19.2: messages of a transaction are recoverable. Only the daemon knows their numbers.
            message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
            message.transaction_identifier = 1
            self._join(operation.transaction)
        content = accepted((yield exchange_of(operation)))
        return Sent(sent_messages(message, operation.bodies, _sent_ids.of(content)))

    def _resend(self, operation: Resend) -> Conversation[Sent]:
        content = accepted((yield exchange_of(operation)))
        return Sent([sent_again(_packets.of(content).rows)])

    def _open_queue(self, operation: OpenQueue) -> Conversation[Handle]:
        handle = reply_of(operation, accepted((yield exchange_of(operation))))
        self.to_end[handle.id] = CloseQueue(identifier=handle.id)
        return handle

    def _open_cursor(self, operation: OpenCursor) -> Conversation[Handle]:
        handle = reply_of(operation, accepted((yield exchange_of(operation))))
        self._cursors[handle.id] = operation.queue if operation.handle is UNSET else operation.handle
        return handle

    def _close_cursor(self, operation: CloseCursor) -> Conversation[None]:
        self._cursors.pop(operation.identifier, None)
        accepted((yield exchange_of(operation)))

    def _end(self, operation: CloseQueue | AbortTransaction) -> Conversation[None]:
        self.to_end.pop(operation.identifier, None)
        accepted((yield exchange_of(operation)))

    def _commit(self, operation: CommitTransaction) -> Conversation[None]:
        # The daemon remembers its commits until it stops.
        exchange = exchange_of(operation)
        response = yield exchange
        try:
            accepted(response)
        except TransactionSequence as error:
            self.to_end.pop(operation.identifier, None)
            if exchange.is_repeated:
                raise ConnectionLost(f"{error}; the transaction might already be committed") from None
            raise
        self.to_end.pop(operation.identifier, None)

    def _join(self, transaction: str | UnsetType) -> None:
        """Note a transaction that the daemon keeps open."""
        if transaction is not UNSET and transaction not in self.to_end:
            self.to_end[transaction] = AbortTransaction(identifier=transaction)


def _framed(operation: Operation[object]) -> Conversation[Frame]:
    response = yield exchange_of(operation)
    content = accepted(response)
    if response.content_type != MEDIA_TYPE:
        raise DecodeError("docs/bulk.md", "frame", 0, "the answer is not a frame; the daemon might be too old")
    return Frame.decode(content)


def _received(content: bytes | bytearray) -> Received:
    found: Packets = _packets.of(content)
    return Received([message_of(row) for row in found.rows], found.next, found.receipt, found.refused)
