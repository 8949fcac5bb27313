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
    """Send to the queues of any MSMQ host, and read them, from the event loop that is running.

        async with waypost.aio.msmq("winserver01") as host:
            await host.send(r"private$\\orders", "42 bolts", label="from Linux")

    The arguments and errors are those of waypost.msmq. A message whose send was cancelled may arrive. A receive that is
    cancelled is ended at the host; if it had its message in that moment, the next one of the queue object gets it.
    """
    address = HostAddress.of(host, port, bind, timeout, identifier)
    return Host(AioMsmq(address, Access.of(user, password, level, (rpc_port, qm2qm_port, epm_port))))


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

    Reading goes over MS-MQRR, or over MS-MQQP with hosts that are older. A host that cannot be reached, or that does
    not serve readers, raises a HostError; one that does not let the user in, AuthenticationFailed; a queue that is not
    there or not for the user, QueueNotFound or AccessDenied. Many can wait at the same time, over few connections.
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
        """The GUID under which the host knows this sender; the `id` of every message begins with it."""
        return guid_text(self._transport.address.identifier)

    def queue(self, name: Name, *, exclusive: bool = False) -> Queue:
        """A queue of the host: 'orders' or 'private$\\orders' is a private one, '.\\orders' a public one.

        Any format name is taken, too: of a queue that the host has, or that it passes messages on to. Subqueues,
        journals and 'system$;deadletter' can be read and not sent to.

        With `exclusive` it keeps others from receiving, from its first receive until it is closed or the connection
        ends; SharingViolation says that somebody else has the queue open.

        A message is received when the host was told that it has come, and the host removes it then. So nothing is lost
        with a connection: one that breaks during the wait is made again, for as long as `timeout` of waypost.msmq says,
        and the wait goes on. If it breaks just when the host is being told, nobody knows whether it was, and the
        message is returned: it may come a second time, to this reader or another. There are no transactions, and
        nothing but messages can be asked for: InvalidParameter refuses the rest.

        The place of a cursor and of `browse` is lost with the connection: SessionLost says so, and the next use of a
        cursor starts from the first message. `move` raises UnsupportedAccessMode if the host is too old to move
        messages for others. After a `purge` or a `move`, `is_outcome_unknown` of a HostError says whether the host may
        have done it.
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
        """Close the connections. What is not acknowledged yet raises SessionLost, and reads that wait
        OperationCancelled. A second time it does nothing.
        """
        await self._transport.close()

    def _destination(self, name: Name) -> Queue:
        return self._queue(self._transport.address.destination(name))

    def _queue(self, name: FormatName, *, exclusive: bool = False) -> Queue:
        # What is open at the host is shared, and the objects are not, so there is nothing to forget.
        return Queue(self, self._transport, name, lambda *_: None, exclusive=exclusive)
