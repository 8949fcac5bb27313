"""`waypost.msmq`, for threads: what a program has of a host. waypost.aio has the same as coroutines."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Self

from waypost.api.names import Name
from waypost.api.new_bodies import Body
from waypost.api.properties import MessageProperties
from waypost.client.message import Message
from waypost.client.queue import Queue
from waypost.client.transports.msmq.access import MAPPER_PORT, Access, Level
from waypost.client.transports.msmq.address import DEFAULT_PORT, DEFAULT_TIMEOUT, HostAddress
from waypost.client.transports.msmq.transport import Msmq
from waypost.client.with_properties import ManagerSender
from waypost.guid import guid_text
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.client.transaction import Transaction


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
    """Send to and read from the queues of any MSMQ host, Windows or Waypost, without a queue manager on this side.

        with waypost.msmq("winserver01", user="CORP\\\\alice", password="...") as host:
            host.send(r"private$\\orders", "42 bolts", label="from Linux")
            for message in host.queue(r"private$\\orders").browse():
                print(message.label, message.body)

    `host` is a name or an IP address. Nothing is stored here: `send` returns when the host has acknowledged the
    message, and otherwise raises a HostError. Use `waypost.open` or `waypost serve` for messages that must wait for a
    host that is down, or arrive exactly once. `host.queue(name)` reads.

    Connections are made when they are needed, from the address `bind` if it is given. `timeout` is the time in seconds
    for one request, including its connection; the time to wait for a message comes on top. `identifier` is the GUID of
    the sender (default: a new one). Every thread can use the object.

    The other arguments are for reading. `user` is DOMAIN\\user or user@REALM; without a `password`, Kerberos must have
    a ticket for the user. The logon is Kerberos if possible, otherwise NTLM. `level` is the protection of calls:
    "privacy" (default with a user), "integrity", "connect" or "none" (default without a user). The endpoint mapper of
    the host at `epm_port` reports the ports of RemoteRead and qm2qm; if it does not answer, or `epm_port` is None, they
    are 2103 and 2105.
    """
    address = HostAddress.of(host, port, bind, timeout, identifier)
    return Host(Msmq(address, Access.of(user, password, level, (rpc_port, qm2qm_port, epm_port))))


class Host(ManagerSender):
    """An MSMQ host to send to and to read from, from `waypost.msmq`.

    Close it, or use it in a `with` statement.

    `send` returns a message with its `id` when the host has acknowledged it. A recoverable message, the default, is
    then on the disk of the host; with `recoverable=False` it is in its memory. Waypost acknowledges at once; other
    hosts may take half a second, and up to ten seconds for an express message.

    The host acknowledges every message that it takes over, even for a queue that it does not have. To learn whether the
    message reached its queue, ask with `acknowledge` and an `admin_queue`; not every host reports it. The arguments are
    those of `Queue.send`, and queues are named as on the host. `transaction`, `journal` and `dead_letter` need a queue
    manager on this side, and are refused.

    `send_many` sends in order, but not all or none; `timeout` is for all messages together. Both raise a HostError:
    HostUnreachable, SessionRefused, SessionLost or NotAcknowledged. The error lists the acknowledged messages, and
    `is_outcome_unknown` is true if others may have arrived nevertheless.

    Reading uses MS-MQRR, or MS-MQQP with older hosts. It raises a HostError if the host does not answer or does not
    serve readers, AuthenticationFailed if the host refuses the user, QueueNotFound for an unknown queue, and
    AccessDenied if the user may not read it. Many calls can wait at the same time over few connections.
    """

    __slots__ = ("_transport",)

    def __init__(self, transport: Msmq) -> None:
        self._transport: Final = transport

    def __repr__(self) -> str:
        return f"<Host {self._transport.address.text}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Name or address of the host."""
        return self._transport.address.host

    @property
    def identifier(self) -> str:
        """GUID of this sender; the `id` of every message begins with it."""
        return guid_text(self._transport.address.identifier)

    def queue(self, name: Name, *, exclusive: bool = False) -> Queue:
        """Return a queue of the host: 'orders' or 'private$\\orders' is a private one, '.\\orders' a public one.

        Every format name works, too, of a queue of the host or one that it forwards messages to. Subqueues, journals
        and 'system$;deadletter' can only be read.

        With `exclusive` it keeps others from receiving, from its first receive until it is closed or the connection
        ends. It raises SharingViolation if the queue is open elsewhere.

        A receive confirms the arrival of the message, and only then does the host remove it. So a broken connection
        loses nothing: it is made again within the `timeout` of waypost.msmq, and the wait continues. If it breaks
        during the confirmation, the message is returned and may come a second time, to this reader or another.
        Transactions are not available. Calls that are not about messages raise InvalidParameter.

        A cursor and `browse` lose their place with the connection and raise SessionLost; the next use of a cursor
        starts from the first message. `move` raises UnsupportedAccessMode if the host is too old. After a `purge` or a
        `move`, `is_outcome_unknown` of a HostError is true if the host may have done it.
        """
        return self._queue(self._transport.named(name), exclusive=exclusive)

    def send_record(
        self, queue: Name, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        return self._destination(queue).send_record(body, properties, transaction)

    def send_records(
        self,
        queue: Name,
        bodies: Iterable[Body],
        properties: MessageProperties,
        transaction: "Transaction | None" = None,
    ) -> list[Message]:
        return self._destination(queue).send_records(bodies, properties, transaction)

    def close(self) -> None:
        """Close the connections. Unacknowledged sends raise SessionLost, and waiting reads raise OperationCancelled. A
        second call does nothing.
        """
        self._transport.close()

    def _destination(self, name: Name) -> Queue:
        return self._queue(self._transport.address.destination(name))

    def _queue(self, name: FormatName, *, exclusive: bool = False) -> Queue:
        # What is open at the host is shared, and the objects are not, so there is nothing to forget.
        return Queue(self, self._transport, name, lambda *_: None, exclusive=exclusive)
