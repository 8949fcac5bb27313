"""Claims: messages of a queue that are reserved for one reader, part by part, over restarts of either side.

A part is a lasting transaction that has received (waypost.core.lasting_transactions). A claim has at most one: asking
for the next confirms that the current one is processed, and takes its messages out of the queue. Numbers of parts are
never used twice. When the lease of a part ends, the part is over and its messages are free for others; a reader that
still processes it gets an error, and the next part has the next number. A claim without a part holds nothing and has no
lease; it is remembered, because its reader may come back. There is a limit, at which a new claim is refused; only
claims that promise nothing any more make room for it (`_is_finished`).

A reader with a checkpoint has a term (`take`): the start of its program that it belongs to. At the end of the lease of
a part, the term has lost the claim, so that its requests and the writes of its run are refused; the next term goes on
after the part. But a part stays as long as the query has committed only some of its batch, and is processed if the
query has committed all of it, also after the lease: `committed` says so, in the batch of the store that has the commit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, isfinite
from typing import Final

from msgspec import UNSET, UnsetType

from waypost.api.claims import (
    DEFAULT_CLAIM_LEASE_S,
    Claim,
    Claimed,
    ClaimObject,
    KeepClaim,
    ReadClaim,
    TakeClaim,
    Taken,
)
from waypost.clock import Now
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import Queue, QueueAttributes
from waypost.core.serialization import size_in_bytes
from waypost.core.transaction_records import Run
from waypost.errors import (
    ClaimTaken,
    InvalidParameter,
    LimitReached,
    SharingViolation,
    TransactionSequence,
    WaypostError,
)
from waypost.guid import NULL_GUID, guid_text
from waypost.limits import MAX_BULK_LEASE_SECONDS, MAX_BULK_NAME, MAX_CLAIMED, MAX_CLAIMS
from waypost.node.epochs import epoch_of
from waypost.node.kernel import Kernel
from waypost.node.lost_runs import LostRuns
from waypost.store import keys
from waypost.store.bulk_records import ClaimRecord, Written
from waypost.store.port import Table
from waypost.wire.path_names import QueueKind

POISON: Final = "poison"

# MS-MQRR 2.2.5.3: the largest AbortCount of a message.
MAX_ABORT_COUNT: Final = 0xFFFF_FFFF

# The number of the queue, and the name of the claim.
Key = tuple[int, str]


class Claims:
    """The claims of one node."""

    __slots__ = ("_by_query", "_claims", "_heard", "_kernel", "_lost_runs", "_manager", "_since", "_timers")

    def __init__(
        self, kernel: Kernel, manager: QueueManager, kept: dict[Key, ClaimRecord], lost_runs: LostRuns, now: Now
    ) -> None:
        """`kept` are the claims of the store; their leases begin again."""
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._claims: Final = kept
        self._timers: Final = kernel.timers
        self._lost_runs: Final = lost_runs
        self._since: Final = now.monotonic
        # The claims of each query, and the time of the last request under a claim.
        self._by_query: Final[dict[str, set[Key]]] = {}
        self._heard: Final[dict[Key, float]] = {}
        for key, claim in kept.items():
            if claim.query:
                self._by_query.setdefault(claim.query, set()).add(key)
            if claim.past:
                for run in claim.past:
                    lost_runs.add(claim.query, run, key[1], now.wall)
                claim.past = ()
                self._write(key, claim)
            if claim.spans:
                self._start_lease(key, claim, now)

    # Calls for a reader, while an operation of the node is under way.

    def take(self, queue: Queue, wish: TakeClaim, now: Now) -> Taken:
        """Begin the next term, or join the present one.

        Raises ClaimTaken if the claim belongs to a query, and the reader has no checkpoint.
        """
        key = queue.number, wish.claim
        _check_name("driver", wish.driver)
        if not isfinite(wish.started) or not isfinite(wish.asked):
            raise InvalidParameter("`started` and `asked` must be finite numbers of seconds")
        claim = self._claims.get(key) or self._new(wish.claim, DEFAULT_CLAIM_LEASE_S, now)
        if claim.is_lost or claim.driver != wish.driver or wish.started >= claim.asked or not claim.term:
            if wish.is_new and claim.query and (claim.settled or self._is_heard(key, claim, now)):
                raise _of_another_query(wish.claim, claim.query)
            claim.term += 1
            claim.driver, claim.asked, claim.leader = wish.driver, wish.asked, ""
            self._end_run(key, claim, now)
            claim.is_lost = False
            self._claims[key] = claim
            self._write(key, claim)
        self._use(key, claim, now)
        places = self._places(key, claim, queue, wish.part_bytes)
        is_held = bool(claim.spans)
        return Taken(term=claim.term, settled=claim.settled, given=claim.given, is_held=is_held, places=places)

    def keep(self, queue: Queue, wish: KeepClaim, now: Now) -> None:
        """Put the end of the lease off. Raises ClaimTaken if another term has the claim."""
        key = queue.number, wish.claim
        claim = self._claims.get(key)
        if claim is None:
            raise _unknown(wish.claim)
        _check_term(wish.claim, claim, wish.term)
        self._use(key, claim, now)

    def claim(self, queue: Queue, wish: Claim, now: Now) -> Claimed:
        """Give the next part. The same request has the same answer, until the next part is asked for.

        Raises ClaimTaken if another term has the claim, and SharingViolation if no part is held, and a reader has the
        queue exclusively; then processed messages go.
        """
        key = queue.number, wish.claim
        is_known = key in self._claims
        claim = self._claims.pop(key, None) or self._begun(wish, now)
        self._claims[key] = claim
        _check_term(wish.claim, claim, wish.term)
        _check_after(claim, wish)
        before = replace(claim)
        if wish.term and not claim.leader:
            claim.leader = wish.reader
        is_leader = claim.leader == wish.reader or not wish.term
        if wish.max_messages:
            claim.lease_s = min(wish.lease_s, MAX_BULK_LEASE_SECONDS)
            claim.max_aborts = min(wish.max_aborts, MAX_ABORT_COUNT)
        if is_leader and wish.after == claim.given:
            self._settle(key, claim, now)
        wants_more = wish.max_messages > 0 and not claim.spans and is_leader
        if wants_more and not queue.deniers:
            self._take(key, claim, queue, wish)
        if not claim.given and not claim.term:
            # A repeated first request begins again.
            del self._claims[key]
        elif claim != before or not is_known:
            self._write(key, claim)
        if wants_more and queue.deniers:
            raise SharingViolation(f"a reader has {queue} open exclusively; close the queue in that reader first")
        epoch = guid_text(epoch_of(queue))
        if key in self._claims:
            self._use(key, claim, now)
        if not claim.spans or wish.after == claim.given:
            return Claimed(number=wish.after, count=0, bytes=0, epoch=epoch)
        places = self._places(key, claim, queue, wish.part_bytes)
        return Claimed(number=claim.given, count=claim.count, bytes=claim.size, epoch=epoch, places=places)

    def part(self, queue: Queue, wanted: ReadClaim, run: bytes, now: Now) -> Run:
        """The messages of a part, in the order of arrival. Its lease begins again. `run` is that of the query.

        Raises TransactionSequence if the part does not exist, or has ended, and ClaimTaken if another query or
        term has the claim.
        """
        name = wanted.claim
        key = queue.number, name
        claim = self._claims.get(key)
        if claim is None:
            raise _unknown(name)
        _check_term(name, claim, wanted.term)
        if not claim.spans or wanted.number != claim.given:
            raise _over(name, claim, wanted.number)
        self._bind(key, claim, wanted, run)
        self._use(key, claim, now)
        # Without express messages, which a restart loses.
        (messages,) = self._manager.lasting.collection[keys.claim_key(*key)]
        return messages

    def give_back(self, queue: Queue, name: str, now: Now) -> int:
        """End a part as the end of its lease does. Returns the number of messages that are free for others again."""
        return self._give_back((queue.number, name), now)

    def end(self, queue: Queue, name: str, now: Now) -> int:
        """Give a part back, and forget the claim: its reader does not come back. Returns the number of its messages.

        Raises SharingViolation if its reader seems to be alive.
        """
        key = queue.number, name
        claim = self._claims.get(key)
        if claim is None:
            return 0
        unused_s = self._unused_s(key, now)
        if not claim.is_lost and unused_s < claim.lease_s:
            error = SharingViolation(f"a reader used the claim {name} {unused_s:.0f} s ago, so it is not deleted")
            error.add_note(f"stop the reader, and try again when the claim has been unused for {claim.lease_s:g} s")
            raise error
        count = self._give_back(key, now)
        self._end_run(key, claim, now)
        self._forget(key)
        return count

    def held(self, now: Now, queue: Queue | None = None, *, idle: bool = False) -> list[ClaimObject]:
        """The parts that readers of a queue hold, or of all queues. `idle`: also claims that hold nothing."""
        return [
            self._object(key, claim, now)
            for key, claim in self._claims.items()
            if (idle or claim.spans) and (queue is None or key[0] == queue.number)
        ]

    def overdue(self, now: Now) -> Iterator[ClaimObject]:
        """The parts that stay claimed though their lease has ended."""
        for key, claim in self._claims.items():
            if claim.spans and claim.written is Written.SOME and not self._lease_left(key, now):
                yield self._object(key, claim, now)

    def holder(self, identifier: bytes, now: Now) -> tuple[str, float] | None:
        """The claim that this lasting transaction is a part of, and the seconds that its lease has left."""
        for key in self._claims:
            if keys.claim_key(*key) == identifier:
                return key[1], self._lease_left(key, now)
        return None

    # Calls for a writer, while an operation of the node is under way.

    def check_writer(self, query: str, run: bytes) -> None:
        """Raise ClaimTaken if this run of the query has lost a claim that it has read."""
        name = self._lost_runs.claim_of(query, run)
        if name is not None:
            raise ClaimTaken(
                f"this run of the query {query} has lost its claim {name}: a later run has taken the claim, the claim "
                "was released, or its lease has expired; this run can no longer read or write"
            )

    def committed(self, query: str, batch: int, now: Now, *, is_whole: bool) -> None:
        """Note that the query has committed all of a batch, or some of it. The caller writes the commit."""
        for key in sorted(self._by_query.get(query, ())):
            claim = self._claims[key]
            written = Written.ALL if is_whole else Written.SOME
            if claim.spans and claim.batch == batch and claim.written < written:
                claim.written = written
                if is_whole and not self._timers.is_running((Claims, key)):
                    # Its lease has ended before, and nothing else would end the part.
                    self._settle(key, claim, now)
                self._write(key, claim)

    # Notifications from the node.

    def forget(self, queue: Queue) -> None:
        """Forget the claims of a deleted queue; its messages are deleted too."""
        for key in [key for key in self._claims if key[0] == queue.number]:
            self._manager.lasting.collection.pop(keys.claim_key(*key), None)
            self._timers.stop((Claims, key))
            self._forget(key)

    # Internals.

    def _start_lease(self, key: Key, claim: ClaimRecord, now: Now) -> None:
        """Begin the lease, or begin it again; its end gives the part back."""
        self._timers.start((Claims, key), now.monotonic + claim.lease_s, lambda now: self._lease_ended(key, now))

    def _lease_ended(self, key: Key, now: Now) -> None:
        claim = self._claims[key]
        if claim.written is Written.ALL:
            self._settle(key, claim, now)
            self._write(key, claim)
        elif claim.written is Written.NOTHING:
            self._give_back(key, now)

    def _use(self, key: Key, claim: ClaimRecord, now: Now) -> None:
        self._heard[key] = now.monotonic
        if claim.spans:
            self._start_lease(key, claim, now)

    def _is_heard(self, key: Key, claim: ClaimRecord, now: Now) -> bool:
        """Whether a reader has used the claim within its lease."""
        return bool(claim.spans) or now.monotonic - self._heard.get(key, -inf) < claim.lease_s

    def _unused_s(self, key: Key, now: Now) -> float:
        """Seconds since the last request under the claim, or since the start."""
        return now.monotonic - self._heard.get(key, self._since)

    def _is_finished(self, key: Key, claim: ClaimRecord, now: Now) -> bool:
        """Whether a claim promises nothing any more.

        Its reader is gone, and has read nothing; or it has no term, and all its parts are processed.
        """
        is_done = not claim.given or (not claim.term and claim.settled == claim.given)
        return is_done and not claim.spans and self._unused_s(key, now) >= claim.lease_s

    def _end_run(self, key: Key, claim: ClaimRecord, now: Now) -> None:
        """Refuse from now on what the run of the present term writes."""
        self._lost_runs.add(claim.query, claim.run, key[1], now.wall)
        claim.run = NULL_GUID

    def _bind(self, key: Key, claim: ClaimRecord, wanted: ReadClaim, run: bytes) -> None:
        """Note the query, the run and the batch that read the part. Raises ClaimTaken for any other."""
        if not wanted.query:
            return
        _check_name("query", wanted.query)
        if claim.query not in ("", wanted.query):
            raise _of_another_query(wanted.claim, claim.query)
        batch = claim.batch if wanted.batch is UNSET else wanted.batch
        if wanted.term and run != NULL_GUID and run != claim.run:
            self.check_writer(wanted.query, run)
            if claim.run != NULL_GUID:
                raise ClaimTaken(
                    f"another run of the query {wanted.query} reads the claim {wanted.claim}; stop that run first, "
                    "because only one run can use a checkpoint"
                )
        else:
            run = claim.run
        if (claim.query, claim.run, claim.batch) == (wanted.query, run, batch):
            return
        claim.query, claim.run, claim.batch = wanted.query, run, batch
        self._by_query.setdefault(claim.query, set()).add(key)
        self._write(key, claim)

    def _object(self, key: Key, claim: ClaimRecord, now: Now) -> ClaimObject:
        left = self._lease_left(key, now)
        reason = ""
        if claim.spans and claim.written is Written.SOME and not left:
            reason = (
                f"the query has committed some of batch {claim.batch}, so the messages stay claimed until the query "
                "continues or the claim is released"
            )
        return ClaimObject(
            claim=key[1],
            number=claim.given,
            count=claim.count,
            lease_left_s=left,
            queue=str(self._manager.collection.by_number[key[0]]),
            bytes=claim.size if claim.spans else 0,
            term=claim.term,
            query=claim.query,
            batch=claim.batch,
            held_by=reason,
            unused_s=self._unused_s(key, now),
        )

    def _lease_left(self, key: Key, now: Now) -> float:
        """Seconds."""
        return max((self._timers.deadline((Claims, key)) or 0.0) - now.monotonic, 0.0)

    def _begun(self, wish: Claim, now: Now) -> ClaimRecord:
        if wish.after or wish.term:
            raise _unknown(wish.claim)
        return self._new(wish.claim, wish.lease_s, now)

    def _new(self, name: str, lease_s: float, now: Now) -> ClaimRecord:
        _check_name("claim", name)
        if len(self._claims) >= MAX_CLAIMS:
            claims = self._claims.items()
            finished = next((key for key, claim in claims if self._is_finished(key, claim, now)), None)
            if finished is None:
                raise LimitReached(
                    f"the limit of {MAX_CLAIMS} claims is reached; `waypost claim list --idle` lists all claims, and "
                    "`waypost claim release --forget` deletes the claim of a reader that does not come back"
                )
            self._forget(finished)
        return ClaimRecord(lease_s)

    def _take(self, key: Key, claim: ClaimRecord, queue: Queue, wish: Claim) -> None:
        lookup_ids = queue.positions.first_arrived(min(wish.max_messages, MAX_CLAIMED))
        if wish.max_bytes is not UNSET:
            lookup_ids = self._within(queue, lookup_ids, wish.max_bytes)
        if lookup_ids:
            run, messages = self._manager.lasting.claim(keys.claim_key(*key), queue, lookup_ids)
            claim.given += 1
            claim.size = sum(map(size_in_bytes, messages))
            claim.spans = run.spans
            claim.batch, claim.written = None, Written.NOTHING

    def _within(self, queue: Queue, lookup_ids: Sequence[int], max_bytes: int) -> list[int]:
        """The first of these messages that have at most so many bytes, or one."""
        found: list[int] = []
        for lookup_id in lookup_ids:
            size = self._size(queue, lookup_id)
            if not size:
                continue
            max_bytes -= size
            if max_bytes < 0 and found:
                break
            found.append(lookup_id)
        return found

    def _size(self, queue: Queue, lookup_id: int) -> int:
        """The bytes of a message, 0 if it is damaged."""
        size = queue.positions.size(lookup_id)
        if size:
            return size
        # It was not read since the start.
        message = self._manager.positions.find(queue, lookup_id)
        return 0 if message is None else size_in_bytes(message)

    def _places(self, key: Key, claim: ClaimRecord, queue: Queue, part_bytes: int | UnsetType) -> list[int]:
        """The places that divide the part into pieces of at most so many bytes, or of one message."""
        if part_bytes is UNSET or not claim.spans:
            return []
        (messages,) = self._manager.lasting.collection[keys.claim_key(*key)]
        places, size = [0], 0
        for place, lookup_id in enumerate(messages.lookup_ids()):
            more = self._size(queue, lookup_id)
            if size and size + more > part_bytes:
                places.append(place)
                size = 0
            size += more
        return [*places, claim.count]

    def _settle(self, key: Key, claim: ClaimRecord, now: Now) -> None:
        """Take the part out of the queue. One that was given back, in an earlier term, counts as processed."""
        if claim.spans:
            self._manager.lasting.commit((keys.claim_key(*key),), now.wall)
            self._timers.stop((Claims, key))
        claim.settled = claim.given
        claim.spans = []

    def _give_back(self, key: Key, now: Now) -> int:
        claim = self._claims.get(key)
        if claim is None or not claim.spans:
            return 0
        lasting = self._manager.lasting
        count = lasting.give_back(
            keys.claim_key(*key), claim.max_aborts, lambda queue: self._poison_queue(queue, now), now.wall
        )
        self._timers.stop((Claims, key))
        claim.spans = []
        if claim.term:
            claim.is_lost = True
            self._end_run(key, claim, now)
        self._write(key, claim)
        return count

    def _poison_queue(self, queue: Queue, now: Now) -> Queue | None:
        """The subqueue for messages that were given back too often; None if it cannot exist."""
        parent = queue.parent or queue
        if queue.is_journal or queue.queue_type is QueueKind.SYSTEM or queue.pathname.subqueue.casefold() == POISON:
            return None
        found = parent.subqueues.get(POISON)
        if found is not None:
            if found.is_provisional:
                self._manager.collection.changed(found)
            return found
        try:
            path = replace(parent.pathname, subqueue=POISON)
            return self._manager.create_queue(QueueAttributes(path), now)
        except WaypostError:
            # The limit of subqueues is reached: to give a message back once more is better than to lose it.
            return None

    def _write(self, key: Key, claim: ClaimRecord) -> None:
        assert claim.settled <= claim.given, f"part {claim.settled} of {key} is processed, but was never handed out"
        assert not claim.spans or claim.settled < claim.given, f"part {claim.given} of {key} is both processed and held"
        self._kernel.messages.batch.put(Table.BULK, keys.claim_key(*key), claim.encode())

    def _forget(self, key: Key) -> None:
        claim = self._claims.pop(key)
        self._heard.pop(key, None)
        if claim.query:
            self._by_query[claim.query].remove(key)
            if not self._by_query[claim.query]:
                del self._by_query[claim.query]
        self._kernel.messages.batch.delete(Table.BULK, keys.claim_key(*key))


def _check_name(what: str, name: str) -> None:
    if not 0 < len(name.encode("utf-8", "surrogatepass")) <= MAX_BULK_NAME:
        raise InvalidParameter(f"the name of a {what} must have 1 to {MAX_BULK_NAME} bytes: use a GUID, for example")


def _check_term(name: str, claim: ClaimRecord, term: int) -> None:
    """Raises ClaimTaken unless this is the term that has the claim."""
    if term == claim.term and not claim.is_lost:
        return
    if term == claim.term:
        raise ClaimTaken(
            f"the claim {name} is lost, because it was released or because its reader sent nothing for "
            f"{claim.lease_s:g} s; the messages of the claim are in the queue again; restart the reader to continue"
        )
    raise ClaimTaken(
        f"a newer run of the reader has taken over the claim {name}, with the term {claim.term}; stop this "
        f"reader, which has the term {term}, because only one program can use a checkpoint"
    )


def _check_after(claim: ClaimRecord, wish: Claim) -> None:
    """Raises TransactionSequence if the reader and the claim disagree about the last part."""
    if wish.after == claim.settled or (wish.after == claim.given and (claim.spans or claim.term)):
        return
    if wish.after < claim.settled:
        raise TransactionSequence(
            f"the claim {wish.claim} is already processed up to part {claim.settled}, so the claim cannot continue "
            f"after part {wish.after}; begin another claim"
        )
    raise _over(wish.claim, claim, wish.after)


def _over(name: str, claim: ClaimRecord, number: int) -> WaypostError:
    if number > claim.given:
        return TransactionSequence(f"the claim {name} has no part {number}; its last part is {claim.given}")
    if number <= claim.settled:
        return TransactionSequence(
            f"part {number} of the claim {name} is already processed, and its messages are removed"
        )
    return TransactionSequence(
        f"part {number} of the claim {name} has ended, because it was returned or unused for {claim.lease_s:g} s; "
        "its messages are in the queue again"
    )


def _of_another_query(name: str, query: str) -> WaypostError:
    return ClaimTaken(
        f"the claim {name} belongs to the query {query}: call load() again for another query, or set the option "
        "claimId to another name"
    )


def _unknown(name: str) -> WaypostError:
    return TransactionSequence(
        f"this queue has no claim {name}: the claim was never begun, or it was deleted; begin another claim"
    )
