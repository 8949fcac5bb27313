"""MS-MQQB 2.2.7 and 3.1.7.6 to 3.1.7.8: asking before connecting."""

import pytest

from tests.transfer.session_rig import CLIENT, SERVER
from tests.wire.vectors import frame
from waypost.clock import Now
from waypost.timers import Timers
from waypost.transfer.handshake import Initiator
from waypost.transfer.pings import Pings
from waypost.wire.ping import RC, RF, SIGNATURE, Ping
from waypost.wire.property_values import OperatingSystem

NOW = Now(100.0, 0.0)


class Asked(Pings[str]):
    """With separate timers. `expired` fires them, and gives the keys of requests without a response in time."""

    def __init__(self, identifier: bytes) -> None:
        self.timers = Timers()
        self._late: list[str] = []
        identity = Initiator(identifier, OperatingSystem.MSMQ_OS_NTS)
        super().__init__(identity, self.timers, lambda key, _: self._late.append(key))

    def expired(self, now: Now) -> list[str]:
        self.timers.fire(now)
        keys = self._late[:]
        self._late.clear()
        return keys


def pings(identifier: bytes = CLIENT) -> Asked:
    return Asked(identifier)


@pytest.mark.spec("MQQB-3.1.7.6-01", "MQQB-3.1.1.3-08", "MQQB-3.1.3.2-11")
def test_each_request_raises_the_cookie_which_starts_at_0() -> None:
    mine = pings()
    requests = [Ping.decode(mine.request(key, NOW)) for key in ("a", "b", "a")]
    assert [ping.cookie for ping in requests] == [1, 2, 3]
    for ping in requests:
        assert (ping.qm_guid, ping.signature, ping.flags & RF) == (CLIENT, SIGNATURE, 0)


@pytest.mark.spec("MQQB-3.1.7.6-02", "MQQB-3.1.1.1.1.9-01")
def test_a_response_says_whether_a_session_would_be_accepted() -> None:
    mine, theirs = pings(), pings(SERVER)
    for would_accept in (True, False):
        answer = theirs.answer(mine.request("a", NOW), would_accept=would_accept)
        assert answer is not None
        assert mine.response(answer) == ("a", would_accept)
        assert mine.timers.earliest() is None
        assert mine.expired(Now(200.0, 0.0)) == []


@pytest.mark.spec("MQQB-3.1.2.9-01", "MQQB-3.1.6.8-01", "MQQB-3.1.7.6-02", "MQQB-3.1.1.1.1.9-01")
def test_every_request_waits_for_one_second() -> None:
    mine = pings()
    late = [mine.request("a", NOW), mine.request("b", Now(100.25, 0.0))]
    assert mine.timers.earliest() == 101.0
    assert mine.expired(Now(100.99, 0.0)) == []
    assert mine.expired(Now(101.0, 0.0)) == ["a"]
    assert mine.expired(Now(101.25, 0.0)) == ["b"]
    for request in late:
        assert mine.response(Ping.decode(request).accepted(SERVER).encode()) is None


@pytest.mark.spec("MQQB-2.2.7-06", "MQQB-3.1.7.8-01")
def test_a_response_that_is_not_for_the_last_request_is_ignored() -> None:
    mine = pings()
    assert mine.response(Ping(cookie=0).encode()) is None
    first = Ping.decode(mine.request("a", NOW))
    last = Ping.decode(mine.request("a", NOW))
    assert mine.response(first.accepted(SERVER).encode()) is None
    assert mine.response(Ping(cookie=last.cookie + 1).encode()) is None
    assert mine.response(Ping(signature=0x5549, cookie=last.cookie).encode()) is None
    assert mine.response(last.accepted(SERVER).encode()) == ("a", True)
    assert mine.response(last.accepted(SERVER).encode()) is None


@pytest.mark.spec("MQQB-3.1.7.7-01", "MQQB-2.2.7-06")
@pytest.mark.parametrize("flags", [0, RC, 0x7D00 | RC])
def test_a_request_is_answered_with_its_cookie_and_its_rc(flags: int) -> None:
    request = Ping(flags=flags, cookie=0xFFFF_FFFF, qm_guid=CLIENT).encode()
    for would_accept, refusal in ((True, 0), (False, RF)):
        answer = pings(SERVER).answer(request, would_accept=would_accept)
        assert answer == Ping(flags=flags & RC | refusal, cookie=0xFFFF_FFFF, qm_guid=SERVER).encode()


def test_the_printed_request_is_answered_as_printed_but_for_noise() -> None:
    printed = Ping.decode(frame(2))
    answer = pings(printed.qm_guid).answer(frame(1), would_accept=True)
    assert answer is not None
    assert (answer[2:], answer[0] & 3) == (frame(2)[2:], frame(2)[0] & 3)


def test_what_is_no_ping_is_neither_answered_nor_a_response() -> None:
    for datagram in (b"", frame(1)[:-1], frame(1) + b"\0", frame(3), bytes(24)):
        assert pings().answer(datagram, would_accept=True) is None
        assert pings().response(datagram) is None


def test_the_cookie_wraps_after_32_bits() -> None:
    mine = pings()
    mine._ping_cookie = 0xFFFF_FFFF
    assert Ping.decode(mine.request("a", NOW)).cookie == 0
