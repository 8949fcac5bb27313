"""Delivery of committed stages: their messages enter the queues in order, one frame with every tick (ADR 37).

The commit is one small batch of the store, which says that the stages are committed and in which order. From then on
nothing can stop them: each frame enters its queues in one batch with the record of the progress, and a start goes on
where the last process ended. The first frames are delivered with the commit itself, so that a small commit is visible
in one moment.

A queue without room makes its delivery wait until readers have made some: an empty queue always takes the next message.
Later commits to the same queue wait behind it, others go on. A queue that was deleted meanwhile takes its messages
along, as if they had been in it.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import AccessType, OutgoingQueue, Queue, ShareMode
from waypost.core.source_journal import SourceJournal
from waypost.errors import RecordDamaged, WaypostError
from waypost.guid import guid_text
from waypost.limits import LOUD_MESSAGE, MAX_DELIVERED
from waypost.node import scans
from waypost.node.committed_batches import Key
from waypost.node.damaged_frames import DamagedFrames
from waypost.node.kernel import Kernel
from waypost.node.message_records import head_of, message_of
from waypost.store import keys
from waypost.store.bulk_records import FrameRecord, FrameRun, StageRecord
from waypost.store.port import Reader, Table
from waypost.wire.message_class import MessageClass

# Time until an outgoing queue is tried again that was refused.
_RETRY_S: Final = 1.0

_GUID_CHANGED: Final = MessageClass.MQMSG_CLASS_NACK_SOURCE_COMPUTER_GUID_CHANGED

# Called when all messages of a commit are in their queues.
Done = Callable[[], None]
# Handles a message that does not enter its queue, for the reason of the class.
Rejected = Callable[[Message, MessageClass, Now], None]


@dataclass(slots=True, eq=False)
class Commit:
    """A commit that is not wholly delivered: its stages in their order, and the queues that they go to.

    `left` counts the messages; all queues of other computers have the number 0.
    """

    number: int
    key: Key
    stages: list[tuple[bytes, StageRecord]]
    queues: frozenset[int]
    left: int
    # The first of the stages that has something left.
    at: int = 0
    # It waits until then (monotonic): its outgoing queue was refused.
    retry_at: float = 0.0
    # Requests that wait for the end, by any key.
    when_done: dict[Hashable, Done] = field(default_factory=dict)

    @property
    def next(self) -> tuple[bytes, StageRecord]:
        return self.stages[self.at]


class StagedDelivery:
    """The commits of one node that are not wholly delivered, in the order of the commits."""

    __slots__ = (
        *("_commits", "_frame", "_frames", "_journal", "_kernel", "_last", "_manager", "_reader", "_rejected"),
        "damaged",
    )

    def __init__(self, kernel: Kernel, manager: QueueManager, reader: Reader, rejected: Rejected) -> None:
        self._kernel: Final = kernel
        self._rejected: Final = rejected
        self._manager: Final = manager
        self._reader: Final = reader
        self._journal: Final = SourceJournal(manager.collection, manager.writing)
        self._commits: dict[int, Commit] = {}
        self._last = 0
        # Frames that are written and not durable, with their batches: the store does not show them yet.
        self._frames: dict[bytes, tuple[int, bytes]] = {}
        # The frame that was decoded last, with its key.
        self._frame: tuple[bytes, FrameRecord] | None = None
        self.damaged: Final = DamagedFrames(reader)

    def __bool__(self) -> bool:
        return bool(self._commits)

    @property
    def is_under_way(self) -> bool:
        """Whether the next tick delivers something."""
        return StagedDelivery in self._kernel.timers.works

    def restore(self, stages: Sequence[tuple[bytes, StageRecord]]) -> None:
        """Go on with stages that were committed before the start."""
        by_commit: dict[int, list[tuple[bytes, StageRecord]]] = {}
        for identifier, stage in sorted(stages, key=lambda each: (each[1].commit, each[1].place)):
            by_commit.setdefault(stage.commit, []).append((identifier, stage))
        for number, found in by_commit.items():
            self._add(number, Key(found[0][1].query, found[0][1].batch, found[0][1].destination), found)

    def keep(self, identifier: bytes, frames: Sequence[bytes]) -> None:
        """Write the frames of a stage."""
        messages, durable = self._kernel.messages, self._kernel.durable
        if self._frames:
            self._frames = {key: frame for key, frame in self._frames.items() if frame[0] > durable}
        for number, value in enumerate(frames):
            key = keys.frame_key(identifier, number)
            messages.batch.put(Table.BULK, key, value)
            self._frames[key] = messages.token, value

    def forget(self, identifier: bytes, stage: StageRecord) -> None:
        """Delete a stage with all frames that it has left."""
        batch = self._kernel.messages.batch
        batch.delete(Table.BULK, keys.stage_key(identifier))
        for number in range(stage.frames_done, stage.frames):
            key = keys.frame_key(identifier, number)
            self._frames.pop(key, None)
            batch.delete(Table.BULK, key)
        self._manager.positions.staged_bytes -= stage.size

    def commit(self, key: Key, stages: Sequence[tuple[bytes, StageRecord]], now: Now) -> Commit:
        """Commit stages in this order, and deliver the first messages. The rest follows, tick by tick."""
        self._last += 1
        commit = self._add(self._last, key, stages)
        for place, (_, stage) in enumerate(commit.stages):
            stage.commit, stage.place = commit.number, place
        self._deliver(commit, now)
        for identifier, stage in commit.stages[commit.at :]:
            self._kernel.messages.batch.put(Table.BULK, keys.stage_key(identifier), stage.encode())
        return commit

    def find(self, key: Key) -> Commit | None:
        """The last commit of this batch that is not wholly delivered."""
        found = [commit for commit in self._commits.values() if commit.key.matches(key)]
        return found[-1] if found else None

    def bound_for(self, queue: Queue) -> int:
        """Number of committed messages that wait to enter this queue or others of their commits."""
        return sum(commit.left for commit in self._commits.values() if queue.number in commit.queues)

    def look_for_room(self) -> None:
        """Let the next tick deliver something if a delivery can go on. Called at the end of every operation."""
        works = self._kernel.timers.works
        if self._next() is None:
            works.pop(StagedDelivery, None)
        else:
            self._kernel.timers.start_work(StagedDelivery, self._go_on)

    # Internals.

    def _add(self, number: int, key: Key, stages: Sequence[tuple[bytes, StageRecord]]) -> Commit:
        whole = []
        for identifier, stage in stages:
            if stage.frames_done < stage.frames:
                whole.append((identifier, stage))
            else:
                self.forget(identifier, stage)
        queues = frozenset(queue for _, stage in whole for queue in stage.queues)
        commit = Commit(number, key, whole, queues, sum(stage.left for _, stage in whole))
        self._last = max(self._last, number)
        if whole:
            self._commits[number] = commit
        return commit

    def _next(self) -> Commit | None:
        """The first commit that can go on. Called at the end of every operation, so it looks at each commit once."""
        queues_ahead: set[int] = set()
        for commit in tuple(self._commits.values()):
            if queues_ahead.isdisjoint(commit.queues) and self._can_go_on(commit):
                return commit
            if commit.number in self._commits:
                queues_ahead |= commit.queues
        return None

    def _is_ready(self, commit: Commit) -> bool:
        """Whether it has messages left that can go on. One that is for a queue of an earlier one waits behind that."""
        for other in self._commits.values():
            if other is commit:
                break
            if not other.queues.isdisjoint(commit.queues):
                return False
        return self._can_go_on(commit)

    def _can_go_on(self, commit: Commit) -> bool:
        """Whether it has messages left, and its next message finds room. Damaged frames are left out first."""
        if self._kernel.now.monotonic < commit.retry_at:
            return False
        while commit.number in self._commits:
            place = self._place(commit)
            if place is not None:
                run, at = place
                queue = self._manager.collection.by_number.get(run.queue_id)
                return queue is None or self._has_room(queue, len(run.packets[at]))
        return False

    def _has_room(self, queue: Queue, size: int) -> bool:
        return not len(queue.positions) or self._manager.positions.fits(queue, size)

    def _go_on(self, now: Now) -> None:
        commit = self._next()
        if commit is None:
            return
        self._deliver(commit, now)
        if commit.number in self._commits:
            identifier, stage = commit.next
            self._kernel.messages.batch.put(Table.BULK, keys.stage_key(identifier), stage.encode())

    def _deliver(self, commit: Commit, now: Now) -> None:
        """Deliver messages as long as they find room, up to the limit of a turn."""
        budget = MAX_DELIVERED
        while budget > 0 and self._is_ready(commit):
            place = self._place(commit)
            assert place is not None, "the frame was read before"
            run, at = place
            cost = 1 if run.is_quiet else LOUD_MESSAGE
            packets = run.packets[at : at + -(-budget // cost)]
            first = message_of(run.head + packets[0], 0)
            try:
                queue = self._queue(run.queue_id, first, now)
            except WaypostError:
                # The limit of outgoing queues is reached, for example.
                commit.retry_at = now.monotonic + _RETRY_S
                self._kernel.timers.start((StagedDelivery, commit.number), commit.retry_at, lambda _: None)
                return
            packets = packets if queue is None else self._fitting(queue, packets)
            budget -= cost * len(packets)
            self._put(commit, queue, FrameRun(run.queue_id, run.is_quiet, run.head, packets), now)

    def _put(self, commit: Commit, queue: Queue | None, run: FrameRun, now: Now) -> None:
        """Put messages into their queue, and note the progress. Without a queue they end."""
        identifier, stage = commit.next
        packets, size = run.packets, sum(map(len, run.packets))
        # They count as staged or as messages of a queue, never as both.
        self._manager.positions.staged_bytes -= size
        if queue is None:
            self._end(_messages(run), run.queue_id, now)
        elif run.is_quiet and not queue.waiting and not isinstance(queue, OutgoingQueue):
            first = message_of(run.head + packets[0], 0)
            first.arrival_time = int(now.wall)
            self._manager.positions.place_packets(queue, head_of(first), packets)
        else:
            self._manager.writing.put_staged(queue, _messages(run), now)
        stage.left -= len(packets)
        stage.size -= size
        commit.left -= len(packets)
        stage.messages_done += len(packets)
        if stage.messages_done == sum(len(each.packets) for each in self._read(identifier, stage.frames_done).runs):
            self._end_frame(commit)

    def _place(self, commit: Commit) -> tuple[FrameRun, int] | None:
        """The run of the next message, and its place there. None if the frame is damaged: it is left out then."""
        identifier, stage = commit.next
        at = stage.messages_done
        try:
            frame = self._read(identifier, stage.frames_done)
        except RecordDamaged as damage:
            self._kernel.notice("staged_messages_damaged", stage=guid_text(identifier), reason=str(damage))
            self.damaged.add(str(commit.key), keys.frame_key(identifier, stage.frames_done), damage)
            stage.is_damaged = True
            self._end_frame(commit, is_kept=True)
            return None
        for run in frame.runs:
            if at < len(run.packets):
                return run, at
            at -= len(run.packets)
        raise AssertionError("all messages of the next frame are already delivered")

    def _read(self, identifier: bytes, number: int) -> FrameRecord:
        key = keys.frame_key(identifier, number)
        if self._frame is not None and self._frame[0] == key:
            return self._frame[1]
        recent = self._frames.get(key)
        value = recent[1] if recent is not None else self._reader.get(Table.BULK, key)
        if value is None:
            raise RecordDamaged(f"frame {number} of a committed stage is missing in the store", Table.BULK, key)
        frame = scans.decoded(Table.BULK, key, value, FrameRecord.decode)
        self._frame = key, frame
        return frame

    def _end_frame(self, commit: Commit, *, is_kept: bool = False) -> None:
        """Go on with the next frame. One that is damaged is kept in the store: a salvage may still read it."""
        identifier, stage = commit.next
        batch, key = self._kernel.messages.batch, keys.frame_key(identifier, stage.frames_done)
        self._frames.pop(key, None)
        if not is_kept:
            batch.delete(Table.BULK, key)
        self._frame = None
        stage.frames_done += 1
        stage.messages_done = 0
        if stage.frames_done < stage.frames:
            return
        if stage.is_damaged:
            commit.left -= stage.left
            self._manager.positions.staged_bytes -= stage.size
            stage.left = stage.size = 0
        assert not stage.left, "all frames of a stage are delivered, but messages are left"
        assert not stage.size, "all frames of a stage are delivered, but bytes are left"
        batch.delete(Table.BULK, keys.stage_key(identifier))
        commit.at += 1
        if commit.at == len(commit.stages):
            assert not commit.left, "all stages of a commit are delivered, but messages are left"
            del self._commits[commit.number]
            self._kernel.await_everything()
            for done in tuple(commit.when_done.values()):
                done()

    def _queue(self, number: int, message: Message, now: Now) -> Queue | None:
        """The queue for messages like this one; None if it is gone. Raises WaypostError if it has to be tried again."""
        if number:
            return self._manager.collection.by_number.get(number)
        name = message.destination_queue_format_name
        if message.identifier.queue_manager_guid != self._manager.identity.identifier or name is None:
            # This store is a copy, and its original sends them (ADR 32).
            return None
        descriptor = self._manager.open_queue(name, AccessType.SEND, ShareMode.DENY_NONE, now)
        queue = descriptor.queue
        # It stays, with messages in it.
        self._manager.close_queue(descriptor)
        return queue if isinstance(queue, OutgoingQueue) else None

    def _fitting(self, queue: Queue, packets: list[bytes]) -> list[bytes]:
        """The first of the messages that find room in the queue, at least one.

        Readers that wait make room with each: they get one at a time.
        """
        if queue.waiting:
            return packets[:1]
        positions = self._manager.positions
        if positions.fits(queue, sum(map(len, packets))):
            return packets
        sizes = accumulate(map(len, packets))
        return packets[: max(sum(1 for _ in takewhile(lambda size: positions.fits(queue, size), sizes)), 1)]

    def _end(self, messages: Sequence[Message], number: int, now: Now) -> None:
        """End messages whose queue is gone, with acknowledgments and dead-letter messages as they ask for them."""
        for message in messages:
            if not message.asks_for_attention:
                continue
            if number:
                self._rejected(message, MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q, now)
            elif message.negative_journaling_requested:
                self._journal.keep_dead_letter(message, _GUID_CHANGED, now)


def _messages(run: FrameRun) -> list[Message]:
    return [message_of(run.head + packet, 0) for packet in run.packets]
