"""Admission of transactional messages of others: the rule of waypost.transfer.incoming, and three limits.

A new line may not begin far ahead of the clock, because it would shut out later messages of its source; one address may
not begin very many in a short time, because each is kept for good; and one that tries many TimeStamps in vain may not
continue a line that others have begun, because it may have guessed it. A refused message is acknowledged to the session
and not by an OrderAck, so its source keeps it and sends it again: nothing is lost. The log, the counters, `explain` and
`doctor` name it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from waypost.buckets import Buckets, Rate
from waypost.clock import Now
from waypost.core.position_events import KILOBYTE
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import Queue
from waypost.guid import NULL_GUID, guid_text
from waypost.limits import MAX_ENDED_SEQUENCES, MAX_REFUSED_SEQUENCES
from waypost.node.incoming_store import SOURCE_BYTES
from waypost.node.kernel import Kernel
from waypost.node.network.known_hosts import KnownHosts
from waypost.node.sequences import Sequences
from waypost.peers import peer_of
from waypost.transfer.incoming import IncomingSequences, Verdict
from waypost.transfer.order_acks import SequenceKey
from waypost.transfer.sequences import IncomingSequence
from waypost.transfer.session import Session
from waypost.transfer.settings import TransferSettings
from waypost.transfer.statistics import Statistics
from waypost.wire.identifiers import TIME_STAMP_SHIFT
from waypost.wire.property_values import UNLIMITED
from waypost.wire.transaction_header import TransactionHeader

_NOTHING_YET: Final = IncomingSequences()
# Refused TimeStamps of one address. A sender that tries one after the other to find that of a source may not join a
# line that others have begun.
_GUESSES: Final = Rate(per_second=0.1, burst=20)


@dataclass(slots=True)
class Refused:
    """Refused messages of a source from an address, and the reason. Times are seconds since 1970."""

    key: SequenceKey
    address: str
    verdict: Verdict
    time_stamp: int
    # The greatest known TimeStamp of the source there, and an address that has it.
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


@dataclass(slots=True)
class Unguarded:
    """Sequences of a source that have ended and were forgotten, so that `address` could begin them again."""

    key: SequenceKey
    address: str
    time_stamp: int
    count: int = 1


class Admission:
    """Admits messages. Refusals are remembered for a while, by source, queue, name and address."""

    __slots__ = (
        "_begun",
        "_guesses",
        "_hosts",
        "_incoming",
        "_kernel",
        "_manager",
        "_max_sequence_ahead_s",
        "_refused",
        "_sequences",
        "_statistics",
        "_unguarded",
    )

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        sequences: Sequences,
        hosts: KnownHosts,
        *,
        settings: TransferSettings,
        statistics: Statistics,
    ) -> None:
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._sequences: Final = sequences
        self._incoming: Final = sequences.incoming
        self._hosts: Final = hosts
        self._statistics: Final = statistics
        self._max_sequence_ahead_s: Final = settings.max_sequence_ahead_s
        self._begun: Final = Buckets(Rate(settings.new_sequences_per_s, settings.new_sequences_at_once))
        self._guesses: Final = Buckets(_GUESSES)
        self._refused: dict[tuple[SequenceKey, str], Refused] = {}
        self._unguarded: dict[SequenceKey, Unguarded] = {}

    @property
    def unguarded(self) -> list[Unguarded]:
        """Sources with sequences that have ended and were forgotten recently, the last one at the end."""
        return list(self._unguarded.values())

    @property
    def refused(self) -> list[Refused]:
        """The recent refusals, the last one at the end."""
        return list(self._refused.values())

    def judge(self, key: SequenceKey, session: Session, header: TransactionHeader, now: Now) -> Verdict:
        """The verdict about a message, without the rate of its address. Changes nothing."""
        sequences = self._incoming.find(key) or _NOTHING_YET
        address = peer_of(session.remote_qm_address)
        verdict = sequences.judge(address, header, now.wall)
        if verdict is Verdict.NEXT or verdict is Verdict.BEFORE:
            is_doubted = not sequences.is_at(address, header) and not self._guesses.has_some(address, now.monotonic)
            return Verdict.DOUBTED if is_doubted else verdict
        if verdict in (Verdict.NEW, Verdict.IN_THE_MIDDLE) and self._is_ahead(header, now):
            return Verdict.AHEAD
        return verdict

    def take(self, key: SequenceKey, session: Session, header: TransactionHeader, now: Now) -> IncomingSequence:
        """Advance the sequence of a message with the verdict NEXT or NEW."""
        address = peer_of(session.remote_qm_address)
        if self._refused:
            self._refused.pop((key, address), None)
        line = self._incoming.take(key, address, header, now.wall)
        if self._incoming.unguarded:
            self._note_unguarded()
        return line

    def admit(self, key: SequenceKey, session: Session, header: TransactionHeader, now: Now) -> bool:
        """Accept a message if the rules allow it, otherwise note the refusal."""
        verdict = self.judge(key, session, header, now)
        if verdict is Verdict.NEW and not self._may_begin(session, now):
            verdict = Verdict.TOO_MANY
        if verdict.is_taken:
            self.take(key, session, header, now)
            return True
        self._refuse(key, session, header, verdict, now=now)
        return False

    def of(self, key: SequenceKey, session: Session) -> Refused:
        """The refusal of a message that was just not admitted."""
        return self._refused[key, peer_of(session.remote_qm_address)]

    def reset(self, key: SequenceKey) -> None:
        """Forget the refusals of a source that begins again."""
        self._forget(lambda each: each == key)

    def forget(self, queue: Queue) -> None:
        """Forget a deleted queue."""
        self._forget(lambda key: key[1] == queue.number)

    def _forget(self, is_gone: Callable[[SequenceKey], bool]) -> None:
        for place in [place for place in self._refused if is_gone(place[0])]:
            del self._refused[place]
        for key in [key for key in self._unguarded if is_gone(key)]:
            del self._unguarded[key]

    def _note_unguarded(self) -> None:
        for key in self._incoming.unguarded:
            sequences = self._incoming.find(key)
            assert sequences is not None
            time_stamp, sequences.unguarded = sequences.unguarded, 0
            address = sequences.address_behind(time_stamp)
            assert address is not None
            before = self._unguarded.pop(key, None)
            count = 1 if before is None else before.count + 1
            self._unguarded[key] = found = Unguarded(key, address, time_stamp, count)
            if len(self._unguarded) > MAX_REFUSED_SEQUENCES:
                del self._unguarded[next(iter(self._unguarded))]
            self._statistics.sequence_ends_forgotten += 1
            self._kernel.notice(
                "sequence end forgotten",
                peer=address or "an unknown address",
                source=guid_text(key[0][: len(NULL_GUID)]),
                queue=str(self._manager.collection.by_number[key[1]]),
                time_stamp=found.time_stamp,
                reason=f"this queue manager remembers only the last {MAX_ENDED_SEQUENCES} ended sequences of an "
                "address, and this sequence is older",
            )
        self._incoming.unguarded.clear()

    def _is_ahead(self, header: TransactionHeader, now: Now) -> bool:
        if self._sequences.is_clock_behind(now):
            return False
        return header.tx_sequence_id >> TIME_STAMP_SHIFT > now.wall + self._max_sequence_ahead_s

    def _may_begin(self, session: Session, now: Now) -> bool:
        if self._hosts.is_relay(session, now):
            # It brings the messages of many others.
            return True
        address = peer_of(session.remote_qm_address)
        if not self._fits_share(address):
            return False
        return self._begun.take(address, now.monotonic)

    def _fits_share(self, address: str) -> bool:
        """Whether the records of one more source fit into the share of the quota of one address."""
        manager = self._manager
        positions = manager.positions
        if positions.quota == UNLIMITED or positions.sources.share >= 1:
            return True
        kept = self._incoming.bytes_of(address, iter(manager.collection.by_number.values()))
        return positions.sources.fits(address, positions.quota * KILOBYTE, kept + SOURCE_BYTES)

    def _refuse(
        self, key: SequenceKey, session: Session, header: TransactionHeader, verdict: Verdict, *, now: Now
    ) -> None:  # fmt: skip
        address, time_stamp = peer_of(session.remote_qm_address), header.tx_sequence_id >> TIME_STAMP_SHIFT
        sequences = self._incoming.find(key) or _NOTHING_YET
        greatest = max(sequences.lines, default=0)
        at = next((each for each, place in sequences.places.items() if place.time_stamp == greatest), "")
        before = self._refused.pop((key, address), None)
        is_guess = before is None or before.time_stamp != time_stamp
        if is_guess and not self._hosts.is_relay(session, now):
            self._guesses.take(address, now.monotonic)
        if before is not None and before.time_stamp == time_stamp and verdict is Verdict.IN_THE_MIDDLE:
            # It follows one that was refused for another reason.
            verdict = before.verdict
        refused = Refused(key, address, verdict, time_stamp, greatest, at)
        refused.count = 1 if before is None else before.count + 1
        refused.last_time = int(now.wall)
        self._refused[key, address] = refused
        if len(self._refused) > MAX_REFUSED_SEQUENCES:
            del self._refused[next(iter(self._refused))]
        self._statistics.sequences_refused += 1
        self._kernel.notice(
            "sequence refused",
            peer=session.remote_qm_address,
            source=guid_text(refused.source),
            queue=str(self._manager.collection.by_number[key[1]]),
            time_stamp=time_stamp,
            reason=verdict.value,
        )
