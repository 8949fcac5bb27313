"""Methods that take each property of a message or a queue by its name, for asyncio.

waypost.api.properties has the list of properties; a test compares the parameters here with it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from waypost.api.message_attributes import dead_letter_text, identifier_text, names_text
from waypost.api.names import Name, Names
from waypost.api.new_bodies import Body
from waypost.api.properties import (
    MESSAGE_ROWS,
    QUEUE_ROWS,
    Algorithm,
    Hash,
    MessageProperties,
    Privacy,
    QueueProperties,
)
from waypost.client.arguments import with_table
from waypost.client.certificate_files import Certificate, certificate_text
from waypost.client.message import Message
from waypost.wire.base_header import DEFAULT_PRIORITY

if TYPE_CHECKING:
    from waypost.client.aio_queue import Queue
    from waypost.client.aio_transaction import Transaction


class QueueSender(ABC):
    """A queue that takes messages."""

    __slots__ = ()

    @abstractmethod
    async def send_record(
        self, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        """Send one message with the properties in a `MessageProperties` record. `send` builds this record from its
        arguments.
        """

    @abstractmethod
    async def send_records(
        self, bodies: Iterable[Body], properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> list[Message]:
        """Send several bodies, as `send_many` does, with the properties in a `MessageProperties` record."""

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
        sign: bool = False,
        certificate: Certificate | None = None,
        signature: int | None = None,
        hash: Hash | None = None,  # noqa: A002, the name of the property
        encrypt: bool = False,
        algorithm: Algorithm | None = None,
        certificate_password: str = "",
        transaction: "Transaction | None" = None,
    ) -> Message:
        """Send one message. After the message is stored, the call returns it with its `id` and `lookup_id`.

        By default, a message is recoverable and is stored on disk. With `recoverable=False`, the message is an express
        message. Express messages are much faster, but they are kept in memory and are lost when their queue manager
        stops. Concurrent senders share one flush to disk. In a transaction, `send` does not wait, because the commit
        sends the message and stores it on disk. A transactional queue accepts only messages that are sent in a
        transaction. Other queues accept only messages that are sent without a transaction.

        `body` is bytes or text. COM programs, and .NET programs that use the ActiveXMessageFormatter, read text as a
        string, and bytes as an array of bytes. The maximum size of a message, including all its properties, is 4 MiB.
        Text takes two bytes per character. The class `Host` describes how queues of `waypost.msmq` differ.
        `certificate` can also be a PEM or PKCS#12 file, as a path or as bytes, and `certificate_password` is the
        password of this file. The properties of a message are:
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
            sign,
            certificate_text(certificate, certificate_password),
            signature,
            hash,
            encrypt,
            algorithm,
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
        sign: bool = False,
        certificate: Certificate | None = None,
        signature: int | None = None,
        hash: Hash | None = None,  # noqa: A002, the name of the property
        encrypt: bool = False,
        algorithm: Algorithm | None = None,
        certificate_password: str = "",
        transaction: "Transaction | None" = None,
    ) -> list[Message]:
        """Send several bodies with the same properties and one flush to disk. Either all bodies are sent, or none is
        sent.

        Either all bodies must be text, or all bodies must be bytes. The properties are the same as for `send`, and
        apply to each message.
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
            sign,
            certificate_text(certificate, certificate_password),
            signature,
            hash,
            encrypt,
            algorithm,
        )
        return await self.send_records(bodies, properties, transaction)


class ManagerSender(ABC):
    """A queue manager, or an MSMQ host, that sends to any queue."""

    __slots__ = ()

    @abstractmethod
    async def send_record(
        self, queue: Name, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        """Send one message with the properties in a `MessageProperties` record. `send` builds this record from its
        arguments.
        """

    @abstractmethod
    async def send_records(
        self,
        queue: Name,
        bodies: Iterable[Body],
        properties: MessageProperties,
        transaction: "Transaction | None" = None,
    ) -> list[Message]:
        """Send several bodies, as `send_many` does, with the properties in a `MessageProperties` record."""

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
        sign: bool = False,
        certificate: Certificate | None = None,
        signature: int | None = None,
        hash: Hash | None = None,  # noqa: A002, the name of the property
        encrypt: bool = False,
        algorithm: Algorithm | None = None,
        certificate_password: str = "",
        transaction: "Transaction | None" = None,
    ) -> Message:
        """Send one message to a local or remote queue, or to several queues. Separate several format names with commas.

        A queue manager keeps a message for another computer in an outgoing queue until the message is transferred. The
        arguments are the same as for `Queue.send`.
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
            sign,
            certificate_text(certificate, certificate_password),
            signature,
            hash,
            encrypt,
            algorithm,
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
        sign: bool = False,
        certificate: Certificate | None = None,
        signature: int | None = None,
        hash: Hash | None = None,  # noqa: A002, the name of the property
        encrypt: bool = False,
        algorithm: Algorithm | None = None,
        certificate_password: str = "",
        transaction: "Transaction | None" = None,
    ) -> list[Message]:
        """Send several bodies with the same properties, as `Queue.send_many` does."""
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
            sign,
            certificate_text(certificate, certificate_password),
            signature,
            hash,
            encrypt,
            algorithm,
        )
        return await self.send_records(queue, bodies, properties, transaction)


class QueueSetter(ABC):
    """A queue with properties that a program can change."""

    __slots__ = ()

    @abstractmethod
    async def set_record(self, properties: QueueProperties) -> None:
        """Change the queue properties that a `QueueProperties` record contains. `set` builds this record from its
        arguments.
        """

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
        """Change properties of the queue. Properties that are not specified stay unchanged. The properties of a queue
        are:
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
        await self.set_record(properties)


class QueueCreator(ABC):
    """A queue manager that can create queues."""

    __slots__ = ()

    @abstractmethod
    async def create_queue_record(
        self, name: Name, properties: QueueProperties, *, transactional: bool = False
    ) -> "Queue":
        """Create a queue with the properties in a `QueueProperties` record. `create_queue` builds this record from its
        arguments.
        """

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
        """Create a queue. Raises QueueExists if the queue already exists.

        A transactional queue accepts only messages that are sent in a transaction. The value of `transactional` cannot
        change later. `Queue.set` can change all other properties, which are:
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
