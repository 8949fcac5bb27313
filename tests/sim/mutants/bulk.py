"""Mistakes in the bulk interface, for simulations in which somebody uses it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace as changed

from tests.sim.mutants.planting import Mutant, instead, nothing
from waypost.api.bulk import Claim, Claimed, PlanRange
from waypost.clock import Now
from waypost.core.lasting_transactions import LastingTransactions
from waypost.core.positions import SEQUENCE_MASK
from waypost.core.queues import Queue
from waypost.core.ranges import Arrivals
from waypost.core.transaction_records import OperationType, Run
from waypost.node import bulk, claims, stages
from waypost.node.bulk import BulkReadingCalls
from waypost.node.claims import Claims
from waypost.node.committed_batches import CommittedBatches, Key
from waypost.node.kernel import Kernel
from waypost.node.stages import Stages
from waypost.node.stored_messages import StoredMessages
from waypost.store import keys
from waypost.store.port import Batch, Table


def _remembered_apart(seal: Any) -> Callable[[StoredMessages], tuple[Batch, int]]:
    """That a batch is done is written with the next batch of the store, whichever that is."""
    late: list[tuple[StoredMessages, Any]] = []

    def torn(messages: StoredMessages) -> tuple[Batch, int]:
        operations = messages.batch.operations
        due = [operation for owner, operation in late if owner is messages]
        late[:] = [
            (messages, each) for each in operations if each[1] is Table.BULK and keys.committing_query_of(each[2])
        ]
        operations[:] = [*due, *(each for each in operations if (messages, each) not in late)]
        sealed: tuple[Batch, int] = seal(messages)
        return sealed

    return torn


def _aborts_not_raised(_original: Any) -> Callable[..., set[int]]:
    return lambda *_: set()


def _settle_leaves_one(settle: Any) -> Callable[..., None]:
    def forgetful(claims: Claims, key: tuple[int, str], *rest: object) -> None:
        (run,) = claims._manager.lasting.collection[keys.claim_key(*key)]
        run.spans = [*run.spans[:-1], *([run.spans[-1][:-1]] if run.spans and len(run.spans[-1]) > 1 else [])]
        settle(claims, key, *rest)

    return forgetful


def _staged_seen_after_restart(restore: Any) -> Callable[[LastingTransactions, bytes, list[Run]], None]:
    def careless(lasting: LastingTransactions, identifier: bytes, runs: list[Run]) -> None:
        if any(run.operation_type is OperationType.ENQUEUE for run in runs):
            lasting.collection[identifier] = runs
        else:
            restore(lasting, identifier, runs)

    return careless


def _stable_is_the_last(_up_to: Any) -> Callable[..., int]:
    def hasty(reading: BulkReadingCalls, queue: Queue, wanted: PlanRange, *_: object) -> int:
        return reading._node.manager.positions.sequential_id if wanted.up_to is UNSET else wanted.up_to

    return hasty


def _stable_ignores_uncommitted(up_to: Any) -> Callable[..., int]:
    def hasty(reading: BulkReadingCalls, queue: Queue, wanted: PlanRange, uncommitted: Sequence[range]) -> int:
        if wanted.up_to is not UNSET or wanted.locked == "skip":
            end: int = up_to(reading, queue, wanted, uncommitted)
            return end
        sent = reading._node.manager.transactions.sends_to(queue)
        locked = [each & SEQUENCE_MASK for each in queue.positions.held if not any(each in span for span in sent)]
        return min(locked, default=reading._node.manager.positions.sequential_id + 1) - 1

    return hasty


def _uncommitted_seen(seen: Any) -> Callable[..., Arrivals]:
    def careless(queue: Queue, _uncommitted: object, *, skips_locked: bool) -> Arrivals:
        arrivals: Arrivals = seen(queue, (), skips_locked=skips_locked)
        return arrivals

    return careless


def _locked_not_skipped(seen: Any) -> Callable[..., Arrivals]:
    def greedy(queue: Queue, uncommitted: object, *, skips_locked: bool) -> Arrivals:
        arrivals: Arrivals = seen(queue, uncommitted, skips_locked=False)
        return arrivals

    return greedy


def _removed_counted(count: Any) -> Callable[[Arrivals, int, int], int]:
    def careless(arrivals: Arrivals, after: int, up_to: int) -> int:
        return sum(after < number <= up_to for band in arrivals._bands for number in band.ids)

    return careless


def _repetition_is_progress(claim: Any) -> Callable[[Claims, Queue, Claim, Now], Claimed]:
    def forgetful(claims: Claims, queue: Queue, wish: Claim, now: Now) -> Claimed:
        known = claims._claims.get((queue.number, wish.claim))
        if known is not None and known.spans and wish.after == known.settled:
            wish = changed(wish, after=known.given)
        claimed: Claimed = claim(claims, queue, wish, now)
        return claimed

    return forgetful


def _first_stage_only(commit: Any) -> Callable[[Stages, Sequence[bytes], Now], int]:
    def hasty(stages: Stages, identifiers: Sequence[bytes], now: Now) -> int:
        count: int = commit(stages, identifiers[:1], now)
        return count

    return hasty


def _deleted_left_out(commit: Any) -> Callable[[LastingTransactions, Sequence[bytes], float], None]:
    def careless(lasting: LastingTransactions, identifiers: Sequence[bytes], wall: float) -> None:
        for identifier in identifiers:
            runs = lasting.collection[identifier]
            lasting.collection[identifier] = [run for run in runs if not run.queue.is_deleted]
        commit(lasting, identifiers, wall)

    return careless


def _key_without_destination(key: Any) -> Callable[[Stages, stages.Batch], Key]:
    def short(of: Stages, batch: stages.Batch) -> Key:
        found: Key = key(of, batch)
        return replace(found, destination=None)

    return short


def _nothing_held(_held_back: Any) -> Callable[..., tuple[str, int]]:
    return lambda *_: ("", 0)


def _drop_leaves_messages(_drop: Any) -> Callable[[LastingTransactions, bytes], None]:
    def careless(lasting: LastingTransactions, identifier: bytes) -> None:
        lasting.collection.pop(identifier)

    return careless


def _epoch_of_the_name(_epoch_of: Any) -> Callable[[Queue], bytes]:
    return lambda queue: blake2b(f"{queue.pathname} {queue.is_journal}".encode(), digest_size=16).digest()


BULK_MUTANTS: Final = (
    Mutant("batch-not-remembered", "forgets that a batch is committed", instead(CommittedBatches, "remember", nothing)),
    Mutant(
        "batch-remembered-apart",
        "writes that a batch is committed after its messages",
        instead(StoredMessages, "seal", _remembered_apart),
    ),
    Mutant("claim-not-written", "forgets in a restart what is claimed", instead(Claims, "_write", nothing)),
    Mutant(
        "claim-aborts-not-raised",
        "does not count how often messages came back from a claim",
        instead(LastingTransactions, "_attempts_failed", _aborts_not_raised),
    ),
    Mutant(
        "settle-leaves-one",
        "leaves a message of a part that is processed",
        instead(Claims, "_settle", _settle_leaves_one),
    ),
    Mutant(
        "repetition-is-progress",
        "takes the repetition of a claim for the next question",
        instead(Claims, "claim", _repetition_is_progress),
    ),
    Mutant(
        "lease-never-ends",
        "keeps what nobody uses any more",
        (*instead(Claims, "_lease_ended", nothing), *instead(Stages, "_lease_ended", nothing)),
    ),
    Mutant("poison-stays", "lets messages come back without end", instead(Claims, "_poison_queue", nothing)),
    Mutant(
        "claims-of-no-queue",
        "remembers claims on queues that are deleted",
        instead(Claims, "forget", nothing),
        is_slow=True,
    ),
    Mutant(
        "staged-seen-after-restart",
        "shows after a restart what is not committed",
        instead(LastingTransactions, "restore", _staged_seen_after_restart),
    ),
    Mutant(
        "commit-of-the-first-stage",
        "commits one of several stages",
        instead(Stages, "_commit", _first_stage_only),
    ),
    Mutant(
        "commit-into-a-recreated-queue",
        "commits what is left of stages when a queue was deleted or created again",
        (
            *instead(Stages, "_check_whole", nothing),
            *instead(LastingTransactions, "commit", _deleted_left_out),
        ),
    ),
    Mutant(
        "orphan-stage-stays",
        "leaves stages of a batch that is committed, which hide what comes later",
        instead(Stages, "_drop_all", nothing),
    ),
    Mutant(
        "commit-without-destination",
        "takes a batch for done that was written to another destination",
        instead(Stages, "_key", _key_without_destination),
    ),
    Mutant(
        "second-write-dropped",
        "takes a second write of a batch for a repetition",
        instead(stages, "check_repeats", nothing),
    ),
    Mutant(
        "dropped-stage-stays",
        "leaves the messages of a stage that is dropped",
        instead(LastingTransactions, "drop", _drop_leaves_messages),
    ),
    Mutant(
        "stable-is-the-last",
        "takes the last number for stable, whatever is held",
        instead(BulkReadingCalls, "_up_to", _stable_is_the_last),
    ),
    Mutant(
        "stable-ignores-uncommitted",
        "takes numbers for stable below which something is not committed",
        instead(BulkReadingCalls, "_up_to", _stable_ignores_uncommitted),
    ),
    Mutant(
        "uncommitted-in-ranges",
        "shows in ranges what no transaction has committed",
        instead(bulk, "_seen", _uncommitted_seen),
    ),
    Mutant(
        "locked-not-skipped",
        "removes and shows what others hold",
        instead(bulk, "_seen", _locked_not_skipped),
    ),
    Mutant(
        "short-read-in-silence",
        "does not say what holds messages back from readers",
        instead(BulkReadingCalls, "_held_back", _nothing_held),
    ),
    Mutant("removed-in-plans", "counts messages that are gone", instead(Arrivals, "count", _removed_counted)),
    Mutant(
        "bulk-answers-early",
        "answers before that is durable on which the answer rests",
        instead(Kernel, "await_everything", nothing),
    ),
    Mutant(
        "epoch-of-the-name",
        "does not tell a queue from one that had its name before",
        (*instead(bulk, "epoch_of", _epoch_of_the_name), *instead(claims, "epoch_of", _epoch_of_the_name)),
        is_slow=True,
    ),
)
