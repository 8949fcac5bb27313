"""Acknowledgments of transactional messages that may be genuine: they are kept until that is known (ADR 22).

A FinalAck is sent once, and our session acknowledges it, so kept ones are durable. An OrderAck comes again with every
message that is sent again, so these are in memory only, the last one of a sequence and an address. Their numbers are
limited for a message, for an address and in total: one beyond a limit is refused, and the caller reports that to its
session. The limits do not apply to those that come from where the destination is, and only wait until that is proven
or the message is sent again: there is one for each message and address, and strangers must not take its place.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from waypost.limits import MAX_KEPT_ACKS, MAX_KEPT_ACKS_OF_ADDRESS, MAX_KEPT_ACKS_OF_MESSAGE
from waypost.node import scans
from waypost.node.stored_messages import StoredMessages
from waypost.peers import peer_of
from waypost.store import keys
from waypost.store.ack_records import KeptAckRecord
from waypost.store.port import Reader, Table
from waypost.transfer.believing import Bringer
from waypost.wire.identifiers import TxSequenceId
from waypost.wire.transactional_acks import ORDER_ACK_CLASS, FinalAck, OrderAck

_TOO_MANY: Final = "the limit of kept acknowledgments is reached"
_CONTRADICTS: Final = "an acknowledgment from the same address is already kept, with different content"
_NEIGHBOUR: Final = "an acknowledgment from another address of the same network is already kept"

# TxSequenceID, TxSequenceNumber and MessageID; of an OrderAck only the first.
_Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Acknowledgment:
    """An OrderAck or FinalAck: its content, who says it, who brought it, and when. An OrderAck has no message_id."""

    tx_sequence_id: int
    tx_sequence_number: int
    message_id: int
    message_class: int
    source: bytes
    bringer: Bringer
    time: int

    @classmethod
    def of(cls, packet: OrderAck | FinalAck, bringer: Bringer, time: int) -> "Acknowledgment":
        body, source = packet.body, packet.message.user.source_queue_manager
        message_id = packet.body.message_id if isinstance(packet, FinalAck) else 0
        message_class = packet.message.properties.message_class
        number = body.tx_sequence_number
        return cls(body.tx_sequence_id, number, message_id, message_class, source, bringer, time)

    @property
    def is_order_ack(self) -> bool:
        return self.message_class == ORDER_ACK_CLASS

    @property
    def sequence_id(self) -> TxSequenceId:
        return TxSequenceId.of(self.tx_sequence_id)

    @property
    def statement(self) -> tuple[int, bytes, bytes]:
        """The statement about the message, and the queue managers in the name of which it is made."""
        return self.message_class, self.source, self.bringer.guid

    @property
    def key(self) -> _Key:
        if self.is_order_ack:
            return self.tx_sequence_id, 0, 0
        return self.tx_sequence_id, self.tx_sequence_number, self.message_id


class KeptAcks:
    """The kept acknowledgments of one queue manager. A /64 network of IPv6 counts as one address."""

    __slots__ = ("_by_key", "_by_network", "_count", "_messages")

    def __init__(self, reader: Reader, messages: StoredMessages) -> None:
        self._messages: Final = messages
        self._by_key: dict[_Key, dict[str, Acknowledgment]] = {}
        self._by_network: dict[str, int] = {}
        self._count = 0
        for _, value in scans.items(reader, Table.COUNTERS, *keys.kept_ack_range()):
            self._add(_ack_of(KeptAckRecord.decode(value)))

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __iter__(self) -> Iterator[Acknowledgment]:
        """A snapshot of the kept ones; each may be dropped meanwhile."""
        return iter([ack for acks in self._by_key.values() for ack in acks.values()])

    def __contains__(self, ack: Acknowledgment) -> bool:
        return self._by_key.get(ack.key, {}).get(ack.bringer.address) == ack

    def of_message(self, ordinal: int) -> list[Acknowledgment]:
        """The FinalAcks that name the message with this number."""
        return [ack for ack in self if ack.message_id == ordinal and not ack.is_order_ack]

    def order_acks_of(self, tx_sequence_id: int) -> list[Acknowledgment]:
        return list(self._by_key.get((tx_sequence_id, 0, 0), {}).values())

    def keep(self, ack: Acknowledgment, *, is_likely: bool) -> str | None:
        """None if it is kept now, or already was; otherwise the reason why not.

        Of one address only the first FinalAck of a message and the last OrderAck are kept. `is_likely`: it comes from
        where the destination is, and gets a place however many strangers have brought.
        """
        address = ack.bringer.address
        places = self._by_key.get(ack.key, {})
        before = places.get(address)
        if before is not None:
            if ack.is_order_ack and ack.tx_sequence_number > before.tx_sequence_number:
                places[address] = ack
            return None if ack.is_order_ack or ack.statement == before.statement else _CONTRADICTS
        refusal = None if is_likely else self._refusal(places, address)
        if refusal is None:
            self._add(ack)
            if not ack.is_order_ack:
                self._messages.batch.put(Table.COUNTERS, _key(ack), _record_of(ack).encode())
        return refusal

    def _refusal(self, places: dict[str, Acknowledgment], address: str) -> str | None:
        network = peer_of(address)
        if len(places) >= MAX_KEPT_ACKS_OF_MESSAGE or len(self) >= MAX_KEPT_ACKS:
            return _TOO_MANY
        if self._by_network.get(network, 0) >= MAX_KEPT_ACKS_OF_ADDRESS:
            return _TOO_MANY
        return _NEIGHBOUR if network in map(peer_of, places) else None

    def drop(self, ack: Acknowledgment) -> None:
        """Drop one that was believed or refused, or that acknowledges nothing that is left."""
        acks = self._by_key.get(ack.key)
        address = ack.bringer.address
        if acks is None or acks.pop(address, None) is None:
            return
        if not acks:
            del self._by_key[ack.key]
        network = peer_of(address)
        self._count -= 1
        self._by_network[network] -= 1
        if not self._by_network[network]:
            del self._by_network[network]
        if not ack.is_order_ack:
            self._messages.batch.delete(Table.COUNTERS, _key(ack))

    def settle(self, believed: Acknowledgment) -> None:
        """Drop those that say no more than one that was believed."""
        for ack in list(self._by_key.get(believed.key, {}).values()):
            if not ack.is_order_ack or ack.tx_sequence_number <= believed.tx_sequence_number:
                self.drop(ack)

    def _add(self, ack: Acknowledgment) -> None:
        network = peer_of(ack.bringer.address)
        self._by_key.setdefault(ack.key, {})[ack.bringer.address] = ack
        self._by_network[network] = self._by_network.get(network, 0) + 1
        self._count += 1


def _key(ack: Acknowledgment) -> bytes:
    return keys.kept_ack_key(ack.tx_sequence_id, ack.tx_sequence_number, ack.message_id, ack.bringer.address)


def _record_of(ack: Acknowledgment) -> KeptAckRecord:
    return KeptAckRecord(
        ack.tx_sequence_id,
        ack.tx_sequence_number,
        ack.message_id,
        ack.message_class,
        ack.time,
        ack.source,
        ack.bringer.guid,
        ack.bringer.address,
    )


def _ack_of(record: KeptAckRecord) -> Acknowledgment:
    return Acknowledgment(
        record.sequence_identifier,
        record.sequence_number,
        record.message_id,
        record.message_class,
        record.source,
        Bringer(record.guid, record.address),
        record.time,
    )
