"""Mistakes in the bulk interface, for simulations in which somebody uses it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

from msgspec.structs import replace as changed

from tests.sim.mutants.planting import Mutant, instead, nothing
from waypost.api.bulk import MessagesToRemove
from waypost.api.claims import Claim, Claimed
from waypost.clock import Now
from waypost.core.lasting_transactions import LastingTransactions
from waypost.core.message import Message
from waypost.core.positions import SEQUENCE_MASK, PositionState
from waypost.core.queues import Queue
from waypost.core.ranges import Arrivals
from waypost.node import bulk, claims, committed_batches, removals, stages
from waypost.node.bulk import BulkReadingCalls
from waypost.node.claims import Claims
from waypost.node.committed_batches import CommittedBatches, Key
from waypost.node.kernel import Kernel
from waypost.node.removals import Removals
from waypost.node.staged_delivery import StagedDelivery
from waypost.node.stages import Stages
from waypost.node.stored_messages import StoredMessages
from waypost.store import keys
from waypost.store.bulk_records import ClaimRecord, StageRecord
from waypost.store.port import Batch, Table


def _remembered_apart(seal: Any) -> Callable[[StoredMessages], tuple[Batch, int]]:
    """That a batch is done is written with the next batch of the store, whichever that is."""
    late: list[tuple[StoredMessages, Any]] = []

    def torn(messages: StoredMessages) -> tuple[Batch, int]:
        operations = messages.batch.operations
        due = [operation for owner, operation in late if owner is messages]
        late[:] = [(messages, each) for each in operations if each[1] is Table.BULK and keys.is_done(each[2])]
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


def _stable_is_the_last(_stable: Any) -> Callable[..., int]:
    def hasty(reading: BulkReadingCalls, *_: object, **__: object) -> int:
        return reading._node.manager.positions.sequential_id

    return hasty


def _stable_ignores_uncommitted(stable: Any) -> Callable[..., int]:
    def hasty(reading: BulkReadingCalls, queue: Queue, uncommitted: Sequence[range], *, skips_locked: bool) -> int:
        if skips_locked:
            end: int = stable(reading, queue, uncommitted, skips_locked=skips_locked)
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


def _sizes_alike(_fitting: Any) -> Callable[..., int]:
    def careless(arrivals: Arrivals, after: int, up_to: int, max_bytes: int, typical: int) -> int:
        return arrivals.nth(after, up_to, max(min(max_bytes // typical, arrivals.count(after, up_to)), 1))

    return careless


def _repetition_is_progress(claim: Any) -> Callable[[Claims, Queue, Claim, Now], Claimed]:
    def forgetful(claims: Claims, queue: Queue, wish: Claim, now: Now) -> Claimed:
        known = claims._claims.get((queue.number, wish.claim))
        if known is not None and known.spans and wish.after == known.settled:
            wish = changed(wish, after=known.given)
        claimed: Claimed = claim(claims, queue, wish, now)
        return claimed

    return forgetful


def _first_stage_only(commit: Any) -> Callable[..., Any]:
    def hasty(of: Stages, key: Key, identifiers: Sequence[bytes], now: Now) -> Any:
        return commit(of, key, identifiers[:1], now)

    return hasty


def _in_the_order_of_staging(commit: Any) -> Callable[..., Any]:
    def unsorted(delivery: StagedDelivery, key: Key, stages: Sequence[tuple[bytes, StageRecord]], now: Now) -> Any:
        return commit(delivery, key, sorted(stages, key=lambda each: each[1].number), now)

    return unsorted


def _full_queues_take_all(_has_room: Any) -> Callable[..., bool]:
    return lambda *_: True


def _all_fit(_fitting: Any) -> Callable[..., list[Any]]:
    return lambda _delivery, _queue, messages: messages


def _writes_not_counted(_ordinal: Any) -> Callable[..., int]:
    return lambda *_: 0


def _removes_only(_commit: Any) -> Callable[..., Any]:
    def careless(stages: Stages, key: Key, identifiers: Sequence[bytes], now: Now) -> Any:
        count = sum(stages._stages[identifier].count for identifier in identifiers)
        stages.drop(identifiers)
        return count, stages.delivery.commit(key, [], now)

    return careless


def _what_is_left(_of_queue: Any) -> Callable[[Removals, MessagesToRemove], tuple[Queue, list[Message]]]:
    def lenient(taken: Removals, given: MessagesToRemove) -> tuple[Queue, list[Message]]:
        queue = bulk.find_target(taken.node, given.queue, given.epoch)
        there = [each for each in given.lookup_ids if queue.positions.state(each) is PositionState.AVAILABLE]
        return queue, taken.node.manager.positions.find_all(queue, there)

    return lenient


def _removes_nothing(_find: Any) -> Callable[[Removals], list[tuple[Queue, list[Message]]]]:
    def forgetful(_removals: Removals) -> list[tuple[Queue, list[Message]]]:
        return []

    return forgetful


def _key_without_destination(key: Any) -> Callable[[Stages, stages.Batch], Key]:
    def short(of: Stages, batch: stages.Batch) -> Key:
        found: Key = key(of, batch)
        return replace(found, destination=None)

    return short


def _nothing_held(_held_back: Any) -> Callable[..., tuple[str, int]]:
    return lambda *_: ("", 0)


def _epoch_of_the_name(_epoch_of: Any) -> Callable[[Queue], bytes]:
    return lambda queue: blake2b(f"{queue.pathname} {queue.is_journal}".encode(), digest_size=16).digest()


def _old_terms_accepted(_check_term: Any) -> Callable[[str, ClaimRecord, int], None]:
    return lambda *_: None


def _given_back_though_committed(_lease_ended: Any) -> Callable[[Claims, tuple[int, str], Now], None]:
    def careless(claims: Claims, key: tuple[int, str], now: Now) -> None:
        claims._give_back(key, now)

    return careless


def _everybody_leads(claim: Any) -> Callable[[Claims, Queue, Claim, Now], Claimed]:
    def greedy(claims: Claims, queue: Queue, wish: Claim, now: Now) -> Claimed:
        known = claims._claims.get((queue.number, wish.claim))
        if known is not None and known.leader:
            known.leader = wish.reader
        claimed: Claimed = claim(claims, queue, wish, now)
        return claimed

    return greedy


BULK_MUTANTS: Final = (
    Mutant("batch-not-remembered", "forgets that a batch is committed", instead(CommittedBatches, "remember", nothing)),
    Mutant(
        "batch-remembered-apart",
        "writes that a batch is committed after its messages",
        instead(StoredMessages, "seal", _remembered_apart),
    ),
    Mutant(
        "old-terms-accepted",
        "lets an earlier start of a reader go on beside a later one",
        instead(claims, "_check_term", _old_terms_accepted),
    ),
    Mutant(
        "given-back-though-committed",
        "gives messages back whose batch is committed",
        instead(Claims, "_lease_ended", _given_back_though_committed),
    ),
    Mutant(
        "lost-runs-write", "writes what a run commits that has lost its claim", instead(Claims, "check_writer", nothing)
    ),
    Mutant("every-reader-leads", "gives messages to any reader of a start", instead(Claims, "claim", _everybody_leads)),
    Mutant("heartbeats-ignored", "lets a lease end that is kept", instead(Claims, "keep", nothing)),
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
        "delivery-ends-with-the-process",
        "forgets in a restart what it has not delivered of a commit",
        instead(StagedDelivery, "restore", nothing),
    ),
    Mutant(
        "delivery-in-the-order-of-staging",
        "does not put partitions in their order",
        instead(StagedDelivery, "commit", _in_the_order_of_staging),
    ),
    Mutant(
        "delivery-into-a-full-queue",
        "puts committed messages into a queue that has no room",
        (*instead(StagedDelivery, "_has_room", _full_queues_take_all), *instead(StagedDelivery, "_fitting", _all_fit)),
    ),
    Mutant(
        "delivery-that-waits-on",
        "does not go on with a delivery when there is room",
        instead(StagedDelivery, "look_for_room", nothing),
    ),
    Mutant(
        "writes-not-counted",
        "takes the second write of a batch for the first one",
        instead(committed_batches, "_ordinal", _writes_not_counted),
    ),
    Mutant(
        "repeated-write-not-counted",
        "takes the second write that a run repeats for the first one",
        instead(CommittedBatches, "pass_by", nothing),
    ),
    Mutant(
        "commit-of-the-first-stage",
        "commits one of several stages",
        instead(Stages, "_commit", _first_stage_only),
    ),
    Mutant(
        "commit-removes-only",
        "removes messages with a commit that does not show the staged ones",
        instead(Stages, "_commit", _removes_only),
    ),
    Mutant(
        "commit-removes-nothing",
        "commits stages and leaves the messages that they replace",
        instead(Removals, "find", _removes_nothing),
    ),
    Mutant(
        "commit-removes-what-is-left",
        "commits stages though another has taken messages that they replace",
        (*instead(Removals, "_of_queue", _what_is_left), *instead(removals, "_check_once", nothing)),
    ),
    Mutant(
        "commit-into-a-recreated-queue",
        "commits what is left of stages when a queue was deleted or created again",
        instead(Stages, "_check_whole", nothing),
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
        "takes a second commit of a batch with different contents for a repetition",
        instead(stages, "check_repeats", nothing),
    ),
    Mutant(
        "dropped-stage-stays",
        "leaves the messages of a stage that is dropped",
        instead(StagedDelivery, "forget", nothing),
    ),
    Mutant(
        "stable-is-the-last",
        "takes the last number for stable, whatever is held",
        instead(BulkReadingCalls, "_stable", _stable_is_the_last),
    ),
    Mutant(
        "stable-ignores-uncommitted",
        "takes numbers for stable below which something is not committed",
        instead(BulkReadingCalls, "_stable", _stable_ignores_uncommitted),
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
    Mutant("sizes-alike", "bounds plans by the average size", instead(Arrivals, "fitting", _sizes_alike)),
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
