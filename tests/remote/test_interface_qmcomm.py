"""The part of MS-MQMP 6 that MS-MQQP needs, in NDR and NDR64.

The sizes marked "second marshaller" are what scapy 2.8.0 with scapy-rpc 0.0.8 made of a transfer buffer of zeros.
"""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rpc.records import check_against_idl, stub_directions, stubs
from waypost.errors import DecodeError
from waypost.guid import guid_text
from waypost.remote.interfaces.qmcomm import (
    QMCOMM,
    CloseRemoteQueueContextReply,
    CloseRemoteQueueContextRequest,
    CreateRemoteCursorReply,
    CreateRemoteCursorRequest,
    GetServerPortReply,
    GetServerPortRequest,
    OpenRemoteQueueReply,
    OpenRemoteQueueRequest,
)
from waypost.rpc.interface import Method, Stub, decode_reply, decode_request, encode_reply, encode_request
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.queue_format import QueueFormat, QueueFormatType

NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64
METHODS = QMCOMM.methods
UUID = bytes(range(0xA0, 0xB0))
HANDLE = ContextHandle(0, UUID)
HANDLE_BYTES = bytes(4) + UUID
PUBLIC = QueueFormat(QueueFormatType.PUBLIC, arm=UUID)


def test_the_interface_has_its_uuid_and_the_four_methods() -> None:
    assert guid_text(QMCOMM.uuid) == "fdb3a030-065f-11d1-bb9b-00a024ea5525"
    assert QMCOMM.version == (1, 0)
    assert {opnum: method.name for opnum, method in METHODS.items()} == {
        2: "R_QMOpenRemoteQueue",
        3: "R_QMCloseRemoteQueueContext",
        4: "R_QMCreateRemoteCursor",
        31: "R_QMGetRTQMServerPort",
    }
    check_against_idl(QMCOMM)


def test_open_remote_queue_has_a_unique_pointer_to_the_name() -> None:
    tail = struct.pack("<III", 1, 0x20, 0) + UUID + struct.pack("<I", 5)
    record = OpenRemoteQueueRequest(PUBLIC, 1, 0x20, 0, UUID, 5)
    stub = encode_request(METHODS[2], record, NDR20)
    assert stub == bytes.fromhex("00000200 01000000 01000000") + UUID + tail
    stub = encode_request(METHODS[2], record, NDR64)
    assert stub == struct.pack("<QBxHxxxxBxxxxxxx", 0x0002_0000, 1, 0, 1) + UUID + tail
    record = OpenRemoteQueueRequest(None, 1, 0x20, 0, UUID, 5)
    assert encode_request(METHODS[2], record, NDR20) == bytes(4) + tail
    assert encode_request(METHODS[2], record, NDR64) == bytes(8) + tail


def test_open_remote_queue_returns_the_handle_and_the_three_numbers() -> None:
    for syntax in NdrSyntax:
        stub = encode_reply(METHODS[2], OpenRemoteQueueReply(HANDLE, 1, 2, 3, 0xC00E0003), syntax)
        assert stub == HANDLE_BYTES + struct.pack("<IIII", 1, 2, 3, 0xC00E0003)
    assert encode_reply(METHODS[2], OpenRemoteQueueReply(hresult=1), NDR20) == bytes(32) + b"\1\0\0\0"


def test_closing_the_context_returns_the_null_handle_and_nothing_else() -> None:
    assert encode_request(METHODS[3], CloseRemoteQueueContextRequest(HANDLE), NDR20) == HANDLE_BYTES
    assert encode_reply(METHODS[3], CloseRemoteQueueContextReply(), NDR20) == bytes(20)


@pytest.mark.parametrize(("syntax", "size"), [(NDR20, 228), (NDR64, 448)])
def test_a_cursor_is_asked_for_with_a_transfer_buffer_of_zeros(syntax: NdrSyntax, size: int) -> None:
    # Second marshaller.
    stub = encode_request(METHODS[4], CreateRemoteCursorRequest(0x1122_3344), syntax)
    assert stub == bytes(size) + bytes.fromhex("44332211")
    assert decode_request(METHODS[4], stub, syntax) == CreateRemoteCursorRequest(0x1122_3344)
    assert encode_reply(METHODS[4], CreateRemoteCursorReply(7), syntax) == struct.pack("<II", 7, 0)


@pytest.mark.parametrize("buffer", [b"", bytes(4), b"\xff" * 300])
def test_what_is_in_the_transfer_buffer_is_ignored(buffer: bytes) -> None:
    for syntax in NdrSyntax:
        stub = buffer + struct.pack("<I", 9)
        assert decode_request(METHODS[4], stub, syntax) == CreateRemoteCursorRequest(9)


@pytest.mark.parametrize("size", [0, 3, 5, 231])
def test_a_cursor_without_a_whole_handle_behind_the_buffer_is_refused(size: int) -> None:
    with pytest.raises(DecodeError):
        decode_request(METHODS[4], bytes(size), NDR20)


def test_any_number_asks_for_a_port() -> None:
    for ip in (0, 1, 3, 4, 0xFFFF_FFFF):
        assert decode_request(METHODS[31], struct.pack("<I", ip), NDR20) == GetServerPortRequest(ip)
    assert encode_reply(METHODS[31], GetServerPortReply(2103), NDR20) == struct.pack("<I", 2103)


@pytest.mark.parametrize(("method", "record"), stub_directions(QMCOMM), ids=lambda part: getattr(part, "name", "-"))
@settings(max_examples=20)
@given(data=st.data(), syntax=st.sampled_from(NdrSyntax))
def test_every_record_survives_the_wire(method: Method, record: type[Stub], data: Any, syntax: NdrSyntax) -> None:
    value = data.draw(stubs(record))
    if record is method.request:
        assert decode_request(method, encode_request(method, value, syntax), syntax) == value
    else:
        assert decode_reply(method, encode_reply(method, value, syntax), syntax) == value


@given(st.sampled_from(sorted(METHODS)), st.binary(max_size=100), st.sampled_from(NdrSyntax))
def test_any_bytes_give_a_record_or_a_decode_error(opnum: int, data: bytes, syntax: NdrSyntax) -> None:
    for decode in (decode_request, decode_reply):
        try:
            record = decode(METHODS[opnum], data, syntax)
        except DecodeError:
            continue
        expected = METHODS[opnum].request if decode is decode_request else METHODS[opnum].reply
        assert type(record) is expected
