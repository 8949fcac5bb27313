"""MS-MQMQ 2.2.20.4 SessionHeader and 2.2.20.8 DebugHeader."""

import pytest
from hypothesis import given

from tests.wire.strategies import debug_headers, session_headers
from waypost.errors import DecodeError
from waypost.wire.debug_header import DebugHeader
from waypost.wire.session_header import SessionHeader

GUID = bytes(range(16))


@pytest.mark.spec("MQMQ-2.2.20.4-01", "MQMQ-2.2.18-01")
def test_a_session_header_has_seven_fields_in_16_bytes() -> None:
    data = bytes.fromhex("0100 0200 03000080 0400 0500 4000 cdab")
    assert SessionHeader.decode(b"...." + data, 4) == (SessionHeader(1, 2, 0x80000003, 4, 5, 64, 0xABCD), 20)
    assert SessionHeader(1, 2, 0x80000003, 4, 5, 64, 0xABCD).encode() == data
    with pytest.raises(DecodeError, match="SessionHeader at offset 0"):
        SessionHeader.decode(data[:-1], 0)


@pytest.mark.spec("MQMQ-2.2.20.4-08")
def test_the_window_is_64_by_default_and_never_0() -> None:
    assert SessionHeader().window_size == 0x0040
    assert [SessionHeader(window_size=size).window for size in (0, 1, 0xFFFF)] == [1, 1, 0xFFFF]


@pytest.mark.spec("MQQB-3.1.1.6.1-03")
def test_a_header_with_nothing_recoverable_to_acknowledge_has_zeros_there() -> None:
    assert SessionHeader(ack_sequence_number=7).encode()[2:8] == bytes(6)


@given(session_headers)
def test_every_session_header_survives_the_wire(header: SessionHeader) -> None:
    assert SessionHeader.decode(header.encode(), 0) == (header, 16)


@pytest.mark.spec("MQMQ-2.2.20.8-01", "MQMQ-2.2.18-01")
def test_a_debug_header_has_4_bytes_or_20() -> None:
    assert DebugHeader.decode(bytes(4), 0) == (DebugHeader(), 4)
    assert DebugHeader().encode() == bytes(4)
    data = bytes.fromhex("0100 cdab") + GUID
    assert DebugHeader.decode(data, 0) == (DebugHeader(1, 0xABCD, GUID), 20)
    assert DebugHeader(queue_identifier=GUID).encode() == b"\x01\0\0\0" + GUID
    for short in (b"\0\0\0", data[:-1]):
        with pytest.raises(DecodeError):
            DebugHeader.decode(short, 0)


@pytest.mark.spec("MQMQ-2.2.20.8-02")
def test_qt_is_0_or_1_and_the_other_bits_mean_nothing() -> None:
    for queue_type in (2, 3):
        with pytest.raises(DecodeError, match=f"QT must be 0 or 1, not {queue_type}"):
            DebugHeader.decode(bytes([queue_type, 0, 0, 0]) + GUID, 0)
    header, at = DebugHeader.decode(bytes.fromhex("fcff 0000"), 0)
    assert (at, header.queue_identifier) == (4, None)
    header, at = DebugHeader.decode(bytes.fromhex("fdff 0000") + GUID, 0)
    assert (at, header.queue_identifier) == (20, GUID)
    assert DebugHeader().flags == 0


@given(debug_headers)
def test_every_debug_header_survives_the_wire(header: DebugHeader) -> None:
    data = header.encode()
    decoded, at = DebugHeader.decode(data, 0)
    assert at == len(data)
    assert decoded.encode() == data
    assert (decoded.flags & ~3, decoded.reserved, decoded.queue_identifier) == (
        header.flags & ~3,
        header.reserved,
        header.queue_identifier,
    )
