"""Packets out of a byte stream: readings MQQB 1, MQMQ 3.1."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.vectors import frame, vector
from waypost.errors import DecodeError
from waypost.wire import Splitter, UserMessage
from waypost.wire.session_header import SessionHeader


def piggybacked() -> bytes:
    message = UserMessage.decode(frame(7))
    message.session = SessionHeader(ack_sequence_number=1)
    return message.encode()


PACKETS = [frame(3), piggybacked(), frame(5), frame(8), frame(7), vector("srmp-user-message"), piggybacked(), frame(8)]
STREAM = b"".join(PACKETS)


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_packets_do_not_depend_on_the_segments(cuts: list[int]) -> None:
    splitter = Splitter()
    places = [0, *sorted(cuts), len(STREAM)]
    packets = [
        packet
        for start, end in pairwise(places)
        for packet in splitter.feed(STREAM[start:end])
    ]  # fmt: skip
    assert packets == PACKETS
    assert splitter.pending == 0


def test_one_byte_at_a_time() -> None:
    splitter = Splitter()
    assert [packet for byte in STREAM for packet in splitter.feed(bytes([byte]))] == PACKETS


def test_the_session_header_behind_a_message_belongs_to_it_and_that_of_a_session_ack_is_counted() -> None:
    data = piggybacked()
    assert len(data) == 2224 + 16
    assert Splitter().feed(data[:2224]) == []
    assert Splitter().feed(data + frame(8)) == [data, frame(8)]
    assert len(frame(8)) == 0x24


def test_an_unfinished_packet_is_held() -> None:
    splitter = Splitter()
    assert splitter.feed(frame(8) + frame(7)[:1000]) == [frame(8)]
    assert splitter.pending == 1000
    assert splitter.feed(frame(7)[1000:]) == [frame(7)]


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (b"GET / HTTP/1.1\r\n", "VersionNumber"),
        (frame(8)[:4] + b"ROIL" + frame(8)[8:], "Signature"),
        (frame(8)[:8] + b"\x0f\0\0\0" + frame(8)[12:], "PacketSize"),
        (frame(8)[:8] + b"\x01\0\x40\0" + frame(8)[12:], "PacketSize"),
    ],
)
def test_a_broken_stream_gives_what_came_before_and_then_its_error_for_good(bad: bytes, field: str) -> None:
    splitter = Splitter()
    assert splitter.feed(frame(8) + frame(5) + bad) == [frame(8), frame(5)]
    assert splitter.error is not None
    assert (splitter.error.field, splitter.pending) == (field, 0)
    for _ in range(2):
        with pytest.raises(DecodeError, match=field):
            splitter.feed(frame(8))
    with pytest.raises(DecodeError, match=field):
        Splitter().feed(bad)


def test_a_broken_stream_holds_nothing_of_what_comes_later() -> None:
    splitter = Splitter()
    held = []
    for number in range(3):
        with pytest.raises(DecodeError) as caught:
            splitter.feed(b"x" * (100 + number))
        held.append(caught.value)
    assert len({id(error) for error in held}) == 3
    assert splitter.error is not None
    assert splitter.error not in held
    assert splitter.pending == 0


@given(st.binary(max_size=80), st.integers(0, 80))
def test_any_bytes_give_packets_or_an_error_whatever_the_segments(data: bytes, cut: int) -> None:
    stream = frame(8) + data

    def split(*segments: bytes) -> tuple[list[bytes], str | None]:
        splitter = Splitter()
        packets = []
        try:
            for segment in segments:
                packets += splitter.feed(segment)
        except DecodeError:
            pass
        return packets, str(splitter.error) if splitter.error else None

    assert split(stream) == split(stream[:cut], stream[cut:])
    assert split(stream)[0][0] == frame(8)
