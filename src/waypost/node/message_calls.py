"""The operations on messages: to send, receive, look at, move, resend and delete them."""

from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec

from msgspec import UNSET

from waypost.api.bodies import BYTES, check_size
from waypost.api.local import CancelReads
from waypost.api.message_attributes import message_like
from waypost.api.messages import Copies, Received, Sent
from waypost.api.names import check_can_be_sent_to
from waypost.api.opened import Handle
from waypost.api.operations import (
    Browse,
    CloseCursor,
    CloseQueue,
    CursorNext,
    CursorPeek,
    CursorRead,
    CursorReceive,
    DeleteMessage,
    MoveAll,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Operation,
    Peek,
    PurgeQueue,
    Read,
    Receive,
    Resend,
    Send,
)
from waypost.api.queues import MovedObject
from waypost.api.reading import lookup_number, milliseconds, place_of
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.positions import END, START
from waypost.core.queues import AccessType, ShareMode
from waypost.core.reading import MessageSeekAction
from waypost.core.writing import MovedPart
from waypost.errors import InvalidHandle, InvalidParameter
from waypost.limits import MAX_HTTP_ANSWER
from waypost.node.application import Application, Call, ReadOptions
from waypost.node.bulk import find_queue
from waypost.node.node import Node
from waypost.node.opened_queues import OpenedQueues
from waypost.node.transaction_calls import TransactionCalls

P = ParamSpec("P")


class MessageCalls:
    """Those on one node."""

    __slots__ = ("_application", "_computer", "_node", "_opened", "_transactions")

    def __init__(
        self,
        node: Node,
        application: Application,
        opened: OpenedQueues,
        transactions: TransactionCalls,
    ) -> None:
        self._node: Final = node
        self._computer: Final = node.manager.identity.computer_name
        self._application: Final = application
        self._opened: Final = opened
        self._transactions: Final = transactions

    # --- Sending

    def send(self, call: Call, operation: Send) -> None:
        like, bodies = operation.like, operation.bodies
        if like is UNSET or not bodies or operation.messages:
            raise InvalidParameter("give `like` and `bodies`, and one message at least")
        for body in bodies:
            check_size(body)
        queue = self._opened.queue(operation.name)
        message = message_like(like, computer=self._computer)
        message.body_type = BYTES if like.body_type is None else like.body_type
        transaction = self._transactions.joined(call, operation.transaction, operation.begin_s)
        if len(bodies) == 1:
            message.body = bodies[0]
            send = self._application.send
            self._opened.use(call, queue, AccessType.SEND, send, message, transaction, _sent_one)
        else:
            send_many = self._application.send_many
            self._opened.use(
                call, queue, AccessType.SEND, send_many, message, bodies, transaction=transaction, form=Sent
            )  # fmt: skip

    def resend(self, call: Call, operation: Resend) -> None:
        to = None if operation.to is UNSET else self._opened.name(operation.to)
        if to is not None:
            check_can_be_sent_to(to)
        work = self._application.resend
        number, transaction = lookup_number(operation.lookup_id), self._node.new_guid()
        self._take(call, operation, work, number, to, transaction, _sent_one)

    # --- Reading

    def receive(self, call: Call, operation: Receive) -> None:
        found = _place(operation)
        transaction = self._transactions.joined(call, operation.transaction, operation.begin_s)
        options = ReadOptions(milliseconds(operation.timeout_s), None, transaction)
        queue, access = self._opened.queue(operation.name), _receive_access(operation)
        application = self._application
        if operation.handle is not UNSET:
            handle = self._opened.exclusive(operation.handle, operation.name)
            if found is not None:
                application.receive_by_lookup_id(call, handle, found, options, _received_one)
            else:
                application.receive_many(call, handle, operation.count, options, Received)
        elif found is not None:
            self._opened.use(call, queue, access, application.receive_by_lookup_id, found, options, _received_one)
        elif operation.count == 1:
            self._opened.use(call, queue, access, application.receive, options, _received_one)
        else:
            self._opened.use(call, queue, access, application.receive_many, operation.count, options, Received)

    def peek(self, call: Call, operation: Peek) -> None:
        found = _place(operation)
        options = ReadOptions(milliseconds(operation.timeout_s))
        queue, access = self._opened.queue(operation.name), _peek_access(operation)
        application = self._application
        if operation.handle is not UNSET:
            handle = self._opened.exclusive(operation.handle, operation.name)
            if found is not None:
                application.peek_by_lookup_id(call, handle, found, _received_one)
            else:
                application.peek(call, handle, options, _received_one)
        elif found is not None:
            self._opened.use(call, queue, access, application.peek_by_lookup_id, found, _received_one)
        else:
            self._opened.use(call, queue, access, application.peek, options, _received_one)

    def browse(self, call: Call, operation: Browse) -> None:
        """A page of what can be peeked at behind a LookupIdentifier, which need not be in the queue any more."""
        after = lookup_number(operation.after) if operation.after else START
        name = self._opened.name(operation.name)
        with self._node.operation(call.now):
            queue = find_queue(self._node, name)
            messages: list[Message] = []
            size = 0
            position = queue.positions.next_peekable(after)
            while position != END and len(messages) < operation.limit and size < MAX_HTTP_ANSWER:
                message = self._node.manager.positions.find(queue, position)
                if message is not None:
                    messages.append(message)
                    size += len(message.packet)
                position = queue.positions.next_peekable(position)
            is_last = position == END or not messages
            self._node.reply(call.request, Received(messages, "" if is_last else str(messages[-1].lookup_identifier)))

    def delete(self, call: Call, operation: DeleteMessage) -> None:
        found = lookup_number(operation.number), MessageSeekAction.SEEK_CURRENT
        work = self._application.receive_by_lookup_id
        self._take(call, operation, work, found, ReadOptions(), _nothing)

    def purge(self, call: Call, operation: PurgeQueue) -> None:
        self._take(call, operation, self._application.purge)

    def cancel(self, now: Now, request: int, operation: Operation[object]) -> None:
        """End a read that waits, which then fails. One that does not wait is left alone."""
        handle: int | None = None
        try:
            if isinstance(operation, CursorRead):
                handle = self._opened.cursor(operation.identifier).handle
            elif isinstance(operation, Read):
                if operation.handle is not UNSET:
                    handle = self._opened.exclusive(operation.handle, operation.name)
                else:
                    is_peek = isinstance(operation, Peek)
                    access = _peek_access(operation) if is_peek else _receive_access(operation)
                    handle = self._opened.queue(operation.name).handles.get(access)
            if handle is not None:
                self._application.cancel(now, handle, request)
        except InvalidHandle:
            # What waited has ended with it.
            pass

    def cancel_reads(self, call: Call, operation: CancelReads) -> None:
        self._opened.close(call, self._opened.queue(operation.name), keeps_sending=operation.keeps_sending)
        with self._node.operation(call.now):
            self._node.reply(call.request)

    # --- Moving

    def move(self, call: Call, operation: MoveMessage) -> None:
        lookup_id = lookup_number(operation.lookup_id)
        transaction = self._transactions.joined(call, operation.transaction, operation.begin_s)

        def move(call: Call, handle: int, target: int) -> None:
            self._application.move(call, handle, lookup_id, target, transaction=transaction)

        self._with_target(call, operation, move)

    def move_all(self, call: Call, operation: MoveAll) -> None:
        """A part of them: whoever asks goes on."""
        if (operation.after == "") != (operation.up_to == ""):
            raise InvalidParameter("`after` and `up_to` go together: give both as the last answer has them, or neither")
        part = MovedPart()
        if operation.after != "":
            part = MovedPart(after=lookup_number(operation.after), up_to=lookup_number(operation.up_to))

        def move(call: Call, handle: int, target: int) -> None:
            self._application.move_some(call, handle, target, part, _moved)

        self._with_target(call, operation, move)

    # --- What is open

    def open_queue(self, call: Call, operation: OpenQueue) -> None:
        if not operation.exclusive:
            raise InvalidParameter("only exclusive opens need a handle")
        identifier = self._opened.open_exclusive(call, operation.queue)
        with self._node.operation(call.now):
            self._node.reply(call.request, Handle(identifier, 0.0))

    def close_queue(self, call: Call, operation: CloseQueue) -> None:
        self._opened.close_exclusive(call, operation.identifier)
        with self._node.operation(call.now):
            self._node.reply(call.request)

    def open_cursor(self, call: Call, operation: OpenCursor) -> None:
        identifier = self._opened.open_cursor(
            call, operation.queue, outgoing=operation.outgoing, handle=operation.handle
        )  # fmt: skip
        with self._node.operation(call.now):
            self._node.reply(call.request, Handle(identifier, 0.0))

    def close_cursor(self, call: Call, operation: CloseCursor) -> None:
        place = self._opened.forget_cursor(operation.identifier)
        self._application.close_cursor(call, place.handle, place.cursor)

    def cursor_peek(self, call: Call, operation: CursorPeek) -> None:
        handle, options = self._at(call, operation)
        self._application.peek(call, handle, options, _received_one)

    def cursor_next(self, call: Call, operation: CursorNext) -> None:
        handle, options = self._at(call, operation)
        self._application.peek_next(call, handle, options, _received_one)

    def cursor_receive(self, call: Call, operation: CursorReceive) -> None:
        handle, options = self._at(call, operation)
        self._application.receive(call, handle, options, _received_one)

    def _at(self, call: Call, operation: CursorRead) -> tuple[int, ReadOptions]:
        place = self._opened.cursor(operation.identifier)
        transaction = self._transactions.joined(call, operation.transaction, operation.begin_s)
        return place.handle, ReadOptions(milliseconds(operation.timeout_s), place.cursor, transaction)

    def _take(
        self,
        call: Call,
        operation: PurgeQueue | DeleteMessage | Resend,
        work: Callable[Concatenate[Call, int, P], None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Do something with what one can receive."""
        queue = self._opened.queue(operation.name)
        access = AccessType.RECEIVE_ADMIN if operation.outgoing else AccessType.RECEIVE
        self._opened.use(call, queue, access, work, *args, **kwargs)

    def _with_target(
        self, call: Call, operation: MoveMessage | MoveAll, move: Callable[[Call, int, int], None]
    ) -> None:
        """Open the queue to move to meanwhile."""
        queue, to = self._opened.queue(operation.name), self._opened.name(operation.to)
        access = AccessType.RECEIVE_ADMIN if operation.outgoing else AccessType.RECEIVE
        with self._node.operation(call.now):
            target = self._application.open(call.now, to, AccessType.MOVE, ShareMode.DENY_NONE)
        try:
            self._opened.use(call, queue, access, move, target)
        finally:
            with self._node.operation(call.now):
                self._application.close(target)


def _place(operation: Read) -> tuple[int, MessageSeekAction] | None:
    number = operation.lookup_id
    return place_of(UNSET if number is UNSET else lookup_number(number), operation.seek)


def _receive_access(operation: Read) -> AccessType:
    return AccessType.RECEIVE_ADMIN if operation.outgoing else AccessType.RECEIVE


def _peek_access(operation: Read) -> AccessType:
    return AccessType.PEEK_ADMIN if operation.outgoing else AccessType.PEEK


def _sent_one(message: Message | Copies) -> Sent:
    return Sent([message])


def _received_one(message: Message) -> Received:
    return Received([message])


def _nothing(_: Message) -> None:
    """Of a message that nobody wants to see."""


def _moved(part: MovedPart) -> MovedObject:
    return MovedObject(part.count, "" if part.is_last else str(part.after), str(part.up_to))
