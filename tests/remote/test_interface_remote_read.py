"""MS-MQRR 6 in NDR and NDR64. Offsets from readings MQRR 5."""

import re
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rpc.records import check_against_idl, handles, stub_directions, stubs
from waypost.errors import DecodeError, EncodeError
from waypost.guid import guid_text
from waypost.remote.interfaces.remote_read import (
    REMOTE_READ,
    CancelReceiveRequest,
    CloseCursorRequest,
    CloseQueueReply,
    CloseQueueRequest,
    CreateCursorReply,
    CreateCursorRequest,
    EndReceiveRequest,
    EndTransactionalReceiveRequest,
    GetServerPortReply,
    MoveMessageRequest,
    OpenQueueForMoveReply,
    OpenQueueForMoveRequest,
    OpenQueueReply,
    OpenQueueRequest,
    PurgeQueueRequest,
    QMEnlistRemoteTransactionRequest,
    ReceiveAction,
    SetUserAcknowledgementClassRequest,
    StartReceiveRequest,
    StartTransactionalReceiveRequest,
)
from waypost.rpc.interface import (
    Empty,
    Method,
    Parameters,
    ResultReply,
    Stub,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
)
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.queue_format import QueueFormat, QueueFormatType
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.section_buffer import SectionBuffer, SectionType

NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64
METHODS = REMOTE_READ.methods
UUID = bytes(range(0xA0, 0xB0))
UOW = bytes(range(0xC0, 0xD0))
CLIENT = bytes(range(0x10, 0x20))
HANDLE = ContextHandle(0, UUID)
HANDLE_BYTES = bytes(4) + UUID
PUBLIC = QueueFormat(QueueFormatType.PUBLIC, arm=UOW)
DIRECT = QueueFormat(QueueFormatType.DIRECT, arm="OS:h\\q")
# m_qft, m_SuffixAndFlags, m_reserved, the tag and a gap, then a GUID.
PUBLIC_BYTES = bytes.fromhex("01000000 01000000") + UOW
TEXT = "OS:h\\q\0".encode("utf-16-le")


def request(opnum: int, record: Parameters, syntax: NdrSyntax = NDR20) -> bytes:
    return encode_request(METHODS[opnum], record, syntax)


def reply(opnum: int, record: Parameters, syntax: NdrSyntax = NDR20) -> bytes:
    return encode_reply(METHODS[opnum], record, syntax)


def open_values(queue_format: QueueFormat) -> tuple[Any, ...]:
    return (queue_format, 0x20, 1, CLIENT, 1, 6, 1, 0x1234, -1)


def start_values() -> tuple[Any, ...]:
    return (HANDLE, 0x0403_0201_0807_0605, 11, 0x8000_0001, 12, 13, 14, 15)


OPEN_TAIL = (
    struct.pack("<II", 0x20, 1) + CLIENT + struct.pack("<iBBHi", 1, 6, 1, 0x1234, -1)
)  # dwAccess, dwShareMode, pClientId, fNonRoutingServer, Major, Minor, BuildNumber, fWorkgroup
START = HANDLE_BYTES + bytes(4) + struct.pack("<QIIIIII", 0x0403_0201_0807_0605, 11, 0x8000_0001, 12, 13, 14, 15)


def test_the_interface_has_its_uuid_its_version_and_its_opnums() -> None:
    assert guid_text(REMOTE_READ.uuid) == "1a9134dd-7b39-45ba-ad88-44d01ca47f28"
    assert REMOTE_READ.version == (1, 0)
    assert REMOTE_READ.syntax.version == 1
    assert {opnum: method.name for opnum, method in METHODS.items()} == {
        0: "R_GetServerPort",
        2: "R_OpenQueue",
        3: "R_CloseQueue",
        4: "R_CreateCursor",
        5: "R_CloseCursor",
        6: "R_PurgeQueue",
        7: "R_StartReceive",
        8: "R_CancelReceive",
        9: "R_EndReceive",
        10: "R_MoveMessage",
        11: "R_OpenQueueForMove",
        12: "R_QMEnlistRemoteTransaction",
        13: "R_StartTransactionalReceive",
        14: "R_SetUserAcknowledgementClass",
        15: "R_EndTransactionalReceive",
    }


def test_only_close_queue_takes_a_handle_that_serializes() -> None:
    taken = [opnum for opnum, method in METHODS.items() if re.search(r"in(, out)?\] QUEUE\w*_SERIALIZE", method.idl)]
    assert taken == [3]
    shared = [opnum for opnum, method in METHODS.items() if "[in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE" in method.idl]
    assert shared == [4, 5, 6, 7, 8, 9, 10, 13, 14, 15]


def test_the_records_are_those_of_the_idl() -> None:
    check_against_idl(REMOTE_READ)


@pytest.mark.spec("MQRR-6-03")
def test_the_binding_handle_is_not_marshalled() -> None:
    assert all("([in] handle_t hBind" in method.idl for method in METHODS.values())
    assert request(0, Empty()) == b""
    assert request(0, Empty(), NDR64) == b""
    assert request(6, PurgeQueueRequest(HANDLE)) == HANDLE_BYTES
    assert reply(0, GetServerPortReply(2103)) == struct.pack("<I", 2103)


@pytest.mark.spec("MQRR-3.1.4.2-02")
def test_open_queue_in_ndr() -> None:
    assert request(2, OpenQueueRequest(*open_values(PUBLIC))) == PUBLIC_BYTES + OPEN_TAIL
    name = struct.pack("<IIIII", 3, 3, 0x0002_0000, 7, 0) + struct.pack("<I", 7) + TEXT
    assert request(2, OpenQueueRequest(*open_values(DIRECT))) == name + bytes(-len(name) % 4) + OPEN_TAIL
    assert reply(2, OpenQueueReply(HANDLE)) == HANDLE_BYTES
    assert METHODS[2].idl.startswith("void ")


def test_open_queue_in_ndr64() -> None:
    head = struct.pack("<BxHxxxxBxxxxxxx", 1, 0, 1) + UOW
    assert request(2, OpenQueueRequest(*open_values(PUBLIC)), NDR64) == head + OPEN_TAIL
    name = struct.pack("<BxHxxxxBxxxxxxxQQQQ", 3, 0, 3, 0x0002_0000, 7, 0, 7) + TEXT
    assert request(2, OpenQueueRequest(*open_values(DIRECT)), NDR64) == name + bytes(-len(name) % 4) + OPEN_TAIL


def test_open_queue_for_move_takes_what_open_queue_takes_and_returns_a_context_more() -> None:
    for syntax in NdrSyntax:
        for queue_format in (PUBLIC, DIRECT):
            values = open_values(queue_format)
            opened = request(2, OpenQueueRequest(*values), syntax)
            assert request(11, OpenQueueForMoveRequest(*values), syntax) == opened
        moved = reply(11, OpenQueueForMoveReply(0x1122_3344_5566_7788, HANDLE), syntax)
        assert moved == struct.pack("<Q", 0x1122_3344_5566_7788) + HANDLE_BYTES
    assert METHODS[11].idl.startswith("void ")


@pytest.mark.spec("MQRR-2.2.4-02")
def test_a_handle_has_20_bytes_whether_it_serializes_or_not() -> None:
    for syntax in NdrSyntax:
        opened = reply(2, OpenQueueReply(ContextHandle(7, UUID)), syntax)
        assert opened == struct.pack("<I", 7) + UUID
        assert decode_request(METHODS[4], opened, syntax) == CreateCursorRequest(ContextHandle(7, UUID))
        assert decode_request(METHODS[3], opened, syntax) == CloseQueueRequest(ContextHandle(7, UUID))
    assert decode_request(METHODS[3], bytes(20), NDR20).context.is_null


def test_the_small_calls_are_handle_then_dwords() -> None:
    assert request(3, CloseQueueRequest(HANDLE)) == HANDLE_BYTES
    assert reply(3, CloseQueueReply()) == bytes(24)
    assert reply(3, CloseQueueReply(HANDLE, 0xC00E0007)) == HANDLE_BYTES + bytes.fromhex("07000ec0")
    assert reply(4, CreateCursorReply(9)) == struct.pack("<II", 9, 0)
    assert request(5, CloseCursorRequest(HANDLE, 9)) == HANDLE_BYTES + struct.pack("<I", 9)
    assert request(8, CancelReceiveRequest(HANDLE, 9)) == HANDLE_BYTES + struct.pack("<I", 9)
    for opnum in (5, 6, 8, 9, 10, 12, 14, 15):
        assert reply(opnum, ResultReply(0xC00E0006)) == bytes.fromhex("06000ec0")


@pytest.mark.spec("MQRR-3.1.4.7-01")
def test_start_receive_in_ndr() -> None:
    for syntax in NdrSyntax:
        stub = request(7, StartReceiveRequest(*start_values()), syntax)
        assert stub == START
        assert len(stub) == 56
    sections = [SectionBuffer(SectionType.ST_FULL_PACKET, 5, 5, b"hello")]
    answer = reply(7, ReceiveReply(1, 0x0102_0304_0506_07, sections, 0xC00E0001))
    assert answer == (
        struct.pack("<IxxxxQII", 1, 0x0102_0304_0506_07, 1, 0x0002_0000)
        + struct.pack("<I", 1)
        + struct.pack("<HxxIII", 0, 5, 5, 0x0002_0004)
        + struct.pack("<I", 5)
        + b"hello\0\0\0"
        + bytes.fromhex("01000ec0")
    )


@pytest.mark.spec("MQRR-3.1.4.13-01")
def test_start_transactional_receive_adds_the_transaction() -> None:
    for syntax in NdrSyntax:
        stub = request(13, StartTransactionalReceiveRequest(*(*start_values(), UOW)), syntax)
        assert stub == START + UOW
        assert len(stub) == 72
        answer = ReceiveReply(7, 8, [SectionBuffer(SectionType.ST_FULL_PACKET, 5, 5, b"hello")])
        assert reply(13, answer, syntax) == reply(7, answer, syntax)
    assert METHODS[13].reply is METHODS[7].reply is ReceiveReply


@pytest.mark.spec("MQRR-3.1.4.10-01")
def test_move_message_in_ndr() -> None:
    for syntax in NdrSyntax:
        stub = request(10, MoveMessageRequest(HANDLE, 1 << 63, 77, UOW), syntax)
        assert stub == HANDLE_BYTES + bytes(4) + struct.pack("<QQ", 1 << 63, 77) + UOW
    assert decode_reply(METHODS[10], bytes.fromhex("07000ec0"), NDR20) == ResultReply(0xC00E0007)


@pytest.mark.spec("MQRR-3.1.4.12-01")
def test_enlist_remote_transaction_in_ndr() -> None:
    record = QMEnlistRemoteTransactionRequest(UOW, b"token", PUBLIC)
    token = struct.pack("<II", 5, 5) + b"token"
    assert request(12, record) == UOW + token + bytes(3) + PUBLIC_BYTES
    token = struct.pack("<IxxxxQ", 5, 5) + b"token"
    public = struct.pack("<BxHxxxxBxxxxxxx", 1, 0, 1) + UOW
    assert request(12, record, NDR64) == UOW + token + bytes(3) + public
    longest = QMEnlistRemoteTransactionRequest(UOW, bytes(131072), PUBLIC)
    assert decode_request(METHODS[12], request(12, longest), NDR20) == longest
    assert decode_reply(METHODS[12], bytes(4), NDR20) == ResultReply(0)


@pytest.mark.parametrize("counts", [(131073, 131073), (5, 4), (4, 5), (0xFFFF_FFFF, 0xFFFF_FFFF)])
def test_a_propagation_token_that_is_too_long_or_not_of_its_size_is_refused(counts: tuple[int, int]) -> None:
    stub = UOW + struct.pack("<II", *counts) + bytes(131080) + PUBLIC_BYTES
    with pytest.raises(DecodeError) as refused:
        decode_request(METHODS[12], stub, NDR20)
    assert refused.value.field in ("cbPropagationToken", "pbPropagationToken")
    with pytest.raises(EncodeError):
        request(12, QMEnlistRemoteTransactionRequest(UOW, bytes(131073), PUBLIC))


@pytest.mark.spec("MQRR-3.1.4.14-01")
def test_set_user_acknowledgement_class_in_ndr() -> None:
    for syntax in NdrSyntax:
        stub = request(14, SetUserAcknowledgementClassRequest(HANDLE, 77, 0xC004), syntax)
        assert stub == HANDLE_BYTES + bytes(4) + struct.pack("<QH", 77, 0xC004)
    assert decode_reply(METHODS[14], bytes.fromhex("50000ec0"), NDR20) == ResultReply(0xC00E0050)


def test_both_ends_of_a_receive_are_alike_and_take_an_ack_of_1_or_2() -> None:
    pairs = ((9, EndReceiveRequest), (15, EndTransactionalReceiveRequest))
    for opnum, record in pairs:
        for ack in (1, 2):
            stub = HANDLE_BYTES + struct.pack("<II", ack, 9)
            assert request(opnum, record(HANDLE, ack, 9)) == stub
            assert decode_request(METHODS[opnum], stub, NDR64) == record(HANDLE, ack, 9)
        for ack in (0, 3, 0xFFFF_FFFF):
            with pytest.raises(DecodeError) as refused:
                decode_request(METHODS[opnum], HANDLE_BYTES + struct.pack("<II", ack, 9), NDR20)
            assert (refused.value.field, refused.value.offset) == ("dwAck", 20)


@pytest.mark.spec("MQRR-6-01", "MQRR-6-02")
def test_top_level_pointers_take_no_room_and_those_of_the_sections_have_referents() -> None:
    # A GUID, an XACTUOW and a QUEUE_FORMAT behind pointers: their bytes and nothing else.
    assert request(12, QMEnlistRemoteTransactionRequest(UOW, b"", PUBLIC)) == UOW + bytes(8) + PUBLIC_BYTES
    assert request(2, OpenQueueRequest(*open_values(PUBLIC)))[32:48] == CLIENT
    # The out pointers: five values, of which only the inner pointer of ppPacketSections has a referent.
    failed = reply(7, ReceiveReply(hresult=0xC00E001B))
    assert failed == bytes(24) + bytes.fromhex("1b000ec0")
    sections = [
        SectionBuffer(SectionType.ST_BINARY_FIRST_SECTION, 9, 3, b"abc"),
        SectionBuffer(SectionType.ST_BINARY_SECOND_SECTION, 2, 2, b"de"),
    ]
    answer = reply(7, ReceiveReply(1, 2, sections))
    count, referent, maximum = struct.unpack_from("<III", answer, 16)
    assert (count, maximum) == (2, 2)
    assert referent != 0
    elements = [struct.unpack_from("<HxxIII", answer, at) for at in (28, 44)]
    assert [element[:3] for element in elements] == [(1, 9, 3), (2, 2, 2)]
    assert 0 not in (elements[0][3], elements[1][3])
    assert answer[60:] == struct.pack("<I", 3) + b"abc\0" + struct.pack("<I", 2) + b"de\0\0" + bytes(4)


def test_a_null_pointer_for_sections_that_are_there_is_refused() -> None:
    sections = [SectionBuffer(SectionType.ST_FULL_PACKET, 5, 5, b"hello")]
    answer = bytearray(reply(7, ReceiveReply(1, 2, sections)))
    for at in (20, 40):
        wrong = answer.copy()
        wrong[at : at + 4] = bytes(4)
        with pytest.raises(DecodeError, match="NULL"):
            decode_reply(METHODS[7], bytes(wrong), NDR20)


def test_a_packet_of_4_mb_comes_back_as_it_went() -> None:
    packet = bytes(4 * 1024 * 1024)
    answer = ReceiveReply(1, 2, [SectionBuffer(SectionType.ST_FULL_PACKET, len(packet), len(packet), packet)])
    for syntax in NdrSyntax:
        assert decode_reply(METHODS[7], reply(7, answer, syntax), syntax) == answer


def test_the_actions_know_whether_they_peek_and_look_up() -> None:
    for action in ReceiveAction:
        assert action.is_lookup == ("LOOKUP" in action.name)
        assert action.is_peek == ("PEEK" in action.name)


DIRECTIONS = stub_directions(REMOTE_READ)


@pytest.mark.parametrize(("method", "record"), DIRECTIONS, ids=lambda part: getattr(part, "name", part.__class__))
@settings(max_examples=20)
@given(data=st.data(), syntax=st.sampled_from(NdrSyntax))
def test_every_record_survives_the_wire(method: Method, record: type[Stub], data: Any, syntax: NdrSyntax) -> None:
    value = data.draw(stubs(record))
    if record is method.request:
        assert decode_request(method, encode_request(method, value, syntax), syntax) == value
    else:
        assert decode_reply(method, encode_reply(method, value, syntax), syntax) == value


@given(
    st.sampled_from(sorted(METHODS)),
    st.one_of(st.binary(max_size=100), st.builds(bytes.__add__, handles.map(lambda h: bytes(4) + h.uuid), st.binary())),
    st.sampled_from(NdrSyntax),
)
def test_any_bytes_give_a_record_or_a_decode_error(opnum: int, data: bytes, syntax: NdrSyntax) -> None:
    for decode in (decode_request, decode_reply):
        try:
            record = decode(METHODS[opnum], data, syntax)
        except DecodeError:
            continue
        expected = METHODS[opnum].request if decode is decode_request else METHODS[opnum].reply
        assert type(record) is expected
