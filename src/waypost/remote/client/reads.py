"""Records that both protocols of remote reading share: the reader, the opening, the read and its result.

MS-MQRR 3.2.1 and MS-MQQP 3.2.1 keep the reads that are under way; their numbers are unique among all reads of a client,
whatever the queue.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Protocol

from waypost.core.positions import lookup_identifier
from waypost.core.queues import AccessType, ShareMode
from waypost.errors import InvalidHandle, InvalidParameter, UnsupportedAccessMode
from waypost.limits import MAX_REMOTE_PACKET_SIZE
from waypost.remote.client.conversations import Conversation
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import ContextHandle
from waypost.wire.receive_reply import BodyLimits
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.user_message import UserMessage

WHOLE_BODY: Final = BodyLimits(MAX_REMOTE_PACKET_SIZE, MAX_REMOTE_PACKET_SIZE)

# MS-MQRR 3.1.4.2 dwAccess, 3.1.4.11 MQ_MOVE_ACCESS, and dwShareMode; MS-MQMP 3.1.4.2 has the same.
ACCESS: Final = {AccessType.RECEIVE: 0x01, AccessType.MOVE: 0x04, AccessType.PEEK: 0x20}
SHARE: Final = {ShareMode.DENY_NONE: 0, ShareMode.DENY_RECEIVE: 1}

_REQUEST_IDS: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The queue manager that reads: what it says of itself when it opens a queue."""

    queue_manager: bytes
    is_routing_server: bool = False
    is_directory_server: bool = False
    is_domain_member: bool = False
    # MS-MQRR product notes 16 to 18: Windows 7 and later; servers ignore it.
    version: tuple[int, int, int] = (6, 1, 7600)


@dataclass(frozen=True, slots=True)
class Opening:
    """A queue and how it is to be opened."""

    name: FormatName
    access: AccessType = AccessType.RECEIVE
    share: ShareMode = ShareMode.DENY_NONE

    @property
    def desired_access(self) -> int:
        if self.access not in (AccessType.RECEIVE, AccessType.PEEK):
            raise UnsupportedAccessMode(f"a queue of another computer does not support the access {self.access.name}")
        return ACCESS[self.access]

    @property
    def share_mode(self) -> int:
        return SHARE[self.share]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in which messages are received or moved.

    `propagation_token` names the coordinator for the remote queue manager (MS-DTCO 2.2.5.4). Without one it is an
    internal transaction for a single message, in which nobody is enlisted (readings MQRR 3.15).
    """

    identifier: bytes
    propagation_token: bytes | None = None


@dataclass(slots=True)
class ReadRequest:
    """One peek or receive. `request_id` is 0 until the client gives it a number; with it the read can be cancelled."""

    action: ReceiveAction = ReceiveAction.MQ_ACTION_RECEIVE
    timeout_ms: int = 0
    cursor: int = 0
    lookup_id: int = 0
    limits: BodyLimits = WHOLE_BODY
    transaction: Transaction | None = None
    request_id: int = 0

    def check(self) -> None:
        """MS-MQRR 3.2.4.9, 3.2.4.10: by cursor or by lookup identifier. 3.1.4.13: a transaction is for a receive."""
        if self.cursor and self.lookup_id:
            raise InvalidParameter("a cursor and a lookup identifier are mutually exclusive")
        if self.transaction is not None and self.action.is_peek:
            raise InvalidParameter("a peek does not support transactions")


@dataclass(slots=True)
class Received:
    """A message that was read.

    `packet` is as it came. `message` is what it carries; its TimeToReachQueue is a duration, as in every UserMessage.
    `left_out` bytes of its body were not asked for and are zeros. A receive that is not `is_ended` was not confirmed
    by the server: the same message may be read again.
    """

    packet: RemotePacket
    message: UserMessage
    arrive_time: int
    sequence_id: int
    left_out: int = 0
    is_ended: bool = True
    transaction: Transaction | None = None

    @property
    def lookup_id(self) -> int:
        """readings MQRR 3.20: the answer has its low 7 bytes, and the priority makes the high one."""
        base = self.message.base
        return lookup_identifier(0 if self.message.transaction is not None else base.priority, self.sequence_id)


def duration(sent_time: int, absolute: int) -> int:
    """The reverse of remote_packet.absolute_time_to_reach_queue."""
    return absolute if absolute == INFINITE else max(absolute - sent_time, 0)


@dataclass(slots=True)
class PendingRead:
    """MS-MQQP 3.2.1.1; MS-MQRR needs the same but the last."""

    queue: "RemoteQueue"
    request: ReadRequest
    remote_read_handle: ContextHandle = field(default_factory=ContextHandle)


class PendingReads:
    """MS-MQQP 3.2.1.2: the reads of a client that are under way, by their numbers."""

    __slots__ = ("_numbers", "_reads")

    def __init__(self) -> None:
        self._reads: Final[dict[int, PendingRead]] = {}
        self._numbers: Final = count(1)

    @contextmanager
    def entry(self, queue: "RemoteQueue", request: ReadRequest) -> Iterator[PendingRead]:
        """The read is among them for as long as the block lasts, unless it is cancelled before."""
        request.request_id = next(
            number for number in (each % _REQUEST_IDS for each in self._numbers) if number and number not in self._reads
        )
        pending = self._reads[request.request_id] = PendingRead(queue, request)
        try:
            yield pending
        finally:
            if self._reads.get(request.request_id) is pending:
                del self._reads[request.request_id]

    def find(self, queue: "RemoteQueue", request_id: int) -> PendingRead:
        pending = self._reads.get(request_id)
        if pending is None or pending.queue is not queue:
            raise InvalidHandle(f"no read with the number {request_id} is in progress on {queue.name}")
        return pending

    def of(self, queue: "RemoteQueue", cursor: int = 0) -> list[int]:
        """The numbers of the reads on a queue, or on one cursor of it."""
        return [
            number
            for number, pending in self._reads.items()
            if pending.queue is queue and cursor in (0, pending.request.cursor)
        ]

    def remove(self, request_id: int) -> None:
        self._reads.pop(request_id, None)


class RemoteQueue(Protocol):
    """A queue of another computer that is open here. After `close` everything raises InvalidHandle."""

    @property
    def name(self) -> FormatName: ...

    def read(self, request: ReadRequest) -> Conversation[Received]: ...

    def cancel(self, request_id: int) -> Conversation[None]: ...

    def purge(self) -> Conversation[None]: ...

    def create_cursor(self) -> Conversation[int]: ...

    def close_cursor(self, cursor: int) -> Conversation[None]: ...

    def close(self) -> Conversation[None]: ...
