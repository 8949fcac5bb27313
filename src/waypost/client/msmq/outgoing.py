"""Messages for a host: what was said of them, checked, as packets."""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from random import SystemRandom
from typing import Any, Final

from msgspec.structs import replace

from waypost.api.message_attributes import message_attributes
from waypost.api.new_bodies import Body, encode_bodies, encode_body
from waypost.api.properties import MessageProperties
from waypost.client.message import Message
from waypost.client.msmq.place import Place
from waypost.core.message import Message as CoreMessage
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.serialization import packet_of
from waypost.errors import InvalidParameter, TransactionUsage
from waypost.wire.format_names import FormatName, PublicFormatName
from waypost.wire.identifiers import MessageIdentifier

_MAX_ORDINAL: Final = 0xFFFF_FFFF


class Outgoing:
    """Messages that are sent together: all alike but for their bodies."""

    __slots__ = ("_messages",)

    def __init__(self, messages: Sequence[CoreMessage]) -> None:
        self._messages: Final = messages
        if not self._is_public:
            # What no packet can carry is refused before anything is sent.
            for message in messages:
                packet_of(message)

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_recoverable(self) -> bool:
        return self._messages[0].delivery_guarantee is DeliveryGuarantee.RECOVERABLE

    @property
    def _is_public(self) -> bool:
        return isinstance(self._messages[0].destination_queue_format_name, PublicFormatName)

    def packets(self, host_guid: bytes) -> list[bytes]:
        """The packets, for the queue manager with this GUID: the name of a public queue does not tell it."""
        if self._is_public:
            for message in self._messages:
                message.destination_queue_manager_identifier = host_guid
                message.packet = b""
        return [packet_of(message) for message in self._messages]

    def messages(self) -> list[Message]:
        return [Message(message) for message in self._messages]


class Writer:
    """Makes the messages of one sender. Any thread can use it."""

    __slots__ = ("_ordinals", "place")

    def __init__(self, place: Place) -> None:
        self.place: Final = place
        # A sender that has its identifier from one before must not repeat its numbers: the host would take the messages
        # for copies of those that it knows, and drop them (MS-MQQB 3.1.5.8.2).
        self._ordinals: Final = count(SystemRandom().randrange(_MAX_ORDINAL))

    def one(self, queue: FormatName, body: Body, properties: MessageProperties, transaction: object) -> Outgoing:
        attributes = self._attributes(queue, properties, transaction)
        attributes["body"], attributes["body_type"] = encode_body(body, properties.body_type)
        return Outgoing([self._message(attributes)])

    def many(
        self, queue: FormatName, bodies: Iterable[Body], properties: MessageProperties, transaction: object
    ) -> Outgoing | None:
        """None if there are no bodies."""
        attributes = self._attributes(queue, properties, transaction)
        encoded, attributes["body_type"] = encode_bodies(bodies, properties.body_type)
        messages = [self._message({**attributes, "body": body}) for body in encoded]
        return Outgoing(messages) if messages else None

    def _message(self, attributes: Mapping[str, Any]) -> CoreMessage:
        ordinal = next(self._ordinals) % _MAX_ORDINAL + 1
        return CoreMessage(**attributes, identifier=MessageIdentifier(self.place.identifier, ordinal))

    def _attributes(self, queue: FormatName, properties: MessageProperties, transaction: object) -> dict[str, Any]:
        if transaction is not None:
            raise TransactionUsage(
                "a transaction needs a store, to send again what the host has not got yet; "
                "send it from a queue manager, with waypost.open or waypost serve"
            )
        for name in ("journal", "dead_letter"):
            if getattr(properties, name):
                raise InvalidParameter(
                    f"{name} needs a queue manager to keep the copy; send from one, with waypost.open or waypost serve"
                )
        if properties.admin_queue is not None or properties.response_queue is not None:
            admin, response = self._named(properties.admin_queue), self._named(properties.response_queue)
            properties = replace(properties, admin_queue=admin, response_queue=response)
        attributes = message_attributes(properties, computer=self.place.host)
        attributes["destination_queue_format_name"] = queue
        attributes["sent_time"] = int(time.time())
        return attributes

    def _named(self, names: str | list[str] | None) -> list[str] | None:
        """Queues are named as seen from the host."""
        if names is None:
            return None
        return [str(self.place.queue(each)) for each in (names if isinstance(names, list) else [names])]
