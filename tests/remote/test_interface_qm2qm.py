"""MS-MQQP 6 in NDR and NDR64. Sizes from readings MQQP 5.

The constants marked "second marshaller" are what scapy 2.8.0 with scapy-rpc 0.0.8 made of the same values.
"""

import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rpc.records import STRUCTURES, check_against_idl, stub_directions, stubs
from tests.wire.strategies import u32, u64
from waypost.errors import DecodeError, EncodeError
from waypost.guid import guid_text
from waypost.remote.interfaces.qm2qm import (
    QM2QM,
    CancelReceiveRequest,
    CloseCursorRequest,
    CloseQueueReply,
    CloseQueueRequest,
    EndReceiveReply,
    EndReceiveRequest,
    GetServerPortReply,
    GetServerPortRequest,
    GetVersionReply,
    OpenQueueReply,
    OpenQueueRequest,
    PurgeQueueRequest,
    RemoteReadDesc,
    RemoteReadDesc2,
    StartReceive2Reply,
    StartReceive2Request,
    StartReceiveByLookupIdRequest,
    StartReceiveReply,
    StartReceiveRequest,
)
from waypost.remote.interfaces.remote_read import ReceiveAction, RemoteReadAck
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
from waypost.wire.ndr import ContextHandle, NdrReader, NdrSyntax, NdrWriter

NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64
METHODS = QM2QM.methods
UUID = bytes(range(0xA0, 0xB0))
HANDLE = ContextHandle(0, UUID)
HANDLE_BYTES = bytes(4) + UUID
SEQUENTIAL_ID = 0x0102_0304_0506_0708
NULL_DESC2 = RemoteReadDesc2(None, 5)

# Second marshaller: a descriptor without and with the buffer b"hello".
EMPTY_20 = "010000000200000001000080040000000000000006000000070000000800000009000000 0200 0000 00000000"
EMPTY_64 = "010000000200000001000080040000000000000006000000070000000800000009000000 02000000 0000000000000000"
FULL_20 = (
    "010000000200000001000080040000000500000006000000070000000800000009000000 0200 0000 00000200"
    "05000000 00000000 05000000 68656c6c6f 000000"
)
FULL_64 = (
    "010000000200000001000080040000000500000006000000070000000800000009000000 02000000 0000020000000000"
    "0500000000000000 0000000000000000 0500000000000000 68656c6c6f 000000"
)
HRESULT = "01000ec0"

descs = st.builds(
    RemoteReadDesc, u32, u32, u32, u32, u32, u32, u32, u32, st.integers(0, 0x7FFF), st.none() | st.binary(max_size=9)
)
STRUCTURES_HERE = STRUCTURES | {
    RemoteReadDesc: descs,
    RemoteReadDesc2: st.builds(RemoteReadDesc2, st.none() | descs, u64),
}


def desc(buffer: bytes | None = None) -> RemoteReadDesc:
    return RemoteReadDesc(1, 2, 0x8000_0001, 4, 6, 7, 8, 9, 2, buffer)


def request(opnum: int, record: Parameters, syntax: NdrSyntax = NDR20) -> bytes:
    return encode_request(METHODS[opnum], record, syntax)


def reply(opnum: int, record: Parameters, syntax: NdrSyntax = NDR20) -> bytes:
    return encode_reply(METHODS[opnum], record, syntax)


def referents_apart(data: bytes) -> bytes:
    """Our pointers are numbered, the other marshaller's are all alike."""
    return data.replace(bytes.fromhex("04000200"), bytes.fromhex("00000200"))


@pytest.mark.spec("MQQP-1.7-01")
def test_the_interface_stays_1_0_and_its_opnums_are_in_the_order_of_their_age() -> None:
    assert guid_text(QM2QM.uuid) == "1088a980-eae5-11d0-8d9b-00a02453c337"
    assert QM2QM.version == (1, 0)
    assert [METHODS[opnum].name for opnum in range(11)] == [
        "RemoteQMStartReceive",
        "RemoteQMEndReceive",
        "RemoteQMOpenQueue",
        "RemoteQMCloseQueue",
        "RemoteQMCloseCursor",
        "RemoteQMCancelReceive",
        "RemoteQMPurgeQueue",
        "RemoteQMGetQMQMServerPort",
        "RemoteQmGetVersion",
        "RemoteQMStartReceive2",
        "RemoteQMStartReceiveByLookupId",
    ]
    assert len(METHODS) == 11
    # The first eight know nothing of what came later.
    assert all("REMOTEREADDESC2" not in METHODS[opnum].idl for opnum in range(8))
    check_against_idl(QM2QM)


def test_the_stubs_have_the_sizes_of_the_readings() -> None:
    desc2 = RemoteReadDesc2(desc())
    sizes = {
        0: (StartReceiveRequest(desc()), 44, StartReceiveReply(HANDLE, desc()), 20 + 44 + 4),
        1: (EndReceiveRequest(HANDLE, 2), 24, EndReceiveReply(), 24),
        2: (OpenQueueRequest(UUID, 1, 2, 3, 4), 32, OpenQueueReply(HANDLE), 24),
        3: (CloseQueueRequest(HANDLE), 20, CloseQueueReply(), 24),
        4: (CloseCursorRequest(1, 2), 8, ResultReply(), 4),
        5: (CancelReceiveRequest(1, 2, 3), 12, ResultReply(), 4),
        6: (PurgeQueueRequest(1), 4, ResultReply(), 4),
        7: (GetServerPortRequest(1), 4, GetServerPortReply(2105), 4),
        8: (Empty(), 0, GetVersionReply(6, 1, 6531), 4),
        9: (StartReceive2Request(desc2), 60, StartReceive2Reply(HANDLE, desc2), 20 + 4 + 16 + 44 + 4),
        10: (StartReceiveByLookupIdRequest(1, desc2), 68, StartReceive2Reply(HANDLE, desc2), 20 + 4 + 16 + 44 + 4),
    }
    for opnum, (asked, request_size, answered, reply_size) in sizes.items():
        assert len(request(opnum, asked)) == request_size, opnum
        assert len(reply(opnum, answered)) == reply_size, opnum


@pytest.mark.spec("MQQP-2.2.2.1-01", "MQQP-3.1.4.1-01")
def test_start_receive_carries_the_descriptor_and_then_the_handle_the_buffer_and_the_result() -> None:
    assert request(0, StartReceiveRequest(desc())) == bytes.fromhex(EMPTY_20)
    assert request(0, StartReceiveRequest(desc()), NDR64) == bytes.fromhex(EMPTY_64)
    answer = StartReceiveReply(HANDLE, desc(b"hello"), 0xC00E0001)
    assert reply(0, answer) == HANDLE_BYTES + bytes.fromhex(FULL_20 + HRESULT)
    assert reply(0, answer, NDR64) == HANDLE_BYTES + bytes(4) + bytes.fromhex(FULL_64 + HRESULT)
    for syntax in NdrSyntax:
        assert decode_reply(METHODS[0], reply(0, answer, syntax), syntax) == answer


@pytest.mark.spec("MQQP-2.2.2.2-01")
def test_the_second_descriptor_is_aligned_to_8_and_what_it_points_to_follows() -> None:
    desc2 = RemoteReadDesc2(desc(), SEQUENTIAL_ID)
    number = struct.pack("<Q", SEQUENTIAL_ID)
    assert request(9, StartReceive2Request(desc2)) == bytes.fromhex("00000200 00000000") + number + bytes.fromhex(
        EMPTY_20
    )
    assert request(9, StartReceive2Request(desc2), NDR64) == bytes.fromhex("0000020000000000") + number + bytes.fromhex(
        EMPTY_64
    )
    answer = StartReceive2Reply(HANDLE, RemoteReadDesc2(desc(b"hello"), SEQUENTIAL_ID), 0xC00E0001)
    head = HANDLE_BYTES + bytes(4) + bytes.fromhex("0000020000000000") + number
    assert referents_apart(reply(9, answer)) == head + bytes.fromhex(FULL_20 + HRESULT)
    assert referents_apart(reply(9, answer, NDR64)) == head + bytes.fromhex(FULL_64 + HRESULT)
    # The pointer can be NULL on the wire.
    for syntax in NdrSyntax:
        stub = bytes(8) + struct.pack("<Q", 5)
        assert decode_request(METHODS[9], stub, syntax) == StartReceive2Request(NULL_DESC2)
        assert request(9, StartReceive2Request(NULL_DESC2), syntax) == stub


@pytest.mark.spec("MQQP-3.1.4.11-01")
def test_start_receive_by_lookup_id_has_the_identifier_before_the_descriptor() -> None:
    stub = struct.pack("<QQQ", 3, 0, 5)
    for syntax in NdrSyntax:
        assert request(10, StartReceiveByLookupIdRequest(3, NULL_DESC2), syntax) == stub
        desc2 = RemoteReadDesc2(desc(), SEQUENTIAL_ID)
        with_desc = request(10, StartReceiveByLookupIdRequest(3, desc2), syntax)
        assert with_desc == struct.pack("<Q", 3) + request(9, StartReceive2Request(desc2), syntax)
        answer = StartReceive2Reply(HANDLE, desc2)
        assert reply(10, answer, syntax) == reply(9, answer, syntax)
    assert METHODS[10].idl.startswith("HRESULT ")


@pytest.mark.spec("MQQP-2.2.1.3-01")
def test_an_acknowledgment_has_16_bits_in_ndr_and_32_in_ndr64() -> None:
    assert {ack.name: ack.value for ack in RemoteReadAck} == {"RR_UNKNOWN": 0, "RR_NACK": 1, "RR_ACK": 2}
    for syntax, enum in ((NDR20, struct.pack("<HH", 0x7FFF, 0)), (NDR64, struct.pack("<I", 0x7FFF))):
        stub = request(0, StartReceiveRequest(RemoteReadDesc(ack_nack=0x7FFF)), syntax)
        assert stub == bytes(36) + enum + bytes(syntax)
    # The gap behind the 16 bits is not part of the value.
    stub = bytes(36) + struct.pack("<HH", RemoteReadAck.RR_ACK, 0xFFFF) + bytes(4)
    assert decode_request(METHODS[0], stub, NDR20).remote_read_desc.ack_nack == RemoteReadAck.RR_ACK


@pytest.mark.spec("MQQP-2.2.2.1-04")
def test_the_actions_have_their_numbers() -> None:
    assert {action.name: action.value for action in ReceiveAction} == {
        "MQ_ACTION_RECEIVE": 0x0000_0000,
        "MQ_ACTION_PEEK_CURRENT": 0x8000_0000,
        "MQ_ACTION_PEEK_NEXT": 0x8000_0001,
        "MQ_LOOKUP_PEEK_CURRENT": 0x4000_0010,
        "MQ_LOOKUP_PEEK_NEXT": 0x4000_0011,
        "MQ_LOOKUP_PEEK_PREV": 0x4000_0012,
        "MQ_LOOKUP_RECEIVE_CURRENT": 0x4000_0020,
        "MQ_LOOKUP_RECEIVE_NEXT": 0x4000_0021,
        "MQ_LOOKUP_RECEIVE_PREV": 0x4000_0022,
    }


@pytest.mark.spec("MQQP-2.2.2.1-06")
def test_dw_size_is_the_length_of_the_buffer_up_to_4325376() -> None:
    # The values that a client sends: 0 and NULL.
    asked = request(0, StartReceiveRequest(RemoteReadDesc()))
    assert struct.unpack_from("<I", asked, 16) == (0,)
    assert asked[-4:] == bytes(4)
    for syntax in NdrSyntax:
        for size in (0, 5, 0x0042_0000):
            answer = StartReceiveReply(HANDLE, RemoteReadDesc(buffer=bytes(size)))
            stub = reply(0, answer, syntax)
            at = 20 + 16 if syntax is NDR20 else 24 + 16
            assert struct.unpack_from("<I", stub, at) == (size,)
            assert decode_reply(METHODS[0], stub, syntax) == answer
    above = bytes(16) + struct.pack("<I", 0x0042_0001) + bytes(24)
    with pytest.raises(DecodeError) as refused:
        decode_request(METHODS[0], above, NDR20)
    assert (refused.value.field, refused.value.offset) == ("dwSize", 16)
    with pytest.raises(EncodeError):
        reply(0, StartReceiveReply(HANDLE, RemoteReadDesc(buffer=bytes(0x0042_0001))))


@pytest.mark.parametrize("counts", [(6, 0, 5), (5, 1, 5), (5, 0, 4), (4, 0, 4), (5, 0, 0xFFFF_FFFF)])
def test_a_buffer_whose_counts_are_not_its_size_is_refused(counts: tuple[int, int, int]) -> None:
    stub = bytearray(request(0, StartReceiveRequest(desc(b"hello"))))
    stub[44:56] = struct.pack("<III", *counts)
    with pytest.raises(DecodeError, match="counts"):
        decode_request(METHODS[0], bytes(stub), NDR20)


def test_a_size_without_a_buffer_is_refused() -> None:
    stub = bytearray(request(0, StartReceiveRequest(desc())))
    stub[16:20] = struct.pack("<I", 5)
    with pytest.raises(DecodeError, match="NULL"):
        decode_request(METHODS[0], bytes(stub), NDR20)


def test_a_buffer_is_copied_once() -> None:
    packet = bytes(range(256)) * 0x4000
    stub = reply(0, StartReceiveReply(HANDLE, RemoteReadDesc(buffer=packet)))
    tracemalloc.start()
    found = decode_reply(METHODS[0], stub, NDR20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.remote_read_desc.buffer == packet
    assert peak < 1.1 * len(packet)


@pytest.mark.spec("MQQP-3.1.4.2-01")
def test_end_receive_takes_the_handle_and_an_ack_of_1_or_2() -> None:
    for syntax in NdrSyntax:
        for ack in (1, 2):
            stub = HANDLE_BYTES + struct.pack("<I", ack)
            assert request(1, EndReceiveRequest(HANDLE, ack), syntax) == stub
            assert decode_request(METHODS[1], stub, syntax) == EndReceiveRequest(HANDLE, ack)
        assert reply(1, EndReceiveReply(hresult=0xC00E0051), syntax) == bytes(20) + bytes.fromhex("51000ec0")
        for ack in (0, 3, 0xFFFF_FFFF):
            with pytest.raises(DecodeError) as refused:
                decode_request(METHODS[1], HANDLE_BYTES + struct.pack("<I", ack), syntax)
            assert refused.value.field == "dwAck"


@pytest.mark.spec("MQQP-3.1.4.3-01")
def test_open_queue_takes_a_guid_and_four_numbers_and_returns_a_handle() -> None:
    for syntax in NdrSyntax:
        stub = UUID + struct.pack("<IIII", 16, 2, 3, 4)
        assert request(2, OpenQueueRequest(UUID, 16, 2, 3, 4), syntax) == stub
        assert decode_request(METHODS[2], stub, syntax) == OpenQueueRequest(UUID, 16, 2, 3, 4)
        assert reply(2, OpenQueueReply(HANDLE, 0), syntax) == HANDLE_BYTES + bytes(4)
        with pytest.raises(DecodeError) as refused:
            decode_request(METHODS[2], UUID + struct.pack("<IIII", 17, 2, 3, 4), syntax)
        assert refused.value.field == "dwMQS"


def test_the_calls_with_numbers_alone() -> None:
    assert request(4, CloseCursorRequest(1, 2)) == struct.pack("<II", 1, 2)
    assert request(5, CancelReceiveRequest(1, 2, 3)) == struct.pack("<III", 1, 2, 3)
    assert request(6, PurgeQueueRequest(1)) == struct.pack("<I", 1)
    assert decode_request(METHODS[3], bytes(20), NDR20).context.is_null


@pytest.mark.spec("MQQP-3.1.4.8-01")
def test_the_port_is_asked_for_by_a_type_of_0_to_3_and_is_no_hresult() -> None:
    for syntax in NdrSyntax:
        for port_type in range(4):
            assert request(7, GetServerPortRequest(port_type), syntax) == struct.pack("<I", port_type)
        with pytest.raises(DecodeError) as refused:
            decode_request(METHODS[7], struct.pack("<I", 4), syntax)
        assert refused.value.field == "dwPortType"
        assert decode_reply(METHODS[7], struct.pack("<I", 2105), syntax) == GetServerPortReply(2105)
    assert METHODS[7].idl.startswith("DWORD ")


@pytest.mark.spec("MQQP-3.1.4.9-01")
def test_get_version_takes_nothing_and_returns_three_numbers_without_a_result() -> None:
    for syntax in NdrSyntax:
        assert request(8, Empty(), syntax) == b""
        assert reply(8, GetVersionReply(6, 1, 6531), syntax) == struct.pack("<BBH", 6, 1, 6531)
    assert METHODS[8].idl.startswith("void ")


@pytest.mark.spec("MQQP-6-01")
def test_the_idl_has_its_ranges_and_no_binding_handle_on_the_wire() -> None:
    check_against_idl(QM2QM)
    assert all("([in] handle_t hBind" in method.idl for method in METHODS.values())
    assert request(6, PurgeQueueRequest(1)) == struct.pack("<I", 1)
    stubs_and_ranges: list[tuple[int, str, str, int]] = [
        (0, "<16xI24x", "dwSize", 4_325_377),
        (1, "<20xI", "dwAck", 3),
        (1, "<20xI", "dwAck", 0),
        (2, "<16xI12x", "dwMQS", 17),
        (7, "<I", "dwPortType", 4),
    ]
    for opnum, layout, field, outside in stubs_and_ranges:
        with pytest.raises(DecodeError) as refused:
            decode_request(METHODS[opnum], struct.pack(layout, outside), NDR20)
        assert (refused.value.field, refused.value.section) == (field, "MS-RPCE 3.1.1.5.3.2.2.4")
    # Both kinds of context handle are 20 bytes; the pointer default shows in the embedded pointers, which may be NULL.
    assert decode_reply(METHODS[2], HANDLE_BYTES + bytes(4), NDR20).context == HANDLE
    assert decode_request(METHODS[1], HANDLE_BYTES + b"\1\0\0\0", NDR20).context == HANDLE
    assert decode_request(METHODS[9], bytes(16), NDR20).remote_read_desc2.remote_read_desc is None
    assert decode_request(METHODS[0], bytes(44), NDR20).remote_read_desc.buffer is None


@pytest.mark.parametrize(("method", "record"), stub_directions(QM2QM), ids=lambda part: getattr(part, "name", "-"))
@settings(max_examples=20)
@given(data=st.data(), syntax=st.sampled_from(NdrSyntax))
def test_every_record_survives_the_wire(method: Method, record: type[Stub], data: Any, syntax: NdrSyntax) -> None:
    value = data.draw(stubs(record, STRUCTURES_HERE))
    if record is method.request:
        assert decode_request(method, encode_request(method, value, syntax), syntax) == value
    else:
        assert decode_reply(method, encode_reply(method, value, syntax), syntax) == value


@given(st.sampled_from(sorted(METHODS)), st.binary(max_size=120), st.sampled_from(NdrSyntax))
def test_any_bytes_give_a_record_or_a_decode_error(opnum: int, data: bytes, syntax: NdrSyntax) -> None:
    for decode in (decode_request, decode_reply):
        try:
            record = decode(METHODS[opnum], data, syntax)
        except DecodeError:
            continue
        expected = METHODS[opnum].request if decode is decode_request else METHODS[opnum].reply
        assert type(record) is expected


@given(descs, st.sampled_from(NdrSyntax))
def test_a_descriptor_is_a_structure_of_its_own(record: RemoteReadDesc, syntax: NdrSyntax) -> None:
    writer = NdrWriter(syntax)
    record.write(writer)
    reader = NdrReader(writer.finish(), syntax)
    found = RemoteReadDesc.read(reader)
    reader.finish()
    assert found == record
