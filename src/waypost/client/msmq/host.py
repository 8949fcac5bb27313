"""`waypost.msmq`, for threads: an event loop in a thread of its own sends what all others give to it."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock, Thread
from typing import Final, Self, Unpack

from waypost.client.bodies import Body
from waypost.client.message import Message
from waypost.client.msmq.outgoing import Outgoing, Writer
from waypost.client.msmq.place import DEFAULT_PORT, DEFAULT_TIMEOUT, Place
from waypost.client.msmq.sender import Sender
from waypost.client.names import Name
from waypost.client.sending import DEFAULT_PRIORITY, SendProperties
from waypost.errors import ServiceNotAvailable
from waypost.guid import guid_text
from waypost.wire.format_names import FormatName


def msmq(
    host: str,
    *,
    port: int = DEFAULT_PORT,
    bind: str = "",
    timeout: float = DEFAULT_TIMEOUT,
    identifier: str | None = None,
) -> "Host":
    """Send to the queues of any MSMQ host, Windows or Waypost, without a queue manager of one's own.

        with waypost.msmq("winserver01") as host:
            host.send(r"private$\\orders", "42 bolts", label="from Linux")

    `host` is a name or an IP address. Nothing is stored here: `send` returns when the host has acknowledged the
    message, and raises a HostError if it does not. What has to wait for a host that is down, and what has to arrive
    exactly once, is sent from a queue manager: see waypost.open and `waypost serve`.

    The connection is made when something is sent, from the address `bind` if one is given. `timeout` is how many
    seconds one send may take, with the connection that it may need. `identifier` is the GUID under which the host knows
    the sender, a new one unless given. Every thread can use the object.
    """
    return Host(Place.of(host, port, bind, timeout, identifier))


class Host:
    """An MSMQ host to send to: `waypost.msmq` gives it. Close it, or use it in a `with` statement."""

    __slots__ = ("_place", "_thread", "_writer")

    def __init__(self, place: Place) -> None:
        self._place: Final = place
        self._writer: Final = Writer(place)
        self._thread: Final = SendingThread(place)

    def __repr__(self) -> str:
        return f"<Host {self._place.text}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The name or address of the host."""
        return self._place.host

    @property
    def identifier(self) -> str:
        """The GUID under which the host knows this sender; the `id` of every message begins with it."""
        return guid_text(self._place.identifier)

    def queue(self, name: Name) -> "HostQueue":
        """A queue of the host: 'orders' or 'private$\\\\orders' is a private one, '.\\\\orders' a public one.

        Any format name is taken, too: of a queue that the host has, or that it passes messages on to.
        """
        return HostQueue(self._writer, self._thread, self._place.destination(name))

    def send(
        self,
        queue: Name,
        body: Body,
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        transaction: None = None,
        **properties: Unpack[SendProperties],
    ) -> Message:
        """Send one message, and return it with its `id` when the host has acknowledged it.

        A recoverable message, the default, is on the host's disk then; with `recoverable=False` it is in its memory.
        How soon a host acknowledges is its own affair: Waypost does it at once, others may wait for half a second, and
        for up to ten with an express message.

        The host acknowledges what it has taken over. Whether it has such a queue, and the message got there, it tells
        the `admin_queue` if the message asks for that with `acknowledge`, and if the host does that at all. The
        arguments are those of `Queue.send`; queues are named as seen from the host. `transaction`, `journal` and
        `dead_letter` need a queue manager of one's own, and are refused.

        Raises a HostError: HostUnreachable, SessionRefused, SessionLost or NotAcknowledged. Its `is_outcome_unknown`
        says whether the message may have arrived nevertheless.
        """
        return self.queue(queue).send(
            body, label=label, priority=priority, recoverable=recoverable, transaction=transaction, **properties
        )

    def send_many(
        self,
        queue: Name,
        bodies: Iterable[Body],
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        transaction: None = None,
        **properties: Unpack[SendProperties],
    ) -> list[Message]:
        """Send messages that differ in their bodies, and return them when all are acknowledged.

        They arrive in their order. It is not all of them or none: the error says which ones are acknowledged, and of
        which ones it is not known. `timeout` is for all of them together.
        """
        return self.queue(queue).send_many(
            bodies, label=label, priority=priority, recoverable=recoverable, transaction=transaction, **properties
        )

    def close(self) -> None:
        """Close the connection. What is not acknowledged yet raises SessionLost. A second time it does nothing."""
        self._thread.close()


class HostQueue:
    """A queue of a host: `host.queue(name)` gives it."""

    __slots__ = ("_name", "_thread", "_writer")

    def __init__(self, writer: Writer, thread: "SendingThread", name: FormatName) -> None:
        self._writer: Final = writer
        self._thread: Final = thread
        self._name: Final = name

    def __repr__(self) -> str:
        return f"<HostQueue {self.format_name}>"

    @property
    def format_name(self) -> str:
        """The format name under which messages go there."""
        return str(self._name)

    def send(
        self,
        body: Body,
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        transaction: None = None,
        **properties: Unpack[SendProperties],
    ) -> Message:
        """Send one message: see `Host.send`."""
        like = {"label": label, "priority": priority, "recoverable": recoverable, "transaction": transaction}
        return self._thread.send(self._writer.one(self._name, body, properties, like=like))[0]

    def send_many(
        self,
        bodies: Iterable[Body],
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        transaction: None = None,
        **properties: Unpack[SendProperties],
    ) -> list[Message]:
        """Send messages that differ in their bodies: see `Host.send_many`."""
        like = {"label": label, "priority": priority, "recoverable": recoverable, "transaction": transaction}
        outgoing = self._writer.many(self._name, bodies, properties, like=like)
        return [] if outgoing is None else self._thread.send(outgoing)


class SendingThread:
    """A loop with a sender, from the first use to the end."""

    __slots__ = ("_is_closed", "_lock", "_loop", "_place", "_process", "_sender", "_thread")

    def __init__(self, place: Place) -> None:
        self._place: Final = place
        self._lock: Final = Lock()
        self._process: Final = os.getpid()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._sender: Final = Sender(place)

    def send(self, outgoing: Outgoing) -> list[Message]:
        loop = self._started()
        future = asyncio.run_coroutine_threadsafe(self._sender.send(outgoing), loop)
        try:
            return future.result()
        except BaseException:
            # Of an interruption; else it is done.
            future.cancel()
            raise

    def close(self) -> None:
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
            loop, thread = self._loop, self._thread
        if not is_first or loop is None or thread is None or self._process != os.getpid():
            return
        asyncio.run_coroutine_threadsafe(self._sender.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                raise ServiceNotAvailable(f"the connection to {self._place.text} is closed")
            if self._process != os.getpid():
                raise ServiceNotAvailable("the host was opened in another process; open it in this one, too")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=_run, args=(self._loop,), name="waypost-msmq", daemon=True)
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        with suppress(RuntimeError):
            loop.run_until_complete(_cancel_all())
        loop.close()


async def _cancel_all() -> None:
    """What others have started and not waited for ends with the loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
