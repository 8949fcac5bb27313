"""Messages that are signed or encrypted, which nothing verifies or decrypts yet: MS-MQQB 3.1.5.8.3."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.node.hosts import TRANSFER, Host, Net, Peer
from waypost.core.message_values import AuthenticationLevel
from waypost.limits import MAX_REFUSED_SOURCES
from waypost.node.network import refused_sources
from waypost.routing.routes import Route
from waypost.transfer.settings import TransferSettings
from waypost.wire import security_header
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.multi_queue import MultiQueueFormatHeader
from waypost.wire.property_values import QueuePrivacy
from waypost.wire.security_header import SENDER_SID, SecurityHeader
from waypost.wire.sid import Sid
from waypost.wire.transactional_acks import FinalAck
from waypost.wire.user_message import UserMessage

ALICE = Sid(5, (21, 1, 2, 3, 1104))
SIGNED, ENCRYPTED = MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE, MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION
ADMIN: dict[str, Any] = {
    "administration_queue_format_name": FormatName.parse(r"DIRECT=OS:a\private$\admin"),
    "acknowledgements_requested": 0x0F,
}
TX = (5, 1, 0)


def signature(packet: UserMessage) -> None:
    packet.security = SecurityHeader(SENDER_SID, ALICE.encode(), signature=bytes(128), sender_cert=bytes(300))


def signature_without_a_sender(packet: UserMessage) -> None:
    packet.security = SecurityHeader(signature=b"s")


def claim_to_be_authenticated(packet: UserMessage) -> None:
    signature(packet)
    assert packet.security is not None
    packet.security.flags |= security_header.AU | 3 << security_header.AS_SHIFT


def signature_of_several(packet: UserMessage) -> None:
    packet.multi_queue = MultiQueueFormatHeader()
    packet.multi_queue.signature.signature = bytes(128)


def encryption(packet: UserMessage) -> None:
    packet.security = SecurityHeader(security_header.EB, encryption_key=bytes(76))
    packet.properties.privacy_level = 1


def encryption_of_an_unknown_kind(packet: UserMessage) -> None:
    packet.security = SecurityHeader(security_header.EB | SENDER_SID, ALICE.encode())
    packet.properties.privacy_level = 77


def both(packet: UserMessage) -> None:
    signature(packet)
    assert packet.security is not None
    packet.security.flags |= security_header.EB


PROTECTED = [
    (signature, SIGNED),
    (signature_without_a_sender, SIGNED),
    (claim_to_be_authenticated, SIGNED),
    (signature_of_several, SIGNED),
    (encryption, ENCRYPTED),
    (encryption_of_an_unknown_kind, ENCRYPTED),
    (both, ENCRYPTED),
]


@pytest.fixture
def net() -> Net:
    return Net()


def add(net: Net, *, nacks: bool = False, **settings: object) -> Host:
    host = net.add("a", TransferSettings(send_insecure_nacks=nacks), **settings)
    host.create("q")
    host.create("t", transactional=True)
    host.create("admin")
    return host


def connected(net: Net, host: Host) -> Peer:
    peer = net.add_peer()
    peer.connect(host)
    return peer


def name_of(host: Host, queue: str, *, by_address: bool) -> str:
    return rf"DIRECT=OS:a\private$\{queue}" if by_address else host.name_of(queue)


@pytest.mark.spec("MQQB-3.1.5.8.3-05", "MQQB-3.1.5.8.3-11", "MQQB-3.1.5.8.3-17")
@pytest.mark.parametrize(("protect", "reason"), PROTECTED)
@pytest.mark.parametrize("nacks", [False, True])
@pytest.mark.parametrize("by_address", [False, True])
@pytest.mark.parametrize("queue", ["q", "t"])
def test_what_cannot_be_verified_or_decrypted_is_refused(
    net: Net,
    protect: Callable[[UserMessage], None],
    reason: MessageClass,
    queue: str,
    *,
    nacks: bool,
    by_address: bool,
) -> None:
    a = add(net, nacks=nacks)
    peer = connected(net, a)
    tx = TX if queue == "t" else None
    packet = peer.message(name_of(a, queue, by_address=by_address), "m", tx=tx, **ADMIN)
    protect(packet)
    peer.send(packet, peer.message(r"DIRECT=OS:a\private$\q", "next"))
    assert a.bodies("t") == []
    assert a.bodies("q") == ["next"]
    assert a.classes("admin") == ([reason] if nacks else [])
    assert [ack.message_class for ack in peer.of(FinalAck)] == ([] if tx is None else [reason])
    (notice,) = [notice for notice in a.notices if notice.event == "message rejected"]
    assert (notice.facts["reason"], notice.facts["peer"]) == (reason.name, peer.address)
    assert "security.unverified" in str(notice.facts["hint"])
    statistics = a.network.statistics
    assert (statistics.messages_rejected, statistics.messages_unverified) == (1, 1)
    source = a.network.refused_sources.by_guid[peer.guid]
    assert (source.peer, source.classes) == (peer.address, {reason: 1})


@pytest.mark.parametrize(("protect", "reason"), PROTECTED)
def test_with_the_setting_it_is_delivered_as_it_came_and_not_authenticated(
    net: Net, protect: Callable[[UserMessage], None], reason: MessageClass
) -> None:
    a = add(net, delivers_unverified=True)
    peer = connected(net, a)
    packet = peer.message(r"DIRECT=OS:a\private$\q", "m", **ADMIN)
    protect(packet)
    peer.send(packet)
    assert a.bodies("q") == ["m"]
    assert a.messages("q")[0].authentication_level is AuthenticationLevel.NONE
    assert UserMessage.decode(a.messages("q")[0].packet).properties == packet.properties
    a.crash_and_start()
    assert a.receive("q").authentication_level is AuthenticationLevel.NONE


@pytest.mark.parametrize(
    ("protect", "demand", "reason"),
    [
        (signature, {"authentication": True}, SIGNED),
        (claim_to_be_authenticated, {"authentication": True}, SIGNED),
        (signature_of_several, {"authentication": True}, SIGNED),
        (encryption, {"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_BODY}, ENCRYPTED),
        (encryption_of_an_unknown_kind, {"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_BODY}, ENCRYPTED),
        (encryption_of_an_unknown_kind, {"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_NONE}, ENCRYPTED),
    ],
)
@pytest.mark.parametrize("delivers", [False, True])
def test_a_queue_that_demands_protection_never_gets_what_is_not_verified(
    net: Net, protect: Callable[[UserMessage], None], demand: dict[str, Any], reason: MessageClass, *, delivers: bool
) -> None:
    a = add(net, nacks=True, delivers_unverified=delivers)
    a.create("strict", **demand)
    peer = connected(net, a)
    packet = peer.message(r"DIRECT=OS:a\private$\strict", "m", **ADMIN)
    protect(packet)
    peer.send(packet)
    assert (a.bodies("strict"), a.classes("admin")) == ([], [reason])


@pytest.mark.parametrize(
    ("level", "delivers", "taken"),
    [
        (QueuePrivacy.MQ_PRIV_LEVEL_NONE, False, ["clear"]),
        (QueuePrivacy.MQ_PRIV_LEVEL_NONE, True, ["clear"]),
        (QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL, False, ["clear"]),
        (QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL, True, ["clear", "secret"]),
        # Nothing is decrypted, so nothing that comes is what it demands.
        (QueuePrivacy.MQ_PRIV_LEVEL_BODY, False, []),
        (QueuePrivacy.MQ_PRIV_LEVEL_BODY, True, []),
    ],
)
def test_the_privacy_level_of_a_queue_says_what_it_takes_from_others(
    net: Net, level: QueuePrivacy, taken: list[str], *, delivers: bool
) -> None:
    a = add(net, nacks=True, delivers_unverified=delivers)
    a.create("guarded", privacy_level=level)
    peer = connected(net, a)
    clear, secret = [peer.message(r"DIRECT=OS:a\private$\guarded", body, **ADMIN) for body in ("clear", "secret")]
    encryption(secret)
    peer.send(clear, secret)
    assert a.bodies("guarded") == taken
    assert a.classes("admin").count(ENCRYPTED) == 2 - len(taken)


def test_a_key_without_encryption_is_not_what_a_queue_for_encrypted_messages_demands(net: Net) -> None:
    a = add(net, nacks=True, delivers_unverified=True)
    a.create("strict", privacy_level=QueuePrivacy.MQ_PRIV_LEVEL_BODY)
    peer = connected(net, a)
    packet = peer.message(r"DIRECT=OS:a\private$\strict", "clear", **ADMIN)
    packet.security = SecurityHeader(encryption_key=bytes(76))
    packet.properties.privacy_level = 1
    peer.send(packet)
    assert (a.bodies("strict"), a.classes("admin")) == ([], [ENCRYPTED])


def test_a_header_that_only_names_a_sender_is_no_protection(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    packets = [peer.message(r"DIRECT=OS:a\private$\q", body) for body in ("sid", "certificate")]
    packets[0].security = SecurityHeader(SENDER_SID, ALICE.encode())
    packets[1].security = SecurityHeader(SENDER_SID, ALICE.encode(), sender_cert=bytes(300))
    peer.send(*packets)
    assert a.bodies("q") == ["sid", "certificate"]
    assert a.network.statistics.messages_unverified == 0


@pytest.mark.spec("MQQB-3.1.5.8.3-01")
@pytest.mark.parametrize(("protect", "_reason"), PROTECTED)
def test_a_relay_passes_on_what_it_cannot_verify(
    net: Net, protect: Callable[[UserMessage], None], _reason: MessageClass
) -> None:
    far = add(net, delivers_unverified=True)
    relay = net.add("relay", TRANSFER, [Route(far.guid, "a")])
    peer = connected(net, relay)
    packet = peer.message(far.name_of("q"), "m")
    protect(packet)
    peer.send(packet)
    assert far.bodies("q") == ["m"]


def test_sources_beyond_the_bound_are_counted_together(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_sources, "MAX_REFUSED_SOURCES", 1)
    a = add(net)
    for _ in range(3):
        peer = connected(net, a)
        packet = peer.message(r"DIRECT=OS:a\private$\q", "m")
        signature(packet)
        peer.send(packet)
    refused = a.network.refused_sources
    assert (len(refused.by_guid), refused.others, refused.count) == (1, 2, 3)
    assert MAX_REFUSED_SOURCES == 1000


def test_messages_that_are_in_queues_already_stay_readable(net: Net) -> None:
    a = add(net, delivers_unverified=True)
    peer = connected(net, a)
    packet = peer.message(r"DIRECT=OS:a\private$\q", "m", body=b"cipher")
    both(packet)
    peer.send(packet)
    a.restart(delivers_unverified=False)
    assert (a.receive("q").label, a.bodies("q")) == ("m", [])
