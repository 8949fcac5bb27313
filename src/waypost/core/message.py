"""MS-MQDMPR 3.1.1.12 Message: the data of one message, as an application gives it or a packet brings it.

A message has two faces. The attributes are for applications and the queue manager; `packet` is the UserMessage Packet
that carries them. A received message has both from the start, and its packet is what is stored, relayed, journaled and
handed to remote readers: it is never encoded again. A message of an application gets its packet when that is first
needed (waypost.core.serialization.packet_of). From then on the packet counts: code that changes an attribute in it also
sets `packet` to b"". LOCAL_ATTRIBUTES are the others, which no packet has: they and the packet are all that a store
must keep.

GUIDs are 16 bytes, NULL_GUID for none. Times are seconds since 1970-01-01 UTC, time spans are seconds. An
empty format name is None, an empty collection of them (). MessagePositionReference is missing: positions know their
message. A queue type is computed from its format name, so that the two cannot contradict each other.
"""

from dataclasses import dataclass, field
from typing import Final

from waypost.core.message_values import (
    Acknowledgements,
    AuthenticationLevel,
    DeliveryGuarantee,
    EncryptionAlgorithm,
    QueueType,
    SenderIdentifierType,
)
from waypost.core.packet_names import administration_queue_type, destination_queue_type, response_queue_type
from waypost.guid import NULL_GUID
from waypost.wire import message_properties
from waypost.wire.algorithms import HashAlgorithm, PrivacyLevel
from waypost.wire.base_header import DEFAULT_PRIORITY
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import DirectFormatName, FormatName, PrivateFormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.keys import ProviderType
from waypost.wire.message_class import MessageClass
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.remote_packet import Origin

SECTION: Final = "MS-MQDMPR 3.1.1.12"

NO_IDENTIFIER: Final = MessageIdentifier(NULL_GUID, 0)
_NO_CORRELATION: Final = NO_IDENTIFIER.encode()
# Attributes of a message of an application that are in its packet only where Message.packed_properties puts them.
PACKED_PROPERTIES: Final = frozenset({"application_tag", "correlation_identifier"})
_pack_properties: Final = message_properties.LAYOUT.pack

# Four days. readings MQDMPR 1: MS-MQQB 4.1.7 shows it on the wire.
DEFAULT_TIME_TO_REACH_QUEUE: Final = 345_600

# The names under which the messaging system itself signs.
BASE_PROVIDER: Final = "Microsoft Base Cryptographic Provider, v1.0"
ENHANCED_PROVIDER: Final = "Microsoft Enhanced Cryptographic Provider, v1.0"

LOCAL_ATTRIBUTES: Final = (
    "lookup_identifier",
    "allow_peek_when_locked",
    "application_deadletter_queue",
    "arrival_time",
    "authentication_level",
    "transaction_status_queue_format_name",
    "unit_of_work",
    "abort_count",
    "move_count",
    "last_move_time",
    "target_subqueue_name",
    "origin",
)


@dataclass(slots=True)
class Message:
    lookup_identifier: int = 0
    identifier: MessageIdentifier = NO_IDENTIFIER
    allow_peek_when_locked: bool = False
    application_deadletter_queue: str = ""
    arrival_time: int = 0
    message_class: int = MessageClass.MQMSG_CLASS_NORMAL
    privacy_level: int = PrivacyLevel.NONE
    authentication_level: AuthenticationLevel = AuthenticationLevel.NONE
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXPRESS
    tracing_requested: bool = False
    tracing_queue_identifier: bytes = NULL_GUID
    priority: int = DEFAULT_PRIORITY
    positive_journaling_requested: bool = False
    negative_journaling_requested: bool = False
    response_queue_format_name: FormatName | None = None
    response_multi_queue_format_name: tuple[FormatName, ...] = ()
    destination_queue_format_name: FormatName | None = None
    destination_multi_queue_format_name: tuple[FormatName, ...] = ()
    administration_queue_format_name: FormatName | None = None
    administration_multi_queue_format_name: tuple[FormatName, ...] = ()
    multiple_destination_signature: bytes = b""
    application_tag: int = 0
    body: bytes = b""
    body_type: int = 0
    correlation_identifier: MessageIdentifier = NO_IDENTIFIER
    acknowledgements_requested: int = Acknowledgements.NONE
    label: str = ""
    sent_time: int = 0
    time_to_reach_queue: int = DEFAULT_TIME_TO_REACH_QUEUE
    time_to_be_received: int = INFINITE
    hash_algorithm: int = HashAlgorithm.SHA_1
    encryption_algorithm: int = EncryptionAlgorithm.RC4
    destination_queue_manager_identifier: bytes = NULL_GUID
    # A SID in packet form, or the GUID of a queue manager. The queue manager puts the user's SID here at sending;
    # an empty one is the anonymous sender, for any type.
    sender_identifier: bytes = b""
    sender_certificate: bytes = b""
    sender_identifier_type: SenderIdentifierType = SenderIdentifierType.SID
    extension: bytes = b""
    connector_type_identifier: bytes = NULL_GUID
    connector_queue_manager_identifier: bytes = NULL_GUID
    transaction_status_queue_format_name: FormatName | None = None
    symmetric_key: bytes = b""
    signature: bytes = b""
    authentication_provider_type: int = ProviderType.PROV_RSA_FULL
    authentication_provider_name: str = BASE_PROVIDER
    transactional_message_sequence_identifier: TxSequenceId | None = None
    transaction_sequence_number: int = 1
    transaction_previous_sequence_number: int = 0
    # The 20 bits of a packet; None for a message that is not transactional. readings MQDMPR 3.O: the GUID of the
    # Transaction that captured the message is another attribute, `unit_of_work`.
    transaction_identifier: int | None = None
    final_ack_required: bool = False
    first_in_transaction: bool = False
    last_in_transaction: bool = False
    soap_envelope: str = ""
    soap_compound_message: bytes = b""
    soap_body: str = ""
    soap_header: str = ""

    # Attributes that MS-MQDMPR leaves out: readings MQDMPR 3.O, MQDMPR 3.Z, MS-MQRR 2.2.5.1 and 2.2.5.3.
    unit_of_work: bytes = NULL_GUID
    abort_count: int = 0
    move_count: int = 0
    last_move_time: int = 0
    target_subqueue_name: str = ""
    origin: Origin | None = None

    packet: bytes = field(default=b"", compare=False, repr=False)

    def properties_header(self) -> MessagePropertiesHeader:
        """MS-MQDMPR 3.1.7.1.30, and the other way round read_properties; packed_properties has its fixed run."""
        return MessagePropertiesHeader(
            flags=self.acknowledgements_requested,
            message_class=self.message_class,
            correlation_id=self.correlation_identifier.encode(),
            body_type=self.body_type,
            application_tag=self.application_tag,
            privacy_level=self.privacy_level,
            hash_algorithm=self.hash_algorithm,
            encryption_algorithm=self.encryption_algorithm,
            label=self.label or None,
            extension_data=self.extension,
            message_body=self.body,
        )

    def read_properties(self, header: MessagePropertiesHeader) -> None:
        self.acknowledgements_requested = header.flags
        self.message_class = header.message_class
        if header.correlation_id != _NO_CORRELATION:
            self.correlation_identifier, _ = MessageIdentifier.decode(header.correlation_id, 0)
        self.body_type = header.body_type
        self.application_tag = header.application_tag
        self.privacy_level = header.privacy_level
        self.hash_algorithm = header.hash_algorithm
        self.encryption_algorithm = header.encryption_algorithm
        self.label = header.label or ""
        self.extension = header.extension_data
        self.body = header.message_body

    def packed_properties(self, label_length: int, body_size: int) -> bytes:
        """The start of the header. Raises struct.error if a value does not fit."""
        correlation = self.correlation_identifier
        return _pack_properties(
            self.acknowledgements_requested,
            label_length,
            self.message_class,
            _NO_CORRELATION if correlation is NO_IDENTIFIER else correlation.encode(),
            self.body_type,
            self.application_tag,
            body_size,
            body_size,
            self.privacy_level,
            self.hash_algorithm,
            self.encryption_algorithm,
            len(self.extension),
        )

    @property
    def source_machine_identifier(self) -> bytes:
        """The queue manager that took the message from the application: the first part of its identifier."""
        return self.identifier.queue_manager_guid

    @property
    def is_transactional(self) -> bool:
        return self.transaction_identifier is not None

    @property
    def effective_priority(self) -> int:
        """The priority that counts for order: a transactional message has 0 (readings MQDMPR 3.A)."""
        return self.priority if self.transaction_identifier is None else 0

    @property
    def asks_for_attention(self) -> bool:
        """Whether the arrival or the end of the message has to be reported to anybody but its reader.

        That is by a copy in a journal or dead-letter queue, a report, a final or an administration acknowledgment.
        MS-MQQB 3.1.7.15: the last is not sent without an administration queue.
        """
        return (
            self.positive_journaling_requested
            or self.negative_journaling_requested
            or self.tracing_requested
            or self.final_ack_required
            or (self.acknowledgements_requested != 0 and self.administration_queue_format_name is not None)
        )

    @property
    def queue_manager_address(self) -> bytes:
        """The destination queue manager as a packet names it: a private name includes it, a direct name hides it."""
        name = self.destination_queue_format_name
        if type(name) is DirectFormatName:
            return NULL_GUID
        if type(name) is PrivateFormatName:
            return name.computer_guid
        return self.destination_queue_manager_identifier

    @property
    def administration_queues(self) -> tuple[FormatName, ...]:
        """All queues for acknowledgments: that of the UserHeader, and those of the MultiQueueFormatHeader."""
        return _all_of(self.administration_queue_format_name, self.administration_multi_queue_format_name)

    @property
    def response_queues(self) -> tuple[FormatName, ...]:
        return _all_of(self.response_queue_format_name, self.response_multi_queue_format_name)

    @property
    def destination_queue_type(self) -> QueueType:
        return destination_queue_type(self.destination_queue_format_name)

    @property
    def administration_queue_type(self) -> QueueType:
        name = self.administration_queue_format_name
        return administration_queue_type(name, self.source_machine_identifier, self.queue_manager_address)

    @property
    def response_queue_type(self) -> QueueType:
        return response_queue_type(
            self.response_queue_format_name,
            self.administration_queue_format_name,
            self.source_machine_identifier,
            self.queue_manager_address,
        )


def _all_of(first: FormatName | None, others: tuple[FormatName, ...]) -> tuple[FormatName, ...]:
    """Each name once, in the order given."""
    if not others:
        return () if first is None else (first,)
    return tuple(dict.fromkeys(others if first is None else (first, *others)))
