"""Messages that leave encrypted: the keys, their caches and what happens without keys (MS-MQQB 3.1.7.1.5)."""

from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer, letter
from tests.node.test_protected_arrivals import BAD_ENCRYPTION, CIPHERS, certificate, connected, key, sign
from tests.node.test_protected_arrivals import add as add_receiver
from tests.security import second
from waypost.errors import InvalidParameter, ServiceNotAvailable
from waypost.node.protection import CERT_LIFETIME, KEY_LIFETIME, RECEIVE_KEYS, SEND_KEYS, USER_CERTS
from waypost.security.aging_cache import AgingCache
from waypost.security.ciphers import PROVIDER_TYPES, PROVIDERS, CryptoServiceProvider
from waypost.security.protection_facts import ProtectionFacts
from waypost.wire import security_header
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.keys import KeyType, PublicKeyBlob
from waypost.wire.management import ConnectionStatus
from waypost.wire.user_message import UserMessage


@pytest.fixture
def net() -> Net:
    return Net()


def secret(body: bytes, level: int = 5, algorithm: int = 0x6610, **changes: Any) -> Any:
    provider = PROVIDERS[PrivacyLevel(level)]
    return letter(
        "secret",
        body=body,
        privacy_level=level,
        encryption_algorithm=algorithm,
        authentication_provider_type=PROVIDER_TYPES[provider],
        authentication_provider_name=provider.value,
        **changes,
    )


def add(net: Net) -> tuple[Host, Peer, str]:
    host, peer = net.add("a"), net.add_peer()
    return host, peer, rf"DIRECT=TCP:{peer.address}\private$\q"


def trust(host: Host, peer: Peer, number: int = 9) -> None:
    numbers = key(number).public_key().public_numbers()
    blob = PublicKeyBlob.from_numbers(KeyType.CALG_RSA_KEYX, numbers.e, numbers.n)
    keys = dict.fromkeys(CryptoServiceProvider, blob)
    host.node.protection.facts_changed(ProtectionFacts({}, {peer.address: keys}))


def received(peer: Peer) -> list[UserMessage]:
    return peer.of(UserMessage)


@pytest.mark.spec("MQQB-3.1.7.1.5-09", "MQQB-3.1.7.1.5-10", "MQQB-3.1.7.1.5.2-01")
@pytest.mark.parametrize(("level", "algorithm", "size"), CIPHERS)
def test_a_body_is_sent_as_ciphertext_that_another_implementation_decrypts(
    net: Net, level: int, algorithm: int, size: int
) -> None:
    a, peer, name = add(net)
    trust(a, peer)
    a.send(name, secret(b"a secret body", level, algorithm))
    (packet,) = received(peer)
    assert packet.security is not None
    assert packet.security.flags == security_header.EB | security_header.AI
    provider = packet.security.provider
    assert provider is not None
    assert provider.provider_name == PROVIDERS[PrivacyLevel(level)].value
    found, symmetric = second.opened_blob(packet.security.encryption_key, key(9).private_numbers())
    assert (found, len(symmetric)) == (algorithm, size)
    ciphertext = packet.properties.message_body
    assert second.decrypt(algorithm, symmetric, ciphertext) == b"a secret body"
    assert packet.properties.allocation_remainder == b""
    assert b"a secret" not in ciphertext


@pytest.mark.spec("MQQB-3.1.7.1.5-07", "MQQB-3.1.1.3.3-01", "MQQB-3.1.6.11-01", "MQQB-3.1.2.10-01")
def test_a_key_is_used_for_ten_minutes_but_each_message_with_rc4_has_another(net: Net) -> None:
    a, peer, name = add(net)
    trust(a, peer)
    for _ in range(2):
        a.send(name, secret(b"aes"))
        a.send(name, secret(b"rc4", 3, 0x6801))
    blobs = [packet.security.encryption_key for packet in received(peer) if packet.security is not None]
    assert len(blobs) == 4
    assert blobs[0] == blobs[2]
    assert len(set(blobs)) == 3
    net.advance(KEY_LIFETIME + 61)
    assert len(a.node.protection.send_keys) == 0
    a.send(name, secret(b"aes"))
    last = received(peer)[-1].security
    assert last is not None
    assert last.encryption_key not in blobs


@pytest.mark.spec("MQQB-3.1.7.1.5.1-01", "MQQB-3.1.7.1.5.1-02", "MQQB-3.1.7.1.5.1-03")
@pytest.mark.parametrize("is_transactional", [False, True])
def test_without_keys_a_message_becomes_a_dead_letter_and_is_never_sent(net: Net, *, is_transactional: bool) -> None:
    a, peer, name = add(net)
    a.hold(name)
    a.pause(name)
    tx = a.begin() if is_transactional else None
    a.send(name, secret(b"a secret body", negative_journaling_requested=True), tx)
    a.send(name, letter("behind"), tx)
    if tx is not None:
        a.commit(tx)
    a.resume(name)
    (dead,) = a.messages(";deadxact" if is_transactional else ";deadletter")
    assert (dead.body, dead.message_class) == (b"a secret body", BAD_ENCRYPTION)
    assert peer.bodies == ["behind"]
    history = a.outgoing(name).connection_history
    assert ConnectionStatus.SERVER_CERTIFICATE_FAILURE in {each.status for each in history}
    assert a.network.statistics.messages_not_encrypted == 1
    assert [notice.event for notice in a.notices].count("message not encrypted") == 1


def test_keys_that_are_pinned_while_a_message_waits_are_used(net: Net) -> None:
    a, peer, name = add(net)
    a.hold(name)
    a.pause(name)
    a.send(name, secret(b"a secret body"))
    trust(a, peer, 8)
    trust(a, peer, 9)
    a.resume(name)
    (packet,) = received(peer)
    assert packet.security is not None
    assert second.opened_blob(packet.security.encryption_key, key(9).private_numbers())[0] == 0x6610


@pytest.mark.spec("MQQB-3.1.1.3.4-01", "MQQB-3.1.5.8.3-06", "MQQB-3.1.5.8.3-08", "MQQB-3.1.6.13-01")
def test_a_registered_certificate_is_cached_for_twenty_minutes(net: Net) -> None:
    a = add_receiver(net)
    peer = connected(net, a)
    peer.send(sign(peer.message(r"DIRECT=OS:a\private$\q", "m")))
    protection = a.node.protection
    assert len(protection.user_certs) == 1
    assert certificate(1) in {each.certificate for each in protection.facts.registered.values()}
    net.advance(CERT_LIFETIME + 61)
    assert len(protection.user_certs) == 0
    assert a.bodies("q") == ["m"]


def test_a_full_cache_discards_the_older_half() -> None:
    assert (RECEIVE_KEYS, SEND_KEYS, USER_CERTS) == (127, 53, 53)
    cache: AgingCache[int, int] = AgingCache(4, 600.0)
    for number in range(4):
        cache.add(number, number, float(number))
    cache.add(4, 4, 4.0)
    assert [number for number in range(5) if cache.get(number, 5.0) is not None] == [2, 3, 4]
    assert cache.get(2, 602.0) is None
    assert cache.prune(602.5) == 603.0
    assert (len(cache), cache.prune(10_000.0), len(cache)) == (2, None, 0)


def test_a_message_waits_while_work_with_keys_fails(net: Net) -> None:
    a, peer, name = add(net)
    trust(a, peer)
    a.key_desk.is_held = True
    a.send(name, secret(b"a secret body", negative_journaling_requested=True))
    for _ in range(3):
        a.node.kernel.job_done(a.key_desk.held.pop(0).job, ServiceNotAvailable("the process has ended"), net.now)
        net.advance(2)
    assert received(peer) == []
    assert a.messages(";deadletter") == []
    assert [notice.event for notice in a.notices].count("encryption delayed") == 3
    a.key_desk.is_held = False
    a.key_desk.carry_out(a.key_desk.held.pop(0), a.node.kernel, net.now)
    net.settle()
    assert len(received(peer)) == 1


def test_a_public_key_that_cannot_encrypt_ends_the_message(net: Net) -> None:
    a, peer, name = add(net)
    trust(a, peer)
    a.key_desk.is_held = True
    a.send(name, secret(b"a secret body", negative_journaling_requested=True))
    failed = a.key_desk.held.pop(0)
    a.node.kernel.job_done(failed.job, InvalidParameter("the public key cannot encrypt"), net.now)
    net.settle()
    (dead,) = a.messages(";deadletter")
    assert dead.message_class == BAD_ENCRYPTION
    assert received(peer) == []
