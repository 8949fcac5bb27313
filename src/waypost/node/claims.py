"""Claims: messages of a queue that are reserved for one reader, part by part, over restarts of either side.

A part is a lasting transaction that has received (waypost.core.lasting_transactions). A claim has at most one: asking
for the next confirms that the current one is processed, and takes its messages out of the queue. Numbers of parts are
never used twice. When the lease of a part ends, the part is over and its messages are free for others; a reader that
still processes it gets an error, and the next part has the next number. A claim without a part holds nothing and has no
lease; it is remembered until there are too many.
"""

from dataclasses import replace
from typing import Final

from msgspec import UNSET

from waypost.api.bulk import Claim, Claimed, ClaimObject
from waypost.clock import Now
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import Queue, QueueAttributes
from waypost.core.serialization import size_in_bytes
from waypost.core.transaction_records import Run
from waypost.errors import InvalidParameter, LimitReached, SharingViolation, TransactionSequence, WaypostError
from waypost.guid import guid_text
from waypost.limits import MAX_BULK_LEASE_SECONDS, MAX_BULK_NAME, MAX_CLAIMED, MAX_CLAIMS
from waypost.node.epochs import epoch_of
from waypost.node.kernel import Kernel
from waypost.store import keys
from waypost.store.bulk_records import ClaimRecord
from waypost.store.port import Table
from waypost.wire.path_names import QueueKind

POISON: Final = "poison"

# MS-MQRR 2.2.5.3: the largest AbortCount of a message.
MAX_ABORT_COUNT: Final = 0xFFFF_FFFF

# The number of the queue, and the name of the claim.
Key = tuple[int, str]


class Claims:
    """The claims of one node."""

    __slots__ = ("_claims", "_kernel", "_manager", "_timers")

    def __init__(self, kernel: Kernel, manager: QueueManager, kept: dict[Key, ClaimRecord], now: Now) -> None:
        """`kept` are the claims of the store; their leases begin again."""
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._claims: Final = kept
        self._timers: Final = kernel.timers
        for key, claim in kept.items():
            if claim.spans:
                self._start_lease(key, claim, now)

    # Calls for a reader, while an operation of the node is under way.

    def claim(self, queue: Queue, wish: Claim, now: Now) -> Claimed:
        """Give the next part. The same request has the same answer, until the next part is asked for.

        Raises SharingViolation if no part is held, and a reader has the queue exclusively; processed messages go.
        """
        key = queue.number, wish.claim
        claim = self._claims.pop(key, None) or self._begun(wish)
        self._claims[key] = claim
        _check_after(claim, wish)
        before = replace(claim)
        if wish.max_messages:
            claim.lease_s = min(wish.lease_s, MAX_BULK_LEASE_SECONDS)
            claim.max_aborts = min(wish.max_aborts, MAX_ABORT_COUNT)
        if claim.spans and wish.after == claim.given:
            self._settle(key, claim, now)
        wants_more = wish.max_messages > 0 and not claim.spans
        if wants_more and not queue.deniers:
            self._take(key, claim, queue, wish)
        if not claim.given:
            # A repeated first request begins again.
            del self._claims[key]
        elif claim != before:
            self._write(key, claim)
        if wants_more and queue.deniers:
            raise SharingViolation(f"a reader has {queue} open exclusively; close the queue there first")
        epoch = guid_text(epoch_of(queue))
        if not claim.spans:
            return Claimed(number=claim.settled, count=0, bytes=0, epoch=epoch)
        self._start_lease(key, claim, now)
        return Claimed(number=claim.given, count=claim.count, bytes=claim.size, epoch=epoch)

    def part(self, queue: Queue, name: str, number: int, now: Now) -> Run:
        """The messages of a part, in the order of arrival. Its lease begins again.

        Raises TransactionSequence if the part does not exist, or has ended.
        """
        key = queue.number, name
        claim = self._claims.get(key)
        if claim is None:
            raise _unknown(name)
        if not claim.spans or number != claim.given:
            raise _over(name, claim, number)
        self._start_lease(key, claim, now)
        # Without express messages, which a restart loses.
        (run,) = self._manager.lasting.collection[keys.claim_key(*key)]
        return run

    def give_back(self, queue: Queue, name: str, now: Now) -> int:
        """End a part as the end of its lease does. Returns the number of messages that are free for others again."""
        return self._give_back((queue.number, name), now)

    def held(self, queue: Queue, now: Now) -> list[ClaimObject]:
        """The parts that readers of a queue hold."""
        return [
            ClaimObject(claim=key[1], number=claim.given, count=claim.count, lease_left_s=self._lease_left(key, now))
            for key, claim in self._claims.items()
            if key[0] == queue.number and claim.spans
        ]

    def holder(self, identifier: bytes, now: Now) -> tuple[str, float] | None:
        """The claim that this lasting transaction is a part of, and the seconds that its lease has left."""
        for key in self._claims:
            if keys.claim_key(*key) == identifier:
                return key[1], self._lease_left(key, now)
        return None

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
        self._give_back(key, now)

    def _lease_left(self, key: Key, now: Now) -> float:
        """Seconds."""
        return max((self._timers.deadline((Claims, key)) or 0.0) - now.monotonic, 0.0)

    def _begun(self, wish: Claim) -> ClaimRecord:
        if not 0 < len(wish.claim.encode("utf-8", "surrogatepass")) <= MAX_BULK_NAME:
            raise InvalidParameter(f"the name of a claim must have 1 to {MAX_BULK_NAME} bytes: use a GUID, for example")
        if wish.after:
            raise _unknown(wish.claim)
        if len(self._claims) >= MAX_CLAIMS:
            idle = next((key for key, claim in self._claims.items() if not claim.spans), None)
            if idle is None:
                raise LimitReached(f"the limit of {MAX_CLAIMS} claims is reached; return those that are not needed")
            self._forget(idle)
        return ClaimRecord(wish.lease_s)

    def _take(self, key: Key, claim: ClaimRecord, queue: Queue, wish: Claim) -> None:
        count = min(wish.max_messages, MAX_CLAIMED)
        if wish.max_bytes is not UNSET and queue.total_bytes:
            count = min(count, max(wish.max_bytes * len(queue.positions) // queue.total_bytes, 1))
        lookup_ids = queue.positions.first_arrived(count)
        if lookup_ids:
            run, messages = self._manager.lasting.claim(keys.claim_key(*key), queue, lookup_ids)
            claim.given += 1
            claim.size = sum(map(size_in_bytes, messages))
            claim.spans = run.spans

    def _settle(self, key: Key, claim: ClaimRecord, now: Now) -> None:
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
        assert not claim.spans or claim.settled < claim.given, f"part {claim.given} of {key} is processed and held"
        self._kernel.messages.batch.put(Table.BULK, keys.claim_key(*key), claim.encode())

    def _forget(self, key: Key) -> None:
        del self._claims[key]
        self._kernel.messages.batch.delete(Table.BULK, keys.claim_key(*key))


def _check_after(claim: ClaimRecord, wish: Claim) -> None:
    """Raises TransactionSequence if the reader and the claim disagree about the last part."""
    if wish.after == claim.settled or (claim.spans and wish.after == claim.given):
        return
    if wish.after < claim.settled:
        raise TransactionSequence(
            f"the parts of the claim {wish.claim} up to number {claim.settled} are processed and gone, so it cannot "
            f"continue after number {wish.after}; begin another claim"
        )
    raise _over(wish.claim, claim, wish.after)


def _over(name: str, claim: ClaimRecord, number: int) -> WaypostError:
    if number > claim.given:
        return TransactionSequence(f"the claim {name} has no part {number}; the last one is {claim.given}")
    if number <= claim.settled:
        return TransactionSequence(f"part {number} of the claim {name} is processed, and its messages are removed")
    return TransactionSequence(
        f"part {number} of the claim {name} has ended: it was returned, or not used for {claim.lease_s:g} s; "
        "its messages are in the queue again"
    )


def _unknown(name: str) -> WaypostError:
    return TransactionSequence(
        f"this queue has no claim {name}: it was never begun, or it was unused for long, and its messages are in the "
        "queue again; begin another claim"
    )
