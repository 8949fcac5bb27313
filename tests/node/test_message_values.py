"""The body, the hash and the encryption of a message, as they travel: MS-MQDMPR 3.1.1.12."""

from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer, letter
from tests.node.test_directory_keys import exchange
from tests.node.test_protected_arrivals import (
    ADMIN,
    BAD_SIGNATURE,
    Q,
    add,
    certificate,
    connected,
    key,
    pkcs8,
    sign,
)
from tests.node.test_protected_departures import received, send, trust
from tests.node.test_signed_departures import HASHES
from waypost.security.protection_facts import ProtectionFacts, Registered, certificate_digest, keys_by_provider
from waypost.wire import security_header
from waypost.wire.user_message import UserMessage

# The algorithms that bodies can be encrypted with, and those that a clear message may name.
WORDS = {"rc2": 0x6602, "rc4": 0x6801, "aes128": 0x660E, "aes192": 0x660F, "aes256": 0x6610}
NAMES = {
    **WORDS,
    "des": 0x6601,
    "seal": 0x6802,
    "rsa": 0x2400,
    "dss": 0x2200,
    "rsa keys": 0xA400,
}


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


def name_at(peer: Peer) -> str:
    return rf"DIRECT=TCP:{peer.address}\private$\q"


@pytest.mark.spec("MQDMPR-3.1.1.12-25")
@pytest.mark.parametrize("word", ["", *WORDS])
@pytest.mark.parametrize("body", [b"", b"\0", bytes(range(256)), bytes(100_001)], ids=len)
def test_a_body_arrives_bit_for_bit_and_differs_on_the_way_only_if_it_is_encrypted(
    net: Net, a: Host, word: str, body: bytes
) -> None:
    b = net.add("b")
    b.create("q")
    b.key_desk.exchange = (pkcs8(key(9)),)
    name = rf"DIRECT=TCP:{b.address}\private$\q"
    a.node.protection.facts_changed(ProtectionFacts(pins={b.address: keys_by_provider(exchange(9))}))
    protected: dict[str, Any] = {"encrypt": True, "algorithm": word} if word else {}
    send(a, name, body, **protected)
    (packet,) = net.packets(UserMessage, "a", "b")
    assert (packet.properties.message_body == body) is (not word or (word == "rc4" and not body))
    b.crash_and_start()
    assert b.receive("q").body == body


@pytest.mark.spec("MQDMPR-3.1.1.12-36")
@pytest.mark.parametrize("hashed", range(0x8000, 0x8010), ids=hex)
def test_a_signature_has_one_of_four_hashes(net: Net, hashed: int) -> None:
    """MD2 (0x8001) and MD4 (0x8002) are refused like the numbers of no hash: readings MQQB 7.45."""
    a = add(net)
    peer = connected(net, a)
    is_taken = hashed in HASHES.values()
    packet = sign(peer.message(Q, "m", **ADMIN), hashed=hashed if is_taken else 0x800E)
    packet.properties.hash_algorithm = hashed
    peer.send(packet)
    assert [each.hash_algorithm for each in a.messages("q")] == ([hashed] if is_taken else [])
    assert a.classes("admin") == ([0x0002] if is_taken else [BAD_SIGNATURE])


@pytest.mark.spec("MQDMPR-3.1.1.12-37", "MQDMPR-3.1.1.12-38")
def test_a_message_names_sha_1_and_rc4_but_is_signed_with_sha_512_and_encrypted_with_aes_256(
    a: Host, peer: Peer
) -> None:
    trust(a, peer)
    send(a, name_at(peer))
    send(a, name_at(peer), sign=True)
    send(a, name_at(peer), encrypt=True)
    named = [(each.properties.hash_algorithm, each.properties.encryption_algorithm) for each in received(peer)]
    # readings MQQB 7.45, MQQB 7.42.
    assert named == [(0x8004, 0x6801), (0x800E, 0x6801), (0x8004, 0x6610)]


@pytest.mark.spec("MQDMPR-3.1.1.12-38")
@pytest.mark.parametrize("algorithm", NAMES.values(), ids=NAMES)
def test_a_clear_message_may_name_any_encryption_algorithm(net: Net, a: Host, algorithm: int) -> None:
    b = net.add("b")
    b.create("q")
    a.send(r"DIRECT=OS:b\private$\q", letter("m", encryption_algorithm=algorithm))
    (packet,) = net.packets(UserMessage, "a", "b")
    assert packet.properties.encryption_algorithm == algorithm
    message = b.receive("q")
    assert (message.encryption_algorithm, message.body) == (algorithm, b"m")


@pytest.mark.spec("MQDMPR-3.1.1.12-50")
def test_a_signed_message_has_the_base_provider_and_an_encrypted_one_that_of_its_algorithm(net: Net, a: Host) -> None:
    b = net.add("b")
    b.create("q")
    b.key_desk.exchange = (pkcs8(key(9)),)
    registered = Registered(certificate(1), a.node.administrator.sid.encode(), 0, 0xFFFF_FFFF)
    b.node.protection.facts_changed(ProtectionFacts({certificate_digest(certificate(1)): registered}))
    a.node.protection.facts_changed(ProtectionFacts(pins={b.address: keys_by_provider(exchange(9))}))
    name = rf"DIRECT=TCP:{b.address}\private$\q"
    send(a, name, sign=True)
    (packet,) = net.packets(UserMessage, "a", "b")
    assert packet.security is not None
    assert packet.security.flags & security_header.DE
    assert packet.security.provider is None
    for word in WORDS:
        send(a, name, encrypt=True, algorithm=word)
    found = [(each.authentication_provider_type, each.authentication_provider_name) for each in b.messages("q")]
    signed, *encrypted = found
    assert signed == (1, "Microsoft Base Cryptographic Provider, v1.0")
    # readings MQQB 7.42: the names of MS-MQQB, and the provider of AES.
    enhanced = 1, "Microsoft Enhanced Cryptographic Provider v1.0"
    advanced = 24, "Microsoft Enhanced RSA and AES Cryptographic Provider"
    assert encrypted == [enhanced] * 2 + [advanced] * 3
