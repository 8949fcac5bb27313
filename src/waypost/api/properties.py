"""The properties of messages and queues: one line each. waypost.api.rows says what a line has.

To add a property of a message, add its field here and its parameter in waypost.client.senders and aio_senders, which a
test compares with this table; then its attribute in core and its place in a packet.
"""

from typing import Annotated, Final

from msgspec import Struct

from waypost.api.rows import Kind, Property, Row, rows, says
from waypost.limits import MAX_ANSWER_QUEUES, MAX_LABEL_LENGTH
from waypost.wire.base_header import DEFAULT_PRIORITY
from waypost.wire.message_class import CUSTOM_CLASS_MASK

NUMBER_32: Final = 0xFFFF_FFFF
# INFINITE, the largest number, has another meaning.
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

_GUID: Final = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_GUID_PATTERN: Final = rf"^(\{{{_GUID}\}}|{_GUID})$"
_IDENTIFIER_PATTERN: Final = rf"^([0-9A-Fa-f]{{40}}|\{{?{_GUID}\}}?\\[0-9]{{1,10}})$"
_PUBLIC_PATTERN: Final = rf"^[Pp][Uu][Bb][Ll][Ii][Cc]={_GUID}$"
_WORD: Final = f"\\s*({'|'.join(ACKNOWLEDGE)})\\s*"
_ACKNOWLEDGE_PATTERN: Final = f"^{_WORD}(,{_WORD})*$"
_BASE64_PATTERN: Final = "^[A-Za-z0-9+/]*={0,2}$"


class MessageProperties(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a sender can say of a message (MS-MQDMPR 3.1.1.12), in the words of `Queue.send`."""

    label: Annotated[
        str,
        says("A title of up to 249 characters.", max_length=MAX_LABEL_LENGTH - 1),
        Property("Label", Kind.TEXT, "MessagePropertiesHeader.Label", metavar="TEXT", column="label"),
    ] = ""
    priority: Annotated[
        int,
        says(
            "0 to 7: higher ones are received first (default: 3). A transactional message has none.",
            minimum=0,
            maximum=7,
        ),
        Property("Priority", Kind.NUMBER, "BaseHeader.Flags.PR", metavar="0-7", column="priority"),
    ] = DEFAULT_PRIORITY
    recoverable: Annotated[
        bool,
        says("Keep it on disk, the default. Without, it is express: faster, and lost if a queue manager stops."),
        Property("DeliveryGuarantee", Kind.DELIVERY, "UserHeader.Flags.DM"),
    ] = True
    body_type: Annotated[
        int | None,
        says("The VARTYPE of the body (default: 8 for text, 4113 for bytes).", minimum=0, maximum=NUMBER_32),
        Property("BodyType", Kind.NUMBER, "MessagePropertiesHeader.BodyType", metavar="N", column="body_type"),
    ] = None
    time_to_reach_queue: Annotated[
        float | None,
        says("Seconds to reach the queue (default and maximum: four days).", minimum=0, maximum=MAX_SECONDS),
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
        says("Seconds to be received, from sending (default: no limit).", minimum=0, maximum=MAX_SECONDS),
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
            "nack-receive, or some of pos-arrival, pos-receive, neg-arrival, neg-receive, joined with commas.",
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
            "The queue for acknowledgments, whose correlation_id is the id of the message; or up to 16 queues.",
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
            "The queue where the sender waits for an answer, or up to 16 queues.",
            min_items=1,
            max_items=MAX_ANSWER_QUEUES,
        ),
        Property(
            "ResponseQueueFormatName", Kind.QUEUES, "UserHeader.ResponseQueue", metavar="FN", column="response_queue"
        ),
    ] = None
    journal: Annotated[
        bool,
        says("Keep a copy in system$;journal once it is delivered."),
        Property("PositiveJournalingRequested", Kind.FLAG, "UserHeader.Flags.JP", column="journal"),
    ] = False
    dead_letter: Annotated[
        bool | str,
        says(
            "Keep it as a dead-letter message if it expires or cannot be delivered, in system$;deadletter, or "
            "system$;deadxact if it is transactional; or in the queue that is named here, from Python and HTTP."
        ),
        Property("NegativeJournalingRequested", Kind.DEAD_LETTER, "UserHeader.Flags.JN"),
    ] = False
    correlation_id: Annotated[
        str | None,
        says(
            "The id of the message that this one answers, or any 20 bytes as 40 hexadecimal digits.",
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
        says("A number of your own, of 32 bits.", minimum=0, maximum=NUMBER_32),
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
        says("Bytes of your own beside the body.", pattern=_BASE64_PATTERN, content_encoding="base64"),
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
        says("The public queue for reports on its way, PUBLIC=guid; needs a directory.", pattern=_PUBLIC_PATTERN),
        Property("TracingQueueIdentifier", Kind.PUBLIC_QUEUE, "DebugHeader.QueueIdentifier", metavar="FN"),
    ] = None
    message_class: Annotated[
        int,
        says(
            f"A class of your own, for connectors: bits of {CUSTOM_CLASS_MASK:#06x} (default: 0).",
            minimum=0,
            maximum=CUSTOM_CLASS_MASK,
        ),
        Property(
            "Class", Kind.MESSAGE_CLASS, "MessagePropertiesHeader.MessageClass", attribute="message_class", metavar="N"
        ),
    ] = 0
    connector_type: Annotated[
        str | None,
        says("The GUID of a connector, for gateways to other systems.", pattern=_GUID_PATTERN),
        Property("ConnectorTypeIdentifier", Kind.GUID, "UserHeader.ConnectorType", metavar="GUID"),
    ] = None


MESSAGE_ROWS: Final[tuple[Row, ...]] = rows(MessageProperties)
