"""TCP reassembly and the way from a broken stream back to packets."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.wiretap import conversation, frame_7, vector
from waypost import limits
from waypost.captures import streams
from waypost.captures.frames import Flow, Segment
from waypost.captures.packets import Finding, FoundPacket, Gap, Stray
from waypost.captures.streams import Reassembler
from waypost.wire.session_header import SessionHeader
from waypost.wire.user_message import UserMessage

FLOW = Flow(b"\x0a\0\0\1", 40000, b"\x0a\0\0\2", 1801)
STREAM = b"".join(conversation())


def pieces(data: bytes, cuts: list[int], sequence: int = 1000) -> list[Segment]:
    edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    return [piece(data, start, end, sequence) for start, end in pairwise(edges)]


def piece(data: bytes, start: int, end: int, sequence: int = 1000) -> Segment:
    return Segment(FLOW, start, (sequence + start) & 0xFFFFFFFF, False, data[start:end], 0)


def syn(sequence: int = 1000) -> Segment:
    return Segment(FLOW, 0, sequence, True, b"", 0)


def run(segments: list[Segment]) -> list[Finding]:
    reassembler = Reassembler()
    found = [finding for segment in segments for finding in reassembler.feed(segment)]
    return found + list(reassembler.finish())


def packets(found: list[Finding]) -> list[bytes]:
    assert all(isinstance(finding, FoundPacket) for finding in found)
    return [finding.data for finding in found if isinstance(finding, FoundPacket)]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, len(STREAM) - 1), max_size=40), st.randoms(use_true_random=False), st.integers(0, 2**32 - 1)
)
def test_any_segmentation_order_and_repetition_gives_the_same_packets(
    cuts: list[int], chance: random.Random, sequence: int
) -> None:
    segments = pieces(STREAM, cuts, sequence) * 2
    start, end = sorted((chance.randrange(len(STREAM)), chance.randrange(len(STREAM))))
    segments.append(piece(STREAM, start, end, sequence))
    chance.shuffle(segments)
    assert packets(run([syn(sequence), *segments])) == conversation()


def test_a_session_header_behind_a_message_belongs_to_it() -> None:
    message = UserMessage(session=SessionHeader()).encode()
    data = message + vector("mqqb-4.1.5")
    assert packets(run([syn(), piece(data, 0, len(data))])) == [message, vector("mqqb-4.1.5")]


def test_sequence_numbers_wrap() -> None:
    assert packets(run([syn(0xFFFFFF00), *pieces(STREAM, list(range(0, 4000, 100)), 0xFFFFFF00)])) == conversation()


def test_a_missing_segment_is_a_gap_and_the_next_header_ends_it() -> None:
    first, second, third = vector("mqqb-4.1.3"), frame_7(), vector("mqqb-4.1.5")
    data = first + second + third
    lost = len(first) + 100
    found = run([syn(), piece(data, 0, lost), piece(data, lost + 50, len(data))])
    assert [type(finding) for finding in found] == [FoundPacket, FoundPacket, Gap, Stray, FoundPacket]
    whole, cut, gap, stray, behind = found
    assert isinstance(whole, FoundPacket)
    assert whole.data == first
    assert isinstance(cut, FoundPacket)
    assert cut.data == second[:100]
    assert isinstance(gap, Gap)
    assert gap.size == 50
    assert isinstance(stray, Stray)
    assert stray.size == len(second) - 150
    assert stray.sample == second[150:214]
    assert isinstance(behind, FoundPacket)
    assert behind.data == third


def test_a_gap_between_two_packets_costs_no_other_bytes() -> None:
    data = vector("mqqb-4.1.3") + vector("mqqb-4.1.5") * 2
    found = run([syn(), piece(data, 0, 572), piece(data, 604, 636)])
    assert [type(finding) for finding in found] == [FoundPacket, Gap, FoundPacket]


def test_a_capture_that_begins_inside_a_packet_finds_the_next_one() -> None:
    data = frame_7() + vector("mqqb-4.1.5")
    found = run([piece(data, 700, len(data))])
    assert [type(finding) for finding in found] == [Stray, FoundPacket]


def test_bytes_before_the_first_captured_segment_are_reported_not_lost_in_silence() -> None:
    data = vector("mqqb-4.1.5") * 2
    found = run([piece(data, 32, 64), piece(data, 0, 32)])
    assert [type(finding) for finding in found] == [FoundPacket, Stray]
    assert isinstance(found[1], Stray)
    assert found[1].size == 32


def test_a_signature_inside_a_body_does_not_stop_the_search_for_a_sound_header() -> None:
    data = b"junk" + b"LIOR" * 10 + vector("mqqb-4.1.5")
    found = run([syn(), piece(data, 0, len(data))])
    assert [type(finding) for finding in found] == [Stray, FoundPacket]


def test_a_new_syn_on_the_same_ports_starts_a_new_stream() -> None:
    half, whole = vector("mqqb-4.1.3")[:300], vector("mqqb-4.1.5")
    again = [syn(9), Segment(FLOW, 1, 9, False, whole, 0)]
    found = run([syn(), piece(half, 0, 300), *again])
    assert [finding.data for finding in found if isinstance(finding, FoundPacket)] == [half, whole]


def test_a_repeated_syn_changes_nothing() -> None:
    data = vector("mqqb-4.1.3")
    assert packets(run([syn(), piece(data, 0, 300), syn(), piece(data, 300, 572)])) == [data]


def test_a_number_beyond_any_window_is_another_connection() -> None:
    data = vector("mqqb-4.1.5")
    stranger = Segment(FLOW, 1, (1000 + limits.MAX_TCP_WINDOW + 100) & 0xFFFFFFFF, False, data, 0)
    assert packets(run([syn(), piece(data, 0, 32), stranger])) == [data, data]


def test_a_segment_cut_by_the_snap_length_leaves_a_gap_of_its_size() -> None:
    data = vector("mqqb-4.1.3") + vector("mqqb-4.1.5")
    cut = Segment(FLOW, 0, 1000, False, data[:60], 512)
    found = run([syn(), cut, piece(data, 572, 604)])
    assert [type(finding) for finding in found] == [FoundPacket, Gap, FoundPacket]
    assert isinstance(found[1], Gap)
    assert found[1].size == 512


def test_what_waits_for_a_lost_segment_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING_SEGMENTS", 3)
    data = vector("mqqb-4.1.5") * 20
    reassembler = Reassembler()
    found = [
        finding
        for segment in [syn(), *(piece(data, at, at + 32) for at in range(32, 320, 32))]
        for finding in reassembler.feed(segment)
    ]
    assert isinstance(found[0], Gap)
    assert len(found) > 5


def test_the_silent_stream_is_given_up_when_too_much_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_CAPTURE_HELD", 600)
    reassembler = Reassembler()
    other = Flow(FLOW.source, 40001, FLOW.destination, 1801)
    half = vector("mqqb-4.1.3")[:400]
    assert list(reassembler.feed(piece(half, 0, 400))) == []
    given_up = list(reassembler.feed(Segment(other, 0, 1, False, half, 0)))
    assert [finding.origin.source for finding in given_up] == ["10.0.0.1:40000"]
