"""`waypost.msmq` for threads: an MSMQ host to send to and read from. waypost.aio has the same with coroutines."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Self

from waypost.api.names import Name
from waypost.api.new_bodies import Body
from waypost.api.properties import MessageProperties
from waypost.client.message import Message
from waypost.client.queue import Queue
from waypost.client.transports.msmq.access import Access
from waypost.client.transports.msmq.address import DEFAULT_PORT, DEFAULT_TIMEOUT, HostAddress
from waypost.client.transports.msmq.transport import Msmq
from waypost.client.with_properties import ManagerSender
from waypost.guid import guid_text
from waypost.rpc.authentication import Level
from waypost.rpc.settings import MAPPER_PORT
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
    """Send to and read from queues of any MSMQ host, Windows or Waypost, without a local queue manager.

        with waypost.msmq("winserver01", user="CORP\\\\alice", password="...") as host:
            host.send(r"private$\\orders", "42 bolts", label="from Linux")
            for message in host.queue(r"private$\\orders").browse():
                print(message.label, message.body)

    `host` is a name or an IP address. Nothing is stored on this computer: `send` returns when the host has acknowledged
    the message, and raises a HostError if the host does not acknowledge the message. To send messages while the host is
    down, or to send messages exactly once, use a queue manager: waypost.open or `waypost serve`. `host.queue(name)`
    returns a queue to read from.

    The first operation opens the connections. `bind` is the local address for connections. `timeout` is the maximum
    time for one operation, including the time to connect, in seconds.
    `timeout` does not include the time for which a read waits for a message. `identifier` is the GUID of this sender
    (default: a new GUID). The object is thread-safe.

    The other arguments are for reading. `user` is DOMAIN\\user or user@REALM. Without a `password`, the user needs
    Kerberos credentials. The logon uses Kerberos if possible, otherwise NTLM. `level` is the protection of calls:
    "privacy", "integrity", "connect" or "none" (default: "privacy" if `user` is set, "none" if not). The endpoint
    mapper of the host, at `epm_port`, returns the ports of RemoteRead and qm2qm. If the endpoint mapper does not
    answer, or `epm_port` is None, the ports are 2103 and 2105.
    """
    address = HostAddress.of(host, port, bind, timeout, identifier)
    return Host(Msmq(address, Access.of(user, password, level, (rpc_port, qm2qm_port, epm_port))))


class Host(ManagerSender):
    """An MSMQ host to send to and read from, as returned by `waypost.msmq`.

    Use the host in a `with` statement, or close it.

    `send` returns the message with its `id` when the host has acknowledged the message. At that time, the
    message is on the disk of the host. With `recoverable=False`, the message is only in the memory of the
    host. A Waypost host acknowledges without delay. Other hosts may take half a second, or up to ten seconds for an
    express message.

    The acknowledgment means that the host is now responsible for the message, but not that the message reached its
    queue. `acknowledge` requests reports about the arrival of the message, which the host sends to the `admin_queue`.
    Not every host sends these reports. The arguments are the same as for `Queue.send`. Queue names refer to queues on
    the host. `transaction`, `journal` and `dead_letter` are refused, because these arguments require a local queue
    manager.

    `send_many` sends in order, and may send only a part of the messages. `timeout` applies to all messages together. If
    `send` or `send_many` fails, it raises a HostError: HostUnreachable, SessionRefused, SessionLost or NotAcknowledged.
    The error lists the acknowledged messages. `is_outcome_unknown` of the error is true if unacknowledged messages may
    also have arrived.

    Reads use MS-MQRR, or MS-MQQP with older hosts. Reads raise a HostError if the host is unreachable or does not serve
    readers, AuthenticationFailed if the host refuses the user, QueueNotFound if the queue does not exist, and
    AccessDenied if the user has no right to read the queue. Many reads can wait at the same time, over a few
    connections.
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
        """The name or address of the host."""
        return self._transport.address.host

    @property
    def identifier(self) -> str:
        """The GUID of this sender. The `id` of every sent message begins with this GUID."""
        return guid_text(self._transport.address.identifier)

    def queue(self, name: Name, *, exclusive: bool = False) -> Queue:
        """Return a queue of the host: 'orders' or 'private$\\orders' is a private queue, '.\\orders' is a public queue.

        The name can also be a format name, either for a queue of the host or for a queue to which the host forwards
        messages. Subqueues, journals and 'system$;deadletter' support reads, but not sends.

        With `exclusive`, no other reader can receive from the queue. This applies from the first receive until the
        queue object is closed or the connection ends. The first receive raises SharingViolation if another reader has
        the queue open.

        The host removes a message when the reader has confirmed the message, so a broken connection loses no message.
        If the connection breaks during a wait, the reader tries to connect again, for up to the `timeout` of
        waypost.msmq, and continues to wait. If the connection breaks during the confirmation, the call returns the
        message, but a reader may receive the same message a second time. The queue supports only methods that read or
        send messages, and no transactions. Other methods raise InvalidParameter.

        If the connection is lost, a cursor and `browse` lose their position and raise SessionLost. The next use of the
        cursor starts from the first message. `move` raises UnsupportedAccessMode if the host is too old to move
        messages for remote readers. After a failed `purge` or `move`, `is_outcome_unknown` of the HostError shows
        whether the host may have completed the operation.
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
        """Close the connections. Sends that wait for an acknowledgment raise SessionLost, and waiting reads raise
        OperationCancelled. A second call does nothing.
        """
        self._transport.close()

    def _destination(self, name: Name) -> Queue:
        return self._queue(self._transport.address.destination(name))

    def _queue(self, name: FormatName, *, exclusive: bool = False) -> Queue:
        # The transport shares open queues, and each call makes a new object, so `forget` has nothing to do.
        return Queue(self, self._transport, name, lambda *_: None, exclusive=exclusive)
