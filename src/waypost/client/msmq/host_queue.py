"""A queue of a host, for threads: what one sends to it and reads from it. waypost.client.msmq.aio_queue is its twin."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from waypost.api.names import Name, journal_name, subqueue_name
from waypost.api.new_bodies import Body
from waypost.api.operations import Seek
from waypost.api.properties import MessageProperties
from waypost.client.message import Message
from waypost.client.msmq.source import Source, SourceCursor, refuse_transaction
from waypost.client.with_properties import QueueSender
from waypost.core.queues import AccessType
from waypost.errors import ServiceNotAvailable, Timeout
from waypost.remote.interfaces.remote_read import ReceiveAction

if TYPE_CHECKING:
    from waypost.client.msmq.host import Host
    from waypost.client.msmq.thread import HostThread
    from waypost.wire.format_names import FormatName


class HostQueue(QueueSender):
    """A queue of a host: `host.queue(name)` gives it. Nothing is opened before it is used, and threads can share it.

    Reading goes over MS-MQRR, or over MS-MQQP with hosts that are older. A host that cannot be reached, or that does
    not serve readers, raises a HostError; one that does not let the user in, AuthenticationFailed; a queue that is not
    there or not for the user, QueueNotFound or AccessDenied.
    """

    __slots__ = ("_host", "_name", "_source", "_thread")

    def __init__(self, host: "Host", thread: "HostThread", name: "FormatName", source: Source) -> None:
        self._host: Final = host
        self._thread: Final = thread
        self._name: Final = name
        self._source: Final = source

    def __repr__(self) -> str:
        return f"<HostQueue {self.format_name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def format_name(self) -> str:
        """The format name under which messages go there, and under which it is opened."""
        return str(self._name)

    def send_record(self, body: Body, properties: MessageProperties, transaction: object = None) -> Message:
        return self._host.send_record(self, body, properties, transaction)

    def send_records(
        self, bodies: Iterable[Body], properties: MessageProperties, transaction: object = None
    ) -> list[Message]:
        return self._host.send_records(self, bodies, properties, transaction)

    def receive(
        self,
        timeout: float | None = None,
        *,
        transaction: None = None,
        lookup_id: int | None = None,
        seek: Seek | None = None,
    ) -> Message:
        """Take the first message out of the queue, and return it when the host was told that it has come.

        It waits for a message for `timeout` seconds, for ever unless given, and raises Timeout when they are over; with
        0 it does not wait. The wait is at the host; many threads can wait at the same time, over few connections.

        With a `lookup_id` it takes that message, or the `seek` "next" or "previous" to it; `seek="first"` and "last"
        need none. Nothing is waited for then, and MessageNotFound says that it is not there or somebody has it.

        The host removes the message when it hears that it has arrived here. So nothing is lost with a connection: one
        that breaks during the wait is made again, for as long as `timeout` of waypost.msmq says, and the wait goes on.
        If it breaks just when the host is being told, nobody knows whether it was, and the message is returned: it may
        come a second time, to this reader or another. In that moment alone a message is received twice.

        There are no transactions here: any but None is TransactionUsage.
        """
        refuse_transaction(transaction)
        return self._thread.run(self._source.receive, timeout, lookup_id, seek)

    def peek(
        self, timeout: float | None = None, *, lookup_id: int | None = None, seek: Seek | None = None
    ) -> Message:  # fmt: skip
        """Look at the first message and leave it there. The arguments are those of `receive`."""
        return self._thread.run(self._source.peek, timeout, lookup_id, seek)

    def browse(self) -> Iterator[Message]:
        """Look at all messages in their order, without waiting for more. Others may receive them meanwhile.

        Raises SessionLost if the connection breaks: the place in the queue is lost with it.
        """
        with HostCursor(self._thread, self._source.cursor(AccessType.PEEK)) as cursor:
            try:
                yield cursor.peek(0)
                while True:
                    yield cursor.peek_next(0)
            except Timeout:
                return

    def follow(self, timeout: float | None = None) -> Iterator[Message]:
        """Receive message after message, for ever, or until none has come for `timeout` seconds.

        A message is out of the queue before you see it, so it is lost if your program fails then.
        """
        while True:
            try:
                message = self.receive(timeout)
            except Timeout:
                return
            yield message

    def cursor(self) -> "HostCursor":
        """A cursor at the start of the queue, to look through it and receive what is found on the way."""
        return HostCursor(self._thread, self._source.cursor(AccessType.RECEIVE))

    def move(self, message: Message | int, to: Name) -> None:
        """Move a message, or the one with this lookup id, to a subqueue, or back, with all that belongs to it.

        `to` is the name of the other queue, such as 'orders;retry', or its queue object. Raises MessageNotFound if the
        message is not there, and UnsupportedAccessMode if the host is too old to move messages for others.
        """
        self._thread.run(self._source.move, message, to)

    def purge(self) -> None:
        """Delete all messages. With `is_outcome_unknown`, a HostError says that the host may have done so."""
        self._thread.run(self._source.purge)

    @property
    def journal(self) -> "HostQueue":
        """The journal: copies of what was received, if the queue keeps one."""
        return self._host.queue(str(journal_name(self._name)))

    def subqueue(self, name: str) -> "HostQueue":
        """A subqueue, which comes to be when a message is moved there or somebody reads from it."""
        return self._host.queue(str(subqueue_name(self._name, name)))

    def close(self) -> None:
        """Close what was opened for this object. Reads that wait raise OperationCancelled; the next use opens anew.

        What was opened is shared by all who got the queue from `host.queue(name)`, and so are the waits that end.
        """
        with suppress(ServiceNotAvailable):
            self._thread.run(self._source.close)


class HostCursor:
    """A place in a queue of a host: `queue.cursor()` gives it. It is for one thread at a time.

    `timeout` is None to wait for ever for a message behind the last, as everywhere, and 0 not to wait: Timeout then.
    The place is lost with the connection: SessionLost says so, and the next use starts from the first message.
    """

    __slots__ = ("_cursor", "_thread")

    def __init__(self, thread: "HostThread", cursor: SourceCursor) -> None:
        self._thread: Final = thread
        self._cursor: Final = cursor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def peek(self, timeout: float | None = None) -> Message:
        """Look at the message where the cursor is: at first, and after a receive, the next one that there is.

        Raises MessageAlreadyReceived if somebody has received it since; `peek_next` goes on.
        """
        return self._thread.run(self._cursor.read, ReceiveAction.MQ_ACTION_PEEK_CURRENT, timeout)

    def peek_next(self, timeout: float | None = None) -> Message:
        """Go on, and look at the message there. Raises IllegalCursorAction before the first `peek`."""
        return self._thread.run(self._cursor.read, ReceiveAction.MQ_ACTION_PEEK_NEXT, timeout)

    def receive(self, timeout: float | None = None) -> Message:
        """Receive the message where the cursor is; `HostQueue.receive` says what that means."""
        return self._thread.run(self._cursor.read, ReceiveAction.MQ_ACTION_RECEIVE, timeout)

    def close(self) -> None:
        """Forget the place: if it is used again, it starts from the first message."""
        with suppress(ServiceNotAvailable):
            self._thread.run(self._cursor.close)
