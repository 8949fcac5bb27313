"""waypost.wire.describe: packets in words."""

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.wiretap import VECTORS, frame_7, vector
from waypost.errors import DecodeError
from waypost.wire.base_header import BaseHeader
from waypost.wire.debug_header import DebugHeader
from waypost.wire.describe import Description, FieldText, describe, describe_ping
from waypost.wire.describe.bodies import body_text
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.multi_queue import (
    MqfAddressHeader,
    MqfDirectQueueFormatName,
    MqfDistributionQueueFormatName,
    MqfFormatNameElement,
    MultiQueueFormatHeader,
)
from waypost.wire.packets import decode_packet
from waypost.wire.queue_names import PrivateQueueFormatName, PrivateQueueFormatNameId, PublicQueueFormatName
from waypost.wire.remote_trailers import (
    DL,
    EA,
    SQ,
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    HostAddress,
    SubqueueHeader,
)
from waypost.wire.security_header import ProviderInfo, SecurityHeader
from waypost.wire.session_header import SessionHeader
from waypost.wire.soap import SoapHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.transactional_acks import (
    FinalAckBody,
    OrderAckBody,
    final_ack,
    local_order_queue,
    order_ack,
)
from waypost.wire.user_header import RQ_SHIFT, UserHeader
from waypost.wire.user_message import UserMessage

GUID = bytes(range(16))


def field(description: Description, name: str, header: str = "") -> FieldText:
    return next(
        each
        for part in description.headers
        if part.name.startswith(header)
        for each in part.fields
        if each.name == name
    )


def everything() -> bytes:
    """A message with every header there is."""
    message = UserMessage(
        user=UserHeader(
            source_queue_manager=GUID,
            queue_manager_address=GUID[::-1],
            sent_time=1_700_000_000,
            flags=0x0020_0020,
            destination_queue=PrivateQueueFormatNameId(0x1F),
            admin_queue=PublicQueueFormatName(GUID),
            connector_type=GUID,
        ),
        transaction=TransactionHeader(0x4C, 7 << 32 | 9, 2, 1, GUID),
        security=SecurityHeader(
            2, GUID, b"key", b"signature", b"certificate", ProviderInfo(1, "Some Provider").encode()
        ),
        properties=MessagePropertiesHeader(label="order", extension_data=b"ext", message_body=b"<a/>", body_type=8),
        debug=DebugHeader(queue_identifier=GUID),
        soap=SoapHeader(header="soap header", body="soap body"),
        multi_queue=MultiQueueFormatHeader(
            destination=MqfAddressHeader(
                elements=[
                    MqfFormatNameElement(MqfDirectQueueFormatName("OS:host\\q")),
                    MqfFormatNameElement(MqfDistributionQueueFormatName(GUID)),
                ]
            )
        ),
        session=SessionHeader(3, 5, 0b101, 4, 2),
    )
    return message.encode()


def test_each_vector_has_its_kind_and_verdict() -> None:
    kinds = {path.stem: describe(path.read_bytes()) for path in VECTORS.glob("*.bin")}
    assert {name: (each.kind, each.error is None) for name, each in kinds.items()} == {
        "mqqb-4.1.1": ("Ping", True),
        "mqqb-4.1.2": ("Ping", True),
        "mqqb-4.1.3": ("EstablishConnection", True),
        "mqqb-4.1.4": ("EstablishConnection", True),
        "mqqb-4.1.5": ("ConnectionParameters", True),
        "mqqb-4.1.6": ("ConnectionParameters", True),
        "mqqb-4.1.7": ("UserMessage", False),
        "mqqb-4.1.8": ("SessionAck", True),
        "scanner-establish-connection": ("EstablishConnection", True),
        "srmp-user-message": ("UserMessage", True),
        "hostile-user-message": ("UserMessage", False),
    }


@pytest.mark.parametrize("data", [*(path.read_bytes() for path in VECTORS.glob("*.bin")), frame_7(), everything()])
def test_the_fields_of_each_header_follow_each_other_without_a_hole(data: bytes) -> None:
    for header in describe(data).headers:
        at = header.offset
        for each in header.fields:
            if "." in each.name:
                continue
            # Items of SecurityData are padded to 4 bytes without a field for it.
            assert at <= each.offset <= at + 3
            at = each.offset + each.size
        assert at <= len(data)


def test_flags_are_shown_bit_by_bit_with_their_meaning() -> None:
    description = describe(vector("mqqb-4.1.8"))
    assert field(description, "Flags") == FieldText("Flags", 2, 2, "0x001B")
    assert field(description, "Flags.PR").value == 3
    assert field(description, "Flags.SH") == FieldText("Flags.SH", 2, 2, 1, "a SessionHeader is present")
    assert field(description, "Flags.DH") == FieldText("Flags.DH", 2, 2, 0, "")
    unused = describe(vector("hostile-user-message"))
    assert field(unused, "Flags.X", "UserHeader").value == "0x04000000"


def test_a_message_shows_names_texts_and_codes_in_their_own_form() -> None:
    description = describe(frame_7())
    assert description.error is None
    assert field(description, "SourceQueueManager").value == "557358d1-9150-9595-4997-b6e611ea26c6"
    assert field(description, "DestinationQueue") == FieldText(
        "DestinationQueue", 0x40, 28, "DIRECT=OS:a04bm02\\q", "direct format name"
    )
    assert field(description, "SecurityID").meaning.startswith("S-1-5-21-")
    assert field(description, "Label") == FieldText("Label", 0xC0, 30, "mqsender label")
    assert field(description, "HashAlgorithm").meaning == "SHA-1"
    assert field(description, "BodyType").meaning == "VT_BSTR"
    assert field(description, "MessageClass").meaning.startswith("MQMSG_CLASS_NORMAL")
    assert field(description, "MessageBody").meaning == "text (utf-16-le): " + "a" * 1000


@pytest.mark.spec("MQMQ-2.2.19.2-06")
def test_every_header_of_a_message_is_described() -> None:
    description = describe(everything())
    assert description.error is None
    assert [header.name for header in description.headers] == [
        "BaseHeader",
        "UserHeader",
        "TransactionHeader",
        "SecurityHeader",
        "MessagePropertiesHeader",
        "DebugHeader",
        "SoapHeader",
        "MultiQueueFormatHeader.Destination",
        "MultiQueueFormatHeader.Administration",
        "MultiQueueFormatHeader.Response",
        "MultiQueueFormatHeader.Signature",
        "SessionHeader",
    ]
    guid = "03020100-0504-0706-0809-0a0b0c0d0e0f"
    host = "0c0d0e0f-0a0b-0809-0706-050403020100"
    assert field(description, "DestinationQueue").value == f"PRIVATE={host}\\0000001f"
    assert field(description, "AdminQueue").value == f"PUBLIC={guid}"
    assert field(description, "SentTime").meaning == "2023-11-14 22:13:20 UTC"
    assert field(description, "TxSequenceID").meaning == "TimeStamp 7, Ordinal 9"
    assert field(description, "Flags.ID", "TransactionHeader").value == 4
    assert field(description, "SecurityID").meaning == guid
    assert field(description, "ProviderInfo").meaning == "Some Provider, 1"
    assert field(description, "Header", "SoapHeader").value == "soap header"
    assert field(description, "Body", "SoapHeader").value == "soap body"
    assert field(description, "FormatNameList[0]").value == "DIRECT=OS:host\\q"
    assert field(description, "FormatNameList[1]").value == f"DL={guid}"
    assert field(description, "RecoverableMsgAckFlags").meaning == "stored: RecoverableMsgAckSeqNumber +0, +2"


def test_a_lifetime_that_ends_shows_when() -> None:
    message = UserMessage(
        BaseHeader(time_to_reach_queue=60), UserHeader(sent_time=1_700_000_000, time_to_be_received=3600)
    )
    description = describe(message.encode())
    assert field(description, "TimeToReachQueue").meaning == "seconds from SentTime, until 2023-11-14 22:14:20 UTC"
    assert field(description, "TimeToBeReceived").meaning == "seconds from SentTime, until 2023-11-14 23:13:20 UTC"
    forever = describe(UserMessage(user=UserHeader(sent_time=1_700_000_000)).encode())
    assert field(forever, "TimeToReachQueue").meaning == "infinite"


def test_a_signature_is_explained_only_when_it_is_the_right_one() -> None:
    assert field(describe(vector("mqqb-4.1.5")), "Signature").meaning == "LIOR"
    wrong = describe(vector("mqqb-4.1.5").replace(b"LIOR", b"LIAR"))
    assert field(wrong, "Signature") == FieldText("Signature", 4, 4, "0x5241494C")


@pytest.mark.parametrize(
    ("body_type", "body", "meaning"),
    [
        (3, (12345).to_bytes(4, "little"), "12345"),
        (2, b"\xff\xff", "-1"),
        (16, b"\x80", "-128"),
        (17, b"A", "65"),
        (18, b"\xff\xff", "65535"),
        (19, b"\xff\xff\xff\xff", "4294967295"),
        (20, b"\xff" * 8, "-1"),
        (21, b"\xff" * 8, "18446744073709551615"),
        (4, pack("<f", 0.1), "0.100000001"),
        (5, pack("<d", 0.1), "0.1"),
        (6, (123_456).to_bytes(8, "little"), "12.3456"),
        (7, pack("<d", 45244.5), "2023-11-14 12:00:00"),
        (7, pack("<d", -1.25), "1899-12-29 06:00:00"),
        (7, pack("<d", 1e300), ""),
        (7, pack("<d", float("nan")), ""),
        (10, b"\x03\0\x0e\xc0", "0xC00E0003"),
        (11, b"\xff\xff", "true"),
        (11, b"\0\0", "false"),
        (11, b"\x01", "true"),
        (64, (133_444_736_000_000_000).to_bytes(8, "little"), "2023-11-14 22:13:20 UTC"),
        (64, b"\xff" * 8, ""),
        (72, GUID, "03020100-0504-0706-0809-0a0b0c0d0e0f"),
        (3, b"90", ""),
        (3, b"", ""),
        (0x4242, b"text", ""),
        (0, b"", ""),
        (0, b"plain", "text (utf-8): plain"),
        (0, "wide".encode("utf-16-le"), "text (utf-16-le): wide"),
        (0, "\ufeff嬛䨲".encode("utf-16-le"), "text (utf-16-le): 嬛䨲"),
        (0, b"\x1b\x5b\x32\x4a", ""),
        (8, "嬛䨲".encode("utf-16-le"), "text (utf-16-le): 嬛䨲"),
        (8, b"odd", "text (utf-8): odd"),
        (31, "wide".encode("utf-16-le"), "text (utf-16-le): wide"),
        (30, b"narrow\0", "text (utf-8): narrow"),
        (0x1011, b"<a/>\r\n", "text (utf-8): <a/>\r\n"),
        (0x2011, b"\x00\xff\xfe", ""),
    ],
)
def test_a_body_is_read_as_its_type_says(body_type: int, body: bytes, meaning: str) -> None:
    message = UserMessage(properties=MessagePropertiesHeader(message_body=body, body_type=body_type))
    meanings = [each.meaning for each in describe(message.encode()).headers[2].fields if each.name == "MessageBody"]
    assert meanings == ([meaning] if body else [])


@given(st.integers(0, 80) | st.sampled_from([0x1011, 0x2011]), st.binary(max_size=20))
def test_any_body_has_a_meaning_or_none(body_type: int, body: bytes) -> None:
    assert isinstance(body_text(body, body_type), str)


def test_a_private_queue_is_named_with_the_host_that_the_header_means() -> None:
    admin = PrivateQueueFormatName(b"\x11" * 16, 5)
    user = UserHeader(GUID, GUID[::-1], flags=4 << RQ_SHIFT, admin_queue=admin)
    user.response_queue = PrivateQueueFormatNameId(0x1F)
    name = field(describe(UserMessage(user=user).encode()), "ResponseQueue").value
    assert name == "PRIVATE=11111111-1111-1111-1111-111111111111\\0000001f"
    user.admin_queue = PublicQueueFormatName(GUID)
    unknown = field(describe(UserMessage(user=user).encode()), "ResponseQueue")
    assert (unknown.value, unknown.meaning) == (
        "UNKNOWN=\\0000001f",
        "private queue on the host of the administration queue, not understood",
    )


def with_trailers(*headers: bytes, flags: int) -> bytes:
    following = b"".join(headers)
    extension = ExtensionHeader(len(following), flags).encode() + following
    return UserMessage(extension=extension, session=SessionHeader()).encode()


def test_the_headers_behind_an_extension_header_are_described() -> None:
    data = with_trailers(
        SubqueueHeader(abort_counter=3, last_move_time=1_700_000_000, subqueue_name="retry").encode(),
        DeadLetterHeader("host\\dead").encode(),
        ExtendedAddressHeader.of(HostAddress(b"\x0a\0\0\1")).encode(),
        flags=SQ | DL | EA,
    )
    description = describe(data)
    assert description.error is None
    assert [header.name for header in description.headers[-5:]] == [
        "ExtensionHeader", "SubqueueHeader", "DeadLetterHeader", "ExtendedAddressHeader", "SessionHeader",
    ]  # fmt: skip
    assert field(description, "SubqueueName").value == "retry"
    assert field(description, "AbortCounter").value == 3
    assert field(description, "LastMoveTime").meaning == "2023-11-14 22:13:20 UTC"
    assert field(description, "DeadLetterPathName").value == "host\\dead"
    assert field(description, "AddressType").meaning == "IPv4"
    assert field(description, "Address").meaning == "10.0.0.1"


def test_bytes_behind_an_extension_header_that_are_no_header_are_shown_as_they_are() -> None:
    for data in (with_trailers(b"junk", flags=DL), with_trailers(b"junk", flags=0)):
        description = describe(data)
        assert description.error is None
        assert field(description, "Data", "Bytes after it").value == b"junk"
        assert description.headers[-1].name == "SessionHeader"


def test_transactional_acknowledgments_show_their_body() -> None:
    order = describe(order_ack(UserHeader(), local_order_queue(), OrderAckBody(1 << 32 | 2, 5, 4)).encode())
    final = describe(final_ack(UserHeader(), local_order_queue(), 0x4000, FinalAckBody(1, 5, 4, GUID, 77)).encode())
    assert (order.kind, final.kind) == ("OrderAck", "FinalAck")
    assert field(order, "TxSequenceNumber", "OrderAck Body").value == 5
    assert field(final, "MessageID", "FinalAck Body").value == 77


def test_a_malformed_packet_shows_the_headers_up_to_the_error() -> None:
    data = bytearray(frame_7())
    data[0x89] = 0xFB  # LabelLength
    description = describe(bytes(data))
    assert description.error is not None
    assert (description.error.field, description.error.offset) == ("LabelLength", 0x89)
    assert description.headers[-1].name == "MessagePropertiesHeader"
    assert field(description, "LabelLength").value == 0xFB


def test_a_message_that_was_cut_still_shows_its_label_and_how_its_body_begins() -> None:
    description = describe(frame_7()[:300])
    assert description.error is not None
    assert field(description, "Label").value == "mqsender label"
    assert field(description, "MessageBody").size == 300 - 0xDE


def test_a_datagram_that_is_no_ping_says_so() -> None:
    description = describe_ping(b"\0" * 24)
    assert (description.kind, description.error is not None) == ("Ping", True)
    assert describe_ping(b"hi").headers == ()


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([*VECTORS.glob("*.bin")]).map(lambda path: path.read_bytes()) | st.just(everything()), st.data())
def test_any_bytes_are_described_with_the_verdict_of_decode_packet(packet: bytes, draw: st.DataObject) -> None:
    data = bytearray(packet)
    for at, byte in draw.draw(st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=6)):
        data[at] = byte
    mutated = bytes(data[: draw.draw(st.integers(0, len(data)) | st.just(len(data)))])
    assert str(describe(mutated).error) == verdict(mutated)


def verdict(data: bytes) -> str:
    try:
        decode_packet(data)
    except DecodeError as error:
        return str(error)
    return "None"
