"""Messages of others that were refused on arrival: their number for each reason, and the last ones one by one.

A message that comes again and is accepted is forgotten here. Copies of accepted messages are duplicates, which are
counted elsewhere and are not missed.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from waypost.clock import Now
from waypost.guid import guid_text
from waypost.limits import MAX_LOGGED_TEXT, MAX_REFUSALS, MAX_REFUSALS_OF_PEER
from waypost.node.network.recent_records import RecentRecords
from waypost.peers import peer_of
from waypost.transfer.session import Session
from waypost.wire import base_header
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import MessageClass
from waypost.wire.packet_names import destination_format_name
from waypost.wire.user_message import UserMessage

_GUID: Final = slice(base_header.SIZE, base_header.SIZE + 16)
_ORDINAL: Final = slice(base_header.SIZE + 40, base_header.SIZE + 44)


class Reason(Enum):
    """The reason of a refusal. The values are labels of the metric."""

    NO_QUEUE = "no_such_queue"
    QUEUE_QUOTA = "queue_quota"
    ACCESS = "access_denied"
    TRANSACTIONAL = "transactional_mismatch"
    SIGNATURE = "signature"
    ENCRYPTION = "encryption"
    HOP_COUNT = "hop_count"
    EXPIRED = "expired"
    MALFORMED = "malformed"
    FROM_HERE = "claims_to_be_from_here"
    NO_WAY = "not_forwarded"
    OTHER = "other"
    # The sender keeps the message and sends it again.
    MACHINE_QUOTA = "machine_quota"
    STORE = "store"
    SEQUENCE = "sequence"
    ACKNOWLEDGMENTS = "acknowledgments_wait"
    ADDRESSES = "too_many_addresses"
    UNVERIFIED = "too_many_unverified"

    @property
    def comes_again(self) -> bool:
        """Whether an honest sender sends the message again."""
        return self in _COMES_AGAIN


_COMES_AGAIN: Final = frozenset(
    {
        Reason.MACHINE_QUOTA,
        Reason.STORE,
        Reason.SEQUENCE,
        Reason.ACKNOWLEDGMENTS,
        Reason.ADDRESSES,
        Reason.UNVERIFIED,
    }
)

_CLASSES: Final = {
    MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q: Reason.NO_QUEUE,
    MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT: Reason.EXPIRED,
    MessageClass.MQMSG_CLASS_NACK_Q_EXCEED_QUOTA: Reason.QUEUE_QUOTA,
    MessageClass.MQMSG_CLASS_NACK_ACCESS_DENIED: Reason.ACCESS,
    MessageClass.MQMSG_CLASS_NACK_HOP_COUNT_EXCEEDED: Reason.HOP_COUNT,
    MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE: Reason.SIGNATURE,
    MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION: Reason.ENCRYPTION,
    MessageClass.MQMSG_CLASS_NACK_UNSUPPORTED_CRYPTO_PROVIDER: Reason.ENCRYPTION,
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q: Reason.TRANSACTIONAL,
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG: Reason.TRANSACTIONAL,
}


def reason_of(message_class: MessageClass) -> Reason:
    return _CLASSES.get(message_class, Reason.OTHER)


@dataclass(slots=True)
class Refusal:
    """A refused message, with the number of refusals, the last one at `time`. `sentence` is the reason."""

    peer: str
    address: str
    queue: str
    reason: Reason
    sentence: str
    time: int
    count: int = 1


class Arrival(NamedTuple):
    """A message that came over a session."""

    session: Session
    packet: UserMessage
    now: Now


class Refusals:
    """The refusals since the start. `notice` writes to the log."""

    __slots__ = ("_notice", "_recent", "counts", "records")

    def __init__(self, notice: Callable[..., None]) -> None:
        self._notice: Final = notice
        self.counts: Final[Counter[Reason]] = Counter()
        self._recent: Final[RecentRecords[Refusal]] = RecentRecords(MAX_REFUSALS, MAX_REFUSALS_OF_PEER)
        self.records: Final = self._recent.records

    def __len__(self) -> int:
        return len(self._recent)

    def tell(self, event: str, arrival: Arrival, reason: Reason, sentence: str, /, **facts: object) -> None:
        """Note a refused message, with a line in the log. `sentence` follows a colon there."""
        self.note(arrival, reason, sentence)
        session, packet, _ = arrival
        told = {
            "queue": queue_text(packet),
            "message": str(identifier_of(packet)),
            "peer": session.remote_qm_address,
            "source": guid_text(packet.user.source_queue_manager),
            "reason": sentence,
        }
        self._notice(event, **(told | facts))

    def note(self, arrival: Arrival, reason: Reason, sentence: str) -> None:
        """Note a refused message without a line in the log, because it has another one."""
        self.counts[reason] += 1
        session, packet, now = arrival
        identifier, address = identifier_of(packet).encode(), session.remote_qm_address
        before = self._recent.get(identifier)
        refusal = Refusal(peer_of(address), address, queue_text(packet), reason, sentence, int(now.wall))
        refusal.count += 0 if before is None else before.count
        self._recent.put(identifier, refusal)

    def of(self, identifier: MessageIdentifier) -> Refusal | None:
        return self._recent.get(identifier.encode())

    def taken(self, packets: Iterable[bytes]) -> None:
        """Forget earlier refusals of accepted messages."""
        for data in packets:
            self._recent.discard(data[_GUID] + data[_ORDINAL])


def identifier_of(packet: UserMessage) -> MessageIdentifier:
    return MessageIdentifier(packet.user.source_queue_manager, packet.user.message_id)


def queue_text(packet: UserMessage) -> str:
    """The queue that a message of another names, which may be any text."""
    name = destination_format_name(packet.user)
    return "" if name is None else str(name)[:MAX_LOGGED_TEXT]
