"""Which transactional messages of others are taken: the rule of waypost.transfer.incoming, and two bounds on it.

A new line may not begin far ahead of the clock, because it would shut out what its source sends afterwards; and one
address may not begin very many in a short time, because each is kept for good. What is refused is acknowledged to the
session and not by an OrderAck, so its source has it and sends it again: nothing of it is lost. The log, the counters,
`explain` and `doctor` name it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from waypost.buckets import Bucket, Rate
from waypost.clock import Now
from waypost.guid import NULL_GUID, guid_text
from waypost.limits import MAX_REFUSED_SEQUENCES, MAX_WATCHED_PEERS
from waypost.peers import peer_of
from waypost.transfer.incoming import IncomingSequences, Verdict
from waypost.transfer.order_acks import SequenceKey
from waypost.transfer.sequences import IncomingSequence
from waypost.transfer.session import Session
from waypost.wire.transaction_header import TransactionHeader

if TYPE_CHECKING:
    from waypost.node.network.network import Network
    from waypost.node.node import Node

_TIME_STAMP_SHIFT: Final = 32
_NOTHING_YET: Final = IncomingSequences()


@dataclass(slots=True)
class Refused:
    """Messages of a source from an address that were not taken, and why. Times are seconds since 1970."""

    key: SequenceKey
    address: str
    verdict: Verdict
    time_stamp: int
    # The greatest TimeStamp that is known of the source there, and an address that is at it.
    greatest: int
    greatest_address: str
    count: int = 0
    last_time: int = 0

    @property
    def source(self) -> bytes:
        return self.key[0][: len(NULL_GUID)]

    @property
    def queue(self) -> int:
        return self.key[1]


class Admission:
    """Everything that is refused is remembered for a while, by source, queue, name and address."""

    __slots__ = ("_buckets", "_incoming", "_network", "_node", "_rate", "_refused")

    def __init__(self, node: "Node", network: "Network") -> None:
        self._node: Final = node
        self._network: Final = network
        self._incoming: Final = node.sequences.incoming
        settings = network.settings
        self._rate: Final = Rate(settings.new_sequences_per_s, settings.new_sequences_at_once)
        self._buckets: dict[str, Bucket] = {}
        self._refused: dict[tuple[SequenceKey, str], Refused] = {}

    @property
    def refused(self) -> list[Refused]:
        """What was refused lately, the last one at the end."""
        return list(self._refused.values())

    def judge(self, key: SequenceKey, session: Session, header: TransactionHeader, now: Now) -> Verdict:
        """What becomes of a message, but for the rate of its address. Nothing is done yet."""
        sequences = self._incoming.find(key) or _NOTHING_YET
        verdict = sequences.judge(peer_of(session.remote_qm_address), header, now.wall)
        if verdict is Verdict.NEW and self._is_ahead(header, now):
            return Verdict.AHEAD
        return verdict

    def take(self, key: SequenceKey, session: Session, header: TransactionHeader, now: Now) -> IncomingSequence:
        """A message that was judged as NEXT or NEW moves its sequence."""
        address = peer_of(session.remote_qm_address)
        if self._refused:
            self._refused.pop((key, address), None)
        return self._incoming.take(key, address, header, now.wall)

    def admit(self, key: SequenceKey, session: Session, header: TransactionHeader, now: Now) -> bool:
        """Take a message if it is to be taken. If not, it is noted."""
        verdict = self.judge(key, session, header, now)
        if verdict is Verdict.NEW and not self._may_begin(session, now):
            verdict = Verdict.TOO_MANY
        if verdict.is_taken:
            self.take(key, session, header, now)
            return True
        self._refuse(key, session, header, verdict, now=now)
        return False

    def is_relay(self, _session: Session) -> bool:
        """Whether the other end brings the messages of many others: then its new sequences are not counted."""
        return False

    def forget(self, is_gone: Callable[[Refused], bool]) -> list[Refused]:
        """Forget refusals, as of a source that was reset. Returns them."""
        gone = [refused for refused in self._refused.values() if is_gone(refused)]
        for refused in gone:
            del self._refused[refused.key, refused.address]
        return gone

    def _is_ahead(self, header: TransactionHeader, now: Now) -> bool:
        if self._node.sequences.is_clock_behind(now):
            return False
        return header.tx_sequence_id >> _TIME_STAMP_SHIFT > now.wall + self._network.settings.max_sequence_ahead_s

    def _may_begin(self, session: Session, now: Now) -> bool:
        if self.is_relay(session):
            return True
        address = peer_of(session.remote_qm_address)
        bucket = self._buckets.get(address)
        if bucket is None:
            if len(self._buckets) >= MAX_WATCHED_PEERS:
                self._forget_buckets(now)
            bucket = self._buckets[address] = Bucket(self._rate, now.monotonic)
        return bucket.take(now.monotonic)

    def _forget_buckets(self, now: Now) -> None:
        """Those that are full say nothing; if there are none, the oldest goes."""
        for address in [address for address, bucket in self._buckets.items() if bucket.is_full(now.monotonic)]:
            del self._buckets[address]
        if len(self._buckets) >= MAX_WATCHED_PEERS:
            del self._buckets[next(iter(self._buckets))]

    def _refuse(
        self, key: SequenceKey, session: Session, header: TransactionHeader, verdict: Verdict, *, now: Now
    ) -> None:  # fmt: skip
        address, time_stamp = peer_of(session.remote_qm_address), header.tx_sequence_id >> _TIME_STAMP_SHIFT
        sequences = self._incoming.find(key) or _NOTHING_YET
        greatest = max(sequences.lines, default=0)
        at = next((each for each, place in sequences.places.items() if place.time_stamp == greatest), "")
        before = self._refused.pop((key, address), None)
        refused = Refused(key, address, verdict, time_stamp, greatest, at)
        refused.count = 1 if before is None else before.count + 1
        refused.last_time = int(now.wall)
        self._refused[key, address] = refused
        if len(self._refused) > MAX_REFUSED_SEQUENCES:
            del self._refused[next(iter(self._refused))]
        self._network.statistics.sequences_refused += 1
        self._network.notice(
            "sequence refused",
            peer=session.remote_qm_address,
            source=guid_text(refused.source),
            queue=str(self._node.manager.collection.by_number[key[1]]),
            time_stamp=time_stamp,
            reason=verdict.value,
        )
