"""MS-MQQB 2.2.7."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import guids, u16, u32
from tests.wire.vectors import frame
from waypost.errors import DecodeError
from waypost.transfer.pings import received_ping
from waypost.wire import Ping, decode_packet
from waypost.wire.ping import RC, RF

OWN = bytes(range(16))
PEER = bytes(range(16, 32))


@pytest.mark.spec("MQQB-2.2.7-01")
def test_a_ping_has_24_bytes_and_no_base_header() -> None:
    data = bytes.fromhex("2211 4855 66554433") + OWN
    assert Ping(flags=0x1122, cookie=0x33445566, qm_guid=OWN).encode() == data
    assert decode_packet(data) == Ping(flags=0x1122, cookie=0x33445566, qm_guid=OWN)
    for wrong in (data[:-1], data + b"\0", b""):
        with pytest.raises(DecodeError, match="must have 24"):
            Ping.decode(wrong)


@pytest.mark.spec("MQQB-2.2.7-02", "MQQB-2.2.7-03", "MQQB-2.2.7-07")
@pytest.mark.parametrize("flags", [0, RC])
def test_a_response_repeats_rc_and_the_cookie_and_says_whether_a_session_would_be_refused(flags: int) -> None:
    assert (RC, RF) == (0x0001, 0x0002)
    request = Ping(flags=flags, cookie=77, qm_guid=PEER)
    assert not request.flags & RF
    yes, no = request.accepted(OWN), request.refused(OWN)
    assert (yes.flags, no.flags) == (flags, flags | RF)
    assert yes.cookie == no.cookie == 77
    assert yes.qm_guid == no.qm_guid == OWN
    assert yes.answers(request)
    assert not yes.answers(Ping(cookie=78))


@pytest.mark.spec("MQQB-2.2.7-04")
def test_the_other_flags_are_noise() -> None:
    noisy = Ping.decode(frame(2))
    assert noisy.flags == 0xB295
    assert noisy.accepted(OWN).flags == RC
    assert Ping(flags=0xFFFC, cookie=1).accepted(OWN).flags == 0


@pytest.mark.spec("MQQB-2.2.7-05")
def test_another_signature_is_ignored_without_a_word() -> None:
    assert Ping().encode()[2:4] == b"\x48\x55"
    assert received_ping(frame(1)) == Ping.decode(frame(1))
    for signature in (b"\x55\x48", b"\0\0", b"\x48\x54"):
        data = frame(1)[:2] + signature + frame(1)[4:]
        assert received_ping(data) is None
        with pytest.raises(DecodeError, match="Signature at offset 2"):
            Ping.decode(data)
    assert received_ping(frame(1)[:-1]) is None


@given(st.builds(Ping, flags=u16, cookie=u32, qm_guid=guids))
def test_every_ping_survives_the_wire(ping: Ping) -> None:
    assert Ping.decode(ping.encode()) == ping
