"""Good inputs for every target: the vectors, messages with every header, names of every kind, every record.

Mutation starts here. That an input is good matters more than how many there are; the fuzzer finds the variants.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import Encoding

from fuzz.targets import SEGMENT_LENGTHS
from tests.wire.vectors import frame, vector
from waypost.drive.keys import formats
from waypost.wire import FormatName, base_header, security_header, user_header
from waypost.wire.addresses import AddressType, TaAddress, encode_addresses
from waypost.wire.base_header import BaseHeader
from waypost.wire.certificates import MqUserSignCert, MqUserSignCerts
from waypost.wire.debug_header import DebugHeader
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.keys import (
    KeyType,
    MqDsPublicKey,
    MqDsPublicKeys,
    ProviderType,
    PublicKeyBlob,
    SessionKeyAlgorithm,
    SimpleBlob,
)
from waypost.wire.logon_info import GroupMembership, KerbValidationInfo, SidAndAttributes, UnicodeString
from waypost.wire.message_class import MessageClass
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.multi_queue import MqfAddressHeader, MqfSignatureHeader, MultiQueueFormatHeader, from_format_name
from waypost.wire.ndr import NdrSyntax, NdrWriter
from waypost.wire.propvariant import INTEGER_VECTORS, INTEGERS, LPWSTR_VECTOR, VARIANT_VECTOR, PropVariant
from waypost.wire.queue_format import QueueFormat
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
)
from waypost.wire.receive_reply import BodyLimits, ReceiveReply
from waypost.wire.remote_packet import Origin, RemotePacket
from waypost.wire.remote_trailers import DeadLetterHeader, HostAddress, SenderAddress, SubqueueHeader
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    ACCESS_DENIED_OBJECT_ACE_TYPE,
    ACL_REVISION_DS,
    AccessAce,
    Acl,
    NullAcl,
    ObjectAce,
    OpaqueAce,
    SecurityDescriptor,
)
from waypost.wire.security_header import SENDER_SID, ProviderInfo, SecurityHeader
from waypost.wire.session_header import SessionHeader
from waypost.wire.sid import ADMINISTRATORS, EVERYONE, Sid
from waypost.wire.soap import CompoundMessageHeader, SoapHeader, SrmpEnvelopeHeader
from waypost.wire.transaction_header import CG, TransactionHeader
from waypost.wire.transactional_acks import (
    FinalAck,
    FinalAckBody,
    OrderAck,
    OrderAckBody,
    final_ack,
    local_order_queue,
    order_ack,
    order_queue_of_address,
)
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage
from waypost.wire.variant_types import VT_VECTOR, VarType

GUID: Final = bytes(range(16))
GUID_TEXT: Final = "03020100-0504-0706-0809-0a0b0c0d0e0f"
HOST: Final = HostAddress(bytes(15) + b"\x01", 3)

# The kinds that a MultiQueueFormatHeader can list.
ELEMENTS: Final = (
    "DIRECT=OS:host\\orders",
    f"PUBLIC={GUID_TEXT}",
    f"PRIVATE={GUID_TEXT}\\0000000f",
    f"DL={GUID_TEXT}",
)
FORMAT_NAMES: Final = (
    *ELEMENTS,
    "DIRECT=OS:host\\PRIVATE$\\orders;late",
    "DIRECT=OS:host\\PRIVATE$\\orders;late;JOURNAL",
    "DIRECT=OS:host\\SYSTEM$;DEADXACT",
    "DIRECT=TCP:10.0.0.1\\orders;JOURNAL",
    "DIRECT=TCP:fe80::1%eth0\\PRIVATE$\\orders",
    "DIRECT=HTTP://host.example:8080/msmq/PRIVATE$/orders",
    "DIRECT=HTTPS://[::1]/msmq/orders;late",
    "DIRECT=http://host/MSMQ\\private$\\orders",
    f"PUBLIC={GUID_TEXT};JOURNAL",
    f"PRIVATE={GUID_TEXT}\\f;JOURNAL",
    f"DL={GUID_TEXT}@example.com",
    f"MACHINE={GUID_TEXT};DEADLETTER",
    f"CONNECTOR={GUID_TEXT};XACTONLY",
    "MULTICAST=234.1.1.1:8001",
)
PATH_NAMES: Final = ("host\\orders", "host\\private$\\orders;late", "host\\system$;journal", ".\\Orders")
SDDL_TEXTS: Final = (
    "O:BAG:SYD:PAI(D;;0x3;;;AN)(A;CIOI;KA;;;S-1-5-21-1-2-3-1000)S:(AU;SAFA;GA;;;WD)",
    "O:LAD:(OA;;01;4a2d3f00-0000-0000-0000-000000000001;;WD)(OD;IO;CCDC;;;AU)",
    "D:NO_ACCESS_CONTROL",
    "O:S-1-0x00050000000DD:",
)
IDENTIFIER_TEXTS: Final = (f"{{{GUID_TEXT}}}\\17", "234.1.1.1:8001", "S-1-5-32-544", "S-1-0xFFFFFFFFFFFF-0-1")


def whole_message() -> UserMessage:
    """A message with every header and every optional field."""
    address = MqfAddressHeader(elements=[from_format_name(FormatName.parse(text)) for text in ELEMENTS])
    provider = ProviderInfo(1, "provider").encode()
    return UserMessage(
        base=BaseHeader(flags=base_header.TR),
        user=UserHeader(
            GUID,
            GUID,
            flags=user_header.MP | user_header.RECOVERABLE << user_header.DM_SHIFT,
            destination_queue=DirectQueueFormatName("OS:host\\private$\\orders"),
            admin_queue=PrivateQueueFormatName(GUID, 7),
            response_queue=PublicQueueFormatName(GUID),
            connector_type=GUID,
        ),
        transaction=TransactionHeader(CG, 1 << 32 | 2, 3, 2, GUID),
        security=SecurityHeader(SENDER_SID, EVERYONE.encode(), b"key", b"signature", b"certificate", provider),
        properties=MessagePropertiesHeader(
            body_type=8, label="label", extension_data=b"ext", message_body=b"body", allocation_remainder=b"12"
        ),
        debug=DebugHeader(queue_identifier=GUID),
        srmp_envelope=SrmpEnvelopeHeader(data="<envelope/>"),
        compound_message=CompoundMessageHeader(msg_body_size=2, msg_body_offset=1, data=b"post"),
        soap=SoapHeader(header="<header/>", body="<body/>"),
        multi_queue=MultiQueueFormatHeader(address, MqfAddressHeader(), address, MqfSignatureHeader(signature=b"sign")),
        extension=RemotePacket(b"").encode(),
        session=SessionHeader(),
    )


def messages() -> list[UserMessage]:
    """With all headers, and with one optional header each."""
    whole = whole_message()
    numbered = UserHeader(destination_queue=PrivateQueueFormatNameId(4), response_queue=PrivateQueueFormatNameId(5))
    return [
        whole,
        UserMessage(user=numbered),
        UserMessage(user=whole.user, transaction=whole.transaction),
        UserMessage(security=whole.security),
        UserMessage(properties=whole.properties),
        UserMessage(debug=whole.debug),
        UserMessage(srmp_envelope=whole.srmp_envelope, compound_message=whole.compound_message),
        UserMessage(soap=whole.soap),
        UserMessage(multi_queue=whole.multi_queue),
        UserMessage(extension=whole.extension),
        UserMessage(session=whole.session),
    ]


def headers() -> list[bytes]:
    """Each header of a message alone."""
    whole = whole_message()
    optional = (whole.transaction, whole.security, whole.debug, whole.srmp_envelope, whole.compound_message, whole.soap)
    found = (whole.user, whole.properties, *optional, whole.session)
    return [header.encode() for header in found if header is not None]


def multi_queues() -> list[bytes]:
    """With all kinds of names, and with one kind each."""
    header = whole_message().multi_queue
    assert header is not None
    alone = [MqfAddressHeader(elements=[element]) for element in header.destination.elements]
    return [header.encode(), *(MultiQueueFormatHeader(address).encode() for address in alone)]


def packets() -> list[bytes]:
    acknowledgments: list[OrderAck | FinalAck] = [
        order_ack(UserHeader(), local_order_queue(), OrderAckBody(1, 2, 1)),
        final_ack(
            UserHeader(),
            order_queue_of_address("10.0.0.1"),
            MessageClass.MQMSG_CLASS_ACK_RECEIVE,
            FinalAckBody(1, 2, 1, GUID, 3),
        ),
    ]
    return [
        *(frame(number) for number in range(1, 9)),
        *map(vector, ("scanner-establish-connection", "srmp-user-message", "hostile-user-message")),
        *(record.encode() for record in messages()),
        *(record.encode() for record in acknowledgments),
    ]


def streams() -> list[bytes]:
    lengths = bytes((1, 16, 255, 3, 40, 7, 0, 100))[:SEGMENT_LENGTHS]
    connection = b"".join(map(frame, (3, 5, 8)))
    trailed = UserMessage(session=SessionHeader()).encode()
    return [lengths + connection, lengths + trailed + frame(8) + trailed, lengths + connection + b"no packet at all"]


def texts(names: tuple[str, ...]) -> list[bytes]:
    return [name.encode() for name in names]


def in_both_syntaxes(*writes: Callable[[NdrWriter], None]) -> list[bytes]:
    found = []
    for syntax in NdrSyntax:
        for write in writes:
            writer = NdrWriter(syntax)
            write(writer)
            found.append(writer.finish())
    return found


def propvariants() -> list[bytes]:
    strings = PropVariant(LPWSTR_VECTOR, ["one", None, "three"])
    nested = PropVariant(VARIANT_VECTOR, [strings, PropVariant(VARIANT_VECTOR, [PropVariant(VarType.VT_UI1, 7)])])
    records = [
        PropVariant(VarType.VT_EMPTY),
        PropVariant(VarType.VT_BOOL, True),
        PropVariant(VarType.VT_CLSID, GUID),
        PropVariant(VarType.VT_LPWSTR, "text"),
        PropVariant(VarType.VT_BLOB, b"blob"),
        PropVariant(VT_VECTOR | VarType.VT_UI1, b""),
        PropVariant(VT_VECTOR | VarType.VT_CLSID, [GUID, GUID]),
        strings,
        nested,
        *(PropVariant(vt, 7) for vt in INTEGERS),
        *(PropVariant(vt, [1, 2, 3]) for vt in INTEGER_VECTORS),
    ]
    return in_both_syntaxes(*(record.write for record in records))


def queue_formats() -> list[bytes]:
    names = map(FormatName.parse, FORMAT_NAMES)
    return in_both_syntaxes(*(QueueFormat.from_format_name(name).write for name in names))


def receive_replies() -> list[bytes]:
    """A failure, a full packet and one that is cut, each for a plain message and one that came over HTTP."""
    whole = whole_message()
    plain = UserMessage(properties=whole.properties, multi_queue=whole.multi_queue).encode()
    posted = UserMessage(srmp_envelope=whole.srmp_envelope, compound_message=whole.compound_message).encode()
    limits = (BodyLimits(1, 1), BodyLimits(100, 100))
    replies = [ReceiveReply.of(packet, 1, 2, limit) for packet in (plain, posted) for limit in limits]
    return in_both_syntaxes(ReceiveReply(hresult=1).write, *(reply.write for reply in replies))


def acls() -> list[Acl]:
    allowed = AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, 0x000F_003F, EVERYONE)
    denied = ObjectAce(ACCESS_DENIED_OBJECT_ACE_TYPE, 2, 0x100, 0, GUID, GUID, ADMINISTRATORS)
    return [
        Acl(aces=(allowed,), unused=b"room"),
        Acl(ACL_REVISION_DS, aces=(denied, allowed, OpaqueAce(0x11, 0, b"opaque"))),
    ]


def security_descriptors() -> list[bytes]:
    allowing, denying = acls()
    return [
        SecurityDescriptor().encode(),
        SecurityDescriptor(owner=EVERYONE, group=ADMINISTRATORS, sacl=denying, dacl=allowing).encode(),
        SecurityDescriptor(owner=EVERYONE, dacl=NullAcl.NULL_ACL).encode(),
    ]


def logon_infos() -> list[bytes]:
    """An account with groups of all kinds, one of another domain, and the example of the specification."""
    domain = Sid(5, (21, 1, 2, 3))
    groups = [GroupMembership(513), GroupMembership(1120, 0)]
    whole = KerbValidationInfo(
        effective_name=UnicodeString.of("alice"),
        full_name=UnicodeString("", 2),
        user_id=1105,
        primary_group_id=513,
        group_ids=groups,
        logon_domain_id=domain,
        extra_sids=[SidAndAttributes(Sid(18, (1,))), SidAndAttributes(domain, 0)],
        resource_group_domain_sid=domain,
        resource_group_ids=groups,
    )
    foreign = KerbValidationInfo(extra_sids=[SidAndAttributes(Sid(5, (21, 4, 5, 6, 1200)))])
    return [whole.encode(), foreign.encode(), vector("pac-3.1", "pac")]


def keys() -> list[bytes]:
    blob = PublicKeyBlob(KeyType.CALG_RSA_KEYX, 65537, b"modulus!")
    key = MqDsPublicKey(ProviderType.PROV_RSA_FULL, "provider", blob)
    records = (blob, key, MqDsPublicKeys((key, key)), SimpleBlob(SessionKeyAlgorithm.RC2, b"encrypted"))
    return [record.encode() for record in records]


def certificates() -> list[bytes]:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "s")])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=RSAPublicNumbers(65537, (1 << 1023) + 1).public_key(),
        serial_number=7,
        not_valid_before=datetime(2026, 1, 1, tzinfo=UTC),
        not_valid_after=datetime(2027, 1, 1, tzinfo=UTC),
    )
    issuer = Ed25519PrivateKey.from_private_bytes(bytes(32))
    certificate = builder.sign(issuer, None).public_bytes(Encoding.DER)
    record = MqUserSignCert.of(GUID, certificate)
    return [certificate, record.encode(), MqUserSignCerts((MqUserSignCert.of(GUID, b"abc"), record)).encode()]


def key_files() -> list[bytes]:
    key = RSAPublicNumbers(65537, (1 << 1023) + 1).public_key()
    return [formats.pem_of(key), formats.public_key_list(key).encode(), *certificates()]


def protected_packets() -> list[bytes]:
    """A signed packet, an encrypted one, and one that is both."""
    found = []
    for flags in (security_header.DE, security_header.EB, security_header.DE | security_header.EB):
        packet = whole_message()
        packet.security = SecurityHeader(
            flags | security_header.AI,
            encryption_key=SimpleBlob(SessionKeyAlgorithm.AES_256, bytes(128)).encode(),
            signature=bytes(128),
            sender_cert=certificates()[0],
        )
        packet.properties.privacy_level, packet.properties.encryption_algorithm = 5, SessionKeyAlgorithm.AES_256
        packet.properties.hash_algorithm = 0x800E
        packet.properties.message_body = bytes(32)
        found.append(packet.encode())
    return found


def identifiers() -> list[bytes]:
    addresses = [TaAddress(AddressType.IP, bytes(4)), TaAddress(AddressType.FOREIGN, GUID)]
    return [encode_addresses(addresses), MessageIdentifier(GUID, 7).encode()]


def remote_packets() -> list[bytes]:
    origin = Origin(GUID, HOST)
    found = [RemotePacket.of(record.encode(), origin) for record in messages()]
    for packet in found[::2]:
        packet.dead_letter = DeadLetterHeader("host\\dead")
    return [*(packet.encode() for packet in found), vector("srmp-user-message")]


def remote_trailers() -> list[bytes]:
    headers = (
        SubqueueHeader(1, 2, 0, 3, 4, 5, "late", b"", "target", b"tail".ljust(50, b"!")),
        DeadLetterHeader("host\\dead"),
        SenderAddress.of(HOST),
    )
    trailers = RemotePacket(b"", dead_letter=DeadLetterHeader("x")).encode()
    return [*(header.encode() for header in headers), trailers, trailers[12:], trailers[-28:]]


SEEDS: Final[dict[str, Callable[[], list[bytes]]]] = {
    "packet": packets,
    "splitter": streams,
    "headers": headers,
    "multi-queue": multi_queues,
    "describe": packets,
    "format-name": lambda: texts((*FORMAT_NAMES, ",".join(ELEMENTS))),
    "path-name": lambda: texts(PATH_NAMES),
    "identifier-text": lambda: texts(IDENTIFIER_TEXTS),
    "propvariant": propvariants,
    "queue-format": queue_formats,
    "receive-reply": receive_replies,
    "security-descriptor": security_descriptors,
    "access-control": lambda: [Sid(5, (21, 1, 2, 3)).encode(), *(acl.encode() for acl in acls())],
    "logon-info": logon_infos,
    "sddl": lambda: texts(SDDL_TEXTS),
    "keys": keys,
    "certificates": certificates,
    "key-files": key_files,
    "protected-packet": protected_packets,
    "identifiers": identifiers,
    "remote-trailers": remote_trailers,
    "remote-packet": remote_packets,
}
