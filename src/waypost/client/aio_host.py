"""`waypost.aio.msmq`: waypost.client.host with coroutines."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Self

from waypost.api.names import Name
from waypost.api.new_bodies import Body
from waypost.api.properties import MessageProperties
from waypost.client.aio_queue import Queue
from waypost.client.aio_with_properties import ManagerSender
from waypost.client.message import Message
from waypost.client.transports.msmq.access import Access
from waypost.client.transports.msmq.address import DEFAULT_PORT, DEFAULT_TIMEOUT, HostAddress
from waypost.client.transports.msmq.transport import AioMsmq
from waypost.guid import guid_text
from waypost.rpc.authentication import Level
from waypost.rpc.settings import MAPPER_PORT
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.client.aio_transaction import Transaction


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
    """Send messages to the queues of any MSMQ host, and read messages from these queues, in the running event loop.

        async with waypost.aio.msmq("winserver01") as host:
            await host.send(r"private$\\orders", "42 bolts", label="from Linux")

    The arguments and errors are the same as for waypost.msmq. A message might arrive even if the call that sends it was
    cancelled. If a receive is cancelled, the client also cancels the request at the host. If a message has already
    arrived for the cancelled receive, the next receive of the same queue object returns the message.
    """
    address = HostAddress.of(host, port, bind, timeout, identifier)
    return Host(AioMsmq(address, Access.of(user, password, level, (rpc_port, qm2qm_port, epm_port))))


class Host(ManagerSender):
    """A connection to an MSMQ host, as returned by `waypost.aio.msmq`.

    Use the object in an `async with` statement, or call `close` at the end.

    `send` returns the message with its `id` when the host has acknowledged the message. At that time, the message is on
    the disk of the host. With `recoverable=False`, the message is only in the memory of the host. A Waypost host
    acknowledges messages without delay. Other hosts can delay an acknowledgment by half a second, or by up to ten
    seconds for an express message.

    The acknowledgment means that the host is now responsible for the message. It does not mean that the message reached
    its queue. With the argument `acknowledge`, the caller asks for reports about the arrival of the message. The host
    sends these reports to the `admin_queue`, but some hosts do not support them. The arguments are the same as for
    `Queue.send`. Queue names refer to queues on the host. `transaction`, `journal` and `dead_letter` are refused,
    because these arguments require a local queue manager.

    `send_many` sends the messages in order. A call that fails might have sent some of its messages. The `timeout`
    applies to all messages of a call together. If `send` or `send_many` fails, it raises a HostError, which is
    HostUnreachable, SessionRefused, SessionLost or NotAcknowledged. The error lists the acknowledged messages. The
    attribute `is_outcome_unknown` of the error is true if some unacknowledged messages might have arrived.

    For reading, the client uses the protocol MS-MQRR, or the protocol MS-MQQP if the host is older. A read raises a
    HostError if the host is unreachable or does not serve readers, and QueueNotFound if the queue does not exist. It
    raises AuthenticationFailed if the host refuses the user, and AccessDenied if the user has no right to read the
    queue. Many reads can wait at the same time, over a few connections.
    """

    __slots__ = ("_transport",)

    def __init__(self, transport: AioMsmq) -> None:
        self._transport: Final = transport

    def __repr__(self) -> str:
        return f"<Host {self._transport.address.text}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The name or address of the host."""
        return self._transport.address.host

    @property
    def identifier(self) -> str:
        """The GUID of this sender. The `id` of every sent message begins with this GUID."""
        return guid_text(self._transport.address.identifier)

    def queue(self, name: Name, *, exclusive: bool = False) -> Queue:
        """Return a queue of the host. The names 'orders' and 'private$\\orders' refer to a private queue, and the name
        '.\\orders' refers to a public queue.

        The name can also be a format name, either for a queue of the host or for a queue to which the host forwards
        messages. Subqueues, journals and 'system$;deadletter' support reads, but not sends.

        With `exclusive`, no other reader can receive from the queue. This restriction applies from the first receive
        until the queue object is closed or the connection ends. The first receive raises SharingViolation if another
        reader has the queue open.

        The host removes a message only after the reader has confirmed the message, so no message is lost if the
        connection breaks. If the connection breaks during a wait, the reader tries to connect again and then continues
        to wait. The `timeout` of waypost.msmq limits the time for these attempts. If the connection breaks during the
        confirmation, the call returns the message, but a reader might receive the same message a second time. The queue
        object supports only methods that read or send messages, and it does not support transactions. Other methods
        raise InvalidParameter.

        If the connection is lost, a cursor and `browse` lose their position and raise SessionLost. The next use of the
        cursor starts from the first message. `move` raises UnsupportedAccessMode if the host is too old to move
        messages for remote readers. After a failed `purge` or `move`, `is_outcome_unknown` of the HostError shows
        whether the host might have completed the operation.
        """
        return self._queue(self._transport.named(name), exclusive=exclusive)

    async def send_record(
        self, queue: Name, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        return await self._destination(queue).send_record(body, properties, transaction)

    async def send_records(
        self,
        queue: Name,
        bodies: Iterable[Body],
        properties: MessageProperties,
        transaction: "Transaction | None" = None,
    ) -> list[Message]:
        return await self._destination(queue).send_records(bodies, properties, transaction)

    async def close(self) -> None:
        """Close the connections. If a send is waiting for an acknowledgment, it raises SessionLost. A waiting read
        raises OperationCancelled. A second call does nothing.
        """
        await self._transport.close()

    def _destination(self, name: Name) -> Queue:
        return self._queue(self._transport.address.destination(name))

    def _queue(self, name: FormatName, *, exclusive: bool = False) -> Queue:
        # The transport shares open queues, and each call makes a new object, so `forget` has nothing to do.
        return Queue(self, self._transport, name, lambda *_: None, exclusive=exclusive)
