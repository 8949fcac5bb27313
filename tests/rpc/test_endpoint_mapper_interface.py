"""The endpoint mapper's stubs and towers.

The constants marked "second marshaller" are what impacket 0.13.1 made of the same values, with its own referents and
its own bytes in the gaps; it also reads the replies here as they are meant.
"""

import struct
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rpc.records import STRUCTURES, check_against_idl, handles, stub_directions, stubs
from tests.wire.strategies import guids, u16, u32
from waypost.errors import DecodeError, EncodeError
from waypost.guid import guid_text, parse_guid
from waypost.rpc.binds import SyntaxId
from waypost.rpc.endpoint_mapper_interface import (
    EPMAPPER,
    Endpoint,
    EndpointEntry,
    EptLookupHandleFreeReply,
    EptLookupHandleFreeRequest,
    EptLookupReply,
    EptLookupRequest,
    EptMapReply,
    EptMapRequest,
    Floor,
    InterfaceId,
    MapperStatus,
    Tower,
)
from waypost.rpc.interface import Method, Stub, decode_reply, decode_request, encode_reply, encode_request
from waypost.wire.ndr import ContextHandle, NdrSyntax

NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64
LOOKUP, MAP, FREE = (EPMAPPER.methods[opnum] for opnum in (2, 3, 4))
UUID = bytes(range(16))
REMOTE_READ = SyntaxId(parse_guid("1a9134dd-7b39-45ba-ad88-44d01ca47f28"), 1)
NDR = SyntaxId(parse_guid("8a885d04-1ceb-11c9-9fe8-08002b104860"), 2)
ENDPOINT = Endpoint(REMOTE_READ, NDR, 2103, IPv4Address("10.1.2.3"))
TOWER = Tower.of(ENDPOINT)

# Second marshaller: the tower of RemoteRead at 10.1.2.3, port 2103.
TOWER_BYTES = bytes.fromhex(
    "0500 1300 0d dd34911a397bba45ad8844d01ca47f28 0100 0200 0000"
    "1300 0d 045d888aeb1cc9119fe808002b104860 0200 0200 0000 0100 0b 0200 0000"
    "0100 07 0200 0837 0100 09 0400 0a010203"
)
# Second marshaller: ept_map for the null object and a tower that asks, at most 4 towers; ept_lookup for everything.
ASKED = bytes.fromhex(
    "18b90000 00000000000000000000000000000000 3e6d0000 4b000000 4b000000"
    "050013000ddd34911a397bba45ad8844d01ca47f2801000200000013000d045d888aeb1cc9119fe808002b104860020002000000"
    "01000b020000000100070200008701000904000000 0000 ab 0000000000000000000000000000000000000000 04000000"
)
ASKED_FOR_ALL = bytes.fromhex("00000000 00000000 00000000 01000000" + "00" * 20 + "f4010000")

floors = st.builds(Floor, st.binary(max_size=20), st.binary(max_size=5))
towers = st.builds(Tower, st.lists(floors, max_size=5))
entries = st.builds(EndpointEntry, guids, towers, st.binary(max_size=63).filter(lambda text: 0 not in text))
endpoints = st.builds(
    Endpoint, st.builds(SyntaxId, guids, u32), st.builds(SyntaxId, guids, u32), u16, st.builds(IPv4Address, u32)
)
STRUCTURES_HERE = STRUCTURES | {Tower: towers, InterfaceId: st.builds(InterfaceId, guids, u16, u16)}


def test_the_interface_has_its_uuid_its_version_and_three_methods() -> None:
    assert guid_text(EPMAPPER.uuid) == "e1af8308-5d1f-11c9-91a4-08002b14a0fa"
    assert EPMAPPER.version == (3, 0)
    assert {opnum: method.name for opnum, method in EPMAPPER.methods.items()} == {
        2: "ept_lookup",
        3: "ept_map",
        4: "ept_lookup_handle_free",
    }
    check_against_idl(EPMAPPER)


def test_a_tower_of_rpc_over_tcp() -> None:
    assert TOWER.encode() == TOWER_BYTES
    assert Tower.decode(TOWER_BYTES) == TOWER
    assert TOWER.endpoint == ENDPOINT
    asking = Tower.of(Endpoint(REMOTE_READ, NDR)).endpoint
    assert asking is not None
    assert (asking.port, asking.address) == (0, IPv4Address("0.0.0.0"))


@given(endpoints)
def test_every_endpoint_survives_its_tower(endpoint: Endpoint) -> None:
    assert Tower.decode(Tower.of(endpoint).encode()).endpoint == endpoint


@pytest.mark.parametrize(
    "change",
    [
        (2, Floor(b"\x0a", bytes(2))),
        (3, Floor(b"\x0f", b"pipe")),
        (0, Floor(b"\x0d", bytes(2))),
        (1, Floor(TOWER.floors[1].lhs, b"")),
        (3, Floor(b"\x07", bytes(3))),
        (4, Floor(b"\x09", bytes(16))),
        (4, Floor(b"", bytes(4))),
    ],
)
def test_a_tower_of_something_else_has_no_endpoint(change: tuple[int, Floor]) -> None:
    number, floor = change
    other = Tower(list(TOWER.floors))
    other.floors[number] = floor
    assert Tower.decode(other.encode()) == other
    assert other.endpoint is None
    assert Tower(TOWER.floors[:4]).endpoint is None


@given(st.binary(max_size=80))
def test_any_bytes_give_a_tower_or_a_decode_error(data: bytes) -> None:
    try:
        tower = Tower.decode(data)
    except DecodeError:
        return
    assert tower.encode() == data


def test_every_cut_of_a_tower_is_refused() -> None:
    for size in range(len(TOWER_BYTES)):
        with pytest.raises(DecodeError):
            Tower.decode(TOWER_BYTES[:size])
    with pytest.raises(DecodeError, match="1 extra bytes follow"):
        Tower.decode(TOWER_BYTES + b"\0")


def test_the_questions_of_another_marshaller() -> None:
    asked = decode_request(MAP, ASKED, NDR20)
    tower = Tower.of(Endpoint(REMOTE_READ, NDR, 135))
    tower.floors[2] = Floor(b"\x0b", bytes(2))
    assert asked == EptMapRequest(bytes(16), tower, ContextHandle(), 4)
    assert decode_request(LOOKUP, ASKED_FOR_ALL, NDR20) == EptLookupRequest(object=None, if_id=None, max_ents=500)


def test_ept_map_in_ndr() -> None:
    question = EptMapRequest(UUID, TOWER, ContextHandle(0, UUID), 4)
    size = struct.pack("<I", len(TOWER_BYTES))
    assert encode_request(MAP, question, NDR20) == (
        bytes.fromhex("00000200") + UUID + bytes.fromhex("04000200") + size + size + TOWER_BYTES + b"\0"
        + bytes(4) + UUID + struct.pack("<I", 4)
    )  # fmt: skip
    answer = EptMapReply(ContextHandle(), [TOWER, TOWER], 4, 0)
    tower = size + size + TOWER_BYTES + b"\0"
    assert encode_reply(MAP, answer, NDR20) == (
        bytes(20) + struct.pack("<IIII", 2, 4, 0, 2) + bytes.fromhex("00000200 04000200") + tower + tower + bytes(4)
    )


def test_ept_map_in_ndr64() -> None:
    answer = EptMapReply(ContextHandle(), [TOWER], 4, MapperStatus.EPT_S_NOT_REGISTERED)
    assert encode_reply(MAP, answer, NDR64) == (
        bytes(20) + struct.pack("<IQQQQQ", 1, 4, 0, 1, 0x0002_0000, len(TOWER_BYTES))
        + struct.pack("<I", len(TOWER_BYTES)) + TOWER_BYTES + b"\0" + struct.pack("<I", 0x16C9_A0D6)
    )  # fmt: skip


def test_ept_lookup_in_ndr() -> None:
    answer = EptLookupReply(ContextHandle(), [EndpointEntry(UUID, TOWER, b"abc")], 500, 0)
    size = struct.pack("<I", len(TOWER_BYTES))
    assert encode_reply(LOOKUP, answer, NDR20) == (
        bytes(20) + struct.pack("<IIII", 1, 500, 0, 1)
        + UUID + struct.pack("<III", 0x0002_0000, 0, 4) + b"abc\0"
        + size + size + TOWER_BYTES + b"\0" + bytes(4)
    )  # fmt: skip


def test_freeing_a_handle() -> None:
    handle = ContextHandle(0, UUID)
    assert encode_request(FREE, EptLookupHandleFreeRequest(handle), NDR20) == bytes(4) + UUID
    assert encode_reply(FREE, EptLookupHandleFreeReply(), NDR20) == bytes(24)


@pytest.mark.parametrize("count", [501, 0xFFFF_FFFF])
def test_more_than_500_are_not_asked_for(count: int) -> None:
    with pytest.raises(DecodeError, match="must be 0 to 500, not"):
        decode_request(LOOKUP, ASKED_FOR_ALL[:-4] + struct.pack("<I", count), NDR20)
    with pytest.raises(DecodeError, match="must be 0 to 500, not"):
        decode_request(MAP, ASKED[:-4] + struct.pack("<I", count), NDR20)


@pytest.mark.parametrize("counts", [(2001, 2001), (75, 74), (74, 75)])
def test_a_tower_that_is_too_long_or_not_of_its_size_is_refused(counts: tuple[int, int]) -> None:
    stub = bytearray(ASKED + bytes(2000))
    stub[24:32] = struct.pack("<II", *counts)
    with pytest.raises(DecodeError):
        decode_request(MAP, bytes(stub), NDR20)
    with pytest.raises(EncodeError):
        encode_request(MAP, EptMapRequest(None, Tower([Floor(bytes(2000), b"")])), NDR20)


@pytest.mark.parametrize("counts", [(1, 0, 0, 1), (1, 4, 1, 1), (1, 4, 0, 2), (501, 501, 0, 501), (0, 501, 0, 0)])
def test_counts_that_contradict_each_other_are_refused(counts: tuple[int, int, int, int]) -> None:
    for method in (LOOKUP, MAP):
        with pytest.raises(DecodeError):
            decode_reply(method, bytes(20) + struct.pack("<IIII", *counts) + bytes(40000), NDR20)


def test_an_answer_has_no_null_towers_and_no_more_than_was_asked_for() -> None:
    with pytest.raises(DecodeError, match="NULL"):
        decode_reply(MAP, bytes(20) + struct.pack("<IIII", 1, 4, 0, 1) + bytes(8), NDR20)
    with pytest.raises(EncodeError):
        encode_reply(MAP, EptMapReply(ContextHandle(), [TOWER, TOWER], 1, 0), NDR20)


@pytest.mark.parametrize(
    "annotation", [(0, 0, b""), (1, 4, b"abc\0"), (0, 65, bytes(65)), (0, 3, b"abc"), (0, 3, b"a\0c")]
)
def test_an_annotation_is_text_of_up_to_63_bytes_with_its_null(annotation: tuple[int, int, bytes]) -> None:
    first, actual, text = annotation
    head = bytes(20) + struct.pack("<IIII", 1, 4, 0, 1) + UUID + struct.pack("<III", 1, first, actual)
    with pytest.raises(DecodeError) as refused:
        decode_reply(LOOKUP, head + text + bytes(100), NDR20)
    assert refused.value.field == "annotation"
    for wrong in (bytes(range(1, 65)), b"a\0b"):
        with pytest.raises(EncodeError):
            encode_reply(LOOKUP, EptLookupReply(ContextHandle(), [EndpointEntry(UUID, TOWER, wrong)], 4, 0), NDR20)


@pytest.mark.parametrize(("method", "record"), stub_directions(EPMAPPER), ids=lambda part: getattr(part, "name", "-"))
@settings(max_examples=20)
@given(data=st.data(), syntax=st.sampled_from(NdrSyntax))
def test_every_record_survives_the_wire(method: Method, record: type[Stub], data: Any, syntax: NdrSyntax) -> None:
    value = data.draw(stubs(record, STRUCTURES_HERE))
    if record is method.request:
        assert decode_request(method, encode_request(method, value, syntax), syntax) == value
    else:
        assert decode_reply(method, encode_reply(method, value, syntax), syntax) == value


@settings(max_examples=50)
@given(handles, st.lists(towers, max_size=3), st.lists(entries, max_size=3), st.sampled_from(NdrSyntax))
def test_every_answer_survives_the_wire(
    handle: ContextHandle, found: list[Tower], listed: list[EndpointEntry], syntax: NdrSyntax
) -> None:
    mapped = EptMapReply(handle, found, 4, 0)
    assert decode_reply(MAP, encode_reply(MAP, mapped, syntax), syntax) == mapped
    looked_up = EptLookupReply(handle, listed, 4, 0)
    assert decode_reply(LOOKUP, encode_reply(LOOKUP, looked_up, syntax), syntax) == looked_up


@given(st.sampled_from([LOOKUP, MAP, FREE]), st.binary(max_size=150), st.sampled_from(NdrSyntax))
def test_any_bytes_give_a_record_or_a_decode_error(method: Method, data: bytes, syntax: NdrSyntax) -> None:
    for decode in (decode_request, decode_reply):
        try:
            record = decode(method, data, syntax)
        except DecodeError:
            continue
        assert type(record) is (method.request if decode is decode_request else method.reply)
