"""Believed acknowledgments, as a table (ADR 22)."""

from typing import Any

import pytest

from waypost.peers import peer_of
from waypost.transfer.believing import (
    Bringer,
    Decision,
    Verdict,
    Way,
    Written,
    judge,
)
from waypost.wire.ip_addresses import is_address, plain_address, with_port

B, R, X = b"\xbb" * 16, b"\x55" * 16, b"\x99" * 16
AT_B, AT_R, ELSEWHERE = "10.0.0.2", "10.0.0.3", "10.9.9.9"
AT_ONCE = Way({B: {AT_B}})
BY_R = Way({B: {AT_B}}, {R: {AT_R}})
RELAYED = Way({B: set()}, {R: {AT_R}}, frozenset({ELSEWHERE}))
UNKNOWN = Way({})
APPLY, KEEP, REFUSE = Decision.APPLY, Decision.KEEP, Decision.REFUSE


def verdict(
    way: Way, source: bytes, guid: bytes, address: str, /, written: Written = Written.YES, **more: Any
) -> Verdict:
    facts = {"may_be_of_any_hop": False, "is_admitted": False, **more}
    return judge(written, way, source, Bringer(guid, address), **facts)


@pytest.mark.parametrize(
    ("way", "source", "guid", "address", "more", "decision"),
    [
        # The destination itself, at one of its addresses, at another one, and at one that was admitted.
        (AT_ONCE, B, B, AT_B, {}, APPLY),
        (AT_ONCE, B, B, ELSEWHERE, {}, KEEP),
        (AT_ONCE, B, B, ELSEWHERE, {"is_admitted": True}, APPLY),
        # Somebody else, who speaks for itself, or says that it brings what the destination says.
        (AT_ONCE, X, X, AT_B, {}, REFUSE),
        (AT_ONCE, X, B, AT_B, {}, REFUSE),
        (AT_ONCE, B, X, AT_B, {}, REFUSE),
        (AT_ONCE, B, X, AT_B, {"is_admitted": True}, REFUSE),
        # The way leads over R.
        (BY_R, B, R, AT_R, {}, APPLY),
        (BY_R, B, R, ELSEWHERE, {}, KEEP),
        (BY_R, B, B, AT_B, {}, APPLY),
        (BY_R, B, B, AT_R, {}, KEEP),
        (BY_R, B, X, ELSEWHERE, {}, KEEP),
        # R has refused the message; it cannot say that somebody has received it.
        (BY_R, R, R, AT_R, {"may_be_of_any_hop": True}, APPLY),
        (BY_R, R, R, ELSEWHERE, {"may_be_of_any_hop": True}, KEEP),
        # A queue manager behind R refuses it, and only R is known.
        (BY_R, X, R, AT_R, {"may_be_of_any_hop": True}, APPLY),
        (BY_R, X, R, AT_R, {}, REFUSE),
        (BY_R, R, R, AT_R, {}, REFUSE),
        (AT_ONCE, R, R, AT_R, {"may_be_of_any_hop": True}, REFUSE),
        # Relays by their address.
        (RELAYED, B, X, ELSEWHERE, {}, APPLY),
        (RELAYED, B, R, ELSEWHERE, {}, APPLY),
        (RELAYED, B, X, AT_B, {}, KEEP),
        # The GUID of the destination is not known.
        (UNKNOWN, B, B, AT_B, {}, KEEP),
        (UNKNOWN, B, B, AT_B, {"is_admitted": True}, APPLY),
        (UNKNOWN, B, X, AT_B, {"is_admitted": True}, KEEP),
        # It was never sent, or perhaps.
        (AT_ONCE, B, B, AT_B, {"written": Written.NO}, REFUSE),
        (AT_ONCE, B, B, AT_B, {"written": Written.NO, "is_admitted": True}, REFUSE),
        (AT_ONCE, B, B, AT_B, {"written": Written.PERHAPS}, KEEP),
        (AT_ONCE, B, B, ELSEWHERE, {"written": Written.PERHAPS}, KEEP),
        (AT_ONCE, B, X, AT_B, {"written": Written.PERHAPS}, REFUSE),
        (UNKNOWN, B, B, AT_B, {"written": Written.NO}, REFUSE),
    ],
)
def test_what_is_believed(
    way: Way, source: bytes, guid: bytes, address: str, more: dict[str, Any], decision: Decision
) -> None:
    found = verdict(way, source, guid, address, **more)
    assert found.decision is decision, found.reason
    assert bool(found.reason) is (decision is not APPLY)


def test_a_reason_names_the_address_and_the_queue_manager() -> None:
    assert verdict(AT_ONCE, B, B, ELSEWHERE).reason == (
        "came from 10.9.9.9, which is not a known address of bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
    )


@pytest.mark.parametrize(
    ("text", "plain"), [("10.0.0.2", "10.0.0.2"), ("::ffff:10.0.0.2", "10.0.0.2"), ("FE80::0001", "fe80::1")]
)
def test_an_address_has_one_form(text: str, plain: str) -> None:
    assert plain_address(text) == plain


def test_what_is_no_address_has_none() -> None:
    with pytest.raises(ValueError, match="host"):
        plain_address("host")


@pytest.mark.parametrize(("address", "network"), [("10.0.0.2", "10.0.0.2"), ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::")])
def test_an_owner_of_ipv6_addresses_has_a_network_of_them(address: str, network: str) -> None:
    assert peer_of(address) == network


@pytest.mark.parametrize(
    ("text", "expected"), [("10.0.0.2", True), ("fe80::1%eth0", True), ("host", False), ("", False), ("10.0.0", False)]
)
def test_a_host_is_an_address_or_a_name(text: str, *, expected: bool) -> None:
    assert is_address(text) == expected


def test_an_address_of_ipv6_has_brackets_before_its_port() -> None:
    assert (with_port("10.0.0.2", 1801), with_port("fe80::1", 1801)) == ("10.0.0.2:1801", "[fe80::1]:1801")
