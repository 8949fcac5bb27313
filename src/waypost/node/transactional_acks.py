"""The acknowledgments of transactional messages from other hosts: MS-MQQB 3.1.7.2.2 and 3.1.7.17.

Both kinds are messages to the order queue of the queue manager that sent the acknowledged one. readings MQQB 3.20: the
address of that is kept with the message, which may be received after a restart, and then with the acknowledgment.

A FinalAck of a message with a place in a sequence is sent once, so it is owed: it waits in its outgoing queue as long
as needed, beyond all quotas. An OrderAck, and the FinalAck of a message that was refused before that, come again with
the message, and may be discarded without room for them.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from typing import Protocol as Interface

from waypost.clock import Now
from waypost.core.final_acks import wants_final_ack
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import ORDER_QUEUE, OutgoingQueue, Queue
from waypost.core.stored_message import stored_message
from waypost.core.writing import EnqueueStatus
from waypost.errors import QueueNotFound, WaypostError
from waypost.guid import NULL_GUID
from waypost.transfer.sequences import final_ack_body
from waypost.wire.codec import INFINITE
from waypost.wire.direct_names import Protocol
from waypost.wire.format_names import DirectFormatName, FormatName, PrivateFormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.path_names import QueueKind
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.remote_packet import Origin
from waypost.wire.remote_trailers import HostAddress
from waypost.wire.transactional_acks import (
    ORDER_QUEUE_NUMBER,
    FinalAck,
    OrderAck,
    OrderAckBody,
    OrderQueue,
    final_ack,
    local_order_queue,
    order_ack,
    order_queue_of_address,
)
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

# The queue in the names of outgoing queues for acknowledgments that relays may carry.
_BACK_QUEUE: Final = f"{ORDER_QUEUE}back"
_QUEUES: Final = (ORDER_QUEUE, _BACK_QUEUE)


@lru_cache(maxsize=1024)
def origin_of(queue_manager: bytes, address: str) -> Origin:
    """The origin of a message, as stored: the other end of the session that brought it."""
    host, _, zone = address.partition("%")
    return Origin(queue_manager, HostAddress(ip_address(host).packed, int(zone) if zone.isdecimal() else 0))


class AckQueues(Interface):
    """Finds the outgoing queues for acknowledgments. Transfer implements it."""

    def owes(self, name: FormatName, origin: Origin, now: Now) -> OutgoingQueue:
        """The queue with this name, for an acknowledgment that waits there until a route exists."""

    def leads_to(self, name: FormatName, origin: Origin, now: Now) -> OutgoingQueue | None:
        """The queue with this name, for one that may be discarded: None without a route or room."""


class TransactionalAcks:
    """Sends acknowledgments. MS-MQMQ 2.2.19.1: they never expire, because a FinalAck is sent only once."""

    __slots__ = ("_manager", "_order_acks", "_queues")

    def __init__(self, manager: QueueManager, queues: AckQueues) -> None:
        self._manager: Final = manager
        self._queues: Final = queues
        # The OrderAck that waits for each sequence, by the numbers of the outgoing queues.
        self._order_acks: dict[int, dict[int, int]] = {}

    def order_ack(self, source: bytes, origin: Origin, body: OrderAckBody, now: Now, *, is_direct: bool) -> bool:
        """Send an OrderAck: MS-MQQB 3.1.6.9. The accepted messages are durable. False if it cannot go.

        `source` is the queue manager that began the sequence. An OrderAck that waits for the same sequence is replaced.
        """
        ack = self._ack_to(source, origin, is_direct=is_direct)
        packet = self._packet(ack, lambda user, queue: order_ack(user, queue, body), now)
        with suppress(WaypostError):
            outgoing = self._queues.leads_to(ack.name, origin, now)
            if outgoing is not None:
                self._replace(outgoing, body.tx_sequence_id)
                status = self._manager.writing.enqueue_message(outgoing, packet, None, now)
                self._order_acks.setdefault(outgoing.number, {})[body.tx_sequence_id] = packet.lookup_identifier
                return status is EnqueueStatus.ACCEPTED
        return False

    def _replace(self, outgoing: OutgoingQueue, tx_sequence_id: int) -> None:
        """Remove an OrderAck that was not sent yet."""
        waiting = self._order_acks.get(outgoing.number)
        if waiting is None:
            return
        if not len(outgoing.positions):
            waiting.clear()
            return
        lookup_id = waiting.pop(tx_sequence_id, None)
        is_sent = outgoing.link is not None and lookup_id in outgoing.link.outbox.sent
        if lookup_id is not None and not is_sent and lookup_id in outgoing.positions:
            self._manager.positions.remove(outgoing, lookup_id)

    def forget(self, queue: Queue) -> None:
        """Forget the OrderAcks of a deleted queue."""
        self._order_acks.pop(queue.number, None)

    def final_ack(self, message: Message, message_class: int, now: Now) -> bool:
        """Acknowledge a message with an origin that left its queue, or never came into it: MS-MQQB 3.1.7.2.2.

        True if a FinalAck is sent: readings MQQB 3.20, only for transactional messages.
        """
        origin = message.origin
        if origin is None or not wants_final_ack(message):
            return False
        return self.send_final_ack(UserMessage.decode(message.packet), origin, message_class, now)

    def send_final_ack(self, packet: UserMessage, origin: Origin, message_class: int, now: Now) -> bool:
        """Acknowledge a message with a place in its sequence: the FinalAck waits for a route."""
        ack = self._ack_of(packet, origin)
        message = self._final_ack(packet, ack, message_class, now)
        try:
            outgoing = self._queues.owes(ack.name, origin, now)
        except QueueNotFound:
            # The other side came from an address of this computer: a session with it is the only route.
            outgoing = self._queues.owes(PrivateFormatName(ack.target, ORDER_QUEUE_NUMBER), origin, now)
        self._manager.writing.enqueue_owed(outgoing, message, now)
        return True

    def try_final_ack(self, packet: UserMessage, origin: Origin, message_class: int, now: Now) -> bool:
        """Acknowledge a message that was refused before it had a place, and comes again. False if this fails."""
        ack = self._ack_of(packet, origin)
        with suppress(WaypostError):
            outgoing = self._queues.leads_to(ack.name, origin, now)
            if outgoing is not None:
                message = self._final_ack(packet, ack, message_class, now)
                status = self._manager.writing.enqueue_message(outgoing, message, None, now)
                return status is EnqueueStatus.ACCEPTED
        return False

    def _ack_of(self, packet: UserMessage, origin: Origin) -> "_Ack":
        is_direct = isinstance(packet.user.destination_queue, DirectQueueFormatName)
        return self._ack_to(packet.user.source_queue_manager, origin, is_direct=is_direct)

    def _ack_to(self, source: bytes, origin: Origin, *, is_direct: bool) -> "_Ack":
        """MS-MQQB 3.1.7.17: the target is the other end of the session for a direct name, otherwise the source."""
        target = origin.queue_manager if is_direct else source
        name = ack_queue(target, self._manager, address_of(origin), is_direct=is_direct)
        return _Ack(target, name, origin, is_direct)

    def _final_ack(self, packet: UserMessage, ack: "_Ack", message_class: int, now: Now) -> Message:
        assert packet.transaction is not None
        identifier = MessageIdentifier(packet.user.source_queue_manager, packet.user.message_id)
        body = final_ack_body(packet.transaction, identifier)
        return self._packet(ack, lambda user, queue: final_ack(user, queue, message_class, body), now)

    def _packet(
        self, ack: "_Ack", form: Callable[[UserHeader, OrderQueue], OrderAck | FinalAck], now: Now
    ) -> Message:  # fmt: skip
        """MS-MQQB 3.1.7.17."""
        identity = self._manager.identity
        identifier = self._manager.message_identifier()
        user = UserHeader(
            source_queue_manager=identity.identifier,
            queue_manager_address=NULL_GUID if ack.is_direct else ack.target,
            sent_time=int(now.wall),
            message_id=identifier.ordinal,
        )
        packet = form(user, order_queue_of_address(address_of(ack.origin)) if ack.is_direct else local_order_queue())
        packet.message.base.time_to_reach_queue = INFINITE
        message = stored_message(packet.encode())
        message.origin = ack.origin
        return message


@dataclass(frozen=True, slots=True)
class _Ack:
    """An acknowledgment for the queue manager `target`, of a message that came from `origin`."""

    target: bytes
    name: FormatName
    origin: Origin
    is_direct: bool


class OwnQueues:
    """The outgoing queues of a queue manager without transfer: acknowledgments wait until it has one."""

    __slots__ = ("_manager",)

    def __init__(self, manager: QueueManager) -> None:
        self._manager: Final = manager

    def owes(self, name: FormatName, _origin: Origin, now: Now) -> OutgoingQueue:
        return self._manager.collection.outgoing.get(name) or self._manager.outgoing.create_owed(name, now)

    leads_to = owes


def address_of(origin: Origin) -> str:
    """The text of the address that a message came from; "" if unknown."""
    address = str(ip_address(origin.host.address)) if origin.host.address else ""
    return f"{address}%{origin.host.scope}" if origin.host.scope and ":" in address else address


def ack_queue(guid: bytes, manager: QueueManager, address: str, *, is_direct: bool) -> FormatName:
    """The name of the outgoing queue for acknowledgments to a queue manager, known on this computer only.

    Acknowledgments that name the other by its address, which means any reader there, must go to that host itself; and
    several queue managers may be behind one address, so the name has the GUID too. Those that name it by its GUID may
    go through relays. The address of the messages separates them as well, because anybody can send under another GUID.
    """
    if not is_direct and (not address or manager.identity.is_local(address)):
        return PrivateFormatName(guid, ORDER_QUEUE_NUMBER)
    queue = ORDER_QUEUE if is_direct else _BACK_QUEUE
    return DirectFormatName(Protocol.TCP, address, QueueKind.PRIVATE, queue, guid.hex())


def peer_of(name: FormatName) -> bytes | None:
    """The GUID in such a name, or None for the name of another queue."""
    match name:
        case PrivateFormatName(guid, number) if number == ORDER_QUEUE_NUMBER:
            return guid
        case DirectFormatName(kind=QueueKind.PRIVATE, queue=queue, subqueue=text) if queue in _QUEUES:
            return _guid_in(text)
    return None


def may_relay(name: FormatName) -> bool:
    """Whether the acknowledgments in such a queue name the other by its GUID, so that relays may carry them."""
    return not isinstance(name, DirectFormatName) or name.queue == _BACK_QUEUE


def _guid_in(text: str) -> bytes | None:
    """The GUID in the text, or None: anybody can give a queue a name that looks like this one."""
    try:
        guid = bytes.fromhex(text)
    except ValueError:
        return None
    return guid if len(guid) == len(NULL_GUID) else None
