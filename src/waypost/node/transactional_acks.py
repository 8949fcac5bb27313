"""The acknowledgments of transactional messages that came from elsewhere: MS-MQQB 3.1.7.2.2 and 3.1.7.17.

Both kinds are messages to the order queue of the queue manager that sent the acknowledged one. readings MQQB 3.20: what
is needed to reach it is kept with the message, as it may be received after a restart, and then with the acknowledgment.

A FinalAck of a message that has taken its place in a sequence is sent once, so it is owed: it waits in its outgoing
queue for as long as it takes, whatever the quotas say. An OrderAck, and the FinalAck of a message that was refused
before that, come again with the message, and may be discarded where there is no room.
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

# The queue in the names of those whose acknowledgments may go by way of others.
_BACK_QUEUE: Final = f"{ORDER_QUEUE}back"
_QUEUES: Final = (ORDER_QUEUE, _BACK_QUEUE)


@lru_cache(maxsize=1024)
def origin_of(queue_manager: bytes, address: str) -> Origin:
    """Where a message came from, as it is kept: the other end of the session that brought it."""
    host, _, zone = address.partition("%")
    return Origin(queue_manager, HostAddress(ip_address(host).packed, int(zone) if zone.isdecimal() else 0))


class AckQueues(Interface):
    """Finds the outgoing queues that acknowledgments go to. Whoever transfers does."""

    def owes(self, name: FormatName, origin: Origin, now: Now) -> OutgoingQueue:
        """The queue with this name, for an acknowledgment that has to wait there if there is no way."""

    def leads_to(self, name: FormatName, origin: Origin, now: Now) -> OutgoingQueue | None:
        """The same for one that may be discarded: None if there is no way or no room."""


class TransactionalAcks:
    """MS-MQMQ 2.2.19.1: they have all the time there is, which a FinalAck needs, because it is sent once."""

    __slots__ = ("_manager", "_order_acks", "_queues")

    def __init__(self, manager: QueueManager, queues: AckQueues) -> None:
        self._manager: Final = manager
        self._queues: Final = queues
        # The OrderAck that waits for each sequence, by the numbers of the outgoing queues.
        self._order_acks: dict[int, dict[int, int]] = {}

    def order_ack(self, source: bytes, origin: Origin, body: OrderAckBody, now: Now, *, is_direct: bool) -> bool:
        """MS-MQQB 3.1.6.9. What it tells is durable. False if it cannot be sent.

        `source` is the queue manager that began the sequence. One that waits for the same sequence tells less: it goes.
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
        """Take an OrderAck away that was not sent yet."""
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
        """The queue is deleted."""
        self._order_acks.pop(queue.number, None)

    def final_ack(self, message: Message, message_class: int, now: Now) -> bool:
        """MS-MQQB 3.1.7.2.2: a message that has an origin left its queue, or never came into it.

        Whether one is sent: readings MQQB 3.20, only for transactional messages.
        """
        origin = message.origin
        if origin is None or not wants_final_ack(message):
            return False
        return self.send_final_ack(UserMessage.decode(message.packet), origin, message_class, now)

    def send_final_ack(self, packet: UserMessage, origin: Origin, message_class: int, now: Now) -> bool:
        """For a message that has taken its place in its sequence: the FinalAck waits until there is a way."""
        ack = self._ack_of(packet, origin)
        message = self._final_ack(packet, ack, message_class, now)
        try:
            outgoing = self._queues.owes(ack.name, origin, now)
        except QueueNotFound:
            # The other side has come from an address of this computer: a session with it is the one way.
            outgoing = self._queues.owes(PrivateFormatName(ack.target, ORDER_QUEUE_NUMBER), origin, now)
        self._manager.writing.enqueue_owed(outgoing, message, now)
        return True

    def try_final_ack(self, packet: UserMessage, origin: Origin, message_class: int, now: Now) -> bool:
        """For a message that was refused before it took its place, and comes again. False if it cannot be sent."""
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
        """MS-MQQB 3.1.7.17: what came for a direct name is of the other end of the session, the rest of its source."""
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
    """Those of a queue manager that transfers nothing: what it acknowledges waits until it does."""

    __slots__ = ("_manager",)

    def __init__(self, manager: QueueManager) -> None:
        self._manager: Final = manager

    def owes(self, name: FormatName, _origin: Origin, now: Now) -> OutgoingQueue:
        return self._manager.collection.outgoing.get(name) or self._manager.outgoing.create_owed(name, now)

    leads_to = owes


def address_of(origin: Origin) -> str:
    """The text of the address that a message came from; nothing if it is not known."""
    address = str(ip_address(origin.host.address)) if origin.host.address else ""
    return f"{address}%{origin.host.scope}" if origin.host.scope and ":" in address else address


def ack_queue(guid: bytes, manager: QueueManager, address: str, *, is_direct: bool) -> FormatName:
    """The name of the outgoing queue for acknowledgments to a queue manager, which it has on this computer alone.

    What names the other by its address, which means whoever reads it, must go to itself; and there may be several
    behind one address, so that the GUID stands in the name too. What names it by its GUID may go by way of others. It
    is kept apart by the address that the messages came from as well, because anybody can send in the name of another.
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
    """Whether what is in such a queue names the other by its GUID, so that it may go by way of others."""
    return not isinstance(name, DirectFormatName) or name.queue == _BACK_QUEUE


def _guid_in(text: str) -> bytes | None:
    """Anybody can give a queue a name that looks like this one."""
    try:
        guid = bytes.fromhex(text)
    except ValueError:
        return None
    return guid if len(guid) == len(NULL_GUID) else None
