"""C706 12.6.4.7, 12.6.4.9 and 12.6.4.10, MS-RPCE 2.2.2.6 and 2.2.2.8; fragments of one call."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError
from waypost.rpc.calls import Assembly, Fault, FaultStatus, Request, Response, StubTooLong, cut
from waypost.rpc.pdu import PFC_FIRST_FRAG, PFC_LAST_FRAG, PFC_OBJECT_UUID, Fragment, Header, PacketType, fragment_of

OBJECT = bytes(range(16))


def body(data: bytes, pfc_flags: int = 3) -> Fragment:
    return Fragment(Header(pfc_flags=pfc_flags), data)


def join(fragments: list[Fragment], limit: int = 0x0040_0000) -> Request | None:
    assembly = Assembly(Request, limit)
    found = None
    for fragment in fragments:
        assert found is None
        found = assembly.add(fragment)
    return found


def test_a_request_names_its_context_its_method_and_its_object() -> None:
    data = bytes.fromhex("04000000 0100 0700 61626364")
    assert Request.decode(body(data)) == Request(4, 1, 7, b"abcd")
    assert Request(4, 1, 7, b"abcd").encode() == data
    data = data[:8] + OBJECT + data[8:]
    request = Request.decode(body(data, 3 | PFC_OBJECT_UUID))
    assert request == Request(4, 1, 7, b"abcd", OBJECT)
    assert request.encode() == data


def test_a_request_that_ends_before_its_object_is_refused() -> None:
    with pytest.raises(DecodeError, match="request at offset 0: the data ends after 23 bytes"):
        Request.decode(body(bytes(23), 3 | PFC_OBJECT_UUID))


def test_a_response_counts_the_cancels() -> None:
    data = bytes.fromhex("04000000 0100 02 00 61626364")
    assert Response.decode(body(data)) == Response(4, 1, b"abcd", 2)
    assert Response.decode(body(data)).encode() == data


def test_a_fault_has_32_bytes_and_its_status_behind_8() -> None:
    fragment = fragment_of(Fault(FaultStatus.NCA_OP_RNG_ERROR, 1), 9)
    assert fragment.encode() == bytes.fromhex(
        "05 00 03 03 10000000 2000 0000 09000000 00000000 0100 00 00 0200011c 00000000"
    )
    assert Fault.decode(fragment).status == FaultStatus.NCA_OP_RNG_ERROR


def test_what_follows_the_status_of_a_fault_is_kept_and_means_nothing() -> None:
    data = bytes.fromhex("20000000 0000 00 01 05000000 00000000 deadbeef")
    fault = Fault.decode(body(data))
    assert fault.status == FaultStatus.ACCESS_DENIED
    assert fault.encode() == data


def test_a_short_call_is_one_fragment_that_is_first_and_last() -> None:
    for stub in (b"", b"abc"):
        (fragment,) = cut(Request(0, 1, 2, stub), 5, 100)
        assert fragment.header.pfc_flags == PFC_FIRST_FRAG | PFC_LAST_FRAG
        assert Request.decode(fragment) == Request(len(stub), 1, 2, stub)


def test_alloc_hint_counts_what_is_left() -> None:
    fragments = list(cut(Response(0, 1, bytes(25)), 5, 10))
    assert [Response.decode(fragment).alloc_hint for fragment in fragments] == [25, 15, 5]
    assert [fragment.header.pfc_flags for fragment in fragments] == [PFC_FIRST_FRAG, 0, PFC_LAST_FRAG]
    assert {fragment.header.ptype for fragment in fragments} == {PacketType.RESPONSE}


def test_an_answer_of_4_megabytes_goes_in_fragments_and_comes_back() -> None:
    stub = bytes(range(256)) * 0x4000
    assembly = Assembly(Response, len(stub))
    fragments = list(cut(Response(0, 1, stub), 5, 5816))
    assert len(fragments) == 722
    assert all(assembly.add(Fragment.decode(fragment.encode())) is None for fragment in fragments[:-1])
    assert assembly.add(fragments[-1]) == Response(len(stub), 1, stub)
    assert assembly.is_empty


@given(st.binary(max_size=60), st.integers(1, 20), st.sampled_from([b"", OBJECT]))
def test_a_call_comes_back_from_its_fragments(stub: bytes, room: int, uuid: bytes) -> None:
    request = Request(len(stub), 1, 7, stub, uuid)
    assert join(list(cut(request, 5, room))) == request


def test_fragments_of_different_calls_are_not_joined() -> None:
    first, second = cut(Request(0, 1, 7, b"ab"), 5, 1)
    for other in (
        Request(1, 2, 7, b"b").encode(),
        Request(1, 1, 8, b"b").encode(),
    ):
        with pytest.raises(DecodeError, match="different call_ids or operations"):
            join([first, Fragment(second.header, other)])
    second.header.call_id = 6
    with pytest.raises(DecodeError, match="different call_ids or operations"):
        join([first, second])


def test_a_call_begins_with_its_first_fragment_and_has_only_one() -> None:
    first, second = cut(Request(0, 1, 7, b"ab"), 5, 1)
    with pytest.raises(DecodeError, match="the first fragment"):
        join([second])
    with pytest.raises(DecodeError, match="a later fragment"):
        join([first, first])


def test_more_stub_data_than_the_limit_is_refused_before_it_is_kept() -> None:
    assert join(list(cut(Request(0, 1, 7, bytes(8)), 5, 4)), limit=8) is not None
    with pytest.raises(StubTooLong):
        join(list(cut(Request(0, 1, 7, bytes(9)), 5, 4)), limit=8)


@pytest.mark.parametrize("record", [Request, Response, Fault])
@given(data=st.binary(max_size=60), flags=st.integers(0, 255))
def test_any_bytes_are_a_record_or_a_decode_error(record: Any, data: bytes, flags: int) -> None:
    try:
        found = record.decode(body(data, flags))
    except DecodeError:
        return
    assert found.encode() == data


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 3), st.integers(0, 1)), max_size=6))
def test_any_fragments_are_a_call_or_a_decode_error(pieces: list[tuple[bytes, int, int]]) -> None:
    assembly = Assembly(Request, 40)
    for data, flags, call_id in pieces:
        try:
            assembly.add(Fragment(Header(pfc_flags=flags, call_id=call_id), data))
        except DecodeError:
            return
