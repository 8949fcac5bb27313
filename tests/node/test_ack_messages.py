"""The messages that acknowledge others, as they leave: MS-MQQB 3.1.7.15."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer
from tests.node.test_protected_arrivals import add, connected, encrypt, sign, wrong_key
from tests.node.test_transfer_refusals import allowing
from waypost.core.message_values import DeliveryGuarantee
from waypost.transfer.settings import TransferSettings
from waypost.wire import user_header
from waypost.wire.format_names import FormatName
from waypost.wire.user_message import UserMessage

BODY = b"a body that may be secret"
INFINITE = 0xFFFF_FFFF


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    host = add(net, transfer=TransferSettings(send_insecure_nacks=True))
    host.create("closed", security=allowing())
    host.create("small", quota=1)
    return host


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    return connected(net, a)


def asking(peer: Peer, queue: str = "q", **changes: Any) -> UserMessage:
    """A message whose acknowledgments all come back over the wire."""
    admin = FormatName.parse(rf"DIRECT=TCP:{peer.address}\private$\admin")
    asked: dict[str, Any] = {"administration_queue_format_name": admin, "acknowledgements_requested": 0x0F}
    return peer.message(rf"DIRECT=OS:a\private$\{queue}", "m", **{"body": BODY, **asked, **changes})


def acks(net: Net, peer: Peer) -> list[UserMessage]:
    net.advance(2)
    return peer.of(UserMessage)


@pytest.mark.spec("MQQB-3.1.7.15-07")
@pytest.mark.parametrize("guarantee", DeliveryGuarantee)
@pytest.mark.parametrize("end", [Host.purge, Host.receive])
def test_an_acknowledgment_is_as_recoverable_as_its_message_and_asks_for_nothing(
    net: Net, a: Host, peer: Peer, guarantee: DeliveryGuarantee, end: Callable[[Host, str], object]
) -> None:
    packet = asking(
        peer,
        delivery_guarantee=guarantee,
        time_to_reach_queue=60,
        time_to_be_received=60,
        positive_journaling_requested=True,
        negative_journaling_requested=True,
    )
    peer.send(encrypt(sign(packet)))
    assert a.bodies("q") == ["m"]
    end(a, "q")
    found = acks(net, peer)
    assert [each.properties.message_class for each in found] == [0x0002, 0xC001 if end is Host.purge else 0x4000]
    for each in found:
        delivery = 1 if guarantee is DeliveryGuarantee.RECOVERABLE else 0
        assert (each.user.delivery, each.user.is_transactional) == (delivery, False)
        assert (each.properties.flags, each.user.admin_queue) == (0, None)
        assert each.base.time_to_reach_queue == each.user.time_to_be_received == INFINITE
        assert each.user.flags & (user_header.JN | user_header.JP) == 0
        assert (each.properties.privacy_level, each.security) == (0, None)


def clear(_: Host, packet: UserMessage) -> UserMessage:
    return packet


def encrypted(_: Host, packet: UserMessage) -> UserMessage:
    return encrypt(packet)


def with_a_level_alone(_: Host, packet: UserMessage) -> UserMessage:
    """readings MQQB 7.52: EB is clear, but PrivacyLevel counts."""
    packet.properties.privacy_level = 3
    return packet


def altered(_: Host, packet: UserMessage) -> UserMessage:
    sign(packet).properties.label = "forged"
    return packet


Change = Callable[[Host, UserMessage], UserMessage]


@pytest.mark.spec("MQQB-3.1.7.15-08")
@pytest.mark.parametrize(
    ("change", "queue", "reason"),
    [
        (clear, "nowhere", 0x8000),
        (clear, "small", 0x8003),
        (clear, "closed", 0x8004),
        (altered, "q", 0x8006),
        (clear, "t", 0x800A),
        (with_a_level_alone, "t", 0x800A),
        (encrypted, "nowhere", 0x8000),
        (encrypted, "small", 0x8003),
        (encrypted, "closed", 0x8004),
        (wrong_key, "q", 0x8007),
        (encrypted, "t", 0x800A),
    ],
)
def test_a_refused_message_comes_back_with_its_body_unless_it_was_encrypted(
    net: Net, a: Host, peer: Peer, change: Change, queue: str, reason: int
) -> None:
    body = BODY * 100
    peer.send(change(a, asking(peer, queue, body=body)))
    (ack,) = acks(net, peer)
    assert ack.properties.message_class == reason
    assert ack.properties.message_body == (body if change in (clear, altered) else b"")


@pytest.mark.spec("MQQB-3.1.7.15-08")
@pytest.mark.parametrize("change", [clear, with_a_level_alone, encrypted])
def test_good_news_has_no_body_and_the_end_of_a_message_has_that_of_a_clear_one(
    net: Net, a: Host, peer: Peer, change: Change
) -> None:
    peer.send(change(a, asking(peer)))
    a.receive("q")
    peer.send(change(a, asking(peer)))
    a.purge("q")
    peer.send(change(a, asking(peer, time_to_be_received=1)))
    net.advance(5)
    returned = BODY if change is clear else b""
    assert sorted((each.properties.message_class, each.properties.message_body) for each in acks(net, peer)) == [
        *[(0x0002, b"")] * 3,
        (0x4000, b""),
        (0xC001, returned),
        (0xC002, returned),
    ]
