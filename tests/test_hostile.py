"""Hostile input in every run of the suite: the corpus of the fuzzer, mutated seeds, any bytes, and what they may cost.

The properties are in fuzz/targets.py. `make fuzz` drives the same targets by coverage.
"""

import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import pack
from types import FrameType
from typing import Any, SupportsIndex, TypeVar, overload

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import corpus, run, seeds, targets
from fuzz.targets import SEGMENT_LENGTHS, TARGETS, Violation
from tests.wire.vectors import frame
from waypost.errors import DecodeError
from waypost.wire import Ping, UserMessage, packets, user_header
from waypost.wire.ndr import NdrSyntax, NdrWriter
from waypost.wire.propvariant import LPWSTR_VECTOR, VARIANT_VECTOR, PropVariant
from waypost.wire.queue_format import QueueFormat, QueueFormatType
from waypost.wire.soap import CompoundMessageHeader, SrmpEnvelopeHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.variant_types import VarType

each_target = pytest.mark.parametrize("name", TARGETS)

MAX_CORPUS = 300 * 1024
LONG = 150

# They look at the packets that "packet" looks at, and take ten times as long.
SLOW = ("describe", "remote-packet")

T = TypeVar("T")


@each_target
def test_the_corpus_and_the_seeds_break_no_promise(name: str) -> None:
    for data in corpus.known(name):
        TARGETS[name](data)


# Each made an error point outside of its input.
FOUND_BEFORE = [
    ("identifier-text", ""),
    ("identifier-text", "3232342e302e302e31"),
    ("multi-queue", "16000000 6400 0000 02000000 0300 6100 6100 0000 0100"),
    ("security-descriptor", "01 00 0080 15000000 00000000 00000000 00000000"),
    ("access-control", "04 00 1400 0100 0000 05 00 0c00 00000000 01000000"),
]


@pytest.mark.parametrize(("name", "digits"), FOUND_BEFORE)
def test_what_was_found_before_breaks_no_promise(name: str, digits: str) -> None:
    TARGETS[name](bytes.fromhex(digits))


def test_the_corpus_has_all_targets_and_stays_small() -> None:
    assert {path.name for path in corpus.KEPT.iterdir()} == set(TARGETS) == set(seeds.SEEDS)
    assert sum(path.stat().st_size for path in corpus.KEPT.rglob("*")) < MAX_CORPUS


@each_target
def test_any_bytes_break_no_promise(name: str) -> None:
    @settings(max_examples=60)
    @given(st.binary(max_size=300))
    def check(data: bytes) -> None:
        TARGETS[name](data)

    check()


@each_target
def test_mutated_seeds_break_no_promise(name: str) -> None:
    @settings(max_examples=150)
    @given(mutated(seeds.SEEDS[name]()))
    def check(data: bytes) -> None:
        TARGETS[name](data)

    check()


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in SLOW])
def test_every_number_of_a_seed_may_be_wrong(name: str) -> None:
    """Numbers of 2 and 4 bytes, one at a time; the rest of a long seed is left to chance."""
    for seed in seeds.SEEDS[name]():
        for width in (2, 4):
            for at in range(0, min(len(seed), LONG), width):
                for wrong in wrong_numbers(seed[at : at + width]):
                    TARGETS[name](seed[:at] + wrong + seed[at + width :])


def wrong_numbers(data: bytes) -> list[bytes]:
    """The little-endian number made empty, huge and wrong by one."""
    found, mask = int.from_bytes(data, "little"), (1 << 8 * len(data)) - 1
    return [(number & mask).to_bytes(len(data), "little") for number in (0, mask, mask >> 1, found + 1, found - 1)]


@st.composite
def mutated(draw: st.DrawFn, good: list[bytes]) -> bytes:
    """A good input after one to three accidents."""
    data = draw(st.sampled_from(good))
    for _ in range(draw(st.integers(1, 3))):
        data = draw(st.sampled_from((flipped, truncated, spliced, resized)))(draw, data, good)
    return data


def flipped(draw: st.DrawFn, data: bytes, _: list[bytes]) -> bytes:
    at = draw(st.integers(0, max(len(data) - 1, 0)))
    return data[:at] + bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in data[at : at + 1]) + data[at + 1 :]


def truncated(draw: st.DrawFn, data: bytes, _: list[bytes]) -> bytes:
    return data[: draw(st.integers(0, len(data)))]


def spliced(draw: st.DrawFn, data: bytes, good: list[bytes]) -> bytes:
    """The start of one and the end of another one, or of itself, which drops or repeats a part."""
    other = draw(st.sampled_from((data, *good)))
    return data[: draw(st.integers(0, len(data)))] + other[draw(st.integers(0, len(other))) :]


def resized(draw: st.DrawFn, data: bytes, _: list[bytes]) -> bytes:
    width = draw(st.sampled_from((1, 2, 4)))
    at = draw(st.integers(0, len(data) // width)) * width
    return data[:at] + draw(st.sampled_from(wrong_numbers(data[at : at + width]))) + data[at + width :]


class Metered(bytes):
    """Bytes that count what is copied out of them and searched in them, which no count of executed code shows."""

    moved = 0

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> bytes: ...
    def __getitem__(self, key: SupportsIndex | slice) -> int | bytes:
        found = super().__getitem__(key)
        if isinstance(found, int):
            return found
        Metered.moved += len(found)
        return Metered(found)

    def find(self, *wanted: Any) -> int:
        found = super().find(*wanted)
        start = wanted[1] if len(wanted) > 1 else 0
        Metered.moved += (len(self) if found < 0 else found) - start
        return found


@dataclass(slots=True)
class Cost:
    opcodes: int
    moved: int
    memory: int


def cost(target: Callable[[bytes], None], data: bytes) -> Cost:
    """The work, copies and peak memory of the target. No clock, so the same in every run."""
    opcodes = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal opcodes
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        opcodes += event == "opcode"
        return trace

    before = sys.gettrace()
    Metered.moved = 0
    sys.settrace(trace)
    try:
        target(Metered(data))
    finally:
        sys.settrace(before)
    moved = Metered.moved
    tracemalloc.start()
    try:
        target(data)
        memory = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Cost(opcodes, moved, memory)


def with_multi_queue(header: bytes) -> bytes:
    """A message whose MultiQueueFormatHeader is these bytes."""
    plain = bytearray(UserMessage(user=UserHeader(flags=user_header.MP)).encode() + header)
    plain[60:64] = pack("<I", user_header.MP | user_header.MQ)
    return targets.fitted(bytes(plain))


def with_post(envelope: str, data: bytes) -> bytes:
    return UserMessage(
        srmp_envelope=SrmpEnvelopeHeader(data=envelope), compound_message=CompoundMessageHeader(data=data)
    ).encode()


def addresses(count: int, elements: bytes) -> bytes:
    empty = pack("<IHHI", 12, 0xC8, 0, 0) + pack("<IHHI", 12, 0x12C, 0, 0) + pack("<HHI", 0x15E, 0, 0)
    return with_multi_queue(pack("<IHHI", 12 + len(elements), 0x64, 0, count) + elements + empty)


def acl(count: int, aces: bytes) -> bytes:
    return pack("<BBHHH", 2, 0, 8 + len(aces), count, 0) + aces


def descriptor(acls: bytes) -> bytes:
    """Both lists at the same place."""
    return pack("<BBHIIII", 1, 0, 0x8014, 0, 0, 20, 20) + acls


def ndr(record: PropVariant | QueueFormat) -> bytes:
    writer = NdrWriter(NdrSyntax.NDR20)
    record.write(writer)
    return writer.finish()


def vector(vt: int, count: int) -> bytes:
    """A counted array up to its first element."""
    return pack("<HBBIHHIII", vt, 0, 0, 0, vt, 0, count, 1, count)


DIRECT = QueueFormatType.DIRECT
NESTED = PropVariant(VARIANT_VECTOR, [PropVariant(VARIANT_VECTOR, [PropVariant(VarType.VT_UI1, 1)])])
ACE = pack("<BBHI", 0, 0, 20, 1) + bytes.fromhex("01 01 000000000001 00000000")
KEY = seeds.keys()[1]
HUGE = b"\xff" * 4
ORDERS = "DIRECT=OS:h\\q"

# An input of every size for each way to make a decoder loop, nest, search or believe a number.
SHAPES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "many direct elements": ("packet", lambda n: addresses(n, b"\x03\0a\0\0\0" * n)),
    "many lists": ("packet", lambda n: addresses(n, (b"\x06\0\0\0" + bytes(16)) * n)),
    "a huge ElementCount": ("packet", lambda n: addresses(0xFFFF_FFFF, b"\x03\0a\0\0\0" * n)),
    "an ElementCount that is too large": ("packet", lambda n: addresses(n + 5, b"\x03\0a\0\0\0" * n)),
    "a direct name without end": ("packet", lambda n: addresses(1, b"\x03\0" + b"a\x01" * n)),
    "nulls between characters": ("packet", lambda n: addresses(1, b"\x03\0" + b"a\0\0a" * n + b"\0\0")),
    "a long envelope": ("packet", lambda n: with_post("x" * 50 * n, bytes(50 * n))),
    "a huge DataLength": ("packet", lambda n: with_post("x" * 50 * n, b"").replace(pack("<I", 50 * n + 1), HUGE)),
    "a long post described": ("describe", lambda n: with_post("x" * 50 * n, b"x" * 50 * n)),
    "many elements described": ("describe", lambda n: addresses(n, b"\x03\0a\0\0\0" * n)),
    "many elements for a reader": ("remote-packet", lambda n: addresses(n, b"\x03\0a\0\0\0" * n)),
    "many packets": ("splitter", lambda n: bytes([255] * SEGMENT_LENGTHS) + frame(8) * n),
    "packets byte by byte": ("splitter", lambda n: bytes([1] * SEGMENT_LENGTHS) + frame(8) * n),
    "one packet byte by byte": ("splitter", lambda n: bytes([1] * SEGMENT_LENGTHS) + with_post("", bytes(50 * n))),
    "many ACEs": ("security-descriptor", lambda n: descriptor(acl(n, ACE * n))),
    "many empty ACEs": ("security-descriptor", lambda n: descriptor(acl(n, b"\x11\0\4\0" * n))),
    "a huge AceCount": ("security-descriptor", lambda n: descriptor(acl(0xFFFF, ACE * n))),
    "many strings": ("propvariant", lambda n: ndr(PropVariant(LPWSTR_VECTOR, ["text"] * n))),
    "many variants": ("propvariant", lambda n: ndr(PropVariant(VARIANT_VECTOR, [NESTED] * n))),
    "variants nested deeply": ("propvariant", lambda n: vector(VARIANT_VECTOR, 1) * n + bytes(10)),
    "a huge cElems": ("propvariant", lambda n: vector(VARIANT_VECTOR, 0xFFFF_FFFF) + bytes(16 * n)),
    "a huge cElems of strings": ("propvariant", lambda n: vector(LPWSTR_VECTOR, 0x00FF_FFFF) + bytes(16 * n)),
    "a long direct name": ("queue-format", lambda n: ndr(QueueFormat(DIRECT, arm="OS:" + "h" * 50 * n + "\\q"))),
    "a long subqueue": ("queue-format", lambda n: ndr(QueueFormat(DIRECT, arm="OS:h\\q" + ";s" * 50 * n))),
    "many keys": ("keys", lambda n: pack("<II", 8 + len(KEY) * n, n) + KEY * n),
    "a huge cNumofKeys": ("keys", lambda n: pack("<II", 8 + len(KEY) * n, 0xFFFF_FFFF) + KEY * n),
    "many certificates": ("certificates", lambda n: pack("<I", n) + bytes(36) * n),
    "a huge CertificateCount": ("certificates", lambda n: pack("<I", 0xFFFF_FFFF) + bytes(36) * n),
    "many addresses": ("identifiers", lambda n: b"\4\0\1\0\x7f\0\0\1" * n),
    "many names": ("format-name", lambda n: ",".join([ORDERS] * n).encode()),
    "many commas": ("format-name", lambda n: f"DL={seeds.GUID_TEXT}@{',' * 50 * n}".encode()),
    "many semicolons": ("format-name", lambda n: (ORDERS + ";a" * 50 * n).encode()),
    "many colons": ("format-name", lambda n: f"DIRECT=TCP:{':' * n}\\q".encode()),
    "a long HTTP host": ("format-name", lambda n: f"DIRECT=HTTP://{'[' * 50 * n}/msmq/q".encode()),
    "a path of backslashes": ("path-name", lambda n: b"h" + b"\\" * 50 * n),
    "a long dead-letter name": ("remote-trailers", lambda n: pack("<I", 4 + 4 * n) + b"a\0" * (2 * n - 1) + b"\0\0"),
}

SIZE = 24


@pytest.mark.parametrize("shape", SHAPES)
def test_cost_is_linear_in_the_size_of_the_input(shape: str) -> None:
    name, build = SHAPES[shape]
    data = build(4 * SIZE)
    one, four = cost(TARGETS[name], build(SIZE)), cost(TARGETS[name], data)
    # The second half is for numbers that are believed: what they cost does not depend on the input.
    assert four.opcodes <= 4 * one.opcodes < 0x10000 + 4000 * len(data)
    assert four.moved <= 4 * one.moved + 64
    assert four.memory <= 4 * one.memory + 0x4000 < 0x20000 + 1000 * len(data)


def test_a_packet_that_comes_byte_by_byte_is_not_copied_with_each_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = 0

    def counted(kind: Callable[[bytes], T], data: bytes = b"") -> T:
        nonlocal copied
        copied += len(data)
        return kind(data)

    for kind in (bytes, bytearray):
        monkeypatch.setattr(packets, kind.__name__, partial(counted, kind), raising=False)
    stream = with_post("", bytes(1000)) * 2
    splitter = packets.Splitter()
    assert sum(len(splitter.feed(stream[at : at + 1])) for at in range(len(stream))) == 2
    assert len(stream) <= copied <= 2 * len(stream)


def test_the_cost_of_a_quadratic_decoder_is_seen() -> None:
    def copies(data: bytes) -> None:
        for at in range(len(data)):
            data[at:]

    def loops(data: bytes) -> None:
        for at in range(len(data)):
            for _ in range(at):
                pass

    def holds(data: bytes) -> None:
        [bytes(64 * at) for at in range(len(data))]

    one, four = bytes(SIZE), bytes(4 * SIZE)
    assert cost(copies, four).moved > 8 * cost(copies, one).moved
    assert cost(loops, four).opcodes > 8 * cost(loops, one).opcodes
    assert cost(holds, four).memory > 8 * cost(holds, one).memory


def test_a_target_sees_an_error_that_is_no_decode_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "decode_packet", lambda data: data[99])
    with pytest.raises(IndexError):
        targets.packet(b"")


def test_a_target_sees_bytes_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "decode_packet", lambda _: Ping())
    with pytest.raises(Violation, match="a decoded record encodes to the same bytes"):
        targets.packet(frame(1))


def test_a_target_sees_an_offset_outside_of_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(data: bytes) -> None:
        raise DecodeError("MS-MQMQ 2.2.20", "UserMessage Packet", len(data) + 1, "for the test")

    monkeypatch.setattr(targets, "decode_packet", refuse)
    with pytest.raises(Violation, match="offset is inside the input"):
        targets.packet(b"abc")


def test_a_finding_is_cut_down_to_what_it_needs() -> None:
    def target(data: bytes) -> None:
        assert b"!" not in data

    assert run.shortened(target, bytes(50) + b"?!?" + bytes(33)) == b"!"


def test_of_all_inputs_those_are_kept_that_lead_somewhere_new() -> None:
    first, *others = seeds.packets()
    kept = corpus.distilled(TARGETS["packet"], [first], [first, *others, others[0]])
    assert first not in kept
    assert len(kept) == len(set(kept)) > 5
    assert corpus.distilled(TARGETS["packet"], [first, *kept], others) == []
