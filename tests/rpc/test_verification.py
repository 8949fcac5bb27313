"""MS-RPCE 2.2.2.13: what the verification trailer of a request says, and what is made of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.guid import parse_guid
from waypost.rpc.binds import NDR20, NDR64, SyntaxId
from waypost.rpc.verification import SIGNATURE, CallFacts, VerificationFailed, append_trailer, strip_trailer

REMOTE_READ = SyntaxId(parse_guid("1a9134dd-7b39-45ba-ad88-44d01ca47f28"), 1)
FACTS = CallFacts(5, 1, 7, REMOTE_READ, NDR20, signs_headers=True)

BITMASK = bytes.fromhex("0100 0400 01000000")
PCONTEXT = bytes.fromhex(
    "0200 2800 dd34911a397bba45ad8844d01ca47f28 01000000 045d888aeb1cc9119fe808002b104860 02000000"
)
HEADER2 = bytes.fromhex("0300 1000 00 00 0000 10000000 05000000 0100 0700")


def last(command: bytes) -> bytes:
    return command[:1] + bytes([command[1] | 0x40]) + command[2:]


def must(command: bytes) -> bytes:
    return command[:1] + bytes([command[1] | 0x80]) + command[2:]


def test_the_trailer_is_aligned_behind_the_stub_data_and_its_last_command_says_so() -> None:
    assert append_trailer(b"abcde", FACTS) == b"abcde\0\0\0" + SIGNATURE + BITMASK + last(PCONTEXT)
    assert append_trailer(b"abcd", FACTS) == b"abcd" + SIGNATURE + BITMASK + last(PCONTEXT)


@given(st.binary(max_size=40).filter(lambda stub: SIGNATURE not in stub), st.booleans())
def test_the_stub_data_comes_back_without_the_trailer(stub: bytes, signs: bool) -> None:  # noqa: FBT001
    facts = replace(FACTS, signs_headers=signs)
    assert strip_trailer(append_trailer(stub, facts), facts) == stub + bytes(-len(stub) % 4)


def test_stub_data_without_a_trailer_stays_as_it_is() -> None:
    assert strip_trailer(b"abcde", FACTS) == b"abcde"


@pytest.mark.parametrize(
    "commands",
    [
        last(BITMASK),
        last(PCONTEXT),
        last(HEADER2),
        HEADER2 + BITMASK + last(PCONTEXT),
        must(HEADER2) + last(must(BITMASK)),
        bytes.fromhex("0300 1000 00 ff ffff 10000000 05000000 0100 0700") + last(BITMASK),
        bytes.fromhex("0100 0400 ffffffff") + last(BITMASK),
        bytes.fromhex("0900 0400 deadbeef") + last(BITMASK),
    ],
)
def test_commands_that_are_true_or_not_known_pass(commands: bytes) -> None:
    assert strip_trailer(b"stub" + SIGNATURE + commands, FACTS) == b"stub"


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, abstract=NDR20),
        replace(FACTS, transfer=NDR64),
        replace(FACTS, signs_headers=False),
        replace(FACTS, call_id=6),
        replace(FACTS, context_id=2),
        replace(FACTS, opnum=8),
    ],
)
def test_a_trailer_that_is_not_true_is_refused(facts: CallFacts) -> None:
    with pytest.raises(VerificationFailed):
        strip_trailer(b"stub" + SIGNATURE + HEADER2 + BITMASK + last(PCONTEXT), facts)


def test_a_client_that_signs_no_headers_may_say_so() -> None:
    quiet = bytes.fromhex("0140 0400 00000000")
    assert strip_trailer(SIGNATURE + quiet, replace(FACTS, signs_headers=False)) == b""


@pytest.mark.parametrize(
    "commands",
    [
        b"",
        BITMASK,
        bytes.fromhex("0140 0300 010000"),
        bytes.fromhex("0140 0800 0100000000000000"),
        bytes.fromhex("0140 0400 0100"),
        bytes.fromhex("0240 0000"),
        bytes.fromhex("0340 0f00") + bytes(15),
        bytes.fromhex("09c0 0000"),
    ],
)
def test_a_malformed_trailer_and_a_command_that_must_be_known_are_refused(commands: bytes) -> None:
    with pytest.raises(VerificationFailed):
        strip_trailer(b"stub" + SIGNATURE + commands, FACTS)


@given(st.binary(max_size=40), st.binary(max_size=60))
def test_any_bytes_are_stub_data_or_refused(stub: bytes, commands: bytes) -> None:
    try:
        found = strip_trailer(stub + SIGNATURE + commands, FACTS)
    except VerificationFailed:
        return
    assert (stub + SIGNATURE + commands).startswith(found)
