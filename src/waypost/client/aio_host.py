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
    """Send to and read from queues of any MSMQ host, from the running event loop.

        async with waypost.aio.msmq("winserver01") as host:
            await host.send(r"private$\\orders", "42 bolts", label="from Linux")

    The arguments and errors are the same as for waypost.msmq. A message may arrive although its send was cancelled. A
    cancelled receive is also cancelled at the host. If a message had already arrived for this receive, the next receive
    of the queue object returns the message.
    """
    address = HostAddress.of(host, port, bind, timeout, identifier)
    return Host(AioMsmq(address, Access.of(user, password, level, (rpc_port, qm2qm_port, epm_port))))


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
        """Close the connections. Sends that wait for an acknowledgment raise SessionLost, and waiting reads raise
        OperationCancelled. A second call does nothing.
        """
        await self._transport.close()

    def _destination(self, name: Name) -> Queue:
        return self._queue(self._transport.address.destination(name))

    def _queue(self, name: FormatName, *, exclusive: bool = False) -> Queue:
        # The transport shares open queues, and each call makes a new object, so `forget` has nothing to do.
        return Queue(self, self._transport, name, lambda *_: None, exclusive=exclusive)
