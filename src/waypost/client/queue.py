"""Queue and Cursor, for programs that wait in threads. waypost.aio has the same as coroutines."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self

from waypost.api.names import Name, journal_name, subqueue_name
from waypost.api.operations import DeleteQueue, PauseQueue, ResumeQueue, ShowQueue
from waypost.api.properties import MessageProperties, QueueProperties
from waypost.api.queues import QueueInfo
from waypost.client.bases import BaseQueue, identify
from waypost.client.bodies import Body
from waypost.client.calls import Calls, Seek, milliseconds
from waypost.client.message import Message, sent_message, sent_together
from waypost.client.queue_info import warn_of_ignored
from waypost.client.with_properties import QueueSender, QueueSetter
from waypost.core.queues import AccessType, ShareMode
from waypost.core.writing import MovedPart
from waypost.errors import InvalidHandle, QueueNotAvailable, ServiceNotAvailable, Timeout
from waypost.node.application import OperationFunction, ReadOptions
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.client.manager import Manager, Transaction
    from waypost.drive.threads import Threads


class Queue(BaseQueue, QueueSender, QueueSetter):
    """A queue: `manager.queue(name)` gives it, and `manager.create_queue(name)` makes it first.

    Nothing is opened before it is used, so a queue object is cheap, and a name that no queue has is found out then:
    QueueNotFound. It can be shared by threads.

    Every method raises a WaypostError that says what is wrong. In particular: StoreFull while the disk has no room;
    then nothing was done, unless the sentence says that it is kept and will be stored when there is room.
    """

    __slots__ = ("_opening", "_shell", "manager")

    def __init__(
        self,
        manager: "Manager",
        shell: "Threads",
        calls: Calls,
        name: FormatName,
        *,
        exclusive: bool = False,
        outgoing: bool = False,
    ) -> None:
        super().__init__(calls, name, exclusive=exclusive, outgoing=outgoing)
        self.manager: Final = manager
        self._shell: Final = shell
        self._opening: Final = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send_record(
        self, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        message = self._message(body, properties)
        identifier = identify(transaction, self._calls)
        return sent_message(
            self._ask(self._shell.do, AccessType.SEND, self._calls.application.send, message, identifier)
        )

    def send_records(
        self, bodies: Iterable[Body], properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> list[Message]:
        like, encoded = self._messages(bodies, properties)
        identifier = identify(transaction, self._calls)
        if not encoded:
            return []
        sent = self._ask(self._shell.do, AccessType.SEND, self._calls.send_many, like, encoded, identifier)
        return sent_together(sent)

    def receive(
        self,
        timeout: float | None = None,
        *,
        transaction: "Transaction | None" = None,
        lookup_id: int | None = None,
        seek: Seek | None = None,
    ) -> Message:
        """Take the first message out of the queue, and return it when its removal is on disk.

        It waits for a message for `timeout` seconds, for ever unless given, and raises Timeout when they are over; with
        0 it does not wait. In a transaction the message is only locked: a commit removes it, and an abort gives it back
        with its `abort_count` raised.

        With a `lookup_id` it takes that message, or the `seek` "next" or "previous" to it; `seek="first"` and "last"
        need none. Nothing is waited for then, and MessageNotFound says that it is not there or a transaction holds it;
        MessageAlreadyReceived, that somebody has received it while a cursor was on it.

        Outside a transaction a message is received at most once: if the call is interrupted or cancelled while the
        removal is being written to disk, or the process ends then, the message is lost. Receive in a transaction what
        must not be.
        """
        operation, args = self._receive_request(timeout, transaction, lookup_id, seek)
        return Message(self._ask(self._shell.read, self._receive_access, operation, *args))

    def receive_many(
        self, count: int, timeout: float | None = None, *, transaction: "Transaction | None" = None
    ) -> list[Message]:
        """Take up to `count` messages, in their order, with one flush to disk.

        What is there is taken at once. If nothing is, it waits as `receive` does, for one message.
        """
        operation, args = self._receive_many_request(count, timeout, transaction)
        return [Message(message) for message in self._ask(self._shell.read, self._receive_access, operation, *args)]

    def peek(
        self, timeout: float | None = None, *, lookup_id: int | None = None, seek: Seek | None = None
    ) -> Message:  # fmt: skip
        """Look at the first message and leave it there. The arguments are those of `receive`.

        A message that a transaction holds is passed over; asked for by its `lookup_id`, it raises TransactionUsage.
        """
        operation, args = self._peek_request(timeout, lookup_id, seek)
        return Message(self._ask(self._shell.read, self._peek_access, operation, *args))

    def browse(self) -> Iterator[Message]:
        """Look at all messages in their order, without waiting for more. Others may receive them meanwhile."""
        with Cursor(self._shell, self._calls, partial(self._open_cursor, self._peek_access)) as cursor:
            try:
                yield cursor.peek(0)
                while True:
                    yield cursor.peek_next(0)
            except Timeout:
                return

    def follow(self, timeout: float | None = None) -> Iterator[Message]:
        """Receive message after message, for ever, or until none has come for `timeout` seconds.

        A message is out of the queue before you see it. If it must not be lost when your program fails, use `receive`
        in a transaction instead.
        """
        while True:
            try:
                message = self.receive(timeout)
            except Timeout:
                return
            yield message

    def cursor(self) -> "Cursor":
        """A cursor at the start of the queue, to look through it and receive what is found on the way."""
        return Cursor(self._shell, self._calls, partial(self._open_cursor, self._receive_access))

    def move(self, message: Message | int, to: Name, *, transaction: "Transaction | None" = None) -> None:
        """Move a message, or the one with this lookup id, to a subqueue, or back, with all that belongs to it.

        `to` is the name of the other queue, such as 'orders;retry', or its queue object. The message counts it in its
        `move_count`. Raises MessageNotFound if it is not there or a transaction holds it.
        """
        lookup_id, name, identifier = self._move_request(message, to, transaction)
        application = self._calls.application
        target = self._shell.do(application.open_queue, name, AccessType.MOVE, ShareMode.DENY_NONE)
        try:
            self._ask(self._shell.do, self._receive_access, self._calls.move, lookup_id, target, identifier)
        finally:
            self._close(target)

    def move_all(self, to: Name, *, progress: Callable[[int], object] | None = None) -> int:
        """Move all messages that are there now to a subqueue, or back, and return how many were moved.

        They are moved some hundred at a time, and others use both queues meanwhile: each message is in one of them,
        also if this process or the daemon ends in the middle; whoever calls again moves the rest. What a transaction
        holds stays. `progress` is called with the number of messages after each part.
        """
        application = self._calls.application
        target = self._shell.do(application.open_queue, self._calls.name(to), AccessType.MOVE, ShareMode.DENY_NONE)
        moved, part = 0, MovedPart()
        try:
            while not part.is_last:
                part = self._ask(self._shell.do, self._receive_access, self._calls.move_some, target, part)
                moved += part.count
                if progress is not None:
                    progress(part.count)
        finally:
            self._close(target)
        return moved

    def resend(self, message: Message | int, to: Name | None = None) -> Message:
        """Take a message, or the one with this lookup id, and send it once more, in one step: both are done or neither.

        It goes to the queue `to`, or to where it was sent to. The new message, which is returned, has another `id` and
        says the same; one that was sent in a transaction is sent in one again. TransactionUsage says that a queue is of
        the other kind: transactional, or not.
        """
        request = self._resend_request(message, to)
        return sent_message(self._ask(self._shell.do, self._receive_access, self._calls.application.resend, *request))

    def purge(self) -> None:
        """Delete all messages. One that a transaction holds goes when the transaction gives it back."""
        self._ask(self._shell.do, self._receive_access, self._calls.application.purge)

    @property
    def journal(self) -> "Queue":
        """The journal: copies of what was received, if the queue was created with `journal=True`."""
        return self.manager.queue(str(journal_name(self._name)))

    def subqueue(self, name: str) -> "Queue":
        """A subqueue, which comes to be when a message is moved there or somebody reads from it."""
        return self.manager.queue(str(subqueue_name(self._name, name)))

    def info(self) -> QueueInfo:
        """How many messages it has, and everything else about it, at this moment."""
        with self._if_it_is_there():
            return self._shell.call(ShowQueue(name=str(self._name)))

    def set_record(self, properties: QueueProperties) -> None:
        attributes = self._calls.change(properties)
        warn_of_ignored(self._name, properties)
        with self._if_it_is_there():
            self._shell.do(self._calls.set_queue, self._name, attributes)

    def pause(self) -> None:
        """Let no message leave an outgoing queue until `resume`. Messages can still be sent to it, and wait there."""
        self._shell.call(PauseQueue(name=str(self._name)))

    def resume(self) -> None:
        """Let messages leave an outgoing queue again."""
        self._shell.call(ResumeQueue(name=str(self._name)))

    def delete(self) -> None:
        """Delete the queue with its messages, subqueues and journal. Reads that wait on it raise QueueDeleted."""
        handles = tuple(self._handles.values())
        with self._if_it_is_there():
            self._shell.call(DeleteQueue(name=str(self._name)))
        self._calls.deleted(self._name)
        self._forget()
        self._close(*handles)

    def close(self) -> None:
        """Close what was opened for this object. Reads that wait raise OperationCancelled; the next use opens anew.

        The object is shared by all who got it from `manager.queue(name)`, and so are the waits that end.
        """
        while self._handles:
            _, handle = self._handles.popitem()
            self._close(handle)

    def _close(self, *handles: int) -> None:
        for handle in handles:
            with suppress(InvalidHandle, ServiceNotAvailable):
                self._shell.start(self._calls.application.close_queue, handle)

    def _ask(self, ask: Callable[..., Any], access: AccessType, operation: OperationFunction, *args: Any) -> Any:
        try:
            return ask(operation, self._handles.get(access) or self._open(access), *args)
        except (QueueNotAvailable, InvalidHandle):
            # The queue was deleted or the handle closed; there may be another queue under the name.
            self._handles.pop(access, None)
            return ask(operation, self._open(access), *args)

    def _open(self, access: AccessType) -> int:
        with self._opening:
            handle = self._handles.get(access)
            if handle is None:
                request = self._open_request(access)
                with self._if_it_is_there():
                    handle = self._shell.do(self._calls.application.open_queue, *request)
                self._handles[access] = handle
            return handle

    def _open_cursor(self, access: AccessType) -> tuple[int, int]:
        number = self._ask(self._shell.do, access, self._calls.application.open_cursor)
        return self._handles.get(access, 0), number


class Cursor:
    """A place in a queue: `queue.cursor()` gives it. It is for one thread at a time.

    `timeout` is None to wait for ever for a message behind the last, as everywhere, and 0 not to wait: Timeout then.
    """

    __slots__ = ("_calls", "_open", "_place", "_shell")

    def __init__(self, shell: "Threads", calls: Calls, open_cursor: Callable[[], tuple[int, int]]) -> None:
        self._shell: Final = shell
        self._calls: Final = calls
        self._open: Final = open_cursor
        # The handle and the number, once it is used.
        self._place: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def peek(self, timeout: float | None = None) -> Message:
        """Look at the message where the cursor is: at first, and after a receive, the next one that there is.

        Raises MessageAlreadyReceived if somebody has received it since; `peek_next` goes on.
        """
        return self._read(self._calls.application.peek, timeout)

    def peek_next(self, timeout: float | None = None) -> Message:
        """Go on, and look at the message there. Raises IllegalCursorAction before the first `peek`."""
        return self._read(self._calls.application.peek_next, timeout)

    def receive(self, timeout: float | None = None, *, transaction: "Transaction | None" = None) -> Message:
        """Receive the message where the cursor is; `Queue.receive` says what that means in a transaction."""
        return self._read(self._calls.application.receive, timeout, identify(transaction, self._calls))

    def close(self) -> None:
        """Forget the place: if it is used again, it starts from the first message."""
        place, self._place = self._place, None
        if place is not None:
            with suppress(InvalidHandle, ServiceNotAvailable):
                self._shell.start(self._calls.application.close_cursor, *place)

    def _read(self, operation: OperationFunction, timeout: float | None, transaction: bytes | None = None) -> Message:
        self._place = handle, number = self._place or self._open()
        options = ReadOptions(milliseconds(timeout), number, transaction)
        return Message(self._shell.read(operation, handle, options))
