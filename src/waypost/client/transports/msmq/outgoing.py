"""Messages for a host, made from checked properties, as packets."""

import dataclasses
import time
from collections.abc import Sequence
from itertools import count
from random import SystemRandom
from typing import Final

from msgspec.structs import replace

from waypost.api.bodies import BYTES
from waypost.api.message_attributes import message_like
from waypost.api.properties import MessageProperties
from waypost.api.protection import refuse_protection
from waypost.client.transports.msmq.address import HostAddress
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.serialization import packet_of
from waypost.errors import InvalidParameter
from waypost.wire.format_names import FormatName, PublicFormatName
from waypost.wire.identifiers import MessageIdentifier

_MAX_ORDINAL: Final = 0xFFFF_FFFF


class Outgoing:
    """Messages of one send, which differ only in their bodies."""

    __slots__ = ("messages",)

    def __init__(self, messages: list[Message]) -> None:
        self.messages: Final = messages
        if not self._is_public:
            # Refuse a message that fits no packet before any is sent.
            for message in messages:
                packet_of(message)

    @property
    def is_recoverable(self) -> bool:
        return self.messages[0].delivery_guarantee is DeliveryGuarantee.RECOVERABLE

    @property
    def _is_public(self) -> bool:
        return isinstance(self.messages[0].destination_queue_format_name, PublicFormatName)

    def packets(self, host_guid: bytes) -> list[bytes]:
        """The packets, for the queue manager with this GUID, which the name of a public queue does not have."""
        if self._is_public:
            for message in self.messages:
                message.destination_queue_manager_identifier = host_guid
                message.packet = b""
        return [packet_of(message) for message in self.messages]


class Writer:
    """Maker of the messages of one sender."""

    __slots__ = ("_address", "_ordinals")

    def __init__(self, address: HostAddress) -> None:
        self._address: Final = address
        # A sender with the identifier of an earlier one must not repeat its numbers: the host would take the messages
        # for duplicates and drop them (MS-MQQB 3.1.5.8.2).
        self._ordinals: Final = count(SystemRandom().randrange(_MAX_ORDINAL))

    def outgoing(self, queue: FormatName, bodies: Sequence[bytes], properties: MessageProperties) -> Outgoing:
        refuse_protection(properties, "waypost.msmq has no keys; send with waypost.open or waypost.connect")
        for name in ("journal", "dead_letter"):
            if getattr(properties, name):
                raise InvalidParameter(
                    f"{name} requires a local queue manager, which stores the copy; send with waypost.open or "
                    "waypost.connect"
                )
        if properties.admin_queue is not None or properties.response_queue is not None:
            admin, response = self._named(properties.admin_queue), self._named(properties.response_queue)
            properties = replace(properties, admin_queue=admin, response_queue=response)
        like = message_like(properties, computer=self._address.host)
        like.body_type = BYTES if properties.body_type is None else properties.body_type
        like.destination_queue_format_name = queue
        like.sent_time = int(time.time())
        return Outgoing([dataclasses.replace(like, body=body, identifier=self._identifier()) for body in bodies])

    def _identifier(self) -> MessageIdentifier:
        return MessageIdentifier(self._address.identifier, next(self._ordinals) % _MAX_ORDINAL + 1)

    def _named(self, names: str | list[str] | None) -> list[str] | None:
        """Format names of queues, as seen from the host."""
        if names is None:
            return None
        return [str(self._address.queue(each)) for each in (names if isinstance(names, list) else [names])]
