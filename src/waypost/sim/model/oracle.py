"""The model as a whole: the operations of waypost.node.application under the same names.

Each raises Refused, or leads to an Answer in `expected`, now or when a wait ends. What the engine alone can know is
told to it: the numbers of handles and cursors, and how far the counters were at a start.
"""

from dataclasses import dataclass, replace
from typing import Final

from waypost.clock import Now
from waypost.core.queues import AccessType, ShareMode
from waypost.core.reading import MessageSeekAction
from waypost.hresult import HResult
from waypost.node.application import Call, ReadOptions
from waypost.sim.bulk.limits import BulkLimits
from waypost.sim.marks import Marks
from waypost.sim.model.books import DELETED, PURGED, Books
from waypost.sim.model.bulk import Bulk, Known, Openings
from waypost.sim.model.disk import Disk, Operation
from waypost.sim.model.enlistments import ABORTED, ENLISTED, Enlistments
from waypost.sim.model.letters import Answer, Box, Handle, Key, Letter, Refused, State
from waypost.sim.model.pointer import Pointer
from waypost.sim.model.post import Post
from waypost.sim.model.qm2qm import FarQueues, Qm2qmServer, QmcommServer
from waypost.sim.model.readers import Readers
from waypost.sim.model.recovery import bring_back
from waypost.sim.model.remote import Parts, Remote
from waypost.sim.model.remote_read import RemoteReadServer
from waypost.sim.model.works import Step, Works
from waypost.sim.words import Draft, Drafts, Existing, Name, Plan
from waypost.wire.codec import INFINITE

PREPARED: Final = "PrepareRequestDone"
COMMITTED: Final = "CommitRequestDone"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a message waits for its remote reader to end it, a transaction of one to be prepared, and a connection
    to be bound; seconds.
    """

    pending_request: float
    enlistment: float
    bind: float


class Oracle:
    """`trouble` says that the disk is full, and `is_low` that it is nearly, as the shell has told the node."""

    def __init__(
        self, marks: Marks, quota: int, parts: tuple[int, int], patience: Patience | None, limits: BulkLimits
    ) -> None:  # fmt: skip
        """`parts` are those of purges and of expired messages. With `patience` there are remote readers."""
        self.marks: Final = marks
        self._patience: Final = patience
        self._known: Final = Known(limits)
        self.disk: Final = Disk()
        self.books: Final = Books(self.disk, marks, quota, *parts)
        self.trouble = self.is_low = False
        self._post: Final = Post(self.books)
        self._begin()

    def _begin(self) -> None:
        self.works = Works(self.books)
        self.readers = Readers(self.books, self.works)
        openings = Openings(self._openable, self._check_store, self._check_room)
        self.bulk = Bulk(self.books, self.works, openings, self._known)
        patience = self._patience
        self.remote = Remote(self.books, 0.0 if patience is None else patience.bind)
        if patience is not None:
            self._serve(patience)

    def _serve(self, patience: Patience) -> None:
        enlistments = Enlistments(self.books, self.works, patience.enlistment)
        remote = self.remote
        parts = Parts(self.books, self.works, self.readers, self._find, remote.reply, enlistments)
        queues = FarQueues(parts)
        remote_read = RemoteReadServer(parts, patience.pending_request)
        remote.serve(remote_read, QmcommServer(parts, queues), Qm2qmServer(parts, queues), enlistments)

    @property
    def expected(self) -> dict[Key, Answer]:
        return self.books.expected

    def crash(self) -> None:
        self.disk.crash()
        self.books.forget()
        self.trouble = self.is_low = False
        self._begin()

    def start_anew(self, boxes: list[tuple[int, str]], now: Now) -> None:
        """There is nothing on the disk: a new queue manager makes its own queues, with these numbers."""
        books = self.books
        books.sequential_id, books.last_number = 0, max(number for number, _ in boxes)
        books.begin(now)
        for number, key in boxes:
            box = Box(number, key, Plan(key))
            books.add_box(box)
            books.save_box(box)
        self.end()

    def start(self, sequential_id: int, last_number: int, now: Now) -> None:
        """Bring back what is on the disk. The numbers are how far those in use may have come."""
        books, disk = self.books, self.disk
        books.sequential_id, books.last_number = sequential_id, last_number
        books.begin(now)
        bring_back(books, disk, self.works, self.bulk.restore)
        self.end()

    def begin(self, now: Now) -> None:
        self.books.begin(now)

    def end(self) -> None:
        self._post.deliver()
        self.books.end()

    def tick(self, now: Now, *, works: bool) -> None:
        """Without `works` what is done in parts waits for the disk."""
        self.begin(now)
        self._fire(now)
        if works:
            self.books.do_parts()
        self.end()

    def _fire(self, now: Now) -> None:
        """All timers that are due, the earliest first, whoever has them."""
        while (at := self._next_timer()) is not None and at <= now.monotonic:
            moment = replace(now, monotonic=at)
            self.readers.tick(moment)
            self.bulk.tick(moment)
            self.remote.tick(moment)

    def _next_timer(self) -> float | None:
        deadlines = self.readers.next_deadline, self.bulk.next_deadline, self.remote.next_deadline
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def next_deadline(self, now: Now, *, works: bool) -> float | None:
        if works and self.books.has_parts:
            return now.monotonic
        expiry = self.books.next_expiry
        at = None if expiry is None else now.monotonic + expiry - now.wall
        return min((deadline for deadline in (at, self._next_timer()) if deadline is not None), default=None)

    # The operations.

    def create_queue(self, call: Call, plan: Plan) -> None:
        self._check_room()
        if plan.key in self.books.boxes:
            raise Refused(HResult.MQ_ERROR_QUEUE_EXISTS)
        box = self.books.new_box(plan.key, plan, None)
        journal = f"{plan.key};journal"
        self.books.new_box(journal, Plan(journal, quota=plan.journal_quota), box)
        self._done(call)

    def modify_queue(self, call: Call, existing: Existing, plan: Plan) -> None:
        self._check_store()
        box = self.books.boxes[existing.key]
        box.plan = plan
        self.books.save_box(box)
        journal = self.books.boxes[f"{plan.key};journal"]
        if journal.plan.quota != plan.journal_quota:
            journal.plan = Plan(journal.key, quota=plan.journal_quota)
            self.books.save_box(journal)
        self._done(call)

    def delete_queue(self, call: Call, existing: Existing) -> None:
        self._check_store()
        box = self.books.boxes[existing.key]

        def purge() -> None:
            for part in self.books.parts(box):
                self.books.purge(part, DELETED, _nothing)
            self.books.purge(box, DELETED, delete)

        def delete() -> None:
            free = [
                letter
                for part in (*self.books.parts(box), box)
                for letter in part.letters.values()
                if letter.state in (State.AVAILABLE, State.LATE)
            ]
            if not box.is_deleted and len(free) > self.books.purge_part:
                purge()
                return
            if not box.is_deleted:
                for part in (*self.books.parts(box), box):
                    self._clear_away(part)
            self._done(call)

        purge()

    def _clear_away(self, box: Box) -> None:
        if any(letter.state is not State.AVAILABLE for letter in box.present()):
            self.marks.sometimes("a queue deleted with messages in transactions")
        self.books.remove_box(box)
        self.bulk.box_deleted(box)
        self.readers.box_deleted(box)

    def open_queue(self, call: Call, name: Name, access: AccessType, share: ShareMode) -> None:
        handle = Handle(call.request, self._find(name.key, access), access, share)
        self.readers.check_sharing(handle)
        self.readers.open_box(handle).handles[call.request] = handle
        self.books.answer(call.request, Answer(learn=lambda number: self.readers.handles.update({number: handle})))

    def _find(self, key: str, access: AccessType) -> Box:
        box = self.books.boxes.get(key)
        if box is not None:
            return box if access is AccessType.PEEK else self.books.keep(box)
        queue, _, subqueue = key.partition(";")
        parent = self.books.boxes.get(queue)
        if parent is None or access is AccessType.SEND or subqueue in ("", "journal"):
            raise Refused(HResult.MQ_ERROR_QUEUE_NOT_FOUND)
        plan = Plan(key, transactional=parent.plan.transactional)
        if access is AccessType.PEEK:
            self.marks.sometimes("a subqueue that is only looked into")
            return self.books.new_provisional_box(key, plan, parent)
        return self.books.new_box(key, plan, parent)

    def _openable(self, key: str, access: AccessType) -> Box:
        """The box, if it may be opened with this access, while others have it open as they do."""
        box = self._find(key, access)
        self.readers.check_sharing(Handle(0, box, access, ShareMode.DENY_NONE))
        return box

    def close_queue(self, call: Call, number: int) -> None:
        self.readers.close(self.readers.handle(number))
        del self.readers.handles[number]
        self._done(call)

    def purge(self, call: Call, number: int) -> None:
        self._check_store()
        box = self.readers.open_box(self.readers.handle(number))
        self.books.purge(box, PURGED, lambda: self._done(call))

    def send(self, call: Call, number: int, draft: Draft, transaction: bytes | None) -> None:
        self._send(call, number, (draft,), transaction)

    def send_several(self, call: Call, number: int, drafts: Drafts, transaction: bytes | None) -> None:
        self.marks.sometimes("several messages sent in one go")
        self._send(call, number, drafts.drafts, transaction)

    def _send(self, call: Call, number: int, drafts: tuple[Draft, ...], transaction: bytes | None) -> None:
        draft = drafts[0]
        handle = self.readers.handle(number)
        if draft.recoverable if transaction is None else self.works.is_open(transaction):
            self._check_room()
        box = self.readers.open_box(handle)
        if box.plan.transactional is (transaction is None):
            raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)
        if transaction is not None and not self.works.is_open(transaction):
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        size = draft.size
        if not self.books.has_room(size * len(drafts)):
            self.marks.sometimes("the quota of the host reached")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        if not box.has_room(size * len(drafts)):
            self.marks.sometimes("a quota of a queue reached")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        letters = [
            Letter(each, size, each.recoverable or transaction is not None, transaction is not None) for each in drafts
        ]
        if draft.time_to_be_received != INFINITE:
            for letter in letters:
                letter.expiry = int(call.now.wall) + draft.time_to_be_received
        if transaction is None:
            self.books.put_all(box, letters)
        else:
            for letter in letters:
                letter.is_held = letter.is_uncertain = True
                self.books.identify(letter)
                self.books.place(box, letter)
                self.works.record(transaction, Step(Operation.SEND, letter, box))
        self._done(call)

    def receive(self, call: Call, number: int, options: ReadOptions) -> None:
        if options.transaction is None:
            self._check_store()
        self.readers.receive(call, number, options, two_phase=False)

    def receive_many(self, call: Call, number: int, count: int, options: ReadOptions) -> None:
        if options.transaction is None:
            self._check_store()
        self.readers.receive_many(call, number, count, options)

    def begin_receive(self, call: Call, number: int, options: ReadOptions) -> None:
        self.readers.receive(call, number, options, two_phase=True)

    def end_receive(self, call: Call, number: int, lookup_id: int, *, delete_message: bool) -> None:
        self._check_store()
        handle = self.readers.handle(number)
        self.readers.open_box(handle)
        letter = handle.two_phase.get(lookup_id)
        if letter is None:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        self.readers.end_two_phase(handle, letter, delete_message=delete_message)
        self._done(call)

    def peek(self, call: Call, number: int, options: ReadOptions) -> None:
        self.readers.peek(call, number, options, goes_on=False)

    def peek_next(self, call: Call, number: int, options: ReadOptions) -> None:
        self.readers.peek(call, number, options, goes_on=True)

    def receive_by_lookup_id(
        self, call: Call, number: int, found: tuple[int, MessageSeekAction], options: ReadOptions
    ) -> None:
        if options.transaction is None:
            self._check_store()
        self.readers.seek(call, number, found, options)

    def peek_by_lookup_id(self, call: Call, number: int, found: tuple[int, MessageSeekAction]) -> None:
        self.readers.seek(call, number, found, None)

    def cancel_read(self, _call: Call, number: int, request: int) -> None:
        wait = self.readers.handle(number).waits.get(request)
        if wait is not None:
            self.marks.sometimes("a wait that is cancelled")
            self.readers.end(wait, HResult.MQ_ERROR_OPERATION_CANCELLED)

    def move(self, call: Call, number: int, lookup_id: int, target: int, *, transaction: bytes | None = None) -> None:
        self._check_room()
        source, destination = self.readers.handle(number), self.readers.handle(target)
        box, target_box = self.readers.open_box(source), self.readers.open_box(destination)
        if box is target_box or (box.parent or box) is not (target_box.parent or target_box):
            raise Refused(HResult.MQ_ERROR_INVALID_PARAMETER)
        if transaction is not None and not target_box.plan.transactional:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)
        letter = box.letters.get(lookup_id)
        if letter is not None and self.works.takes(letter):
            raise Refused(HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION)
        if letter is None or letter.state is not State.AVAILABLE:
            raise Refused(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
        if transaction is None:
            self.works.move(letter, target_box)
        elif self.works.is_open(transaction):
            self.books.lock(letter)
            self.works.record(transaction, Step(Operation.MOVE, letter, box, target_box))
        else:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        self._done(call)

    def open_cursor(self, call: Call, number: int) -> None:
        handle = self.readers.handle(number)
        pointer = Pointer(self.readers.open_box(handle))
        self.books.answer(call.request, Answer(learn=lambda cursor: handle.pointers.update({cursor: pointer})))

    def close_cursor(self, call: Call, number: int, cursor: int) -> None:
        handle = self.readers.handle(number)
        if cursor not in handle.pointers:
            raise Refused(HResult.MQ_ERROR_INVALID_HANDLE)
        self.readers.close_pointer(handle, cursor)
        self._done(call)

    def begin_transaction(self, call: Call, identifier: bytes) -> None:
        self.works.begin(identifier)
        self._done(call)

    def commit(self, call: Call, identifier: bytes) -> None:
        self._check_store()
        self._check_own(identifier)
        self.works.commit(identifier)
        self._done(call)

    def abort(self, call: Call, identifier: bytes) -> None:
        self._check_own(identifier)
        self.works.abort(identifier)
        self._done(call)

    def _check_own(self, identifier: bytes) -> None:
        work = self.works.works.get(identifier)
        if work is None or work.is_external:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)

    # What a coordinator asks.

    def enlist(self, _call: Call, identifier: bytes) -> None:
        if self.works.in_doubt:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_ENLIST)
        self.works.begin(identifier).is_external = True
        self.books.answer((ENLISTED, identifier), Answer())

    def prepare(self, _call: Call, identifier: bytes) -> None:
        work = self.works.works.get(identifier)
        if work is None:
            self.books.answer((ABORTED, identifier), Answer())
        else:
            self.works.prepare(work)
            self.books.answer((PREPARED, identifier), Answer())

    def commit_prepared(self, _call: Call, identifier: bytes) -> None:
        if identifier in self.works.works:
            self.works.commit(identifier)
        else:
            self.marks.sometimes("a coordinator that asks again")
        self.books.answer((COMMITTED, identifier), Answer())

    def abort_prepared(self, _call: Call, identifier: bytes) -> None:
        if identifier in self.works.works:
            self.works.abort(identifier)
        self.books.answer((ABORTED, identifier), Answer())

    def commit_in_doubt(self, _call: Call, identifier: bytes) -> None:
        if identifier in self.works.in_doubt:
            self.marks.sometimes("a transaction in doubt committed")
            self.works.commit(identifier)

    def abort_in_doubt(self, _call: Call, identifier: bytes) -> None:
        if identifier in self.works.in_doubt:
            self.marks.sometimes("a transaction in doubt aborted")
            self.works.abort(identifier)

    def _check_store(self) -> None:
        if self.trouble:
            self.marks.sometimes("an operation refused because the disk is full")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)

    def _check_room(self) -> None:
        self._check_store()
        if self.is_low:
            self.marks.sometimes("an operation refused because the disk is nearly full")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)

    def _done(self, call: Call) -> None:
        self.books.answer(call.request, Answer())


def _nothing() -> None:
    """When a part of a queue is empty."""
