"""The methods that take each property of a message or a queue by its name, for asyncio.

waypost.api.properties is the list; a test compares the parameters here with it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from waypost.api.message_attributes import dead_letter_text, identifier_text, names_text
from waypost.api.names import Name, Names
from waypost.api.new_bodies import Body
from waypost.api.properties import MESSAGE_ROWS, QUEUE_ROWS, MessageProperties, Privacy, QueueProperties
from waypost.client.arguments import with_table
from waypost.client.message import Message
from waypost.wire.base_header import DEFAULT_PRIORITY

if TYPE_CHECKING:
    from waypost.client.aio_queue import Queue
    from waypost.client.aio_transaction import Transaction


class QueueSender(ABC):
    """A queue that can be sent to."""

    __slots__ = ()

    @abstractmethod
    async def send_record(
        self, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        """Send one message with the properties of a record, which `send` makes of its arguments."""

    @abstractmethod
    async def send_records(
        self, bodies: Iterable[Body], properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> list[Message]:
        """Send messages that differ in their bodies with the properties of a record: see `send_many`."""

    @with_table(MESSAGE_ROWS)
    async def send(
        self,
        body: Body,
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        body_type: int | None = None,
        time_to_reach_queue: float | None = None,
        time_to_be_received: float | None = None,
        acknowledge: str = "none",
        admin_queue: Names | None = None,
        response_queue: Names | None = None,
        journal: bool = False,
        dead_letter: bool | Name = False,
        correlation_id: str | bytes | None = None,
        app_tag: int = 0,
        extension: bytes | None = None,
        trace: str | None = None,
        message_class: int = 0,
        connector_type: str | None = None,
        transaction: "Transaction | None" = None,
    ) -> Message:
        """Send one message, and return it with its `id` and `lookup_id` when it is safe.

        A recoverable message, the default, is safe when it is on disk. With `recoverable=False` it is express: much
        faster, kept in memory, and lost when its queue manager stops. Those who send at the same time share the disk.
        In a transaction nothing is waited for: the message is sent, and on disk, when the transaction commits. To a
        transactional queue one sends in a transaction, and to others without.

        `body` is bytes or text. Text arrives as a string at the ActiveXMessageFormatter of .NET and at COM, bytes as
        an array of bytes. A message, with all that belongs to it, has at most 4 MiB; text takes two bytes for a
        character. A queue of `waypost.msmq` differs as the host that it gives says. The properties:
        """
        # In the order of the table: by name it would take six times as long.
        properties = MessageProperties(
            label,
            priority,
            recoverable,
            body_type,
            time_to_reach_queue,
            time_to_be_received,
            acknowledge,
            names_text(admin_queue),
            names_text(response_queue),
            journal,
            dead_letter_text(dead_letter),
            identifier_text(correlation_id),
            app_tag,
            extension,
            trace,
            message_class,
            connector_type,
        )
        return await self.send_record(body, properties, transaction)

    async def send_many(
        self,
        bodies: Iterable[Body],
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        body_type: int | None = None,
        time_to_reach_queue: float | None = None,
        time_to_be_received: float | None = None,
        acknowledge: str = "none",
        admin_queue: Names | None = None,
        response_queue: Names | None = None,
        journal: bool = False,
        dead_letter: bool | Name = False,
        correlation_id: str | bytes | None = None,
        app_tag: int = 0,
        extension: bytes | None = None,
        trace: str | None = None,
        message_class: int = 0,
        connector_type: str | None = None,
        transaction: "Transaction | None" = None,
    ) -> list[Message]:
        """Send messages that differ in their bodies, all of them or none, with one flush to disk.

        The bodies are all text or all bytes. The properties are those of `send`, and hold for each message.
        """
        # In the order of the table: by name it would take six times as long.
        properties = MessageProperties(
            label,
            priority,
            recoverable,
            body_type,
            time_to_reach_queue,
            time_to_be_received,
            acknowledge,
            names_text(admin_queue),
            names_text(response_queue),
            journal,
            dead_letter_text(dead_letter),
            identifier_text(correlation_id),
            app_tag,
            extension,
            trace,
            message_class,
            connector_type,
        )
        return await self.send_records(bodies, properties, transaction)


class ManagerSender(ABC):
    """A queue manager, or an MSMQ host, that sends to any queue."""

    __slots__ = ()

    @abstractmethod
    async def send_record(
        self, queue: Name, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        """Send one message with the properties of a record, which `send` makes of its arguments."""

    @abstractmethod
    async def send_records(
        self,
        queue: Name,
        bodies: Iterable[Body],
        properties: MessageProperties,
        transaction: "Transaction | None" = None,
    ) -> list[Message]:
        """Send messages that differ in their bodies with the properties of a record: see `send_many`."""

    async def send(
        self,
        queue: Name,
        body: Body,
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        body_type: int | None = None,
        time_to_reach_queue: float | None = None,
        time_to_be_received: float | None = None,
        acknowledge: str = "none",
        admin_queue: Names | None = None,
        response_queue: Names | None = None,
        journal: bool = False,
        dead_letter: bool | Name = False,
        correlation_id: str | bytes | None = None,
        app_tag: int = 0,
        extension: bytes | None = None,
        trace: str | None = None,
        message_class: int = 0,
        connector_type: str | None = None,
        transaction: "Transaction | None" = None,
    ) -> Message:
        """Send one message to any queue, here or elsewhere, or to several, whose format names are joined with commas.

        What goes to another computer waits in an outgoing queue until it can be transferred. The arguments are those of
        `Queue.send`.
        """
        # In the order of the table: by name it would take six times as long.
        properties = MessageProperties(
            label,
            priority,
            recoverable,
            body_type,
            time_to_reach_queue,
            time_to_be_received,
            acknowledge,
            names_text(admin_queue),
            names_text(response_queue),
            journal,
            dead_letter_text(dead_letter),
            identifier_text(correlation_id),
            app_tag,
            extension,
            trace,
            message_class,
            connector_type,
        )
        return await self.send_record(queue, body, properties, transaction)

    async def send_many(
        self,
        queue: Name,
        bodies: Iterable[Body],
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        body_type: int | None = None,
        time_to_reach_queue: float | None = None,
        time_to_be_received: float | None = None,
        acknowledge: str = "none",
        admin_queue: Names | None = None,
        response_queue: Names | None = None,
        journal: bool = False,
        dead_letter: bool | Name = False,
        correlation_id: str | bytes | None = None,
        app_tag: int = 0,
        extension: bytes | None = None,
        trace: str | None = None,
        message_class: int = 0,
        connector_type: str | None = None,
        transaction: "Transaction | None" = None,
    ) -> list[Message]:
        """Send messages that differ in their bodies, with the properties of `Queue.send`: see `Queue.send_many`."""
        # In the order of the table: by name it would take six times as long.
        properties = MessageProperties(
            label,
            priority,
            recoverable,
            body_type,
            time_to_reach_queue,
            time_to_be_received,
            acknowledge,
            names_text(admin_queue),
            names_text(response_queue),
            journal,
            dead_letter_text(dead_letter),
            identifier_text(correlation_id),
            app_tag,
            extension,
            trace,
            message_class,
            connector_type,
        )
        return await self.send_records(queue, bodies, properties, transaction)


class QueueSetter(ABC):
    """A queue whose properties can be changed."""

    __slots__ = ()

    @abstractmethod
    async def set_record(self, properties: QueueProperties) -> None:
        """Change the properties that a record has, which `set` makes of its arguments."""

    @with_table(QUEUE_ROWS)
    async def set(
        self,
        *,
        label: str | UnsetType = UNSET,
        journal: bool | UnsetType = UNSET,
        quota_kb: int | UnsetType | None = UNSET,
        journal_quota_kb: int | UnsetType | None = UNSET,
        authenticate: bool | UnsetType = UNSET,
        privacy: Privacy | UnsetType = UNSET,
        base_priority: int | UnsetType = UNSET,
        type_id: str | UnsetType = UNSET,
        multicast: str | UnsetType = UNSET,
    ) -> None:
        """Change properties of the queue; those that are not given stay:"""
        properties = QueueProperties(
            label,
            journal,
            quota_kb,
            journal_quota_kb,
            authenticate,
            privacy,
            base_priority,
            type_id,
            multicast,
        )
        await self.set_record(properties)


class QueueCreator(ABC):
    """A queue manager that queues can be created on."""

    __slots__ = ()

    @abstractmethod
    async def create_queue_record(
        self, name: Name, properties: QueueProperties, *, transactional: bool = False
    ) -> "Queue":
        """Make a queue with the properties of a record, which `create_queue` makes of its arguments."""

    @with_table(QUEUE_ROWS)
    async def create_queue(
        self,
        name: Name,
        *,
        transactional: bool = False,
        label: str | UnsetType = UNSET,
        journal: bool | UnsetType = UNSET,
        quota_kb: int | UnsetType | None = UNSET,
        journal_quota_kb: int | UnsetType | None = UNSET,
        authenticate: bool | UnsetType = UNSET,
        privacy: Privacy | UnsetType = UNSET,
        base_priority: int | UnsetType = UNSET,
        type_id: str | UnsetType = UNSET,
        multicast: str | UnsetType = UNSET,
    ) -> "Queue":
        """Make a queue. Raises QueueExists if it is there already.

        A transactional queue takes messages in transactions only. That cannot be changed later; the other
        properties can, with `Queue.set`:
        """
        properties = QueueProperties(
            label,
            journal,
            quota_kb,
            journal_quota_kb,
            authenticate,
            privacy,
            base_priority,
            type_id,
            multicast,
        )
        return await self.create_queue_record(name, properties, transactional=transactional)
