"""The fixed runs of all headers: the specification's names, how each field is shown, and what its bits mean."""

from typing import Final

from waypost.wire import (
    base_header,
    debug_header,
    internal_packets,
    message_properties,
    multi_queue,
    ping,
    remote_trailers,
    security_header,
    session_header,
    soap,
    transaction_header,
    transactional_acks,
    user_header,
)
from waypost.wire.algorithms import HashAlgorithm, PrivacyLevel
from waypost.wire.describe.bodies import variant
from waypost.wire.describe.model import Bits, CodeColumn, Column, Run, as_it_is, columns_of, flag
from waypost.wire.describe.values import (
    ack_bits,
    address,
    constant,
    correlation,
    guid,
    lifetime,
    message_class,
    name_text,
    named,
    sequence_id,
    signature,
    utc,
)
from waypost.wire.keys import SessionKeyAlgorithm

PRIVACY_LEVELS: Final[dict[int, str]] = {
    PrivacyLevel.NONE: "body not encrypted",
    PrivacyLevel.BASE: "body encrypted, 40 bits",
    PrivacyLevel.ENHANCED: "body encrypted, 128 bits",
    PrivacyLevel.ADVANCED: "body encrypted with AES",
}
HASH_ALGORITHMS: Final = {0: "none"} | {int(each): each.name.replace("_", "-") for each in HashAlgorithm}
ENCRYPTION_ALGORITHMS: Final = {0: "none"} | {int(each): each.name.replace("_", "-") for each in SessionKeyAlgorithm}
# readings MQMQ 3.6: MS-MQQB writes what it has verified here; a sender leaves it 0.
SIGNATURES: Final = {
    0: "",
    1: "claims that an MSMQ 1.0 signature was verified",
    3: "claims that an MSMQ 2.0 signature was verified",
    5: "claims that an MSMQ 3.0 signature was verified",
}
PACKET_TYPES: Final = {
    internal_packets.SESSION_ACK: "SessionAck",
    internal_packets.ESTABLISH_CONNECTION: "EstablishConnection",
    internal_packets.CONNECTION_PARAMETERS: "ConnectionParameters",
}
# Indexed by the code in DQ, AQ or RQ.
QUEUE_KINDS: Final = {
    0: "no queue",
    1: "same as the administration queue",
    2: "private queue on the source host",
    3: "private queue on the destination host",
    4: "private queue on the host of the administration queue",
    5: "public queue",
    6: "private queue on another host",
    7: "direct format name",
}
FORMAT_TYPES: Final = {1: "public queue", 2: "private queue", 3: "direct format name", 6: "distribution list"}

BASE: Final = Run(
    base_header.LAYOUT,
    CodeColumn("VersionNumber"),
    CodeColumn("Reserved"),
    CodeColumn(
        "Flags",
        as_it_is,
        (
            Bits("PR", base_header.PR, "priority; 7 is the highest"),
            flag("IN", base_header.IN, "internal packet"),
            flag("SH", base_header.SH, "a SessionHeader is present"),
            flag("DH", base_header.DH, "a DebugHeader is present"),
            flag("TR", base_header.TR, "the message is traced"),
        ),
    ),
    CodeColumn("Signature", signature),
    Column("PacketSize", constant("bytes")),
    Column("TimeToReachQueue", lifetime),
)

INTERNAL: Final = Run(
    internal_packets.INTERNAL_LAYOUT,
    CodeColumn("Reserved"),
    CodeColumn(
        "Flags",
        as_it_is,
        (
            Bits("PT", internal_packets.PT, PACKET_TYPES),
            Bits("CS", internal_packets.CS, {0: "", 1: "the connection is refused"}),
        ),
    ),
)

ESTABLISH_CONNECTION: Final = Run(
    internal_packets.ESTABLISH_LAYOUT,
    Column("ClientGuid", guid),
    Column("ServerGuid", guid),
    Column("TimeStamp", constant("milliseconds since the initiator's system started")),
    CodeColumn(
        "OperatingSystem",
        as_it_is,
        (
            Bits("RE", internal_packets.RE, "reserved, always 16"),
            Bits("SE", internal_packets.SE, {0: "a ping was sent before", 1: "no ping was sent before"}),
            Bits("OS", internal_packets.OS, {0: "initiator is not a server system", 1: "initiator is a server system"}),
            flag("QS", internal_packets.QS, "the transport supports guaranteed quality of service"),
        ),
    ),
    CodeColumn("Reserved"),
    Column("Padding"),
)

CONNECTION_PARAMETERS: Final = Run(
    internal_packets.PARAMETERS_LAYOUT,
    Column("RecoverableAckTimeout", constant("milliseconds")),
    Column("AckTimeout", constant("milliseconds")),
    CodeColumn("Reserved"),
    Column("WindowSize", constant("unacknowledged packets")),
)

SESSION: Final = Run(
    session_header.LAYOUT,
    Column("AckSequenceNumber", constant("messages received on this session")),
    Column("RecoverableMsgAckSeqNumber", constant("first recoverable message that is acknowledged as stored")),
    CodeColumn("RecoverableMsgAckFlags", ack_bits),
    Column("UserMsgSequenceNumber", constant("messages sent on this session")),
    Column("RecoverableMsgSeqNumber", constant("recoverable messages sent on this session")),
    Column("WindowSize", constant("unacknowledged packets")),
    CodeColumn("Reserved"),
)

PING: Final = Run(
    ping.LAYOUT,
    CodeColumn(
        "Flags",
        as_it_is,
        (
            Bits("RC", ping.RC, {0: "initiator is a server system", 1: "initiator is not a server system"}),
            flag("RF", ping.RF, "the acceptor would refuse a session"),
        ),
    ),
    CodeColumn("Signature"),
    Column("Cookie"),
    Column("QMGuid", guid),
)

USER: Final = Run(
    user_header.LAYOUT,
    Column("SourceQueueManager", guid),
    Column("QueueManagerAddress", guid),
    Column("TimeToBeReceived", lifetime),
    Column("SentTime", utc),
    Column("MessageID"),
    CodeColumn(
        "Flags",
        as_it_is,
        (
            Bits("RC", user_header.RC, "routing servers passed"),
            Bits("DM", user_header.DM, {0: "express", 1: "recoverable"}),
            flag("JN", user_header.JN, "negative source journaling: keep the message if it is not delivered"),
            flag("JP", user_header.JP, "positive source journaling: keep a copy after delivery"),
            Bits("DQ", user_header.DQ, QUEUE_KINDS),
            Bits("AQ", user_header.AQ, QUEUE_KINDS),
            Bits("RQ", user_header.RQ, QUEUE_KINDS),
            flag("SH", user_header.SH, "a SecurityHeader is present"),
            flag("TH", user_header.TH, "a TransactionHeader is present: the message is transactional"),
            flag("MP", user_header.MP, "a MessagePropertiesHeader is present"),
            flag("CQ", user_header.CQ, "ConnectorType is present"),
            flag("MQ", user_header.MQ, "a MultiQueueFormatHeader is present"),
            flag("AH", user_header.AH, "the message came over HTTP"),
            flag("HH", user_header.HH, "a SoapHeader is present"),
        ),
    ),
)

TRANSACTION: Final = Run(
    transaction_header.LAYOUT,
    CodeColumn(
        "Flags",
        as_it_is,
        (
            flag("CG", transaction_header.CG, "ConnectorQMGuid is present"),
            flag("FA", transaction_header.FA, "a FinalAck is requested"),
            flag("FM", transaction_header.FM, "first message of its transaction"),
            flag("LM", transaction_header.LM, "last message of its transaction"),
            Bits("ID", transaction_header.ID, "identifier of the transaction"),
        ),
    ),
    CodeColumn("TxSequenceID", sequence_id),
    Column("TxSequenceNumber"),
    Column("PreviousTxSequenceNumber"),
)

SECURITY: Final = Run(
    security_header.LAYOUT,
    CodeColumn(
        "Flags",
        as_it_is,
        (
            Bits(
                "ST",
                security_header.ST,
                {0: "no sender id", 1: "SecurityID is a SID", 2: "SecurityID is a queue manager GUID"},
            ),
            flag("AU", security_header.AU, "claims to be authenticated"),
            flag("EB", security_header.EB, "the body is encrypted"),
            flag("DE", security_header.DE, "the default cryptographic provider"),
            flag("AI", security_header.AI, "SecurityData is present"),
            Bits("AS", security_header.AS, SIGNATURES),
        ),
    ),
    Column("SenderIdSize", constant("bytes")),
    Column("EncryptionKeySize", constant("bytes")),
    Column("SignatureSize", constant("bytes")),
    Column("SenderCertSize", constant("bytes")),
    Column("ProviderInfoSize", constant("bytes")),
)

PROPERTIES: Final = Run(
    message_properties.LAYOUT,
    *columns_of(
        message_properties.FIELDS,
        CodeColumn(
            "Flags",
            as_it_is,
            (
                flag("PA", message_properties.PA, "acknowledge arrival in the queue"),
                flag("PR", message_properties.PR, "acknowledge receipt by an application"),
                flag("NA", message_properties.NA, "report failure to arrive"),
                flag("NR", message_properties.NR, "report failure to be received"),
            ),
        ),
        Column("LabelLength", constant("UTF-16 units, including the null")),
        CodeColumn("MessageClass", message_class),
        Column("CorrelationID", correlation),
        Column("BodyType", variant),
        Column("MessageSize", constant("bytes")),
        Column("AllocationBodySize", constant("bytes")),
        CodeColumn("PrivacyLevel", named(PRIVACY_LEVELS)),
        CodeColumn("HashAlgorithm", named(HASH_ALGORITHMS)),
        CodeColumn("EncryptionAlgorithm", named(ENCRYPTION_ALGORITHMS)),
        Column("ExtensionSize", constant("bytes")),
    ),
)

DEBUG: Final = Run(
    debug_header.LAYOUT,
    CodeColumn("Flags", as_it_is, (Bits("QT", debug_header.QT, {0: "no queue", 1: "public queue"}),)),
    CodeColumn("Reserved"),
)

SOAP_HEADER_PART: Final = Run(
    soap.TEXT_LAYOUT,
    CodeColumn("HeaderSectionID"),
    CodeColumn("Reserved"),
    Column("HeaderDataLength", constant("UTF-16 units, including the null")),
)
SOAP_BODY_PART: Final = Run(
    soap.TEXT_LAYOUT,
    CodeColumn("BodySectionID"),
    CodeColumn("Reserved1"),
    Column("BodyDataLength", constant("UTF-16 units, including the null")),
)
SRMP_ENVELOPE: Final = Run(
    soap.TEXT_LAYOUT,
    CodeColumn("HeaderId"),
    CodeColumn("Reserved"),
    Column("DataLength", constant("UTF-16 units, including the null")),
)
COMPOUND_MESSAGE: Final = Run(
    soap.COMPOUND_LAYOUT,
    CodeColumn("HeaderId"),
    CodeColumn("Reserved"),
    Column("HTTPBodySize", constant("bytes")),
    Column("MsgBodySize", constant("bytes")),
    Column("MsgBodyOffset", constant("bytes into Data")),
)

MQF_ADDRESS: Final = Run(
    multi_queue.ADDRESS_LAYOUT,
    Column("HeaderSize", constant("bytes")),
    CodeColumn("HeaderID"),
    CodeColumn("Reserved"),
    Column("ElementCount", constant("format names")),
)
MQF_SIGNATURE: Final = Run(
    multi_queue.SIGNATURE_LAYOUT,
    CodeColumn("ID"),
    CodeColumn("Reserved"),
    Column("Size", constant("bytes")),
)

EXTENSION: Final = Run(
    remote_trailers.EXTENSION_LAYOUT,
    Column("HeaderSize", constant("bytes")),
    Column("RemainingHeadersSize", constant("bytes")),
    CodeColumn(
        "Flags",
        as_it_is,
        (
            flag("DL", remote_trailers.DL, "a DeadLetterHeader is present"),
            flag("SQ", remote_trailers.SQ, "a SubqueueHeader is present"),
            flag("DI", remote_trailers.DI, "the dead-letter queue is not valid"),
            flag("EA", remote_trailers.EA, "an ExtendedAddressHeader is present"),
        ),
    ),
    Column("Reserved"),
)

SUBQUEUE: Final = Run(
    remote_trailers.SUBQUEUE_LAYOUT,
    Column("HeaderSize", constant("bytes")),
    CodeColumn(
        "Bits",
        as_it_is,
        (
            flag("TM", 0x0000_0001, "set"),
            Bits("AcknowledgementClass", 0x0001_FFFE, "class of the acknowledgment"),
            flag("Reserved", 0xFFFE_0000, "set"),
        ),
    ),
    Column("AbortCounter", constant("transactions that received the message and were aborted")),
    Column("MoveCounter", constant("moves between subqueues")),
    Column("LastMoveTime", utc),
    Column("SubqueueName", name_text),
    Column("TargetSubqueueName", name_text),
)
DEAD_LETTER: Final = Run(remote_trailers.DEAD_LETTER_SIZE, Column("HeaderSize", constant("bytes")))
EXTENDED_ADDRESS: Final = Run(
    remote_trailers.EXTENDED_ADDRESS_LAYOUT,
    Column("HeaderSize", constant("bytes")),
    Column("AddressLength", constant("bytes")),
    CodeColumn("AddressType", named({0: "none", 1: "IPv4", 6: "IPv6"})),
    Column("AddressScope"),
    Column("Address", address),
)

ORDER_ACK_BODY: Final = Run(
    transactional_acks.ORDER_LAYOUT,
    CodeColumn("TxSequenceID", sequence_id),
    Column("TxSequenceNumber"),
    Column("TxPreviousSequenceNumber"),
    Column("Reserved"),
)
FINAL_ACK_BODY: Final = Run(
    transactional_acks.FINAL_LAYOUT,
    CodeColumn("TxSequenceID", sequence_id),
    Column("TxSequenceNumber"),
    Column("TxPreviousSequenceNumber"),
    Column("SourceGUID", guid),
    Column("MessageID"),
)
