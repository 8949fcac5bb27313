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

    The arguments and errors are those of waypost.msmq. A message may arrive although its send was cancelled. A
    cancelled receive ends at the host too; if it had its message already, the next receive of the queue object gets it.
    """
    address = HostAddress.of(host, port, bind, timeout, identifier)
    return Host(AioMsmq(address, Access.of(user, password, level, (rpc_port, qm2qm_port, epm_port))))


class Host(ManagerSender):
    """An MSMQ host to send to and to read from: `waypost.msmq` gives it.

    Close it, or use it in a `with` statement.

    `send` returns a message with its `id` when the host has acknowledged it. A recoverable message, the default, is on
    the host's disk then; with `recoverable=False` it is in its memory. Waypost acknowledges without delay; other hosts
    may take half a second, and up to ten seconds for an express message.

    The acknowledgment means that the host has taken the message over. If the message asks for it with `acknowledge`,
    the host reports to the `admin_queue` whether the message reached its queue; not every host does. The arguments
    are those of `Queue.send`; names of queues are as seen from the host. `transaction`, `journal` and `dead_letter`
    need a local queue manager, and are refused.

    `send_many` sends in order, and may send a part of the messages; `timeout` is for all of them together. Both raise a
    HostError: HostUnreachable, SessionRefused, SessionLost or NotAcknowledged. It says which messages are acknowledged,
    and its `is_outcome_unknown` whether others may have arrived nevertheless.

    Reads use MS-MQRR, or MS-MQQP with older hosts. They raise a HostError if the host is unreachable or does not
    serve readers, AuthenticationFailed if it refuses the user, QueueNotFound if the queue does not exist, and
    AccessDenied if the user may not read it. Many reads can wait at the same time, over few connections.
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

        A format name also works, of a queue of the host or of one that it passes messages on to. Subqueues, journals
        and 'system$;deadletter' can be read and not sent to.

        With `exclusive` it keeps others from receiving, from its first receive until it is closed or the connection
        ends; the receive raises SharingViolation if another reader has the queue open.

        The host removes a message when the reader has confirmed it. So a broken connection loses no message: if it
        breaks during a wait, the reader connects again, for as long as `timeout` of waypost.msmq says, and the wait
        goes on. If it breaks during the confirmation, the message is returned, and may come a second time, to this
        reader or another. The queue has no transactions, and no methods but those for messages: InvalidParameter
        refuses the rest.

        A cursor and `browse` lose their place with the connection and raise SessionLost; the next use of a cursor
        starts from the first message. `move` raises UnsupportedAccessMode if the host is too old to move messages for
        others. If a `purge` or a `move` raises a HostError, its `is_outcome_unknown` says whether the host may have
        done it.
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
        """Close the connections. Sends without an acknowledgment raise SessionLost, and reads that wait
        OperationCancelled. A second call does nothing.
        """
        await self._transport.close()

    def _destination(self, name: Name) -> Queue:
        return self._queue(self._transport.address.destination(name))

    def _queue(self, name: FormatName, *, exclusive: bool = False) -> Queue:
        # The transport shares open queues, and each call makes a new object, so `forget` has nothing to do.
        return Queue(self, self._transport, name, lambda *_: None, exclusive=exclusive)
