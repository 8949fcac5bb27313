"""The acknowledgments of transactional messages that came from elsewhere: MS-MQQB 3.1.7.2.2 and 3.1.7.17.

Both kinds are messages to the order queue of the queue manager that sent the acknowledged one. readings MQQB 3.20: what
is needed to reach it is kept with the message, as it may be received after a restart.
"""

from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import ORDER_QUEUE, OutgoingQueue
from waypost.core.stored_message import stored_message
from waypost.core.writing import EnqueueStatus
from waypost.errors import WaypostError
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


def origin_of(source: bytes, address: str) -> Origin:
    """Where a message came from, as it is kept."""
    host, _, zone = address.partition("%")
    return Origin(source, HostAddress(ip_address(host).packed, int(zone) if zone.isdecimal() else 0))


# The outgoing queue for acknowledgments to the queue manager with this GUID, if there is a way to it.
LeadsTo = Callable[[FormatName, bytes, Now], OutgoingQueue | None]


class TransactionalAcks:
    """MS-MQMQ 2.2.19.1: they have all the time there is, which a FinalAck needs, because it is sent once."""

    __slots__ = ("_manager", "leads_to")

    def __init__(self, manager: QueueManager) -> None:
        self._manager: Final = manager
        # Whoever transfers takes this place.
        self.leads_to: LeadsTo = self._outgoing_queue

    def order_ack(self, origin: Origin, body: OrderAckBody, now: Now, *, is_direct: bool) -> bool:
        """MS-MQQB 3.1.6.9. What it tells is durable. False if it cannot be sent."""
        return self._send(origin, lambda user, queue: order_ack(user, queue, body), now, is_direct=is_direct)

    def final_ack(self, message: Message, message_class: int, now: Now) -> bool:
        """MS-MQQB 3.1.7.2.2: a message that has an origin left its queue, or never came into it.

        Whether one is sent: readings MQQB 3.20, only for transactional messages.
        """
        origin = message.origin
        if origin is None or not message.is_transactional:
            return False
        return self.send_final_ack(UserMessage.decode(message.packet), origin, message_class, now)

    def send_final_ack(self, packet: UserMessage, origin: Origin, message_class: int, now: Now) -> bool:
        """False if it cannot be sent."""
        assert packet.transaction is not None
        identifier = MessageIdentifier(packet.user.source_queue_manager, packet.user.message_id)
        body = final_ack_body(packet.transaction, identifier)
        is_direct = isinstance(packet.user.destination_queue, DirectQueueFormatName)
        return self._send(
            origin, lambda user, queue: final_ack(user, queue, message_class, body), now, is_direct=is_direct
        )  # fmt: skip

    def _send(
        self,
        origin: Origin,
        form: Callable[[UserHeader, OrderQueue], OrderAck | FinalAck],
        now: Now,
        *,
        is_direct: bool,
    ) -> bool:
        """MS-MQQB 3.1.7.17: what cannot be sent is discarded."""
        address = _address_of(origin)
        identity = self._manager.identity
        identifier = self._manager.message_identifier()
        user = UserHeader(
            source_queue_manager=identity.identifier,
            queue_manager_address=NULL_GUID if is_direct else origin.queue_manager,
            sent_time=int(now.wall),
            message_id=identifier.ordinal,
        )
        ack = form(user, order_queue_of_address(address) if is_direct else local_order_queue())
        ack.message.base.time_to_reach_queue = INFINITE
        name = ack_queue(origin.queue_manager, address if is_direct else "")
        with suppress(WaypostError):
            outgoing = self.leads_to(name, origin.queue_manager, now)
            if outgoing is not None:
                status = self._manager.writing.enqueue_message(outgoing, stored_message(ack.encode()), None, now)
                return status is EnqueueStatus.ACCEPTED
        return False

    def _outgoing_queue(self, name: FormatName, _guid: bytes, now: Now) -> OutgoingQueue:
        return self._manager.collection.outgoing.get(name) or self._manager.outgoing.create(name, now)


def _address_of(origin: Origin) -> str:
    address = str(ip_address(origin.host.address)) if origin.host.address else ""
    return f"{address}%{origin.host.scope}" if origin.host.scope and ":" in address else address


def ack_queue(guid: bytes, address: str) -> FormatName:
    """The name of the outgoing queue for acknowledgments to a queue manager, which it has on this computer alone.

    What names the other by its GUID may go by way of others. What names it by its address, which means whoever reads
    it, must go to itself; and there may be several behind one address, so that the GUID stands in the name too.
    """
    if not address:
        return PrivateFormatName(guid, ORDER_QUEUE_NUMBER)
    return DirectFormatName(Protocol.TCP, address, QueueKind.PRIVATE, ORDER_QUEUE, guid.hex())


def peer_of(name: FormatName) -> bytes | None:
    """The GUID in such a name, or None for the name of another queue."""
    match name:
        case PrivateFormatName(guid, number) if number == ORDER_QUEUE_NUMBER:
            return guid
        case DirectFormatName(kind=QueueKind.PRIVATE, queue=queue, subqueue=text) if queue == ORDER_QUEUE:
            return _guid_in(text)
    return None


def _guid_in(text: str) -> bytes | None:
    """Anybody can give a queue a name that looks like this one."""
    try:
        guid = bytes.fromhex(text)
    except ValueError:
        return None
    return guid if len(guid) == len(NULL_GUID) else None
