"""`waypost.msmq`, for threads: an event loop in a thread of its own does what all others ask for."""

import asyncio
from collections.abc import Iterable
from typing import Final, Self

from waypost.api.names import Name
from waypost.api.new_bodies import Body
from waypost.api.properties import MessageProperties
from waypost.client.message import Message
from waypost.client.msmq.access import MAPPER_PORT, Access, Level
from waypost.client.msmq.host_queue import HostQueue
from waypost.client.msmq.outgoing import Writer
from waypost.client.msmq.place import DEFAULT_PORT, DEFAULT_TIMEOUT, Place
from waypost.client.msmq.reader import Reader
from waypost.client.msmq.sender import Sender
from waypost.client.msmq.thread import HostThread
from waypost.client.with_properties import ManagerSender
from waypost.guid import guid_text


def msmq(
    host: str,
    *,
    port: int = DEFAULT_PORT,
    bind: str = "",
    timeout: float = DEFAULT_TIMEOUT,
    identifier: str | None = None,
    user: str | None = None,
    password: str | None = None,
    level: Level | None = None,
    rpc_port: int | None = None,
    qm2qm_port: int | None = None,
    epm_port: int | None = MAPPER_PORT,
) -> "Host":
    """Send to the queues of any MSMQ host, Windows or Waypost, and read them, without a queue manager of one's own.

        with waypost.msmq("winserver01", user="CORP\\\\alice", password="...") as host:
            host.send(r"private$\\orders", "42 bolts", label="from Linux")
            for message in host.queue(r"private$\\orders").browse():
                print(message.label, message.body)

    `host` is a name or an IP address. Nothing is stored here: `send` returns when the host has acknowledged the
    message, and raises a HostError if it does not. What has to wait for a host that is down, and what has to arrive
    exactly once, is sent from a queue manager: see waypost.open and `waypost serve`. `host.queue(name)` reads.

    Connections are made when they are needed, from the address `bind` if one is given. `timeout` is how many seconds
    the host has for one thing, with the connection that it may need; the time to wait for a message comes on top.
    `identifier` is the GUID under which the host knows the sender, a new one unless given. Every thread can use the
    object.

    The others are for reading. `user` is DOMAIN\\user or user@REALM, and without a `password` whom Kerberos knows; it
    logs on by Kerberos where that works, else by NTLM. `level` is how calls are protected: "privacy", "integrity",
    "connect" or "none"; privacy with a user, and none without. The ports of RemoteRead and qm2qm are those that the
    endpoint mapper of the host tells, at `epm_port`; if nothing answers there, or it is None, 2103 and 2105.
    """
    place = Place.of(host, port, bind, timeout, identifier)
    return Host(place, Access.of(user, password, level, (rpc_port, qm2qm_port, epm_port)))


class Host(ManagerSender):
    """An MSMQ host to send to and to read from: `waypost.msmq` gives it.

    Close it, or use it in a `with` statement.

    `send` returns a message with its `id` when the host has acknowledged it. A recoverable message, the default, is on
    the host's disk then; with `recoverable=False` it is in its memory. Hosts acknowledge when they like: Waypost does
    so at once, others may wait for half a second, and for up to ten with an express message.

    The host acknowledges what it has taken over. Whether it has such a queue, and the message got there, it reports to
    the `admin_queue` if the message asks for that with `acknowledge`, and if the host does that at all. The arguments
    are those of `Queue.send`; queues are named as seen from the host. `transaction`, `journal` and `dead_letter` need a
    queue manager of one's own, and are refused.

    `send_many` sends in order, and it is not all of them or none; `timeout` is for all of them together. Both raise a
    HostError: HostUnreachable, SessionRefused, SessionLost or NotAcknowledged. It says which messages are acknowledged,
    and its `is_outcome_unknown` whether others may have arrived nevertheless.
    """

    __slots__ = ("_place", "_reader", "_sender", "_thread", "_writer")

    def __init__(self, place: Place, access: Access) -> None:
        self._place: Final = place
        self._writer: Final = Writer(place)
        self._thread: Final = HostThread(place.text)
        self._sender: Final = Sender(place)
        self._reader: Final = Reader(place, access)

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

    def queue(self, name: Name, *, exclusive: bool = False) -> HostQueue:
        """A queue of the host: 'orders' or 'private$\\\\orders' is a private one, '.\\\\orders' a public one.

        Any format name is taken, too: of a queue that the host has, or that it passes messages on to. Subqueues,
        journals and 'system$;deadletter' can be read and not sent to.

        With `exclusive` it keeps others from receiving, from its first receive until it is closed or the connection
        ends; SharingViolation says that somebody else has the queue open.
        """
        found = self._place.source(name)
        source = self._reader.exclusive_source(found) if exclusive else self._reader.source(found)
        return HostQueue(self, self._thread, found, source)

    def send_record(
        self, queue: Name, body: Body, properties: MessageProperties, transaction: object = None
    ) -> Message:
        outgoing = self._writer.one(self._place.destination(queue), body, properties, transaction)
        return self._thread.run(self._sender.send, outgoing)[0]

    def send_records(
        self, queue: Name, bodies: Iterable[Body], properties: MessageProperties, transaction: object = None
    ) -> list[Message]:
        outgoing = self._writer.many(self._place.destination(queue), bodies, properties, transaction)
        return [] if outgoing is None else self._thread.run(self._sender.send, outgoing)

    def close(self) -> None:
        """Close the connections. What is not acknowledged yet raises SessionLost, and reads that wait
        OperationCancelled. A second time it does nothing.
        """
        self._thread.close(self._close)

    async def _close(self) -> None:
        await asyncio.gather(self._sender.close(), self._reader.close())
