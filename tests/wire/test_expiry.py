"""MS-MQMQ 2.2.19.1 TimeToReachQueue and 2.2.19.2 TimeToBeReceived."""

import pytest

from waypost.wire.base_header import BaseHeader, has_expired
from waypost.wire.user_header import UserHeader

SENT = 1_700_000_000


def test_a_message_expires_when_more_than_its_time_has_passed() -> None:
    assert [has_expired(SENT, 30, SENT + passed) for passed in (0, 29, 30, 31)] == [False, False, False, True]
    assert [has_expired(SENT, 0, SENT + passed) for passed in (0, 1)] == [False, True]


def test_a_message_of_the_future_has_not_expired() -> None:
    assert not has_expired(SENT, 0, SENT - 1)
    assert not has_expired(0xFFFF_FFFF, 0, SENT)


@pytest.mark.spec("MQMQ-2.2.19.1-12")
def test_0xffffffff_is_no_limit() -> None:
    base, _ = BaseHeader.decode(bytes.fromhex("10 00 0300 4c494f52 10000000 ffffffff"), 0)
    assert not has_expired(0, base.time_to_reach_queue, 1 << 40)
    assert has_expired(0, base.time_to_reach_queue - 1, 1 << 40)
    assert not has_expired(0, UserHeader().time_to_be_received, 1 << 40)
