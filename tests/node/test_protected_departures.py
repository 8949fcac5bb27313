"""Messages that leave encrypted: the keys, their caches and what happens without keys (MS-MQQB 3.1.7.1.5)."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer, letter
from tests.node.test_protected_arrivals import (
    ALICE,
    BAD_ENCRYPTION,
    CIPHERS,
    OLD_CIPHERS,
    certificate,
    connected,
    encrypt,
    key,
    sign,
)
from tests.node.test_protected_arrivals import add as add_receiver
from tests.security import second
from waypost.api.operations import Send
from waypost.api.properties import MessageProperties
from waypost.errors import InvalidParameter, PublicKeyUnknown, ServiceNotAvailable, WaypostError
from waypost.node.effects import KeyWork, MakeKeys
from waypost.node.protection import CERT_LIFETIME, KEY_LIFETIME, RECEIVE_KEYS, SEND_KEYS, USER_CERTS
from waypost.security.aging_cache import AgingCache
from waypost.security.ciphers import PROVIDER_TYPES, PROVIDERS, CryptoServiceProvider
from waypost.security.protection_facts import ExchangeKeys, ProtectionFacts
from waypost.transfer.session import SessionState
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


def trust(
    host: Host,
    peers: Peer | Sequence[Peer],
    number: int = 9,
    bits: int = 1024,
    providers: Iterable[CryptoServiceProvider] = CryptoServiceProvider,
) -> None:
    """Pin a key for peers, as that of these providers. Nothing else is pinned any more."""
    numbers = key(number, bits).public_key().public_numbers()
    blob = PublicKeyBlob.from_numbers(KeyType.CALG_RSA_KEYX, numbers.e, numbers.n)
    keys = dict.fromkeys(providers, blob)
    pins: dict[bytes | str, ExchangeKeys] = {
        each.address: keys for each in ([peers] if isinstance(peers, Peer) else peers)
    }
    host.node.protection.facts_changed(ProtectionFacts({}, pins))


def send(host: Host, name: str, *bodies: bytes, **properties: Any) -> None:
    """Send bodies as a program does."""
    call = host._call()
    host.handlers.start(call, Send(name=name, like=MessageProperties(**properties), bodies=[*bodies] or [b"body"]))
    host.net.settle()
    answer = host.answers[call.request]
    if isinstance(answer, WaypostError):
        raise answer


def received(peer: Peer) -> list[UserMessage]:
    return peer.of(UserMessage)


@pytest.mark.spec("MQQB-3.1.7.1.5-09", "MQQB-3.1.7.1.5-10", "MQQB-3.1.7.1.5.2-01", "MQQB-3.1.7.1.5-01")
@pytest.mark.spec("MQDMPR-3.1.1.12-09", "MQDMPR-3.1.1.12-47", "MQMQ-2.2.20.6-05", "MQMQ-2.2.19.3-20")
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
    # The private key of somebody else does not show the symmetric key.
    with pytest.raises((AssertionError, ValueError)):
        assert second.opened_blob(packet.security.encryption_key, key(8).private_numbers())[1] == symmetric
    a.send(name, letter("clear"))
    clear = received(peer)[-1]
    assert (clear.security, clear.properties.privacy_level) == (None, 0)
    assert clear.properties.message_body == b"clear"


@pytest.mark.spec("MQQB-2.4.2-03")
@pytest.mark.parametrize("bits", [1024, 1536, 2048])
def test_the_encrypted_key_is_as_long_as_the_key_of_the_destination(net: Net, bits: int) -> None:
    a, peer, name = add(net)
    trust(a, peer, 7, bits)
    a.send(name, secret(b"a secret body"))
    (packet,) = received(peer)
    assert packet.security is not None
    blob = packet.security.encryption_key
    assert len(blob) == 12 + bits // 8
    # The second implementation reverses the bytes and takes the padding of RSAES-PKCS1-v1_5 off.
    algorithm, symmetric = second.opened_blob(blob, key(7, bits).private_numbers())
    assert second.decrypt(algorithm, symmetric, packet.properties.message_body) == b"a secret body"


BASE, ENHANCED, ADVANCED = CryptoServiceProvider
# EncryptionAlgorithm, bytes of the key, and PrivacyLevel.
WORDS: dict[str, tuple[CryptoServiceProvider, int, int, int]] = {
    "": (ADVANCED, 0x6610, 32, 5),
    "aes256": (ADVANCED, 0x6610, 32, 5),
    "aes192": (ADVANCED, 0x660F, 24, 5),
    "aes128": (ADVANCED, 0x660E, 16, 5),
    "rc2": (ENHANCED, 0x6602, 16, 3),
    "rc4": (ENHANCED, 0x6801, 16, 3),
}


@pytest.mark.spec("MQQB-3.1.7.1.5-03", "MQQB-3.1.7.1.5-04", "MQQB-3.1.7.1.5-05", "MQQB-3.1.7.1.5-06")
@pytest.mark.spec("MQQB-3.1.1.3-02", "MQQB-3.1.3.1-05", "MQQB-3.1.3.1-06", "MQQB-3.1.7.1.5-08")
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    "providers", [(BASE, ENHANCED, ADVANCED), (BASE, ENHANCED), (BASE, ADVANCED), (ENHANCED,), (ADVANCED,), (BASE,)]
)
def test_a_message_uses_the_provider_of_its_algorithm_or_is_not_sent(
    net: Net, word: str, providers: tuple[CryptoServiceProvider, ...]
) -> None:
    a, peer, name = add(net)
    trust(a, peer, providers=providers)
    provider, algorithm, size, level = WORDS[word]
    send(a, name, b"a secret body", encrypt=True, dead_letter=True, **({"algorithm": word} if word else {}))
    if provider not in providers:
        assert received(peer) == []
        (dead,) = a.messages(";deadletter")
        assert (dead.body, dead.message_class) == (b"a secret body", BAD_ENCRYPTION)
        assert f"no known key for {provider.value}" in str([notice.facts for notice in a.notices])
        return
    (packet,) = received(peer)
    assert packet.security is not None
    assert packet.security.provider is not None
    assert packet.security.provider.provider_name == provider.value
    assert (packet.properties.encryption_algorithm, packet.properties.privacy_level) == (algorithm, level)
    found, symmetric = second.opened_blob(packet.security.encryption_key, key(9).private_numbers())
    assert (found, len(symmetric)) == (algorithm, size)
    # SendEnhancedRC2Using40BitKeys is FALSE: the last 88 bits are not zero.
    assert any(symmetric[-11:])


@pytest.mark.spec("MQQB-3.1.7.1.5-06", "MQDMPR-3.1.1.12-09", "MQQB-6-06")
def test_no_body_is_encrypted_with_40_bits(net: Net) -> None:
    a, peer, name = add(net)
    trust(a, peer)
    for algorithm in (0x6801, 0x6602):
        a.send(name, secret(b"a secret body", 1, algorithm, negative_journaling_requested=True))
    assert received(peer) == []
    assert [dead.message_class for dead in a.messages(";deadletter")] == [BAD_ENCRYPTION] * 2


@pytest.mark.spec("MQQB-3.1.7.1.5-01", "MQQB-3.1.7.1.5-06", "MQQB-5.1-01")
def test_a_direct_name_is_refused_unless_its_keys_are_pinned(net: Net) -> None:
    a, peer, name = add(net)
    with pytest.raises(PublicKeyUnknown, match="waypost key trust"):
        send(a, name, encrypt=True)
    assert received(peer) == []
    trust(a, peer)
    send(a, name, b"a secret body", encrypt=True)
    (packet,) = received(peer)
    assert packet.security is not None
    algorithm, symmetric = second.opened_blob(packet.security.encryption_key, key(9).private_numbers())
    assert second.decrypt(algorithm, symmetric, packet.properties.message_body) == b"a secret body"


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


@pytest.mark.spec("MQQB-3.1.3.2-07")
def test_a_new_session_is_silent_and_has_no_keys(net: Net) -> None:
    a, peer, name = add(net)
    peer.dial(a)
    (session,) = a.network.sessions
    assert session.state is SessionState.WAITING_EC_MSG
    assert (session.session_active, session._received_ack, session.is_direct) == (False, False, False)
    assert session.recoverable_ack_send_timeout_ms == 0xFFFF_FFFF
    # The keys of a peer do not come with a session: they are unknown until they are pinned, and then used on it.
    peer.hang_up()
    a.send(name, letter("clear"))
    (session,) = a.network.open_sessions
    with pytest.raises(PublicKeyUnknown):
        send(a, name, encrypt=True)
    trust(a, peer)
    send(a, name, encrypt=True)
    assert a.network.open_sessions == [session]
    security = received(peer)[-1].security
    assert security is not None
    assert second.opened_blob(security.encryption_key, key(9).private_numbers())[0] == 0x6610


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


@pytest.mark.spec("MQQB-3.1.6.11-01", "MQQB-3.1.6.12-01")
def test_old_keys_are_removed_and_the_others_a_minute_after_their_end(net: Net) -> None:
    a = net.add("a")
    first, later = net.add_peer("first"), net.add_peer("later")
    trust(a, [first, later])
    cache = a.node.protection.send_keys
    a.send(rf"DIRECT=TCP:{first.address}\private$\q", secret(b"1"))
    first.acknowledge()
    net.advance(300)
    a.send(rf"DIRECT=TCP:{later.address}\private$\q", secret(b"2"))
    later.acknowledge()
    net.advance(299)
    assert len(cache) == 2
    net.advance(2)
    assert len(cache) == 1
    # 600 seconds and a minute, minus the age of the oldest, which is 300.
    net.advance(358)
    assert len(cache) == 1
    net.advance(2)
    assert len(cache) == 0


@pytest.mark.spec("MQQB-3.1.1.3-01", "MQQB-3.1.3.1-04")
def test_a_queue_manager_starts_without_keys_and_keeps_53_to_send_with(net: Net) -> None:
    a = net.add("a")
    peers = [net.add_peer(f"peer{number}") for number in range(54)]
    trust(a, peers)
    cache = a.node.protection.send_keys
    assert len(cache) == 0
    for number, peer in enumerate(peers):
        assert len(cache) == number
        a.send(rf"DIRECT=TCP:{peer.address}\private$\q", secret(b"body"))
        assert received(peer)
    # The 26 oldest made room for the last one.
    assert len(cache) == 54 - 26
    blobs = [_blob(peer) for peer in peers]
    for number, is_kept in ((53, True), (26, True), (25, False)):
        a.send(rf"DIRECT=TCP:{peers[number].address}\private$\q", secret(b"body"))
        assert (_blob(peers[number]) == blobs[number]) is is_kept
    a.crash_and_start()
    assert len(a.node.protection.send_keys) == 0


def _blob(peer: Peer) -> bytes:
    security = received(peer)[-1].security
    assert security is not None
    return security.encryption_key


@pytest.mark.spec("MQQB-3.1.1.3-01", "MQQB-3.1.3.1-04")
def test_a_queue_manager_starts_without_keys_and_keeps_127_to_receive_with(net: Net) -> None:
    a = add_receiver(net)
    peer = connected(net, a)
    cache = a.node.protection.receive_keys
    assert len(cache) == 0
    ciphers = CIPHERS + OLD_CIPHERS
    packets = [
        encrypt(peer.message(r"DIRECT=OS:a\private$\q", str(number)), *ciphers[number % len(ciphers)])
        for number in range(128)
    ]
    peer.send(*packets[:127])
    assert len(cache) == 127
    peer.send(packets[127])
    assert (len(cache), len(a.bodies("q"))) == (128 - 63, 128)
    net.advance(599)
    assert len(cache) == 128 - 63
    net.advance(2)
    assert len(cache) == 0
    peer = connected(net, a)
    peer.send(encrypt(peer.message(r"DIRECT=OS:a\private$\q", "another")))
    assert len(cache) == 1
    a.crash_and_start()
    assert len(a.node.protection.receive_keys) == 0


@pytest.mark.spec("MQQB-3.1.1.3-01", "MQQB-3.1.3.1-03")
def test_a_queue_manager_starts_without_certificates_and_keeps_53_for_20_minutes(net: Net) -> None:
    certificates = [certificate(1, to_day=1000 + number) for number in range(54)]
    a = add_receiver(net, certificates=dict.fromkeys(certificates, ALICE))
    peer = connected(net, a)
    cache = a.node.protection.user_certs
    assert len(cache) == 0
    for number, each in enumerate(certificates):
        assert len(cache) == number
        peer.send(sign(peer.message(r"DIRECT=OS:a\private$\q", str(number)), cert=each))
    assert (len(cache), len(a.bodies("q"))) == (54 - 26, 54)
    net.advance(1199)
    assert len(cache) == 54 - 26
    net.advance(2)
    assert len(cache) == 0
    peer = connected(net, a)
    peer.send(sign(peer.message(r"DIRECT=OS:a\private$\q", "again"), cert=certificates[0]))
    assert len(cache) == 1
    a.crash_and_start()
    assert len(a.node.protection.user_certs) == 0


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


def key_to_make(host: Host) -> KeyWork:
    """The next symmetric key that the host asks for."""
    found = next(each for each in host.key_desk.held if isinstance(each.request, MakeKeys))
    host.key_desk.held.remove(found)
    return found


def test_a_message_waits_while_work_with_keys_fails(net: Net) -> None:
    a, peer, name = add(net)
    trust(a, peer)
    a.key_desk.is_held = True
    a.send(name, secret(b"a secret body", negative_journaling_requested=True))
    for _ in range(3):
        a.node.kernel.job_done(key_to_make(a).job, ServiceNotAvailable("the process has ended"), net.now)
        net.advance(2)
    assert received(peer) == []
    assert a.messages(";deadletter") == []
    assert [notice.event for notice in a.notices].count("encryption delayed") == 3
    a.key_desk.is_held = False
    a.key_desk.carry_out(key_to_make(a), a.node.kernel, net.now)
    net.settle()
    assert len(received(peer)) == 1


def test_a_public_key_that_cannot_encrypt_ends_the_message(net: Net) -> None:
    a, peer, name = add(net)
    trust(a, peer)
    a.key_desk.is_held = True
    a.send(name, secret(b"a secret body", negative_journaling_requested=True))
    failed = key_to_make(a)
    a.node.kernel.job_done(failed.job, InvalidParameter("the public key cannot encrypt"), net.now)
    net.settle()
    (dead,) = a.messages(";deadletter")
    assert dead.message_class == BAD_ENCRYPTION
    assert received(peer) == []
