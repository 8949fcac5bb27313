"""Acknowledgments that are kept: who has a place, and who has turns (ADR 22)."""

from collections.abc import Iterable

import pytest

from tests.node import test_believed_acks as believed
from tests.node.hosts import Host, Net, Peer
from tests.node.test_believed_acks import (
    NAT,
    PURGED,
    P,
    _as_of_before,
    come_from,
    delivered,
    journaled,
    kept,
    of,
    refused,
    told,
)
from waypost.clock import Now
from waypost.limits import MAX_KEPT_ACKS_OF_MESSAGE
from waypost.node.kept_acks import Acknowledgment
from waypost.node.network.ack_judging import AckJudging
from waypost.wire.internal_packets import SessionAck
from waypost.wire.user_message import UserMessage

net, a, peer, stranger = believed.net, believed.a, believed.peer, believed.stranger


def test_a_network_has_one_place_of_a_message(a: Host, peer: Peer, stranger: Peer) -> None:
    """Else four addresses of one host would take all of them."""
    (sent,) = delivered(a, peer, "m")
    for number in range(1, 5):
        come_from(f"2001:db8::{number}", stranger, a, of(sent, peer.guid))
    assert (kept(a), refused(a)) == (1, 3)
    come_from(NAT, peer, a, of(sent, peer.guid))
    assert kept(a) == 2


def test_what_contradicts_one_that_is_kept_from_the_same_address_stays_with_its_sender(
    net: Net, a: Host, peer: Peer, stranger: Peer
) -> None:
    """Both are behind one address, of which only one is kept: to acknowledge the other would lose it."""
    (sent,) = delivered(a, peer, "m")
    come_from(NAT, stranger, a, of(sent, peer.guid, PURGED))
    net.advance(1)
    before = len(peer.of(SessionAck))
    come_from(NAT, peer, a, of(sent, peer.guid))
    net.advance(1)
    assert (kept(a), refused(a), len(peer.of(SessionAck))) == (1, 1, before)
    assert any(
        "an acknowledgment from the same address is already kept, with different content" in str(notice["reason"])
        for notice in told(a, "session closed")
    )


def test_strangers_take_no_place_of_a_destination_that_is_believed(
    net: Net, a: Host, peer: Peer, stranger: Peer
) -> None:
    """After a crash it is not known that the message was sent, so even its destination has to wait."""
    a.send_all(P, journaled("1"))
    (sent,) = peer.of(UserMessage)
    net.part(a, peer)
    _as_of_before(a)
    peer.name = "nowhere"
    net.join()
    for number in range(MAX_KEPT_ACKS_OF_MESSAGE):
        come_from(f"10.0.1.{number}", stranger, a, of(sent, peer.guid, PURGED))
    assert kept(a) == MAX_KEPT_ACKS_OF_MESSAGE
    peer.connect(a)
    peer.send(of(sent, peer.guid))
    net.advance(1)
    assert (kept(a), refused(a)) == (MAX_KEPT_ACKS_OF_MESSAGE + 1, 0)
    peer.name = "peer"
    net.advance(20)
    assert (a.bodies(";journal"), a.bodies(";deadxact"), kept(a)) == (["1"], [], 0)


def test_what_is_judged_again_takes_turns(
    net: Net, a: Host, peer: Peer, stranger: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers can have thousands kept: nobody waits until all of them are looked at."""
    monkeypatch.setattr("waypost.node.network.ack_judging.MAX_JUDGED_AT_ONCE", 3)
    judged: list[int] = []
    judge = AckJudging._judge

    def count(self: AckJudging, acks: Iterable[Acknowledgment], now: Now) -> int:
        found = list(acks)
        judged.append(len(found))
        return judge(self, found, now)

    monkeypatch.setattr(AckJudging, "_judge", count)
    sent = delivered(a, peer, *"12345678")
    come_from(NAT, stranger, a, *(of(each, peer.guid, PURGED) for each in sent))
    assert kept(a) == 8
    judged.clear()
    a.network.ack_judging.judge_again(net.now)
    assert judged == [3]
    net.advance(1)
    assert judged == [3, 3, 2]
    assert kept(a) == 8
