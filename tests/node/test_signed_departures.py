"""Signed messages that leave: the signature, its hash, the certificate and the sender (MS-MQQB 3.1.7.1.4).

The packets are verified by tests.security.second, which shares no code with src.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer
from tests.node.test_protected_arrivals import certificate, key, pkcs8
from tests.node.test_protected_departures import received, send, trust
from tests.security import second
from waypost.errors import InvalidParameter
from waypost.node.effects import MakeKeys, NoteAnswer, SignFor
from waypost.security.protection_facts import Registered, certificate_digest
from waypost.wire import security_header
from waypost.wire.security_header import NO_SENDER, SENDER_SID, SecurityHeader
from waypost.wire.user_message import UserMessage

# Every property that a signature covers, and one that only version 3 covers.
COVERED: dict[str, Any] = {
    "label": "mine",
    "correlation_id": "0102030405060708090a0b0c0d0e0f1011121314",
    "app_tag": 42,
    "body_type": 0x1011,
    "priority": 5,
    "journal": True,
    "acknowledge": "full-receive",
    "admin_queue": r"DIRECT=OS:a\private$\admin",
    "response_queue": r"DIRECT=OS:a\private$\replies",
    "message_class": 0x0101,
    "connector_type": "00112233-4455-6677-8899-aabbccddeeff",
    "extension": b"more",
}
HASHES = {"sha512": 0x800E, "sha256": 0x800C, "sha1": 0x8004, "md5": 0x8003}
PUBLIC = key(1).public_key().public_numbers()


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    """A host whose administrator signs with key 1."""
    host = net.add("a")
    host.key_desk.signer = pkcs8(key(1)), certificate(1)
    return host


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


def name_at(peer: Peer, queue: str = "q") -> str:
    return rf"DIRECT=TCP:{peer.address}\private$\{queue}"


def registered(host: Host) -> Registered:
    """The registration of certificate 1 for the administrator."""
    return Registered(certificate(1), host.node.administrator.sid.encode(), 0, 0xFFFF_FFFF)


def security_of(packet: UserMessage) -> SecurityHeader:
    assert packet.security is not None
    return packet.security


@pytest.mark.spec("MQMQ-2.2.20.6-12", "MQDMPR-3.1.1.12-10", "MQDMPR-3.1.1.12-48", "MQMQ-2.5.1-01", "MQMQ-2.5.2-01")
@pytest.mark.spec("MQQB-5.1-01", "MQQB-6-01")
@pytest.mark.parametrize("hashed", HASHES)
@pytest.mark.parametrize("version", [1, 2])
def test_a_message_has_the_signature_and_the_hash_that_were_asked_for(
    a: Host, peer: Peer, version: int, hashed: str
) -> None:
    send(a, name_at(peer), sign=True, signature=version, hash=hashed, **COVERED)
    (packet,) = received(peer)
    signature = security_of(packet).signature
    assert packet.properties.hash_algorithm == HASHES[hashed]
    verified = [each for each in (1, 2, 3) if second.verifies(packet.encode(), each, signature, PUBLIC)]
    assert verified == [version]
    packet.properties.label = "forged"
    assert not second.verifies(packet.encode(), version, signature, PUBLIC)


@pytest.mark.parametrize(("version", "protection"), [(1, {}), (2, {}), (2, {"encrypt": True})])
def test_messages_that_are_sent_together_have_a_number_and_a_signature_each(
    a: Host, peer: Peer, version: int, protection: dict[str, Any]
) -> None:
    trust(a, peer)
    bodies = [b"one", b"", b"three" * 100]
    a.create("q")
    a.node.protection.facts_changed(
        replace(a.node.protection.facts, registered={certificate_digest(certificate(1)): registered(a)})
    )
    send(a, r"DIRECT=OS:a\private$\q", *bodies, sign=True, signature=version, **protection, **COVERED)
    found = [UserMessage.decode(each.packet) for each in a.messages("q")]
    assert [each.properties.message_body for each in found] == bodies
    assert len({each.user.message_id for each in found}) == 3
    for packet in found:
        assert second.verifies(packet.encode(), version, security_of(packet).signature, PUBLIC)
    assert len({security_of(packet).signature for packet in found}) == 3


@pytest.mark.spec("MQMQ-2.2.20.6-12", "MQDMPR-3.1.1.12-10", "MQDMPR-3.1.1.12-22", "MQMQ-2.2.20.3-02", "MQMQ-2.5.3-01")
@pytest.mark.parametrize("several", [(), ("admin_queue",), ("response_queue",), ("admin_queue", "response_queue")])
def test_several_queues_have_one_signature_of_version_3_in_the_lists(
    a: Host, peer: Peer, several: tuple[str, ...]
) -> None:
    two = [rf"DIRECT=OS:a\private$\{each}" for each in ("one", "two")]
    lists = {**COVERED, **dict.fromkeys(several, two)}
    name = f"{name_at(peer)},{name_at(peer, 'other')}"
    send(a, name, sign=True, **{**lists, "label": "all"})
    send(a, name, **{**lists, "label": "unsigned"})
    packets = received(peer)
    signed, unsigned = ([each for each in packets if each.properties.label == label] for label in ("all", "unsigned"))
    assert (len(signed), len(unsigned)) == (2, 2)
    for packet in signed:
        assert packet.multi_queue is not None
        signature = packet.multi_queue.signature.signature
        assert [version for version in (1, 2, 3) if second.verifies(packet.encode(), version, signature, PUBLIC)] == [3]
        assert security_of(packet).signature == b""
        assert security_of(packet).sender_cert == certificate(1)
    for packet in unsigned:
        assert packet.multi_queue is not None
        assert packet.multi_queue.signature.signature == b""


@pytest.mark.parametrize("lists", ["admin_queue", "response_queue"])
def test_lists_that_no_signature_would_cover_are_refused_when_they_are_given(a: Host, peer: Peer, lists: str) -> None:
    two: Any = {lists: [rf"DIRECT=OS:a\private$\{each}" for each in ("one", "two")]}
    if lists == "admin_queue":
        two["acknowledge"] = "full-receive"
    with pytest.raises(InvalidParameter, match="does not cover several response or administration queues"):
        send(a, name_at(peer), sign=True, **two)
    send(a, name_at(peer), **two)
    assert len(received(peer)) == 1


@pytest.mark.spec("MQDMPR-3.1.1.12-10", "MQDMPR-3.1.1.12-43", "MQDMPR-3.1.1.12-44")
def test_only_a_signed_message_has_a_certificate_and_a_sender(a: Host, peer: Peer) -> None:
    send(a, name_at(peer))
    trust(a, peer)
    send(a, name_at(peer), encrypt=True)
    send(a, name_at(peer), sign=True)
    unsigned, encrypted, signed = received(peer)
    assert unsigned.security is None
    assert (security_of(encrypted).sender_cert, security_of(encrypted).signature) == (b"", b"")
    assert (security_of(encrypted).sender_type, security_of(encrypted).security_id) == (NO_SENDER, b"")
    assert security_of(signed).sender_cert == certificate(1)
    sender = a.node.administrator.sid.encode()
    assert (security_of(signed).sender_type, security_of(signed).security_id) == (SENDER_SID, sender)


@pytest.mark.spec("MQMQ-2.2.20.6-04", "MQMQ-2.2.20.6-06", "MQMQ-2.2.19.3-17")
def test_a_signed_message_names_its_sender_and_claims_no_result(a: Host, peer: Peer) -> None:
    send(a, name_at(peer), sign=True)
    (packet,) = received(peer)
    security = security_of(packet)
    # AU and AS are clear, and DE says that the default provider signed: no other one is named.
    assert security.flags == SENDER_SID | security_header.DE | security_header.AI
    assert security.security_id == a.node.administrator.sid.encode()
    assert security.provider_info == b""
    assert packet.properties.hash_algorithm == 0x800E


def works(host: Host) -> list[type[object]]:
    """The kinds of work with keys that were done, in order."""
    return [type(each.request) for each in host.key_desk.done if not isinstance(each.request, NoteAnswer)]


@pytest.mark.spec("MQQB-3.1.7.1-03")
def test_the_signature_covers_the_body_in_the_clear_and_an_expired_message_is_not_encrypted(
    net: Net, a: Host, peer: Peer
) -> None:
    trust(a, peer)
    send(a, name_at(peer), b"a secret body", sign=True, encrypt=True)
    (packet,) = received(peer)
    security = security_of(packet)
    algorithm, symmetric = second.opened_blob(security.encryption_key, key(9).private_numbers())
    assert not second.verifies(packet.encode(), 2, security.signature, PUBLIC)
    packet.properties.message_body = second.decrypt(algorithm, symmetric, packet.properties.message_body)
    assert packet.properties.message_body == b"a secret body"
    assert second.verifies(packet.encode(), 2, security.signature, PUBLIC)
    assert works(a) == [SignFor, MakeKeys]
    # The next one expires while its queue is paused: it has a signature, and no key is made for it.
    a.hold(name_at(peer))
    a.pause(name_at(peer))
    send(a, name_at(peer), b"late", sign=True, encrypt=True, algorithm="aes128", time_to_reach_queue=10)
    net.advance(11)
    a.resume(name_at(peer))
    assert works(a) == [SignFor, MakeKeys, SignFor]
    assert len(received(peer)) == 1
    # A message is counted after it was encrypted. Without a key it has no number on the session.
    a.pause(name_at(peer))
    send(a, name_at(peer), b"no key", sign=True, encrypt=True)
    send(a, name_at(peer), b"behind")
    trust(a, ())
    a.resume(name_at(peer))
    assert [each.properties.message_body for each in received(peer)][1:] == [b"behind"]
    (session,) = a.network.open_sessions
    assert session.counts.message_sent_count == 2
