"""C706 12.6.4.1 to 12.6.4.5, MS-RPCE 2.2.2.9, 2.2.2.10, 2.2.2.14 and 2.2.2.15."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.guid import parse_guid
from waypost.rpc.binds import (
    NDR20,
    NDR64,
    SECURITY_CONTEXT_MULTIPLEXING,
    AlterContext,
    AlterContextResponse,
    Auth3,
    Bind,
    BindAck,
    BindNak,
    BindResult,
    ContextElement,
    ContextResult,
    RejectReason,
    SyntaxId,
    bind_time_features,
)
from waypost.rpc.pdu import Fragment, Header, PacketType, fragment_of

REMOTE_READ = SyntaxId(parse_guid("1a9134dd-7b39-45ba-ad88-44d01ca47f28"), 1)

BIND = bytes.fromhex(
    "d016 d016 00000000 02 00 0000"
    "0000 01 00 dd34911a397bba45ad8844d01ca47f28 01000000 045d888aeb1cc9119fe808002b104860 02000000"
    "0100 01 00 dd34911a397bba45ad8844d01ca47f28 01000000 2c1cb76c129840450300000000000000 01000000"
)
BIND_ACK = bytes.fromhex(
    "d016 d016 78563412 0500 3231303300 00 02 00 0000"
    "0000 0000 045d888aeb1cc9119fe808002b104860 02000000"
    "0300 0300 00000000000000000000000000000000 00000000"
)

u8 = st.integers(0, 0xFF)
u16 = st.integers(0, 0xFFFF)
u32 = st.integers(0, 0xFFFF_FFFF)
syntaxes = st.builds(SyntaxId, st.binary(min_size=16, max_size=16), u32)
contexts = st.lists(st.builds(ContextElement, u16, syntaxes, st.lists(syntaxes, max_size=3), u8), max_size=4)
results = st.lists(st.builds(ContextResult, u16, u16, syntaxes), max_size=4)


def body(data: bytes) -> Fragment:
    return Fragment(Header(), data)


def test_a_bind_offers_contexts_and_features() -> None:
    bind = Bind.decode(body(BIND))
    assert bind == Bind(
        5840, 5840, 0,
        [ContextElement(0, REMOTE_READ, [NDR20]), ContextElement(1, REMOTE_READ, [bind_time_features(3)])],
    )  # fmt: skip
    assert bind.encode() == BIND


def test_a_bind_ack_answers_each_context_in_its_place() -> None:
    ack = BindAck.decode(body(BIND_ACK))
    assert ack == BindAck(
        5840, 5840, 0x12345678, b"2103\0",
        [ContextResult(BindResult.ACCEPTANCE, 0, NDR20), ContextResult(BindResult.NEGOTIATE_ACK, 3)],
        padding=b"\0",
    )  # fmt: skip
    assert ack.encode() == BIND_ACK


def test_the_results_are_aligned_behind_a_secondary_address_of_any_length() -> None:
    for length in range(9):
        encoded = BindAck(1, 2, 3, b"p" * length, []).encode()
        assert len(encoded) % 4 == 0
        assert BindAck.decode(body(encoded)).sec_addr == b"p" * length


def test_alter_context_has_the_layout_of_bind_under_another_type() -> None:
    alter = AlterContext.decode(body(BIND))
    assert fragment_of(alter, 2).header.ptype == PacketType.ALTER_CONTEXT
    assert alter.encode() == BIND
    response = AlterContextResponse.decode(body(BIND_ACK))
    assert fragment_of(response, 2).header.ptype == PacketType.ALTER_CONTEXT_RESP
    assert response.encode() == BIND_ACK


def test_a_bind_nak_says_why_and_which_version_is_spoken() -> None:
    nak = BindNak(RejectReason.AUTHENTICATION_TYPE_NOT_RECOGNIZED)
    assert nak.encode() == bytes.fromhex("0800 01 0500")
    assert BindNak.decode(body(nak.encode())) == nak
    extended = nak.encode() + parse_guid("90740320-fad0-11d3-82d7-009027b130ab") + b"error"
    assert BindNak.decode(body(extended)).encode() == extended
    with pytest.raises(DecodeError, match="n_protocols"):
        BindNak.decode(body(bytes.fromhex("0800 02 0500")))


def test_the_features_of_a_bind_stand_behind_their_prefix() -> None:
    offered = SyntaxId(parse_guid("6cb71c2c-9812-4540-0100-000000000000"), 1)
    assert bind_time_features(SECURITY_CONTEXT_MULTIPLEXING) == offered
    assert offered.feature_bitmask == SECURITY_CONTEXT_MULTIPLEXING
    assert NDR20.feature_bitmask is None
    assert SyntaxId(offered.uuid, 2).feature_bitmask is None


def test_a_version_has_its_major_number_in_its_low_half() -> None:
    assert (NDR64.major, NDR64.minor) == (1, 0)
    version = SyntaxId(bytes(16), 0x0002_0005)
    assert (version.major, version.minor) == (5, 2)


def test_a_count_beyond_the_bytes_is_refused() -> None:
    with pytest.raises(DecodeError, match="p_cont_elem"):
        Bind.decode(body(bytes.fromhex("d016 d016 00000000 ff 00 0000")))
    with pytest.raises(DecodeError, match="transfer_syntaxes"):
        Bind.decode(body(bytes.fromhex("d016 d016 00000000 01 00 0000 0000 ff 00") + bytes(60)))
    with pytest.raises(DecodeError, match="p_result_list"):
        BindAck.decode(body(bytes.fromhex("d016 d016 00000000 ffff") + bytes(60)))
    with pytest.raises(DecodeError, match="p_syntax_id at offset 68"):
        BindAck.decode(body(bytes.fromhex("d016 d016 00000000 0000 0000 ff 00 0000") + bytes(60)))


def test_more_contexts_than_a_bind_can_count_are_refused() -> None:
    with pytest.raises(EncodeError, match="bind"):
        Bind(1, 1, 0, [ContextElement(0, NDR20, [])] * 256).encode()
    with pytest.raises(EncodeError, match="if_uuid"):
        SyntaxId(bytes(15), 1).encode()


@given(st.builds(Bind, u16, u16, u32, contexts, u8, u16, st.binary(max_size=8)))
def test_a_bind_comes_back_as_it_was(bind: Bind) -> None:
    assert Bind.decode(body(bind.encode())) == bind


@given(st.builds(BindAck, u16, u16, u32, st.binary(max_size=9), results, st.just(b""), u8, u16, st.binary(max_size=8)))
def test_a_bind_ack_comes_back_as_it_was(ack: BindAck) -> None:
    found = BindAck.decode(body(ack.encode()))
    assert found.encode() == ack.encode()
    assert (found.sec_addr, found.results, found.rest) == (ack.sec_addr, ack.results, ack.rest)


@given(st.builds(BindNak, u16, st.lists(st.tuples(u8, u8), max_size=4), st.binary(max_size=40)))
def test_a_bind_nak_comes_back_as_it_was(nak: BindNak) -> None:
    assert BindNak.decode(body(nak.encode())) == nak


@pytest.mark.parametrize("record", [Bind, AlterContext, BindAck, AlterContextResponse, BindNak, Auth3])
@given(data=st.binary(max_size=120))
def test_any_bytes_are_a_record_or_a_decode_error(record: Any, data: bytes) -> None:
    try:
        found = record.decode(body(data))
    except DecodeError:
        return
    assert found.encode() == data
