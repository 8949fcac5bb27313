"""Properties that must hold for any bytes, one function for each decoder.

A target takes any bytes and returns if all is well. `Violation` says which promise of the package is broken; any other
exception that leaves a target is a broken promise too. Text is made from bytes in a way that reaches every character
and every lone surrogate of the upper half. The fuzzer (fuzz/run.py) and the suite (tests/test_hostile.py) drive the
same functions.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, Protocol, TypeVar

from waypost.drive.keys import formats
from waypost.drive.keys.rsa_work import perform
from waypost.errors import (
    AuthenticationFailed,
    DecodeError,
    DecryptionFailed,
    EncodeError,
    InvalidParameter,
    UnsupportedFormatName,
)
from waypost.security.certificates import public_key_of
from waypost.security.ciphers import body_encryption, open_body
from waypost.security.signatures import claimed_signature, signature_digest
from waypost.security.work import CheckSignature
from waypost.wire import FormatName, PathName, Ping, Splitter, base_header, decode_packet
from waypost.wire.addresses import decode_addresses, encode_addresses
from waypost.wire.base_header import BaseHeader
from waypost.wire.certificates import MqUserSignCert, MqUserSignCerts
from waypost.wire.debug_header import DebugHeader
from waypost.wire.describe import Description, describe
from waypost.wire.format_names import DirectFormatName, DistributionListFormatName, Suffix
from waypost.wire.identifiers import MessageIdentifier, ObjectId, SequenceInfo, TxSequenceId, XactUow
from waypost.wire.internal_packets import InternalHeader
from waypost.wire.keys import KeyType, MqDsPublicKey, MqDsPublicKeys, PublicKeyBlob, SimpleBlob
from waypost.wire.logon_info import HEADERS as LOGON_INFO_HEADERS
from waypost.wire.logon_info import OBJECT_ALIGNMENT, KerbValidationInfo
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.multi_queue import MultiQueueFormatHeader, from_format_name, to_format_name
from waypost.wire.ndr import NdrReader, NdrSyntax, NdrWriter
from waypost.wire.packet_names import admin_format_name, destination_format_name, response_format_name
from waypost.wire.path_names import MsmqVersion
from waypost.wire.propvariant import PropVariant
from waypost.wire.queue_format import QueueFormat, remote_read_name
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.remote_packet import Origin, RemotePacket, absolute_time_to_reach_queue, cut_sections, sender_address
from waypost.wire.remote_trailers import (
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    HostAddress,
    SenderAddress,
    SubqueueHeader,
)
from waypost.wire.sddl import parse_sddl, sddl
from waypost.wire.section_buffer import join_sections, read_sections, write_sections
from waypost.wire.security_descriptor import Acl, SecurityDescriptor
from waypost.wire.security_header import SecurityHeader
from waypost.wire.session_header import SIZE as SESSION_SIZE
from waypost.wire.session_header import SessionHeader
from waypost.wire.sid import Sid
from waypost.wire.soap import CompoundMessageHeader, SoapHeader, SrmpEnvelopeHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage


class Record(Protocol):
    def encode(self) -> bytes: ...


R = TypeVar("R", bound=Record)
T = TypeVar("T")

ORIGIN: Final = Origin(bytes(range(16)), HostAddress(bytes((127, 0, 0, 1))))

# The headers of a packet that are read alone; UserHeader and MultiQueueFormatHeader hold names, which are read too.
HEADERS: Final[tuple[Callable[[bytes, int], tuple[Record, int]], ...]] = (
    BaseHeader.decode,
    InternalHeader.decode,
    TransactionHeader.decode,
    SecurityHeader.decode,
    MessagePropertiesHeader.decode,
    DebugHeader.decode,
    SrmpEnvelopeHeader.decode,
    CompoundMessageHeader.decode,
    SoapHeader.decode,
    SessionHeader.decode,
)

# The splitter's input starts with this many lengths of segments.
SEGMENT_LENGTHS: Final = 8

# A name that is printed from a record may be this much longer than the bytes that it was read from.
PRINTED: Final = 64


class Violation(AssertionError):
    """The package broke a promise."""


def require(holds: object, promise: str, *evidence: object) -> None:
    if not holds:
        shown = (item.hex() if isinstance(item, bytes) else repr(item) for item in evidence)
        raise Violation(": ".join((promise, *shown)))


def attempt(decode: Callable[[], T], size: int) -> T | None:
    """The result of `decode`, or None if it refuses its input of `size` bytes or characters."""
    try:
        return decode()
    except DecodeError as error:
        cited = isinstance(error.section, str) and error.section.startswith(("MS-", "C706 "))
        require(cited and error.field and error.reason, "an error names section, field and reason", error.args)
        require(0 <= error.offset <= size, "an error's offset is inside the input", str(error), size)
        return None


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def same_bytes(record: Record, data: bytes) -> None:
    require(record.encode() == data, "a decoded record encodes to the same bytes", record, data)


def same_name(parse: Callable[[str], T], text: str) -> T | None:
    """A name, if `text` is one; its printed form means the same and prints the same."""
    name = attempt(lambda: parse(text), len(text))
    if name is not None:
        again = parse(str(name))
        require(again == name and hash(again) == hash(name), "a printed name parses to itself", text, str(name))
        require(str(again) == str(name), "a name has one printed form", text, str(name))
    return name


def fitted(data: bytes) -> bytes:
    """The packet with the PacketSize that its length asks for: mutation of the rest alone would seldom hit it."""
    if len(data) < base_header.SIZE:
        return data
    flags = int.from_bytes(data[2:4], "little")
    is_trailed = flags & (base_header.IN | base_header.SH) == base_header.SH
    size = max(len(data) - (SESSION_SIZE if is_trailed else 0), 0)
    return data[:8] + size.to_bytes(4, "little") + data[12:]


def packet(data: bytes) -> None:
    for given in (data, fitted(data)):
        record = attempt(partial(decode_packet, given), len(given))
        if record is None:
            continue
        same_bytes(record, given)
        if not isinstance(record, Ping):
            require(Splitter().feed(given) == [given], "the splitter agrees on the length of a packet", given)


def splitter(data: bytes) -> None:
    lengths, stream = data[:SEGMENT_LENGTHS], data[SEGMENT_LENGTHS:]
    whole, cut = Splitter(), Splitter()
    packets = _feed(whole, stream)
    used = sum(map(len, packets))
    require(b"".join(packets) == stream[:used], "the packets are the stream, cut", data)
    if whole.error is None:
        require(whole.pending == len(stream) - used, "an incomplete packet is held", data)
    found = _feed(cut, b"")
    at = turn = 0
    while at < len(stream):
        end = at + (lengths[turn % len(lengths)] or 1)
        found += _feed(cut, stream[at:end])
        at, turn = end, turn + 1
    require(found == packets, "the packets do not depend on the segments", data)
    require(cut.pending == whole.pending, "the held bytes do not depend on the segments", data)
    require(_arguments(cut) == _arguments(whole), "the error does not depend on the segments", data)


def _feed(splitter: Splitter, segment: bytes) -> list[bytes]:
    return attempt(lambda: splitter.feed(segment), base_header.SIZE) or []


def _arguments(splitter: Splitter) -> object:
    return splitter.error and splitter.error.args


def headers(data: bytes) -> None:
    for decode in HEADERS:
        _check_prefix(decode, data)
    user = _check_prefix(UserHeader.decode, data)
    if user is not None:
        for name_of in (destination_format_name, admin_format_name, response_format_name):
            attempt(partial(name_of, user), base_header.SIZE + len(data))


def multi_queue(data: bytes) -> None:
    found = _check_prefix(MultiQueueFormatHeader.decode, data)
    if found is not None:
        for element in (*found.destination.elements, *found.administration.elements, *found.response.elements):
            name = attempt(partial(to_format_name, element), len(data))
            if name is not None and name.suffix is Suffix.NONE:
                again = to_format_name(from_format_name(name))
                require(again == name, "an element means the name it was made from", name)


def description(data: bytes) -> None:
    for given in (data, fitted(data)):
        is_sound = attempt(partial(decode_packet, given), len(given)) is not None
        _check_description(describe(given), given, is_sound=is_sound)


def _check_description(found: Description, data: bytes, *, is_sound: bool) -> None:
    require((found.error is None) == is_sound, "describe and decode_packet agree", found.error, data)
    for header in found.headers:
        require(header.name and header.section and header.fields, "a header has a name and fields", header)
        for field in header.fields:
            inside = header.offset <= field.offset and field.offset + field.size <= len(data)
            require(inside and field.size > 0, "a field is inside the packet", field, data)


def format_name(data: bytes) -> None:
    name = same_name(FormatName.parse, text_of(data))
    if name is None:
        return
    with suppress(UnsupportedFormatName):
        name.destination()
    with suppress(EncodeError):
        record = QueueFormat.from_format_name(name)
        require(record.to_format_name() == name, "a QUEUE_FORMAT means the name it was made from", str(name))
    with suppress(UnsupportedFormatName):
        element = from_format_name(name)
        has_domain = isinstance(name, DistributionListFormatName) and name.domain  # no place for it in an element
        require(has_domain or to_format_name(element) == name, "an element means the name it was made from", name)
    if isinstance(name, DirectFormatName):
        require(DirectFormatName.parse_direct(name.direct_text) == name, "the text without DIRECT= is enough", name)
        require(name.host and (name.port is None or 0 < name.port < 0x1_0000), "a direct name has a host", name)


def path_name(data: bytes) -> None:
    text = text_of(data)
    for version in MsmqVersion:
        same_name(partial(PathName.parse, version=version), text)


def identifier_text(data: bytes) -> None:
    text = text_of(data)
    same_name(MessageIdentifier.parse, text)
    same_name(Sid.parse, text)


def propvariant(data: bytes) -> None:
    for syntax in NdrSyntax:
        _check_ndr(data, syntax, PropVariant.read, PropVariant.write)


def queue_format(data: bytes) -> None:
    for syntax in NdrSyntax:
        record = _check_ndr(data, syntax, QueueFormat.read, QueueFormat.write)
        if record is None:
            continue
        name = attempt(record.to_format_name, len(data) + PRINTED)
        if name is not None:
            again = QueueFormat.from_format_name(name).to_format_name()
            require(again == name, "a QUEUE_FORMAT means the name it was made from", record)
        with suppress(InvalidParameter):
            require(remote_read_name(record) == name, "a remote reader opens the queue that was named", record)


def receive_reply(data: bytes) -> None:
    for syntax in NdrSyntax:
        reply = _check_ndr(data, syntax, ReceiveReply.read, ReceiveReply.write)
        if reply is not None and reply.sections:
            size = sum(section.section_size_alloc for section in reply.sections)
            require(len(join_sections(reply.sections)) == size, "sections join to the size they say", reply)


def _check_ndr(
    data: bytes, syntax: NdrSyntax, read: Callable[[NdrReader], T], write: Callable[[T, NdrWriter], None]
) -> T | None:
    """Gaps and referents are not part of a record, so that the first encoding may differ from `data`, but no other."""

    def decode(given: bytes) -> T:
        reader = NdrReader(given, syntax)
        found = read(reader)
        reader.finish()
        return found

    def encode(given: T) -> bytes:
        writer = NdrWriter(syntax)
        write(given, writer)
        return writer.finish()

    record = attempt(lambda: decode(data), len(data))
    if record is not None:
        encoded = encode(record)
        require(decode(encoded) == record, "a written record reads as the same", syntax, record, data)
        require(encode(decode(encoded)) == encoded, "a record has one encoding", syntax, record, data)
    return record


def security_descriptor(data: bytes) -> None:
    found = attempt(lambda: SecurityDescriptor.decode(data), len(data))
    if found is None:
        return
    same_bytes(found, data)
    anew = replace(found).encode()
    require(SecurityDescriptor.decode(anew) == found, "a new layout means the same", found, data)
    require(replace(SecurityDescriptor.decode(anew)).encode() == anew, "a new layout is laid out once", data)


def access_control(data: bytes) -> None:
    _check_prefix(Acl.decode, data)
    found = _check_prefix(Sid.decode, data)
    if found is not None:
        require(Sid.parse(str(found)) == found, "a printed SID parses to itself", found)


def logon_info(data: bytes) -> None:
    """Of a PAC that a domain has signed: the SIDs of an account, or a refusal of the whole logon."""
    for given in (data, with_object_length(data)):
        found = attempt(partial(KerbValidationInfo.decode, given), len(given))
        if found is None:
            continue
        encoded = found.encode()
        require(KerbValidationInfo.decode(encoded) == found, "a written record reads as the same", found, given)
        require(len(encoded) < len(given) + OBJECT_ALIGNMENT, "a record is not longer than it was", found, given)
        for sid in (found.user_sid, *found.group_sids):
            require(Sid.decode(sid.encode(), 0)[0] == sid, "a SID of an account has its bytes", sid, given)


def with_object_length(data: bytes) -> bytes:
    """The buffer with the ObjectBufferLength that its length asks for: mutation of the rest alone seldom hits it."""
    size = max(len(data) - LOGON_INFO_HEADERS.size, 0)
    return LOGON_INFO_HEADERS.pack(1, 0x10, 8, 0, size, 0) + data[LOGON_INFO_HEADERS.size :]


def sddl_text(data: bytes) -> None:
    text = text_of(data)
    found = attempt(lambda: parse_sddl(text, Sid(5, (21, 1, 2, 3))), len(text))
    if found is not None:
        require(SecurityDescriptor.decode(found.encode()) == found, "a descriptor of a text has bytes", text)
        again = parse_sddl(sddl(found))
        require(again == found and sddl(again) == sddl(found), "a descriptor has one text", text, sddl(found))


def keys(data: bytes) -> None:
    _check_prefix(PublicKeyBlob.decode, data)
    _check_prefix(MqDsPublicKey.decode, data)
    _check_prefix(MqDsPublicKeys.decode, data)
    blob = attempt(lambda: SimpleBlob.decode(data), len(data))
    if blob is not None:
        same_bytes(blob, data)


def certificates(data: bytes) -> None:
    _check_prefix(MqUserSignCert.decode, data)
    found = _check_prefix(MqUserSignCerts.decode, data)
    for certificate in (data, *(item.certificate for item in found.certificates)) if found else (data,):
        key = attempt(partial(public_key_of, certificate, KeyType.CALG_RSA_SIGN), len(certificate))
        if key is not None:
            require(PublicKeyBlob.decode(key.encode(), 0)[0] == key, "a certificate's key has a blob", data)


def key_files(data: bytes) -> None:
    """Files with keys and certificates that a person gives: read, or refused with a sentence."""
    found = _refused(partial(formats.exchange_keys, data, "it"))
    if found is not None:
        require(formats.exchange_keys(formats.encoded_keys(found), "it") == found, "pinned keys are kept", data)
    for read in (
        partial(formats.certificate, data, "it"),
        partial(formats.private_key, data, None, "it"),
        partial(formats.certificate_with_key, data, "secret", "it"),
    ):
        _refused(read)


def _refused(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except InvalidParameter:
        return None


def protected_packet(data: bytes) -> None:
    """A signed or encrypted packet: what is hashed and decrypted, or why not; and the work with its certificate."""
    packet = attempt(lambda: UserMessage.decode(data), len(data))
    if packet is None:
        return
    try:
        encryption = body_encryption(packet)
        if encryption is not None and packet.security is not None:
            attempt(partial(SimpleBlob.decode, packet.security.encryption_key), len(data))
            open_body(packet, bytes(encryption.key_size or 0))
        claim = claimed_signature(packet)
        if claim is None or packet.security is None:
            return
        digests = tuple(signature_digest(packet, version) for version in claim.versions)
    except (DecryptionFailed, AuthenticationFailed):
        return
    algorithm = packet.properties.hash_algorithm
    checked = perform(CheckSignature(packet.security.sender_cert, claim.signature, algorithm, digests))
    require(checked.found < 0 and checked.problem, "nobody forges a signature by chance", data)


def identifiers(data: bytes) -> None:
    for decode in (ObjectId.decode, MessageIdentifier.decode, TxSequenceId.decode, SequenceInfo.decode, XactUow.decode):
        _check_prefix(decode, data)
    addresses = attempt(lambda: decode_addresses(data), len(data))
    if addresses is not None:
        require(encode_addresses(addresses) == data, "addresses encode to the same bytes", data)
        require(all(map(str, addresses)), "an address has a text", data)


def remote_trailers(data: bytes) -> None:
    for decode in (ExtensionHeader.decode, SubqueueHeader.decode, DeadLetterHeader.decode, SenderAddress.decode):
        _check_prefix(decode, data)
    header = _check_prefix(ExtendedAddressHeader.decode, data)
    if header is not None:
        require(header.host.address_type is header.address_type, "an address is of its type", data)


def remote_packet(data: bytes) -> None:
    found = attempt(lambda: RemotePacket.decode(data), len(data))
    if found is not None:
        same_bytes(found, data)
        message = attempt(found.message, len(data))
        if message is not None:
            own = message.encode()
            require(own[12:] == found.user_message[12:], "the UserMessage is the bytes that came", data)
            attempt(lambda: sender_address(message.user), 16)
    sent = attempt(lambda: RemotePacket.of(data, ORIGIN), len(data))
    if sent is None:
        return
    encoded = sent.encode()
    same_bytes(RemotePacket.decode(encoded), encoded)
    _check_cuts(data)


def _check_cuts(data: bytes) -> None:
    """A packet that is cut for a reader and joined again differs in TimeToReachQueue and in the part left out."""
    sent_time, lifetime = int.from_bytes(data[52:56], "little"), int.from_bytes(data[12:16], "little")
    patched = absolute_time_to_reach_queue(sent_time, lifetime).to_bytes(4, "little")
    expected = data[:12] + patched + data[16:]
    for limit in (0, 5, len(data)):
        parts = cut_sections(data, limit, limit)
        joined = join_sections(parts)
        kept = parts[0].section_size
        rest = parts[0].section_size_alloc
        require(len(joined) == len(data), "sections have the size of their packet", limit, data)
        require(joined[:kept] == expected[:kept], "a first section is the start of the packet", limit, data)
        require(not any(joined[kept:rest]), "the omitted bytes are zeros", limit, data)
        require(joined[rest:] == expected[rest:], "a second section is the end of the packet", limit, data)
        for syntax in NdrSyntax:
            writer = NdrWriter(syntax)
            write_sections(writer, parts)
            require(read_sections(NdrReader(writer.finish(), syntax)) == parts, "sections travel", limit, data)


def _check_prefix(decode: Callable[[bytes, int], tuple[R, int]], data: bytes) -> R | None:
    """A record that ends anywhere, at the start of the input and behind four bytes of something else."""
    found = attempt(lambda: decode(data, 0), len(data))
    shifted = attempt(lambda: decode(b"\xff\0\xff\0" + data, 4), len(data) + 4)
    if found is None or shifted is None:
        require(found is shifted, "a record does not depend on where it stands", data)
        return None
    record, end = found
    require(shifted == (record, end + 4), "a record does not depend on where it stands", data)
    require(0 <= end <= len(data), "a record ends inside its input", end, data)
    same_bytes(record, data[:end])
    return record


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "packet": packet,
    "splitter": splitter,
    "headers": headers,
    "multi-queue": multi_queue,
    "describe": description,
    "format-name": format_name,
    "path-name": path_name,
    "identifier-text": identifier_text,
    "propvariant": propvariant,
    "queue-format": queue_format,
    "receive-reply": receive_reply,
    "security-descriptor": security_descriptor,
    "access-control": access_control,
    "logon-info": logon_info,
    "sddl": sddl_text,
    "keys": keys,
    "certificates": certificates,
    "key-files": key_files,
    "protected-packet": protected_packet,
    "identifiers": identifiers,
    "remote-trailers": remote_trailers,
    "remote-packet": remote_packet,
}
