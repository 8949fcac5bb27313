"""Tables of interfaces: parameters, stubs and methods."""

import struct
from dataclasses import dataclass
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rpc.records import stubs
from waypost.errors import DecodeError, EncodeError
from waypost.guid import parse_guid
from waypost.rpc.binds import SyntaxId
from waypost.rpc.interface import (
    Empty,
    Guid,
    InPlace,
    Interface,
    Method,
    Nullable,
    ResultReply,
    SizedBytes,
    Stub,
    byte,
    decode_reply,
    decode_request,
    dword,
    encode_reply,
    encode_request,
    long,
    ulonglong,
    ushort,
)
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.queue_format import QueueFormat, QueueFormatType

NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64
GUID = bytes(range(16))


@dataclass(slots=True)
class Everything(Stub):
    small: Annotated[int, byte("Small")]
    short: Annotated[int, ushort("Short")]
    signed: Annotated[int, long("Signed")]
    ranged: Annotated[int, dword("Ranged", 1, 2)]
    wide: Annotated[int, ulonglong("Wide")]
    guid: Annotated[bytes, Guid("Guid")]
    token: Annotated[bytes, SizedBytes("cbToken", "pbToken", 9)]
    handle: Annotated[ContextHandle, InPlace("Handle", ContextHandle)]
    name: Annotated[QueueFormat | None, Nullable("Name", InPlace("Name", QueueFormat))]
    last: Annotated[int, byte("Last")]


EVERYTHING = Method(3, "Everything", Everything, ResultReply, "")
TABLE = Interface.of("table", GUID, (3, 1), EVERYTHING, Method(5, "Nothing", Empty, Empty, ""))


def everything(**changes: object) -> Everything:
    values = {
        "small": 1,
        "short": 2,
        "signed": -3,
        "ranged": 2,
        "wide": 5,
        "guid": GUID,
        "token": b"abc",
        "handle": ContextHandle(0, GUID),
        "name": None,
        "last": 7,
    }
    return Everything(**(values | changes))  # type: ignore[arg-type]


def test_an_interface_finds_its_methods_by_opnum_and_names_its_syntax() -> None:
    assert TABLE.methods[3] is EVERYTHING
    assert sorted(TABLE.methods) == [3, 5]
    assert TABLE.syntax == SyntaxId(GUID, 0x0001_0003)


def test_the_fields_of_a_stub_know_their_parameters() -> None:
    names = [(field, parameter.name) for field, parameter in Everything.parameters()]
    assert names[3] == ("ranged", "Ranged")
    assert names[6] == ("token", "cbToken")


def test_parameters_follow_one_another_at_their_natural_alignment() -> None:
    stub = encode_request(EVERYTHING, everything(), NDR20)
    assert stub == b"".join(
        [
            struct.pack("<BxHiI", 1, 2, -3, 2),
            bytes(4) + struct.pack("<Q", 5),
            GUID,
            struct.pack("<II", 3, 3) + b"abc\0",
            bytes(4) + GUID,
            bytes(4),
            b"\7",
        ]
    )


def test_counts_and_pointers_are_wider_in_ndr64() -> None:
    stub = encode_request(EVERYTHING, everything(), NDR64)
    assert stub == b"".join(
        [
            struct.pack("<BxHiI", 1, 2, -3, 2),
            bytes(4) + struct.pack("<Q", 5),
            GUID,
            struct.pack("<IxxxxQ", 3, 3) + b"abc\0",
            bytes(4) + GUID,
            bytes(8),
            b"\7",
        ]
    )


@pytest.mark.parametrize("syntax", list(NdrSyntax))
def test_what_a_pointer_leads_to_comes_before_the_next_parameter(syntax: NdrSyntax) -> None:
    name = QueueFormat(QueueFormatType.DIRECT, arm="OS:host\\queue")
    stub = encode_request(EVERYTHING, everything(name=name), syntax)
    assert stub.endswith("queue\0".encode("utf-16-le") + b"\7")
    assert decode_request(EVERYTHING, stub, syntax) == everything(name=name)


@given(stubs(Everything), st.sampled_from(NdrSyntax))
def test_every_stub_survives_the_wire(record: Everything, syntax: NdrSyntax) -> None:
    assert decode_request(EVERYTHING, encode_request(EVERYTHING, record, syntax), syntax) == record


@given(st.binary(max_size=120), st.sampled_from(NdrSyntax))
def test_any_bytes_give_a_record_or_a_decode_error(data: bytes, syntax: NdrSyntax) -> None:
    try:
        record = decode_request(EVERYTHING, data, syntax)
    except DecodeError:
        return
    assert decode_request(EVERYTHING, encode_request(EVERYTHING, record, syntax), syntax) == record


@pytest.mark.parametrize("value", [0, 3, 0xFFFF_FFFF])
def test_a_number_outside_its_range_is_neither_read_nor_written(value: int) -> None:
    stub = bytearray(encode_request(EVERYTHING, everything(), NDR20))
    stub[8:12] = struct.pack("<I", value)
    with pytest.raises(DecodeError) as refused:
        decode_request(EVERYTHING, bytes(stub), NDR20)
    assert (refused.value.field, refused.value.offset) == ("Ranged", 8)
    with pytest.raises(EncodeError):
        encode_request(EVERYTHING, everything(ranged=value), NDR20)


@pytest.mark.parametrize("counts", [(10, 10), (3, 4), (4, 3), (9, 0x1000_0000)])
def test_an_array_that_is_too_long_or_not_of_its_size_is_refused(counts: tuple[int, int]) -> None:
    stub = bytearray(encode_request(EVERYTHING, everything(), NDR20))
    stub[40:48] = struct.pack("<II", *counts)
    with pytest.raises(DecodeError):
        decode_request(EVERYTHING, bytes(stub), NDR20)
    with pytest.raises(EncodeError):
        encode_request(EVERYTHING, everything(token=bytes(10)), NDR20)


@pytest.mark.parametrize("size", range(1, 4))
def test_the_gap_before_a_verification_trailer_may_stay_behind_a_stub(size: int) -> None:
    stub = encode_request(EVERYTHING, everything(), NDR20)
    assert decode_request(EVERYTHING, stub + b"\xaa" * size, NDR20) == everything()


def test_more_than_a_gap_behind_a_stub_is_refused() -> None:
    stub = encode_request(EVERYTHING, everything(), NDR20)
    with pytest.raises(DecodeError, match="4 extra bytes follow"):
        decode_request(EVERYTHING, stub + bytes(4), NDR20)


def test_every_cut_of_a_stub_is_refused() -> None:
    stub = encode_request(EVERYTHING, everything(), NDR20)
    for size in range(len(stub)):
        with pytest.raises(DecodeError):
            decode_request(EVERYTHING, stub[:size], NDR20)


def test_a_reply_of_a_result_is_its_four_bytes() -> None:
    assert encode_reply(EVERYTHING, ResultReply(0xC00E0007), NDR64) == bytes.fromhex("07000ec0")
    assert decode_reply(EVERYTHING, bytes.fromhex("07000ec0"), NDR20) == ResultReply(0xC00E0007)
    assert encode_reply(EVERYTHING, ResultReply(), NDR20) == bytes(4)


def test_a_method_without_parameters_has_an_empty_stub() -> None:
    assert encode_request(TABLE.methods[5], Empty(), NDR64) == b""
    assert decode_request(TABLE.methods[5], b"", NDR20) == Empty()


def test_a_record_of_another_method_is_a_bug_of_ours() -> None:
    with pytest.raises(AssertionError):
        encode_request(EVERYTHING, Empty(), NDR20)
    with pytest.raises(AssertionError):
        encode_reply(EVERYTHING, everything(), NDR20)


def test_the_uuid_of_a_syntax_is_in_packet_form() -> None:
    interface = Interface.of("x", parse_guid("01020304-0506-0708-090a-0b0c0d0e0f10"), (1, 0))
    assert interface.syntax.uuid[:8] == bytes([4, 3, 2, 1, 6, 5, 8, 7])
