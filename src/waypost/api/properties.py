"""The properties of messages and queues, and the objects that show them: one line each.

waypost.api.rows defines a line; command-line options, OpenAPI, help, columns and checks follow from it.

To add a property of a message:
1. Here: its field in MessageProperties; its key in MessageObject, with a default for older daemons; and its line in
   ShownProperties, or a method in waypost.client.message for another form.
2. waypost.core.message: its attribute, and its line in the three methods for the header that waypost.wire has in
   message_properties, if it travels there. Other headers: waypost.core.serialization and plain_packets.
3. waypost.client.with_properties and aio_with_properties: its parameter.
Then tests/api/test_properties.py reports missing steps.
The row defines the column of a number or a number of seconds; add any other column in waypost.arrow.

To add a property of a queue:
1. Here: its field in QueueProperties, and its key in QueueInfo by a factory, for the same reason.
2. waypost.core.queues: its attribute. waypost.store.queue_records: a bit of FLAGS, or a part behind the others, which
   older records do not have. A directory knows it if waypost.directory.objects has an attribute of the same name.
3. The parameters, as above.
"""

from datetime import datetime
from types import NoneType
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from waypost.api.queues import ConnectionInfo
from waypost.api.records import Record
from waypost.api.rows import Kind, Property, PropertyRow, rows, says
from waypost.guid import GUID_PATTERN
from waypost.limits import MAX_ANSWER_QUEUES, MAX_LABEL_LENGTH, MAX_QUEUE_LABEL
from waypost.wire.base_header import DEFAULT_PRIORITY
from waypost.wire.message_class import CUSTOM_CLASS_MASK

NUMBER_32: Final = 0xFFFF_FFFF
# The largest number is INFINITE.
MAX_SECONDS: Final = NUMBER_32 - 1

# The words of `acknowledge`; several single ones can be joined with commas.
ACKNOWLEDGE: Final = {
    "none": 0,
    "pos-arrival": 1,
    "pos-receive": 2,
    "neg-arrival": 4,
    "neg-receive": 8,
    "full-reach-queue": 5,
    "nack-receive": 12,
    "full-receive": 14,
    "nack-reach-queue": 4,
}
SINGLE_ACKNOWLEDGE: Final = ("pos-arrival", "pos-receive", "neg-arrival", "neg-receive")

# The messages that a queue accepts: clear, encrypted or both.
Privacy: TypeAlias = Literal["none", "optional", "body"]

# The hashes of signatures and the algorithms of encryption that messages can be sent with.
Hash: TypeAlias = Literal["sha512", "sha256", "sha1", "md5"]
Algorithm: TypeAlias = Literal["aes256", "aes192", "aes128", "rc2", "rc4"]

_BRACED_OR_BARE: Final = rf"\{{{GUID_PATTERN}\}}|{GUID_PATTERN}"
_IDENTIFIER_PATTERN: Final = rf"^([0-9A-Fa-f]{{40}}|\{{?{GUID_PATTERN}\}}?\\[0-9]{{1,10}})$"
_PUBLIC_PATTERN: Final = rf"^[Pp][Uu][Bb][Ll][Ii][Cc]={GUID_PATTERN}$"
_WORD: Final = f"\\s*({'|'.join(ACKNOWLEDGE)})\\s*"
_ACKNOWLEDGE_PATTERN: Final = f"^{_WORD}(,{_WORD})*$"
_BASE64_PATTERN: Final = "^[A-Za-z0-9+/]*={0,2}$"


class MessageProperties(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Properties of a message to send (see MS-MQDMPR 3.1.1.12). The parameters of `Queue.send` have the same names."""

    label: Annotated[
        str,
        says("Title of the message, up to 249 characters.", max_length=MAX_LABEL_LENGTH - 1),
        Property("Label", Kind.TEXT, "MessagePropertiesHeader.Label", metavar="TEXT", column="label"),
    ] = ""
    priority: Annotated[
        int,
        says(
            "Priority from 0 to 7 (default: 3). A message with a higher priority is received first. Transactional "
            "messages always have priority 0.",
            minimum=0,
            maximum=7,
        ),
        Property("Priority", Kind.NUMBER, "BaseHeader.Flags.PR", metavar="0-7", column="priority"),
    ] = DEFAULT_PRIORITY
    recoverable: Annotated[
        bool,
        says(
            "Keep the message on disk (default: true). Otherwise, the message is express: it is faster, but it is lost "
            "if the queue manager that holds it stops."
        ),
        Property("DeliveryGuarantee", Kind.DELIVERY, "UserHeader.Flags.DM"),
    ] = True
    body_type: Annotated[
        int | None,
        says("The VARTYPE of the body (default: 8 for text, 4113 for bytes).", minimum=0, maximum=NUMBER_32),
        Property("BodyType", Kind.NUMBER, "MessagePropertiesHeader.BodyType", metavar="N", column="body_type"),
    ] = None
    time_to_reach_queue: Annotated[
        float | None,
        says(
            "Maximum time from sending until the message reaches the queue, in seconds (default and maximum: four "
            "days).",
            minimum=0,
            maximum=MAX_SECONDS,
        ),
        Property(
            "TimeToReachQueue",
            Kind.SECONDS,
            "BaseHeader.TimeToReachQueue",
            old_options=("--ttrq",),
            metavar="S",
            column="time_to_reach_queue",
        ),
    ] = None
    time_to_be_received: Annotated[
        float | None,
        says(
            "Maximum time from sending until the message is received, in seconds (default: no limit).",
            minimum=0,
            maximum=MAX_SECONDS,
        ),
        Property(
            "TimeToBeReceived",
            Kind.SECONDS,
            "UserHeader.TimeToBeReceived",
            old_options=("--ttbr",),
            metavar="S",
            column="time_to_be_received",
        ),
    ] = None
    acknowledge: Annotated[
        str,
        says(
            "Acknowledgments to send to the admin queue: none, full-reach-queue, full-receive, nack-reach-queue, "
            "nack-receive, or a list of pos-arrival, pos-receive, neg-arrival and neg-receive, separated by commas.",
            pattern=_ACKNOWLEDGE_PATTERN,
        ),
        Property(
            "AcknowledgementsRequested",
            Kind.ACKNOWLEDGMENTS,
            "MessagePropertiesHeader.Flags",
            old_options=("--ack",),
            metavar="WHICH",
            column="acknowledge",
        ),
    ] = "none"
    admin_queue: Annotated[
        str | list[str] | None,
        says(
            "Queue for acknowledgments, or a list of up to 16 queues. The correlation_id of an acknowledgment is the "
            "id of the acknowledged message.",
            min_items=1,
            max_items=MAX_ANSWER_QUEUES,
        ),
        Property(
            "AdministrationQueueFormatName", Kind.QUEUES, "UserHeader.AdminQueue", metavar="FN", column="admin_queue"
        ),
    ] = None
    response_queue: Annotated[
        str | list[str] | None,
        says(
            "Queue for replies to the message, or a list of up to 16 queues.",
            min_items=1,
            max_items=MAX_ANSWER_QUEUES,
        ),
        Property(
            "ResponseQueueFormatName", Kind.QUEUES, "UserHeader.ResponseQueue", metavar="FN", column="response_queue"
        ),
    ] = None
    journal: Annotated[
        bool,
        says("Keep a copy of the message in system$;journal after delivery."),
        Property("PositiveJournalingRequested", Kind.FLAG, "UserHeader.Flags.JP", column="journal"),
    ] = False
    dead_letter: Annotated[
        bool | str,
        says(
            "Keep the message as a dead-letter message if it expires or its delivery fails. Dead-letter messages are "
            "kept in system$;deadletter, and transactional ones in system$;deadxact. In Python and over HTTP, the "
            "value can also be the name of another queue."
        ),
        Property("NegativeJournalingRequested", Kind.DEAD_LETTER, "UserHeader.Flags.JN"),
    ] = False
    correlation_id: Annotated[
        str | None,
        says(
            "Id of the message that this message answers, or any 20 bytes as 40 hexadecimal digits.",
            pattern=_IDENTIFIER_PATTERN,
        ),
        Property(
            "CorrelationIdentifier",
            Kind.IDENTIFIER,
            "MessagePropertiesHeader.CorrelationID",
            metavar="HEX40",
            column="correlation_id",
        ),
    ] = None
    app_tag: Annotated[
        int,
        says("32-bit number with a meaning that the application defines (default: 0).", minimum=0, maximum=NUMBER_32),
        Property(
            "ApplicationTag",
            Kind.NUMBER,
            "MessagePropertiesHeader.ApplicationTag",
            metavar="N",
            column="app_tag",
            old_columns=("app_specific",),
        ),
    ] = 0
    extension: Annotated[
        bytes | None,
        says("Additional bytes to send with the body.", pattern=_BASE64_PATTERN, content_encoding="base64"),
        Property(
            "Extension",
            Kind.BYTES,
            "MessagePropertiesHeader.ExtensionData",
            option="--extension-file",
            metavar="F",
            column="extension",
        ),
    ] = None
    trace: Annotated[
        str | None,
        says(
            "Public queue for tracing reports, as PUBLIC=guid. Tracing requires a directory service.",
            pattern=_PUBLIC_PATTERN,
        ),
        Property("TracingQueueIdentifier", Kind.PUBLIC_QUEUE, "DebugHeader.QueueIdentifier", metavar="FN"),
    ] = None
    message_class: Annotated[
        int,
        says(
            f"Message class for connectors, within the bit mask {CUSTOM_CLASS_MASK:#06x} (default: 0).",
            minimum=0,
            maximum=CUSTOM_CLASS_MASK,
        ),
        Property(
            "Class", Kind.MESSAGE_CLASS, "MessagePropertiesHeader.MessageClass", attribute="message_class", metavar="N"
        ),
    ] = 0
    connector_type: Annotated[
        str | None,
        says("GUID of a connector, for gateways to other systems.", pattern=f"^({_BRACED_OR_BARE})$"),
        Property("ConnectorTypeIdentifier", Kind.GUID, "UserHeader.ConnectorType", metavar="GUID"),
    ] = None
    sign: Annotated[
        bool,
        says("Sign the message, so that the receiver can verify the sender."),
        Property("AuthenticationLevel", Kind.PROTECTION, "SecurityHeader.Signature"),
    ] = False
    certificate: Annotated[
        str | None,
        says(
            "Certificate for the signature: its digest, or its PEM text with the private key (default: the newest "
            "internal certificate of the sender). On the command line and in Python, the value can also be a PEM or "
            "PKCS#12 file."
        ),
        Property("SenderCertificate", Kind.PROTECTION, "SecurityHeader.SenderCert", metavar="DIGEST|FILE"),
    ] = None
    signature: Annotated[
        int | None,
        says(
            "Version of the signature: 1 or 2 (default: 2). The signature of a message to several queues always has "
            "version 3.",
            minimum=1,
            maximum=3,
        ),
        Property(
            "AuthenticationLevel", Kind.PROTECTION, "SecurityHeader.Signature", attribute="signature", metavar="N"
        ),
    ] = None
    hash: Annotated[
        Hash | None,
        says("Hash algorithm of the signature: sha512, sha256, sha1 or md5 (default: sha512)."),
        Property("HashAlgorithm", Kind.PROTECTION, "MessagePropertiesHeader.HashAlgorithm", metavar="WORD"),
    ] = None
    encrypt: Annotated[
        bool,
        says("Encrypt the body for the destination queue manager, whose exchange keys must be known."),
        Property("PrivacyLevel", Kind.PROTECTION, "MessagePropertiesHeader.PrivacyLevel"),
    ] = False
    algorithm: Annotated[
        Algorithm | None,
        says("Encryption algorithm: aes256, aes192, aes128, rc2 or rc4 (default: aes256)."),
        Property("EncryptionAlgorithm", Kind.PROTECTION, "MessagePropertiesHeader.EncryptionAlgorithm", metavar="WORD"),
    ] = None


class NewMessage(MessageProperties, frozen=True):
    """A message to send, with one of `body`, `body_base64` and `body_text`.

    `body_text` is encoded in the same way as text in `Queue.send`.
    """

    body: bytes | UnsetType = UNSET
    body_base64: bytes | UnsetType = UNSET
    body_text: str | UnsetType = UNSET


class CopyObject(Struct, kw_only=True):
    """A copy of a message that was sent to several queues."""

    destination_queue: str
    lookup_id: str
    size: int


class MessageObject(Struct, kw_only=True, rename={"message_class": "class"}):
    """A message. The keys have the same names and values as the attributes of waypost.Message.

    In MessagePack, `body` replaces `body_base64`, and `extension` replaces `extension_base64`.
    """

    id: Annotated[
        str, Meta(description="The id of the message, as {guid}\\number. A message keeps its id in every queue.")
    ]
    lookup_id: Annotated[
        str, Meta(description="Position of the message in this queue: a 64-bit number as a decimal string.")
    ]
    label: Annotated[str, Meta(description="The title.")]
    body_base64: Annotated[bytes | UnsetType, Meta(description="The body, in base64.")] = UNSET
    body: Annotated[bytes | UnsetType, Meta(description="The body, in MessagePack.")] = UNSET
    body_text: Annotated[str | None, Meta(description="The body as text, or null if the body is not text.")]
    body_type: Annotated[int, Meta(description="The VARTYPE of the body, or 0 if the type is unknown.")]
    message_class: Annotated[str, Meta(description="The message class, as 0x and four hexadecimal digits.")]
    class_name: Annotated[str, Meta(description="The name of the message class, or empty for a custom class.")]
    priority: Annotated[
        int, Meta(description="The priority, from 0 to 7. The priority of a transactional message is always 0.")
    ]
    delivery: Annotated[str, Meta(description="Either express or recoverable.")]
    transactional: Annotated[bool, Meta(description="Whether the message was sent in a transaction.")]
    sent_time: Annotated[
        str,
        Meta(description="Time when the message was sent (according to the clock of the sender), in ISO 8601 and UTC."),
    ]
    arrived_time: Annotated[str, Meta(description="Time of arrival at this queue manager, in ISO 8601 and UTC.")]
    source_machine: Annotated[str, Meta(description="The GUID of the sending queue manager.")]
    sender_sid: Annotated[str | None, Meta(description="The SID that the sender claims to have, or null.")]
    sender_verified: Annotated[bool, Meta(description="Whether `sender_sid` was verified.")] = False
    authenticated: Annotated[bool, Meta(description="Whether the signature of the message was verified.")] = False
    signature: Annotated[
        str, Meta(description="Version of the verified signature (msmq10, msmq20 or msmq30), or none.")
    ] = "none"
    certificate_subject: Annotated[
        str | None, Meta(description="The subject of the certificate if the message is signed, or null.")
    ] = None
    encrypted: Annotated[
        str | None, Meta(description="The algorithm with which the body was encrypted during transfer, or null.")
    ] = None
    correlation_id: Annotated[str | None, Meta(description="The id of the message that this message answers.")]
    app_tag: Annotated[int, Meta(description="Number that the sending application has set.")]
    admin_queue: Annotated[
        str | None, Meta(description="The queue for acknowledgments, or the first of several queues.")
    ]
    response_queue: Annotated[str | None, Meta(description="The queue for replies, or the first of several queues.")]
    destination_queue: Annotated[str | None, Meta(description="The queue to which the message was sent.")]
    first_in_transaction: Annotated[
        bool, Meta(description="Whether the message is the first message of its transaction.")
    ]
    last_in_transaction: Annotated[
        bool, Meta(description="Whether the message is the last message of its transaction.")
    ]
    abort_count: Annotated[int, Meta(description="Number of aborted transactions that had received the message.")]
    move_count: Annotated[int, Meta(description="Number of times the message was moved to or from a subqueue.")]
    size: Annotated[int, Meta(description="Size of the message in bytes, as it counts towards quotas.")]
    class_meaning: Annotated[
        str,
        Meta(description="The meaning of the message class. For a dead-letter message, the reason for the failure."),
    ]
    acknowledge: Annotated[
        str, Meta(description="The requested acknowledgments, in the same form as `acknowledge` in MessageProperties.")
    ]
    journal: Annotated[
        bool, Meta(description="Whether the sending queue manager keeps a copy of the message in system$;journal.")
    ]
    dead_letter: Annotated[
        bool, Meta(description="Whether the sending queue manager keeps a dead-letter message if the delivery fails.")
    ]
    time_to_reach_queue: Annotated[
        int | None,
        Meta(
            description="Maximum time from sending until the message reaches the queue, in seconds, or "
            "null for no limit."
        ),
    ]
    time_to_reach_queue_ends: Annotated[
        str | None, Meta(description="Time when `time_to_reach_queue` ends, in ISO 8601 and UTC.")
    ]
    time_to_be_received: Annotated[
        int | None,
        Meta(description="Maximum time from sending until the message is received, in seconds, or null for no limit."),
    ]
    time_to_be_received_ends: Annotated[
        str | None, Meta(description="Time when `time_to_be_received` ends, in ISO 8601 and UTC.")
    ]
    trace: Annotated[
        str | None,
        Meta(
            description="The queue for tracing reports, empty if the message is traced without a queue, or null if the "
            "message is not traced."
        ),
    ]
    connector_type: Annotated[
        str | None, Meta(description="The GUID of the connector, or null if the message has no connector.")
    ]
    extension_base64: Annotated[bytes | UnsetType, Meta(description="The extension, in base64.")] = UNSET
    extension: Annotated[bytes | UnsetType, Meta(description="The extension, in MessagePack.")] = UNSET
    headers: Annotated[
        dict[str, str] | None,
        Meta(description="The headers of NServiceBus, Rebus or MassTransit, or null if the message has none."),
    ]
    admin_queues: Annotated[
        list[str] | UnsetType, Meta(description="All queues for acknowledgments, if the message has several.")
    ] = UNSET
    response_queues: Annotated[
        list[str] | UnsetType, Meta(description="All queues for replies, if the message has several.")
    ] = UNSET
    copies: Annotated[
        list[CopyObject] | UnsetType, Meta(description="The copies of a message that was sent to several queues.")
    ] = UNSET


class ShownProperties:
    """The attributes of waypost.Message that show a property as it was sent, for the type checker."""

    __slots__ = ()

    label: str
    body_type: int
    message_class: int
    app_tag: int
    extension: bytes
    journal: bool
    dead_letter: bool


class QueueProperties(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Properties of a queue that a program can set (see MS-MQDMPR 3.1.1.2). Unset properties stay unchanged."""

    label: Annotated[
        str | UnsetType,
        says("Description of the queue, up to 124 characters.", max_length=MAX_QUEUE_LABEL),
        Property("Label", Kind.TEXT, metavar="TEXT"),
    ] = UNSET
    journal: Annotated[
        bool | UnsetType,
        says("Keep a copy of every received message in the journal of the queue."),
        Property("Journaling", Kind.FLAG, option="--journal/--no-journal"),
    ] = UNSET
    quota_kb: Annotated[
        int | UnsetType | None,
        says(
            "Quota of the queue in kilobytes, or none for no limit (default: none).", minimum=0, maximum=NUMBER_32 - 1
        ),
        Property("Quota", Kind.KILOBYTES, metavar="N"),
    ] = UNSET
    journal_quota_kb: Annotated[
        int | UnsetType | None,
        says(
            "Quota of the journal of the queue in kilobytes, or none for no limit (default: none).",
            minimum=0,
            maximum=NUMBER_32 - 1,
        ),
        Property("JournalQuota", Kind.KILOBYTES, metavar="N"),
    ] = UNSET
    authenticate: Annotated[
        bool | UnsetType,
        says("Accept only signed messages."),
        Property("Authentication", Kind.FLAG, option="--authenticate/--no-authenticate"),
    ] = UNSET
    privacy: Annotated[
        Privacy | UnsetType,
        says(
            "Accept only unencrypted messages (none), only encrypted messages (body) or both (optional). Default: "
            "optional."
        ),
        Property("PrivacyLevel", Kind.WORD),
    ] = UNSET
    base_priority: Annotated[
        int | UnsetType,
        says(
            "Number added to the priority of messages during transfer to a public queue. The base priority of a "
            "private queue is always 0.",
            minimum=-0x8000,
            maximum=0x7FFF,
        ),
        Property("BasePriority", Kind.NUMBER, metavar="N"),
    ] = UNSET
    type_id: Annotated[
        str | UnsetType,
        says("Type of the queue: any GUID that the application chooses.", pattern=f"^({_BRACED_OR_BARE})?$"),
        Property("Type", Kind.GUID, attribute="type_guid", metavar="GUID"),
    ] = UNSET
    multicast: Annotated[
        str | UnsetType,
        says(
            "Multicast address (not supported yet). The only valid value is an empty string, which removes the "
            "address.",
            max_length=0,
        ),
        Property("MulticastAddress", Kind.MULTICAST, metavar="A:P"),
    ] = UNSET


class QueueInfo(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a queue.

    `kind` is private, public, system, journal, subqueue or outgoing. Quotas are in kilobytes, or None for no limit.

    Only outgoing queues have the fields from `state` to `connections`. For other queues, the values of these fields are
    None, and the JSON object omits the fields. `state` is a word such as inactive or connected. `next_hops` lists the
    addresses of the next hop. `unacknowledged` is the number of transactional messages that were sent and not
    acknowledged. `unread` is the number of transactional messages that have arrived at the destination, but have not
    been received yet. `last_error` is the reason why the last connection failed, or "". `connections` lists the last
    connection events, with the newest event at the end.

    All queues have the following fields. `damaged_count` is the number of messages that were damaged on disk and
    removed from the queue. `oldest_time` is the arrival time of the oldest message, or None if the queue is empty.
    `owner` is the name or the SID of the owner of the queue, or "". After a request that creates or changes a queue,
    `notes` lists the properties that have no effect.
    """

    path: str
    format_name: str
    private_format_name: str | None
    kind: str
    label: str
    transactional: bool
    message_count: int
    bytes: int
    journal: bool
    journal_count: int
    journal_bytes: int
    quota_kb: int | None
    journal_quota_kb: int | None
    authenticate: bool
    privacy: str
    base_priority: int
    type_id: str
    multicast: str
    subqueues: tuple[str, ...]
    created: datetime
    modified: datetime
    state: str | None = None
    next_hops: tuple[str, ...] | None = None
    unacknowledged: int | None = None
    unread: int | None = None
    last_error: str | None = None
    connections: tuple[ConnectionInfo, ...] | None = None
    # A factory, so that it is always in the JSON. Older daemons do not send it.
    damaged_count: int = field(default_factory=int)
    oldest_time: datetime | None = field(default_factory=NoneType)
    owner: str = field(default_factory=str)
    notes: tuple[str, ...] = ()


class QueueList(Record, frozen=True):
    """Queues, sorted by name."""

    queues: tuple[QueueInfo, ...]


MESSAGE_ROWS: Final[tuple[PropertyRow, ...]] = rows(MessageProperties)
QUEUE_ROWS: Final[tuple[PropertyRow, ...]] = rows(QueueProperties)
