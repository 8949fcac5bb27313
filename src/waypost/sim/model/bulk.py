"""The bulk interface in the model: the operations of waypost.api.bulk by the types of their records.

Every answer depends on all that was done before it. Claims are in waypost.sim.model.claims, stages in
waypost.sim.model.stages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from waypost.api.bulk import (
    BatchOfQuery,
    BulkQueue,
    CommitStages,
    DropStages,
    FindSeq,
    ListBatches,
    Locked,
    PlannedRange,
    PlanRange,
    ReadRange,
    Removed,
    RemoveRange,
    SeqAt,
    ShowBulkQueue,
    Stage,
)
from waypost.api.claims import (
    Claim,
    Claimed,
    ClaimObject,
    KeepClaim,
    ListAllClaims,
    ListClaims,
    ReadClaim,
    ReturnClaim,
    Returned,
    TakeClaim,
)
from waypost.api.frames import Frame
from waypost.clock import Now
from waypost.core.queues import AccessType, ShareMode
from waypost.guid import guid_text, parse_guid
from waypost.hresult import HResult
from waypost.node.committed_batches import digest_of
from waypost.node.kernel import Call
from waypost.node.removals import digest_of_removals
from waypost.sim.bulk.arguments import PlannedBatch
from waypost.sim.local.arguments import format_name, key_of
from waypost.sim.model.claims import ModelClaims
from waypost.sim.model.disk import SavedClaim, SavedLostRun, SavedStage
from waypost.sim.model.records import SEQUENCE, Answer, ModelMessage, ModelQueue, Refused, State
from waypost.sim.model.rows import check_rows, row_of
from waypost.sim.model.stages import ModelStages
from waypost.sim.model.state import ModelState
from waypost.sim.model.transactions import ModelTransactions
from waypost.sim.swarm import BulkLimits
from waypost.sim.violation import Violation
from waypost.wire.message_class import MessageClass

if TYPE_CHECKING:
    from waypost.sim.operations import Asked


PlanKey: TypeAlias = tuple[int, int, tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Openings:
    """The functions of the model that bulk operations use: find a queue to open, check that the disk can write, and
    that it has room for new messages. These raise Refused. The last handles a message that does not enter its queue.
    """

    queue: Callable[[str, AccessType], ModelQueue]
    check_store: Callable[[], None]
    check_room: Callable[[], None]
    rejected: Callable[[ModelMessage, MessageClass], None]


@dataclass(slots=True)
class Known:
    """State that outlives the process and is not on the disk.

    The limits, the epoch of each queue as clients know it, and the last GUID that the engine was given.
    """

    limits: BulkLimits
    last_guid: bytes = b""
    epochs: dict[str, int] = field(default_factory=dict)
    # By queue, `as_of`, `fresh` and `after` of a plan: the messages of the queue then, and how often they were moved.
    planned: dict[PlanKey, frozenset[tuple[int, int]]] = field(default_factory=dict)

    def check_epoch(self, queue: int, epoch: str) -> None:
        if self.epochs.setdefault(epoch, queue) != queue or list(self.epochs.values()).count(queue) > 1:
            raise Violation(
                f"the epoch of the queue {queue} is {epoch}, "
                "but the queue had another epoch before, or another queue has this epoch"
            )


class Bulk:
    def __init__(self, state: ModelState, transactions: ModelTransactions, openings: Openings, known: Known) -> None:
        self._state: Final = state
        self._openings: Final = openings
        self._known: Final = known
        self.claims: Final = ModelClaims(state, transactions, known.limits.claims)
        self.stages: Final = ModelStages(state, known.limits, openings.queue, openings.rejected)

        self.handlers: Final[dict[type[Asked], Callable[[Call, Any], None]]] = {
            ShowBulkQueue: self._show_bulk_queue,
            PlanRange: self._plan_range,
            ReadRange: self._read_range,
            FindSeq: self._find_seq,
            RemoveRange: self._remove_range,
            Claim: self._claim,
            TakeClaim: self._take_claim,
            KeepClaim: self._keep_claim,
            ReadClaim: self._read_claim,
            ReturnClaim: self._return_claim,
            ListClaims: self._list_claims,
            ListAllClaims: self._list_all_claims,
            Stage: self._stage,
            DropStages: self._drop_stages,
            CommitStages: self._commit_stages,
            ListBatches: self._list_batches,
        }

    def restore(self) -> None:
        """Restore the claims and stages on the disk, which hold their messages again."""
        for key, saved in sorted(self._state.disk.bulk.items(), key=lambda each: (each[0].queue, str(each[0].name))):
            if isinstance(saved, SavedClaim):
                self.claims.restore(key, saved)
            elif isinstance(saved, SavedStage):
                self.stages.restore(key, saved)
            elif isinstance(saved, SavedLostRun):
                self.claims.restore_lost_run(key)
            else:
                self.stages.restore_batches(key, saved)
        self.stages.restored()

    def tick(self, now: Now) -> None:
        self.claims.tick(now)
        self.stages.tick(now)

    @property
    def next_deadline(self) -> float | None:
        deadlines = self.claims.next_deadline, self.stages.next_deadline
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def queue_deleted(self, queue: ModelQueue) -> None:
        self.claims.forget(queue)

    # Ranges.

    def _show_bulk_queue(self, call: Call, wanted: ShowBulkQueue) -> None:
        queue = self._queue(wanted.name)
        numbers = _numbers(queue.present())
        held = [message for message in queue.present() if message.state is not State.AVAILABLE]
        due = numbers[:1], numbers[-1:], self._end_before(held), self._end_before(_uncommitted(queue)), len(held)
        behind = sum(not message.is_uncertain and message.lookup_id & SEQUENCE > due[2] for message in queue.present())
        if held:
            self._state.marks.sometimes("a stable number held back by locked or uncommitted messages")
        if held and behind:
            self._state.marks.sometimes("an answer that reports why messages are held back")

        def check(state: BulkQueue) -> None:
            self._known.check_epoch(queue.number, state.epoch)
            ends = [state.first][: state.first], [state.last][: state.last]
            found = *ends, state.stable, state.committed, state.held
            if found != due or state.format_name != str(format_name(queue.key)):
                raise Violation(f"{queue.key}: expected the state {due}, but found {found}")
            if state.behind != behind or bool(state.held_by) != bool(behind):
                raise Violation(
                    f"the queue {queue.key} reports {state.behind} messages after its stable number, "
                    f"but the correct count is {behind}"
                )

        self._answer(call, check, max(due[2], due[3]))

    def _plan_range(self, call: Call, wanted: PlanRange) -> None:
        queue = self._queue(wanted.name, wanted.epoch)
        held = [message for message in queue.present() if message.state is not State.AVAILABLE]
        stable = self._end_before(_uncommitted(queue) if wanted.locked == "skip" else held)
        up_to = stable if wanted.up_to is UNSET else wanted.up_to
        numbers = _numbers(_seen(queue, wanted.after, up_to, wanted.locked))
        limits = [len(numbers)]
        if wanted.max_messages is not UNSET:
            limits.append(wanted.max_messages)
        sizes = {each.lookup_id & SEQUENCE: each.size for each in queue.present()}
        if wanted.max_bytes is not UNSET:
            ends = accumulate(sizes[number] for number in numbers)
            limits.append(max(sum(end <= wanted.max_bytes for end in ends), 1))
        planned = numbers[: min(limits)]
        rest = _numbers(_seen(queue, max((wanted.after, *planned)), max(stable, up_to), wanted.locked))
        there = frozenset((each.lookup_id, each.move_count) for each in queue.present())

        def check(plan: PlannedRange) -> None:
            self._known.check_epoch(queue.number, plan.epoch)
            self._known.planned[queue.number, plan.as_of, tuple(plan.fresh), wanted.after] = there
            _check_plan(plan, wanted, [(number, sizes[number]) for number in planned])
            found = plan.rest.count, plan.rest.bytes, plan.rest.last
            due = len(rest), sum(sizes[number] for number in rest), max(rest, default=0)
            if found != due:
                raise Violation(
                    f"{queue.key}: expected the messages, bytes and last number {due} after the planned range, "
                    f"but found {found}"
                )

        self._answer(call, check, max((*planned, *rest), default=0))

    def _read_range(self, call: Call, wanted: ReadRange) -> None:
        queue, up_to = self._queue(wanted.name, wanted.epoch), wanted.up_to
        rows = [row_of(message) for message in _seen(queue, wanted.after, up_to, wanted.locked)]

        def check(found: Frame) -> None:
            self._known.check_epoch(queue.number, guid_text(found.epoch))
            count = check_rows(f"the range up to {up_to} of {queue.key}", found, rows, wanted.max_bytes)
            if count < len(rows):
                self._state.marks.sometimes("a range that is read in several frames")
            if count > wanted.max_messages:
                raise Violation(f"expected at most {wanted.max_messages} messages of {queue.key}, but found {count}")
            end = up_to if count == len(rows) else rows[count - 1].lookup_id & SEQUENCE
            if (found.end, found.is_last) != (end, count == len(rows)):
                raise Violation(f"{queue.key}: the read up to {up_to} must end at {end}, but ended at {found.end}")

        self._answer(call, check, max((row.lookup_id & SEQUENCE for row in rows), default=0))

    def _find_seq(self, call: Call, wanted: FindSeq) -> None:
        """Check a position by time: before all messages, after all, or anywhere between, as the clocks were."""
        queue, time = self._queue(wanted.name), wanted.time
        numbers = [0, *_numbers(_seen(queue, 0, SEQUENCE, "wait"))]
        due = numbers[:1] if time <= 0 else numbers[-1:] if time == float("inf") else numbers

        def check(found: SeqAt) -> None:
            if found.seq not in due:
                raise Violation(
                    f"{queue.key}: expected one of {due} as the last number before the time {time}, "
                    f"but found {found.seq}"
                )

        self._answer(call, check)

    def _remove_range(self, call: Call, wanted: RemoveRange) -> None:
        self._openings.check_store()
        queue = self._queue(wanted.name, wanted.epoch)
        if any(handle.share is ShareMode.DENY_RECEIVE for handle in queue.handles.values()):
            raise Refused(HResult.MQ_ERROR_SHARING_VIOLATION)
        limit = min(wanted.max_messages, self._known.limits.removed)
        free = _seen(queue, wanted.after, wanted.up_to, "skip")
        end = wanted.up_to if len(free) <= limit else free[limit - 1].lookup_id & SEQUENCE
        free, moved = free[:limit], []
        if wanted.as_of is not UNSET:
            there = self._known.planned[queue.number, wanted.as_of, tuple(wanted.fresh), wanted.after]
            moved = [each for each in free if (each.lookup_id, each.move_count) not in there]
        free = [message for message in free if message not in moved]
        for message in free:
            self._state.received(message)
        left = len(_seen(queue, wanted.after, wanted.up_to, "wait"))
        first_moved = min(_numbers(moved), default=0)
        due = Removed(len(free), left, first_moved, 0 if wanted.as_of is UNSET else end)
        if free:
            self._state.marks.sometimes("messages of a range that are removed")
        self._expect(call, due)

    # Claims.

    def _claim(self, call: Call, wish: Claim) -> None:
        self._openings.check_store()
        self._state.keep(self._openings.queue(key_of(wish.name), AccessType.PEEK))
        queue = self._queue(wish.name, wish.epoch)
        due = self.claims.claim(queue, wish, call.now)

        def check(found: Claimed) -> None:
            self._known.check_epoch(queue.number, found.epoch)
            if found != replace(due, epoch=found.epoch):
                raise Violation(f"the claim {wish.claim} on {queue.key}: expected {due}, but found {found}")

        self._answer(call, check)

    def _take_claim(self, call: Call, wish: TakeClaim) -> None:
        self._openings.check_store()
        self._state.keep(self._openings.queue(key_of(wish.name), AccessType.PEEK))
        self._expect(call, self.claims.take(self._queue(wish.name, wish.epoch), wish, call.now))

    def _keep_claim(self, call: Call, wish: KeepClaim) -> None:
        self.claims.keep(self._queue(wish.name, wish.epoch), wish, call.now)
        self._expect(call, None)

    def _read_claim(self, call: Call, wanted: ReadClaim) -> None:
        if wanted.query:
            self._openings.check_store()
        queue = self._queue(wanted.name, wanted.epoch)
        rows = self.claims.rows(queue, wanted, call.now)[wanted.start : wanted.stop]

        def check(found: Frame) -> None:
            self._known.check_epoch(queue.number, guid_text(found.epoch))
            count = check_rows(f"part {wanted.number} of the claim {wanted.claim}", found, rows, wanted.max_bytes)
            if (found.end, found.is_last) != (wanted.start + count, count == len(rows)):
                raise Violation(f"{wanted}: the answer reports the end {found.end}, but contains {count} messages")

        self._answer(call, check)

    def _return_claim(self, call: Call, wanted: ReturnClaim) -> None:
        self._openings.check_store()
        key = self._queue(wanted.name).number, wanted.claim
        self._expect(call, Returned(self.claims.end(key, call.now) if wanted.forget else self.claims.give_back(key)))

    def _list_claims(self, call: Call, wanted: ListClaims) -> None:
        due = self.claims.held(call.now, self._queue(wanted.name), idle=wanted.idle)
        self._answer(call, lambda found: _check_held(found.claims, due))

    def _list_all_claims(self, call: Call, wanted: ListAllClaims) -> None:
        due = self.claims.held(call.now, idle=wanted.idle)
        self._answer(call, lambda found: _check_held(found.claims, due))

    # Stages.

    def _stage(self, call: Call, wanted: Stage) -> None:
        self._openings.check_room()
        self._check_writer(wanted)
        self._expect(call, self.stages.stage(self._known.last_guid, wanted, call.now))

    def _drop_stages(self, call: Call, wanted: DropStages) -> None:
        self._openings.check_store()
        self.stages.drop([parse_guid(each) for each in wanted.stages])
        self._expect(call, None)

    def _commit_stages(self, call: Call, wanted: CommitStages) -> None:
        self._openings.check_store()
        identifiers = [parse_guid(each) for each in wanted.stages]
        digest = digest_of((*identifiers, *digest_of_removals(wanted.removes)))
        batch = PlannedBatch.of(wanted)
        self._check_writer(wanted)
        due = self.stages.commit(batch, identifiers, digest, lambda: self._taken(wanted))
        self.claims.committed(batch.query, batch.number, is_whole=wanted.is_whole)
        if wanted.within is not UNSET:
            self._state.marks.sometimes("a commit that also counts for the batch of another query")
            self.claims.committed(wanted.within.query, wanted.within.batch, is_whole=False)
        self._expect(call, due)

    def _check_writer(self, wanted: BatchOfQuery) -> None:
        self.claims.check_writer(wanted.query, PlannedBatch.of(wanted).run)
        if wanted.within is not UNSET:
            self.claims.check_writer(wanted.within.query, parse_guid(wanted.within.run))

    def _taken(self, wanted: CommitStages) -> list[ModelMessage]:
        """The messages that a commit removes. Raises Refused if one of them is gone or held."""
        if sum(len(each.lookup_ids) for each in wanted.removes) > self._known.limits.removed:
            raise Refused(HResult.MQ_ERROR_INVALID_PARAMETER)
        found: list[ModelMessage] = []
        for each in wanted.removes:
            queue = self._queue(each.queue, each.epoch)
            if any(handle.share is ShareMode.DENY_RECEIVE for handle in queue.handles.values()):
                raise Refused(HResult.MQ_ERROR_SHARING_VIOLATION)
            there = {message.lookup_id: message for message in queue.present()}
            for lookup_id in each.lookup_ids:
                if lookup_id not in there:
                    self._state.marks.sometimes("a commit that would remove a message that no longer exists")
                    raise Refused(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
                if there[lookup_id].state is not State.AVAILABLE:
                    self._state.marks.sometimes("a commit that would remove a locked message")
                    raise Refused(HResult.MQ_ERROR_SHARING_VIOLATION)
                found.append(there[lookup_id])
        return found

    def _list_batches(self, call: Call, wanted: ListBatches) -> None:
        self._expect(call, self.stages.batches_of(wanted.query))

    # Helpers.

    def _queue(self, name: str, epoch: str = "") -> ModelQueue:
        queue = self._state.queues.get(key_of(name))
        if queue is None or queue.is_provisional:
            raise Refused(HResult.MQ_ERROR_QUEUE_NOT_FOUND)
        if epoch and self._known.epochs[epoch] != queue.number:
            self._state.marks.sometimes("a bulk reader whose queue was deleted and created again")
            raise Refused(HResult.MQ_ERROR_QUEUE_DELETED)
        return queue

    def _end_before(self, messages: Sequence[ModelMessage]) -> int:
        return min(_numbers(messages), default=self._state.sequential_id + 1) - 1

    def _answer(self, call: Call, check: Callable[[Any], None], told: int = 0) -> None:
        self._state.answer(call.request, Answer(check=check, rests_on_all=True, told=told))

    def _expect(self, call: Call, due: object) -> None:
        def check(found: object) -> None:
            if found != due:
                raise Violation(f"request {call.request}: expected {due}, but found {found}")

        self._answer(call, check)


def _uncommitted(queue: ModelQueue) -> list[ModelMessage]:
    return [message for message in queue.present() if message.is_uncertain]


def _seen(queue: ModelQueue, after: int, up_to: int, locked: Locked) -> list[ModelMessage]:
    """The messages that a reader of a range gets, in the order of arrival."""
    messages = sorted(queue.present(), key=lambda message: message.lookup_id & SEQUENCE)
    return [
        message
        for message in messages
        if after < message.lookup_id & SEQUENCE <= up_to
        and not message.is_uncertain
        and (message.state is State.AVAILABLE or locked == "wait")
    ]


def _numbers(messages: "Sequence[ModelMessage] | Any") -> list[int]:
    return sorted(message.lookup_id & SEQUENCE for message in messages)


def _check_plan(plan: PlannedRange, wanted: PlanRange, planned: list[tuple[int, int]]) -> None:
    """Check that each planned message, a number and a size, is in one part, and that the parts keep their limits."""
    counts = plan.counts
    least = min(wanted.parts, len(planned))
    if sum(counts) != len(planned) or len(counts) < least or len(plan.bounds) != len(counts) + 1 or 0 in counts:
        raise Violation(
            f"expected a plan of {len(planned)} messages in {least} parts, but its parts have {counts} messages"
        )
    parts = [planned[sum(counts[:at]) : sum(counts[: at + 1])] for at in range(len(counts))]
    ends = [part[-1][0] for part in parts]
    if plan.bounds != [wanted.after, *ends]:
        raise Violation(
            f"the plan reports that its parts end at {plan.bounds[1:]}, but the messages of the parts end at {ends}"
        )
    sizes = [sum(size for _, size in part) for part in parts]
    if plan.sizes != sizes:
        raise Violation(f"the plan reports parts of {plan.sizes} bytes, but the parts contain {sizes} bytes")
    if wanted.part_bytes is UNSET:
        if len(counts) > least:
            raise Violation(f"expected a plan of {least} parts, but found {len(counts)} parts")
    elif any(size > wanted.part_bytes and count > 1 for size, count in zip(sizes, counts, strict=True)):
        raise Violation(f"expected parts of at most {wanted.part_bytes} bytes, but found parts of {sizes} bytes")


def _check_held(found: list[ClaimObject], due: list[ClaimObject]) -> None:
    rest = {"lease_left_s": 0.0, "unused_s": 0.0, "queue": "", "held_by": ""}
    names = [replace(each, **rest) for each in found]
    if names != [replace(each, **rest) for each in due]:
        raise Violation(f"expected the claims {due}, but found {names}")
    if [bool(each.held_by) for each in found] != [bool(each.held_by) for each in due]:
        raise Violation(f"expected the holders of the claims {due}, but found {found}")
    times = [
        abs(one - other)
        for one, other in zip(
            (time for each in found for time in (each.lease_left_s, each.unused_s)),
            (time for each in due for time in (each.lease_left_s, each.unused_s)),
            strict=True,
        )
    ]
    if any(difference > 1e-5 for difference in times):
        raise Violation(f"expected the leases of the claims {due}, but found the leases of {found}")
