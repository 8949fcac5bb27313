"""Signed and encrypted messages that arrive: what is verified is delivered, and everything else is refused.

The packets are signed and encrypted by tests.security.second, which shares no code with src.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import CertificateBuilder, Name, NameAttribute, random_serial_number
from cryptography.x509.oid import NameOID

from tests.node.hosts import Host, Net, Peer
from tests.security import second
from waypost.api.local import StoreUser
from waypost.api.operations import SetAcl
from waypost.client.doctor_rights import rights_checks
from waypost.clock import Now
from waypost.core.message_values import AuthenticationLevel, SenderIdentifierType
from waypost.drive.keys.rsa_work import perform
from waypost.errors import ServiceNotAvailable, StoreError
from waypost.node.effects import EndKeys
from waypost.node.explain import explain_queue
from waypost.node.network.refusals import Reason
from waypost.security.protection_facts import ProtectionFacts, Registered, certificate_digest
from waypost.security.work import UnwrapKeys
from waypost.transfer.settings import TransferSettings
from waypost.wire import security_header, user_header
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import SessionAck
from waypost.wire.keys import SimpleBlob
from waypost.wire.message_class import MessageClass
from waypost.wire.multi_queue import MultiQueueFormatHeader, from_format_name
from waypost.wire.property_values import QueuePrivacy
from waypost.wire.security_descriptor import Acl, SecurityDescriptor
from waypost.wire.security_header import SENDER_QUEUE_MANAGER, SENDER_SID, SecurityHeader
from waypost.wire.sid import Sid
from waypost.wire.transactional_acks import FinalAck
from waypost.wire.user_message import UserMessage

ALICE, BOB = Sid(5, (21, 1, 2, 3, 1104)), Sid(5, (21, 1, 2, 3, 1105))
BAD_SIGNATURE = MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE
BAD_ENCRYPTION = MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION
NO_QUEUE = MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q
ADMIN: dict[str, Any] = {
    "administration_queue_format_name": FormatName.parse(r"DIRECT=OS:a\private$\admin"),
    "acknowledgements_requested": 0x0F,
}
TX = (5, 1, 0)
Q = r"DIRECT=OS:a\private$\q"
# PrivacyLevel, EncryptionAlgorithm and the bytes of a key.
CIPHERS = [(5, 0x6610, 32), (5, 0x660F, 24), (5, 0x660E, 16), (3, 0x6602, 16), (3, 0x6801, 16)]
OLD_CIPHERS = [(1, 0x6801, 5), (1, 0x6801, 16), (1, 0x6602, 16)]


def key(number: int, bits: int = 1024) -> RSAPrivateKey:
    return _key(number, bits)


@cache
def _key(_number: int, bits: int) -> RSAPrivateKey:
    return generate_private_key(65537, bits)


@cache
def certificate(number: int, from_day: int = -1, to_day: int = 10_000) -> bytes:
    """A certificate for a key, valid between days after the start of the network's clock."""
    name = Name([NameAttribute(NameOID.COMMON_NAME, f"user {number}")])
    start = datetime.fromtimestamp(Net().now.wall, UTC)
    builder = CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key(number).public_key(),
        serial_number=random_serial_number(),
        not_valid_before=start + timedelta(days=from_day),
        not_valid_after=start + timedelta(days=to_day),
    )
    return builder.sign(key(number), SHA256()).public_bytes(Encoding.DER)


def pkcs8(found: RSAPrivateKey) -> bytes:
    return found.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


@pytest.fixture
def net() -> Net:
    return Net()


def add(net: Net, *, certificates: dict[bytes, Sid] | None = None, **settings: object) -> Host:
    """A host with the exchange key 9, which knows the certificate of Alice."""
    host = net.add("a", **{"transfer": TransferSettings(send_insecure_nacks=True), **settings})
    for name in ("q", "other", "admin"):
        host.create(name)
    host.create("t", transactional=True)
    host.key_desk.exchange = (pkcs8(key(9)),)
    known = {certificate(1): ALICE} if certificates is None else certificates
    facts = {certificate_digest(each): Registered(each, sid.encode(), 0, 0xFFFF_FFFF) for each, sid in known.items()}
    host.node.protection.facts_changed(ProtectionFacts(facts))
    return host


def registered(host: Host, *certificates: bytes, sid: Sid = ALICE) -> bytes:
    """The first of these certificates, which the host knows now, and no others."""
    known = {certificate_digest(each): Registered(each, sid.encode(), 0, 0xFFFF_FFFF) for each in certificates}
    host.node.protection.facts_changed(ProtectionFacts(known))
    return certificates[0]


def connected(net: Net, host: Host) -> Peer:
    peer = net.add_peer()
    peer.connect(host)
    return peer


def sign(
    packet: UserMessage,
    version: int = 2,
    *,
    signer: int = 1,
    cert: bytes | None = None,
    sid: Sid | None = ALICE,
    hashed: int = 0x800E,
) -> UserMessage:
    """Sign a packet as its sender does."""
    packet.properties.hash_algorithm = hashed
    flags = 0 if sid is None else SENDER_SID
    packet.security = SecurityHeader(
        flags | security_header.DE | security_header.AI,
        b"" if sid is None else sid.encode(),
        sender_cert=certificate(signer) if cert is None else cert,
    )
    signature = second.sign(packet.encode(), version, key(signer).private_numbers())
    if version == 3:
        assert packet.multi_queue is not None
        packet.multi_queue.signature.signature = signature
    else:
        packet.security.signature = signature
    return packet


def encrypt(
    packet: UserMessage, level: int = 5, algorithm: int = 0x6610, size: int = 32, *, number: int = 9
) -> UserMessage:
    """Encrypt a packet as its sender does."""
    symmetric = bytes(range(1, size + 1))
    if packet.security is None:
        packet.security = SecurityHeader(security_header.AI)
    packet.security.flags |= security_header.EB
    packet.security.encryption_key = second.simple_blob(algorithm, symmetric, key(number).public_key().public_numbers())
    packet.properties.privacy_level, packet.properties.encryption_algorithm = level, algorithm
    packet.properties.message_body = second.encrypt(algorithm, symmetric, packet.properties.message_body)
    return packet


@pytest.mark.spec("MQQB-3.1.5.8.3-02", "MQQB-3.1.5.8.3-03", "MQMQ-2.2.20.6-04", "MQMQ-2.2.19.3-16", "MQQB-6-01")
@pytest.mark.parametrize("hashed", [0x8003, 0x8004, 0x800C, 0x800E])
@pytest.mark.parametrize(("version", "level"), [(1, AuthenticationLevel.SIG10), (2, AuthenticationLevel.SIG20)])
@pytest.mark.parametrize("by_address", [False, True])
def test_a_signature_of_another_implementation_is_verified(
    net: Net, version: int, level: AuthenticationLevel, hashed: int, *, by_address: bool
) -> None:
    a = add(net)
    peer = connected(net, a)
    name = Q if by_address else a.name_of("q")
    peer.send(sign(peer.message(name, "mine", extension=b"more", **ADMIN), version, hashed=hashed))
    (message,) = a.messages("q")
    assert (message.label, message.authentication_level) == ("mine", level)
    packet = UserMessage.decode(message.packet)
    assert packet.security is not None
    assert packet.security.flags & security_header.AS == level << security_header.AS_SHIFT
    a.crash_and_start()
    assert a.receive("q").authentication_level is level


@pytest.mark.spec("MQQB-3.1.5.8.3-04")
def test_a_signature_for_several_queues_covers_the_lists(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    names = [FormatName.parse(Q), FormatName.parse(r"DIRECT=OS:a\private$\other"), FormatName.parse(a.name_of("t"))]
    packets = []
    for name in (Q, r"DIRECT=OS:a\private$\other"):
        packet = peer.message(name, "all")
        packet.multi_queue = MultiQueueFormatHeader()
        packet.multi_queue.destination.elements = [from_format_name(each) for each in names]
        packets.append(sign(packet, 3))
    peer.send(*packets)
    assert [a.messages(each)[0].authentication_level for each in ("q", "other")] == [AuthenticationLevel.SIG30] * 2
    elsewhere = replace(packets[0])
    elsewhere.user = replace(packets[0].user, message_id=77)
    elsewhere.multi_queue = MultiQueueFormatHeader()
    elsewhere.multi_queue.destination.elements = [from_format_name(names[1])]
    peer.send(sign(elsewhere, 3))
    assert len(a.messages("q")) == 1
    assert a.network.statistics.messages_unverified == 1


@pytest.mark.parametrize("version", [1, 2])
def test_a_signature_for_one_queue_does_not_cover_lists_of_queues_that_somebody_adds(net: Net, version: int) -> None:
    """readings MQQB 7.53"""
    a = add(net)
    peer = connected(net, a)
    packet = sign(peer.message(Q, "mine", **ADMIN), version)
    packet.multi_queue = MultiQueueFormatHeader()
    packet.multi_queue.destination.elements = [from_format_name(FormatName.parse(Q))]
    packet.multi_queue.response.elements = [from_format_name(FormatName.parse(r"DIRECT=OS:evil\private$\r"))]
    peer.send(packet)
    assert (a.messages("q"), a.classes("admin")) == ([], [BAD_SIGNATURE])


def test_marks_that_only_a_queue_manager_makes_do_not_arrive(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    packet = peer.message(Q, "x")
    ours = security_header.AU | security_header.AS | security_header.PRIVATE | security_header.UNSENT
    packet.security = SecurityHeader(SENDER_SID | ours, ALICE.encode())
    peer.send(packet)
    (message,) = a.messages("q")
    stored = UserMessage.decode(message.packet).security
    assert stored is not None
    assert not stored.flags & ours


@pytest.mark.spec("MQQB-3.1.5.8.3-10", "MQQB-3.1.5.8.3-16", "MQMQ-2.2.19.3-15", "MQMQ-2.2.19.3-18")
@pytest.mark.spec("MQMQ-2.2.19.3-20", "MQMQ-2.2.20.6-05", "MQDMPR-3.1.1.12-09")
@pytest.mark.parametrize(("level", "algorithm", "size"), CIPHERS + OLD_CIPHERS)
def test_a_body_of_another_implementation_is_decrypted(net: Net, level: int, algorithm: int, size: int) -> None:
    a = add(net)
    a.create("private", privacy_level=QueuePrivacy.MQ_PRIV_LEVEL_BODY)
    peer = connected(net, a)
    packet = peer.message(r"DIRECT=OS:a\private$\private", "secret", body=b"a secret body")
    peer.send(encrypt(sign(packet), level, algorithm, size))
    (message,) = a.messages("private")
    assert (message.body, message.authentication_level) == (b"a secret body", AuthenticationLevel.SIG20)
    assert message.symmetric_key == b""
    a.crash_and_start()
    assert a.receive("private").body == b"a secret body"


@pytest.mark.spec("MQQB-3.1.5.8.3-12", "MQQB-3.1.5.8.3-13", "MQQB-3.1.5.8.3-14", "MQQB-3.1.6.10-01")
def test_a_known_symmetric_key_is_not_decrypted_again_until_it_is_old(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    first = encrypt(peer.message(Q, "1"))
    later = [peer.message(Q, str(number)) for number in (2, 3)]
    for packet in later:
        encrypt(packet)
        assert packet.security is not None
        assert first.security is not None
        packet.security.encryption_key = first.security.encryption_key
    peer.send(first)
    peer.send(later[0])
    assert len(a.key_desk.done) == 1
    net.advance(601)
    assert len(a.node.protection.receive_keys) == 0
    peer = connected(net, a)
    later[1].user.source_queue_manager = first.user.source_queue_manager
    peer.send(later[1])
    assert (a.bodies("q"), len(a.key_desk.done)) == (["1", "2", "3"], 2)


@pytest.mark.parametrize("is_signed", [False, True])
def test_after_a_rotation_a_message_for_the_earlier_key_is_decrypted_with_that_key(
    net: Net, *, is_signed: bool
) -> None:
    """RC4 has no padding that shows a wrong key."""
    a = add(net)
    peer = connected(net, a)
    while True:
        packet = peer.message(Q, "m", body=b"a secret body")
        encrypt(sign(packet) if is_signed else packet, 3, 0x6801, 16)
        assert packet.security is not None
        ciphertext = SimpleBlob.decode(packet.security.encryption_key).ciphertext
        # The library seldom has an answer with the wrong key.
        if perform(UnwrapKeys((pkcs8(key(20)),), (ciphertext,), (16,))) != [[]]:
            break
    a.key_desk.exchange = (pkcs8(key(20)), pkcs8(key(9)))
    peer.send(packet)
    assert [message.body for message in a.messages("q")] == [b"a secret body"]


def with_key_of(first: UserMessage, packet: UserMessage) -> UserMessage:
    """A packet that is encrypted with the symmetric key of another one."""
    encrypt(packet)
    assert packet.security is not None
    assert first.security is not None
    packet.security.encryption_key = first.security.encryption_key
    return packet


def ended_keys(host: Host) -> list[float]:
    """The times at which the host has deleted keys."""
    return [each.request.wall for each in host.key_desk.done if isinstance(each.request, EndKeys)]


@pytest.mark.parametrize("jumps", [False, True])
def test_a_known_symmetric_key_ends_with_the_grace_of_the_exchange_key(net: Net, *, jumps: bool) -> None:
    a = add(net)
    ends = int(net.now.wall) + (2 * 86_400 if jumps else 300)
    a.node.protection.facts_changed(ProtectionFacts(grace_ends=ends))
    peer = connected(net, a)
    if jumps:
        net.advance(3601)
        net.now = Now(net.now.monotonic, ends - 3700.0)
        net.advance(3601)
        peer = connected(net, a)
    first, second, third = (peer.message(Q, str(number)) for number in (1, 2, 3))
    peer.send(encrypt(first))
    peer.send(with_key_of(first, second))
    assert (len(a.node.protection.receive_keys), ended_keys(a)) == (1, [])
    # The key folder decrypts with the current key only.
    a.key_desk.exchange = (pkcs8(key(8)),)
    net.advance(ends - net.now.wall + 0.001)
    assert len(ended_keys(a)) == 1
    assert ended_keys(a)[0] >= ends
    peer = connected(net, a)
    third.user.source_queue_manager = first.user.source_queue_manager
    peer.send(with_key_of(first, third))
    assert a.bodies("q") == ["1", "2"]
    assert a.network.statistics.messages_unverified == 1


def test_a_key_whose_grace_has_ended_is_deleted_later_if_that_fails_first(net: Net) -> None:
    a = add(net)
    ends = int(net.now.wall) + 300
    a.node.protection.facts_changed(ProtectionFacts(grace_ends=ends))
    net.advance(3899)
    assert len(ended_keys(a)) == 1
    net.advance(2)
    assert len(ended_keys(a)) == 2
    # Now it is deleted, and there is another one with a grace.
    a.node.protection.facts_changed(ProtectionFacts(grace_ends=ends + 7200))
    net.advance(7499 - 3901)
    assert len(ended_keys(a)) == 2
    net.advance(5)
    assert len(ended_keys(a)) == 3
    a.node.protection.facts_changed(ProtectionFacts())
    net.advance(86_400)
    assert len(ended_keys(a)) == 3


def test_a_symmetric_key_is_not_cached_if_the_grace_ends_while_it_is_decrypted(net: Net) -> None:
    a = add(net)
    a.node.protection.facts_changed(ProtectionFacts(grace_ends=int(net.now.wall) + 30))
    peer = connected(net, a)
    a.key_desk.is_held = True
    peer.send(encrypt(peer.message(Q, "m")))
    net.advance(31)
    a.key_desk.is_held = False
    while a.key_desk.held:
        a.key_desk.carry_out(a.key_desk.held.pop(0), a.node.kernel, net.now)
    net.settle()
    assert a.bodies("q") == ["m"]
    assert len(a.node.protection.receive_keys) == 0


Change = Callable[[Host, UserMessage], UserMessage]


def altered(_: Host, packet: UserMessage) -> UserMessage:
    sign(packet).properties.label = "forged"
    return packet


def another_body(_: Host, packet: UserMessage) -> UserMessage:
    sign(packet).properties.message_body = b"forged"
    return packet


def redirected(_: Host, packet: UserMessage) -> UserMessage:
    other = replace(packet, user=replace(packet.user))
    sign(other).user.destination_queue = replace(packet.user.destination_queue, direct_format_name=r"OS:a\private$\q")  # type: ignore[type-var]
    return other


def by_somebody_else(_: Host, packet: UserMessage) -> UserMessage:
    return sign(packet, signer=2, cert=certificate(1))


def unregistered(_: Host, packet: UserMessage) -> UserMessage:
    return sign(packet, signer=2)


def of_another_user(_: Host, packet: UserMessage) -> UserMessage:
    return sign(packet, sid=BOB)


def expired(host: Host, packet: UserMessage) -> UserMessage:
    return sign(packet, cert=registered(host, certificate(1, -9, -1)))


def not_yet_valid(host: Host, packet: UserMessage) -> UserMessage:
    return sign(packet, cert=registered(host, certificate(1, 1, 9)))


def removed(host: Host, packet: UserMessage) -> UserMessage:
    host.node.protection.facts_changed(ProtectionFacts())
    return sign(packet)


def without_certificate(_: Host, packet: UserMessage) -> UserMessage:
    sign(packet)
    assert packet.security is not None
    packet.security.sender_cert = b""
    return packet


def not_a_certificate(_: Host, packet: UserMessage) -> UserMessage:
    return sign(packet, cert=b"\x30\x03\x02\x01\x01")


def unknown_hash(_: Host, packet: UserMessage) -> UserMessage:
    sign(packet).properties.hash_algorithm = 0x8001
    return packet


def undefined_hash(_: Host, packet: UserMessage) -> UserMessage:
    sign(packet).properties.hash_algorithm = 0x8005
    return packet


def of_an_undefined_level(_: Host, packet: UserMessage) -> UserMessage:
    packet.properties.privacy_level = 77
    return sign(packet)


def without_its_provider(_: Host, packet: UserMessage) -> UserMessage:
    sign(packet)
    assert packet.security is not None
    packet.security.flags &= ~security_header.DE
    return packet


def signed_by_a_queue_manager(_: Host, packet: UserMessage) -> UserMessage:
    sign(packet, sid=None)
    assert packet.security is not None
    packet.security.flags |= SENDER_QUEUE_MANAGER
    packet.security.security_id = packet.user.source_queue_manager
    return packet


def only_lists(_: Host, packet: UserMessage) -> UserMessage:
    packet.multi_queue = MultiQueueFormatHeader()
    packet.multi_queue.signature.signature = bytes(128)
    return packet


def claims_to_be_authenticated(_: Host, packet: UserMessage) -> UserMessage:
    packet.security = SecurityHeader(SENDER_SID | security_header.AU | 0x300, ALICE.encode(), signature=bytes(128))
    return packet


SIGNED: list[Change] = [
    altered,
    another_body,
    by_somebody_else,
    unregistered,
    of_another_user,
    expired,
    not_yet_valid,
    removed,
]
SIGNED += [without_certificate, not_a_certificate, unknown_hash, signed_by_a_queue_manager, only_lists]
SIGNED += [claims_to_be_authenticated, undefined_hash, of_an_undefined_level, without_its_provider]


def wrong_key(_: Host, packet: UserMessage) -> UserMessage:
    return encrypt(packet, number=8)


def unknown_level(_: Host, packet: UserMessage) -> UserMessage:
    encrypt(packet).properties.privacy_level = 77
    return packet


def unknown_algorithm(_: Host, packet: UserMessage) -> UserMessage:
    encrypt(packet).properties.encryption_algorithm = 0x6601
    return packet


def of_another_level(_: Host, packet: UserMessage) -> UserMessage:
    encrypt(packet).properties.privacy_level = 3
    return packet


def rc4_of_the_highest_level(_: Host, packet: UserMessage) -> UserMessage:
    return encrypt(packet, 5, 0x6801, 16)


def key_of_another_algorithm(_: Host, packet: UserMessage) -> UserMessage:
    encrypt(packet).properties.encryption_algorithm = 0x660E
    return packet


def key_of_another_size(_: Host, packet: UserMessage) -> UserMessage:
    return encrypt(packet, 5, 0x6610, 16)


def rc2_of_40_bits(_: Host, packet: UserMessage) -> UserMessage:
    clear = packet.properties.message_body
    encrypt(packet, 1, 0x6602, 16)
    assert packet.security is not None
    numbers = key(9).public_key().public_numbers()
    packet.security.encryption_key = second.simple_blob(0x6602, b"short", numbers)
    packet.properties.message_body = clear + bytes(-len(clear) % 8)
    return packet


def without_key(_: Host, packet: UserMessage) -> UserMessage:
    encrypt(packet)
    packet.security = SecurityHeader(security_header.EB | SENDER_SID, ALICE.encode())
    return packet


def cut_off_blob(_: Host, packet: UserMessage) -> UserMessage:
    encrypt(packet)
    assert packet.security is not None
    packet.security.encryption_key = packet.security.encryption_key[:20]
    return packet


def bad_padding(_: Host, packet: UserMessage) -> UserMessage:
    encrypt(packet)
    packet.properties.message_body = packet.properties.message_body[:-16] + bytes(16)
    return packet


def nothing(_: Host, packet: UserMessage) -> UserMessage:
    encrypt(packet).properties.message_body = b""
    return packet


def half_a_block(_: Host, packet: UserMessage) -> UserMessage:
    encrypt(packet).properties.message_body = packet.properties.message_body[:-1]
    return packet


def rotated_away(host: Host, packet: UserMessage) -> UserMessage:
    host.key_desk.exchange = (pkcs8(key(8)),)
    return encrypt(packet)


def forged_and_wrong(_: Host, packet: UserMessage) -> UserMessage:
    return encrypt(sign(packet, signer=2), number=8)


ENCRYPTED: list[Change] = [wrong_key, unknown_level, unknown_algorithm, of_another_level, key_of_another_algorithm]
ENCRYPTED += [key_of_another_size, rc2_of_40_bits, without_key, cut_off_blob, bad_padding, nothing, half_a_block]
ENCRYPTED += [rotated_away, forged_and_wrong, rc4_of_the_highest_level]

TABLE: list[tuple[Change, MessageClass]] = [(each, BAD_SIGNATURE) for each in SIGNED]
TABLE += [(each, BAD_ENCRYPTION) for each in ENCRYPTED]


@pytest.mark.spec("MQQB-3.1.5.8.3-05", "MQQB-3.1.5.8.3-09", "MQQB-3.1.5.8.3-11", "MQQB-3.1.5.8.3-17")
@pytest.mark.spec("MQMQ-2.2.19.3-15", "MQMQ-2.2.19.3-16", "MQMQ-2.2.19.3-18", "MQMQ-2.2.19.3-19", "MQMQ-2.2.20.6-06")
@pytest.mark.parametrize(("change", "reason"), TABLE, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.parametrize("queue", ["q", "t"])
@pytest.mark.parametrize("by_address", [False, True])
def test_what_cannot_be_verified_or_decrypted_is_refused(
    net: Net, change: Change, reason: MessageClass, queue: str, *, by_address: bool
) -> None:
    a = add(net)
    peer = connected(net, a)
    name = rf"DIRECT=OS:a\private$\{queue}" if by_address else a.name_of(queue)
    tx = TX if queue == "t" else None
    good = peer.message(name, "good", tx=tx)
    packet = change(a, peer.message(name, "m", tx=tx, body=b"sixteen bytes or more", **ADMIN))
    peer.send(packet, peer.message(r"DIRECT=OS:a\private$\q", "next"))
    assert a.bodies("t") == []
    assert a.bodies("q") == ["next"]
    assert a.classes("admin") == [reason]
    assert [ack.message_class for ack in peer.of(FinalAck)] == ([] if tx is None else [reason])
    (notice,) = [notice for notice in a.notices if notice.event == "message rejected"]
    assert (notice.facts["reason"], notice.facts["peer"]) == (reason.name, peer.address)
    statistics = a.network.statistics
    assert (statistics.messages_rejected, statistics.messages_unverified) == (1, 1)
    assert a.network.refused_sources.by_guid[peer.guid].classes == {reason: 1}
    # The sequence has not advanced, and the id is not known as that of a duplicate.
    good.user.message_id = packet.user.message_id
    peer.send(good)
    assert a.bodies(queue)[-1] == "good"


@pytest.mark.parametrize("change", [unregistered, of_another_user, removed])
def test_a_certificate_that_is_not_registered_is_refused_without_rsa(net: Net, change: Change) -> None:
    a = add(net)
    peer = connected(net, a)
    peer.send(change(a, peer.message(Q, "m", **ADMIN)))
    assert a.key_desk.done == []
    assert a.classes("admin") == [BAD_SIGNATURE]
    (notice,) = [notice for notice in a.notices if notice.event == "message rejected"]
    assert notice.facts["problem"] == "the certificate is not registered for the SID of the sender"


def end_of_the_certificate(host: Host, net: Net) -> str:
    del host
    net.now = Now(net.now.monotonic, net.now.wall + 2 * 86_400)
    return "the certificate has expired"


def removal_of_the_certificate(host: Host, _: Net) -> str:
    host.node.protection.facts_changed(ProtectionFacts())
    return "the certificate is not registered for the SID of the sender"


@pytest.mark.parametrize("change", [end_of_the_certificate, removal_of_the_certificate])
def test_a_certificate_counts_only_if_it_does_when_its_signature_is_checked(
    net: Net, change: Callable[[Host, Net], str]
) -> None:
    a = add(net)
    cert = registered(a, certificate(1, -1, 1))
    peer = connected(net, a)
    a.key_desk.is_held = True
    peer.send(sign(peer.message(Q, "m", **ADMIN), cert=cert))
    problem = change(a, net)
    a.key_desk.is_held = False
    a.key_desk.carry_out(a.key_desk.held.pop(), a.node.kernel, net.now)
    net.settle()
    assert a.classes("admin") == [BAD_SIGNATURE]
    (notice,) = [notice for notice in a.notices if notice.event == "message rejected"]
    assert notice.facts["problem"] == problem


@pytest.mark.parametrize("change", [bad_padding, by_somebody_else])
def test_an_address_learns_of_few_failed_checks_in_a_minute(net: Net, change: Change) -> None:
    a = add(net)
    evil, honest = connected(net, a), net.add_peer("honest")

    def guess(number: int) -> int:
        """The number of answers after one more message."""
        evil.send(change(a, evil.message(a.name_of("t"), "guess", tx=(number, 1, 0), body=bytes(32))))
        came = len(evil.got)
        if came:
            evil.ack(came, came, 1)
        return len(evil.of(FinalAck))

    assert [guess(number) for number in range(1, 61)] == list(range(1, 61))
    assert len(evil.connections) == 1
    assert guess(61) == 60
    assert evil.connections == {}
    (notice,) = [notice for notice in a.notices if notice.event == "message not taken"]
    reason = "this address sent more than 60 messages with a wrong signature or encryption in a minute"
    assert (notice.facts["peer"], notice.facts["reason"]) == (evil.address, reason)
    assert a.network.refusals.counts[Reason.UNVERIFIED] == 1
    # Others, and good messages of this address, are taken; those that were not answered come again.
    honest.connect(a)
    honest.send(change(a, honest.message(a.name_of("t"), "failed", tx=TX, body=bytes(32))))
    assert len(honest.of(FinalAck)) == 1
    evil.connect(a)
    evil.send(encrypt(sign(evil.message(Q, "good"))))
    assert a.bodies("q") == ["good"]
    net.advance(1)
    assert guess(61) == 61


def test_a_message_that_is_sent_to_another_queue_is_refused_but_for_the_oldest_signature(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    for version in (1, 2):
        packet = sign(peer.message(r"DIRECT=OS:a\private$\other", f"version {version}"), version)
        packet.user.destination_queue = peer.message(Q).user.destination_queue
        peer.send(packet)
    assert a.bodies("q") == ["version 1"]


def test_a_signature_of_version_1_can_be_excluded(net: Net) -> None:
    a = add(net, min_signature=AuthenticationLevel.SIG20)
    peer = connected(net, a)
    peer.send(sign(peer.message(Q, "1"), 1), sign(peer.message(Q, "2"), 2))
    assert a.bodies("q") == ["2"]


@pytest.mark.spec("MQQB-6-01")
@pytest.mark.parametrize("accepted", [0x8003, 0x8004, 0x800C, 0x800E])
def test_hashes_can_be_excluded(net: Net, accepted: int) -> None:
    a = add(net, hashes=frozenset({accepted}))
    peer = connected(net, a)
    for hashed in (0x8003, 0x8004, 0x800C, 0x800E):
        peer.send(sign(peer.message(Q, f"{hashed:x}"), hashed=hashed))
    assert a.bodies("q") == [f"{accepted:x}"]
    assert a.network.statistics.messages_unverified == 3
    reasons = [str(notice.facts["problem"]) for notice in a.notices if notice.event == "message rejected"]
    assert reasons
    assert all("the configuration key security.hashes does not allow" in each for each in reasons)


@pytest.mark.spec("MQMQ-2.2.19.3-15", "MQMQ-2.2.19.3-16", "MQMQ-2.2.19.3-18")
def test_the_words_of_a_message_that_is_neither_signed_nor_encrypted_are_harmless(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    packet = peer.message(Q, "plain")
    packet.security = SecurityHeader(SENDER_SID, ALICE.encode())
    packet.properties.hash_algorithm = packet.properties.encryption_algorithm = 0x1234
    packet.properties.privacy_level = 77
    peer.send(packet)
    assert (a.bodies("q"), a.network.statistics.messages_unverified) == (["plain"], 0)


@pytest.mark.spec("MQDMPR-3.1.1.12-11")
def test_nothing_that_arrives_has_the_level_of_an_xml_signature(net: Net) -> None:
    """It belongs to messages over HTTP, which Waypost does not take."""
    a = add(net)
    peer = connected(net, a)
    xml = int(AuthenticationLevel.XML_SIG) << security_header.AS_SHIFT
    claimed = peer.message(Q, "claimed")
    claimed.security = SecurityHeader(SENDER_SID | security_header.AU | xml, ALICE.encode())
    signed = sign(peer.message(Q, "signed"))
    assert signed.security is not None
    signed.security.flags |= security_header.AU | xml
    peer.send(claimed, signed)
    levels = [(each.label, each.authentication_level) for each in a.messages("q")]
    assert levels == [("claimed", AuthenticationLevel.NONE), ("signed", AuthenticationLevel.SIG20)]


def with_padded_key(packet: UserMessage, level: int = 3) -> UserMessage:
    """Encrypt with RC2 and a key of 40 bits, made 128 (MS-MQQB 3.1.7.1.5)."""
    packet.security = SecurityHeader(security_header.AI | security_header.EB)
    padded = b"short" + bytes(11)
    packet.security.encryption_key = second.simple_blob(0x6602, padded, key(9).public_key().public_numbers())
    packet.properties.privacy_level, packet.properties.encryption_algorithm = level, 0x6602
    packet.properties.message_body = second.encrypt(0x6602, padded, packet.properties.message_body)
    return packet


@pytest.mark.spec("MQQB-3.1.5.8.3-15", "MQQB-3.1.3.1-06", "MQQB-6-06", "MQQB-3.1.7.1.5-08")
@pytest.mark.parametrize("queue", ["q", "t"])
@pytest.mark.parametrize("settings", [{}, {"rejects_short_rc2": False}, {"rejects_short_rc2": True}])
def test_a_padded_key_of_40_bits_is_refused_if_that_is_set(net: Net, settings: dict[str, Any], queue: str) -> None:
    a = add(net, **settings)
    peer = connected(net, a)
    name, tx = rf"DIRECT=OS:a\private$\{queue}", TX if queue == "t" else None
    peer.send(with_padded_key(peer.message(name, "short", tx=tx, **ADMIN)))
    refused = [BAD_ENCRYPTION] if any(settings.values()) else []
    assert a.bodies(queue) == ([] if refused else ["short"])
    assert [each for each in a.classes("admin") if each >= 0x8000] == refused
    negative = [ack for ack in peer.of(FinalAck) if ack.message_class >= 0x8000]
    assert [ack.message_class for ack in negative] == (refused if tx else [])
    # Other keys, and the same key without the request for an acknowledgment.
    a.purge("admin")
    peer.send(encrypt(peer.message(Q, "long"), 3, 0x6602, 16), with_padded_key(peer.message(Q, "base"), 1))
    peer.send(with_padded_key(peer.message(Q, "silent")))
    assert a.bodies("q")[-3:] == (["long", "base"] if refused else ["long", "base", "silent"])[-3:]
    assert a.bodies("admin") == []


def test_a_replay_under_the_same_id_is_a_duplicate(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    packet = sign(peer.message(Q, "once"))
    peer.send(packet)
    peer.send(packet)
    assert (a.bodies("q"), a.network.statistics.duplicates_discarded) == (["once"], 1)


def test_a_signed_message_without_a_sender_is_authenticated_and_not_verified(net: Net) -> None:
    a = add(net, certificates={})
    peer = connected(net, a)
    peer.send(sign(peer.message(Q, "somebody"), sid=None))
    (message,) = a.messages("q")
    assert (message.authentication_level, message.sender_identifier) == (AuthenticationLevel.SIG20, b"")


def clear(packet: UserMessage) -> UserMessage:
    return packet


@pytest.mark.spec("MQDMPR-3.1.1.2-08", "MQDMPR-3.1.1.2-09")
@pytest.mark.parametrize(
    ("demand", "protect", "reason"),
    [
        ({"authentication": True}, clear, BAD_SIGNATURE),
        ({"authentication": True}, encrypt, BAD_SIGNATURE),
        ({"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_BODY}, clear, BAD_ENCRYPTION),
        ({"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_BODY}, sign, BAD_ENCRYPTION),
        ({"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_NONE}, encrypt, BAD_ENCRYPTION),
        ({"authentication": True}, sign, None),
        ({"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_BODY}, encrypt, None),
        ({"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_NONE}, sign, None),
        ({"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL}, encrypt, None),
        ({"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL}, clear, None),
        ({"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_NONE}, clear, None),
        ({"authentication": False}, clear, None),
        ({"authentication": False}, sign, None),
    ],
)
def test_a_queue_gets_only_what_it_demands(net: Net, demand: Any, protect: Any, reason: MessageClass | None) -> None:
    a = add(net)
    a.create("strict", **demand)
    peer = connected(net, a)
    peer.send(protect(peer.message(r"DIRECT=OS:a\private$\strict", "m", **ADMIN)))
    assert a.bodies("strict") == (["m"] if reason is None else [])
    assert reason is None or a.classes("admin") == [reason]


def missing_queue(_: Host, packet: UserMessage) -> UserMessage:
    packet.user.destination_queue = replace(packet.user.destination_queue, direct_format_name=r"OS:a\private$\none")  # type: ignore[type-var]
    return packet


def to_a_closed_queue(host: Host, packet: UserMessage) -> UserMessage:
    host.handlers.start(host._call(), SetAcl(name="q", deny=["anonymous:send"]))
    return packet


@pytest.mark.spec("MQQB-3.1.7.15-02")
@pytest.mark.parametrize("is_allowed", [False, True])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (missing_queue, NO_QUEUE),
        (altered, BAD_SIGNATURE),
        (wrong_key, BAD_ENCRYPTION),
        (to_a_closed_queue, MessageClass.MQMSG_CLASS_NACK_ACCESS_DENIED),
    ],
)
def test_strangers_are_not_told_of_queues_rights_and_keys(
    net: Net, change: Change, reason: MessageClass, *, is_allowed: bool
) -> None:
    a = add(net, transfer=TransferSettings(send_insecure_nacks=is_allowed))
    peer = connected(net, a)
    peer.send(change(a, peer.message(Q, "m", **ADMIN)))
    assert a.classes("admin") == ([reason] if is_allowed else [])
    peer.send(peer.message(r"DIRECT=OS:a\private$\t", "m", **ADMIN))
    assert a.classes("admin")[-1] == MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG
    assert a.bodies("q") == a.bodies("t") == []


@pytest.mark.spec("MQQB-3.1.5.8.3-18")
def test_the_right_to_send_belongs_to_the_verified_sender_or_its_groups(net: Net) -> None:
    a = add(net, certificates={certificate(1): ALICE, certificate(2): BOB})
    group = "S-1-5-21-1-2-3-2001"
    a.handlers.start(a._call(), StoreUser(name="bob", is_new=True, sid=str(BOB), groups=(group,)))
    net.settle()

    def send(right: str) -> list[str]:
        """The senders whose messages arrive, with this right alone."""
        rights = ["administrators:full", right]
        a.handlers.start(a._call(), SetAcl(name="q", revoke=["everyone", str(ALICE), group], grant=rights))
        net.settle()
        peer = connected(net, a)
        packets = [peer.message(Q, each, **ADMIN) for each in ("nobody", "claim", "alice", "bob")]
        packets[1].security = SecurityHeader(SENDER_SID, ALICE.encode())
        peer.send(*packets[:2], sign(packets[2]), sign(packets[3], signer=2, sid=BOB))
        a.purge("admin")
        found = a.bodies("q")
        a.purge("q")
        return found

    assert send(f"{ALICE}:send") == ["alice"]
    assert send(f"{group}:send") == ["bob"]
    assert send(f"{ALICE}:receive") == []
    assert send("everyone:send") == ["nobody", "claim", "alice", "bob"]


@pytest.mark.spec("MQQB-3.1.5.8.3-21")
@pytest.mark.parametrize("identifier", [b"no SID..", ALICE.encode() + bytes(4), ALICE.encode()[:-4], b""])
def test_a_sender_whose_sid_is_unreadable_may_do_nothing(net: Net, identifier: bytes) -> None:
    a = add(net)
    peer = connected(net, a)
    packets = [peer.message(Q, label, **ADMIN) for label in ("unreadable", "unknown")]
    packets[0].security = SecurityHeader(SENDER_SID, identifier, sender_cert=bytes(300))
    packets[1].security = SecurityHeader(SENDER_SID, Sid(5, (21, 9, 9, 9, 9)).encode())
    peer.send(*packets)
    # Everyone may send to this queue, and so may a SID that nobody has verified.
    assert a.bodies("q") == ["unknown"]
    assert [each for each in a.classes("admin") if each >= 0x8000] == [MessageClass.MQMSG_CLASS_NACK_ACCESS_DENIED]
    a.handlers.start(a._call(), SetAcl(name="q", revoke=["everyone"], grant=["administrators:full"]))
    packets[1].user.message_id += 100
    peer.send(packets[1])
    assert a.bodies("q") == ["unknown"]


@pytest.mark.spec("MQMQ-2.2.20.6-03")
@pytest.mark.parametrize(
    ("flags", "identifier", "is_valid"),
    [
        (0, b"", True),
        (SENDER_SID, ALICE.encode(), True),
        (SENDER_QUEUE_MANAGER, bytes(16), True),
        (0, ALICE.encode(), False),
        (SENDER_QUEUE_MANAGER, ALICE.encode(), False),
        (3, ALICE.encode(), False),
        (15, bytes(16), False),
    ],
    ids=["none", "sid", "guid", "none with sid", "guid with sid", "3", "15"],
)
def test_st_says_whose_identifier_a_message_has(net: Net, flags: int, identifier: bytes, *, is_valid: bool) -> None:
    a = add(net)
    peer = connected(net, a)
    packet = peer.message(Q, "m")
    packet.security = SecurityHeader(flags, identifier, sender_cert=bytes(300))
    # No peer of a test sends an invalid packet, so its bytes are put on the connection.
    ((_, connection),) = peer.connections.values()
    a.arrived(connection, packet.encode())
    net.settle()
    assert a.bodies("q") == (["m"] if is_valid else [])
    assert len(a.network.open_sessions) == (1 if is_valid else 0)


@pytest.mark.spec("MQDMPR-3.1.1.12-43")
def test_a_message_without_a_verified_user_is_from_the_anonymous_user(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    a.handlers.start(a._call(), SetAcl(name="q", deny=["anonymous:send"]))
    senders: list[tuple[int, bytes]] = [(0, b""), (SENDER_SID, ALICE.encode()), (SENDER_QUEUE_MANAGER, peer.guid)]
    for queue in ("q", "other"):
        for flags, identifier in senders:
            packet = peer.message(rf"DIRECT=OS:a\private$\{queue}", "m")
            packet.security = SecurityHeader(flags, identifier, sender_cert=bytes(300))
            peer.send(packet)
        peer.send(sign(peer.message(rf"DIRECT=OS:a\private$\{queue}", "signed")))
    assert a.bodies("q") == ["signed"]
    found = [(each.sender_identifier_type, each.sender_identifier) for each in a.messages("other")]
    assert found == [
        (SenderIdentifierType.NONE, b""),
        (SenderIdentifierType.SID, ALICE.encode()),
        (SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER, peer.guid),
        (SenderIdentifierType.SID, ALICE.encode()),
    ]


@pytest.mark.parametrize(
    ("demand", "protect", "sentence"),
    [
        ({"authentication": True}, lambda packet: packet, "the queue requires a signature, .* --sign`"),
        (
            {"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_BODY},
            lambda packet: packet,
            "the queue requires encryption, .* --encrypt`",
        ),
        (
            {"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_NONE},
            encrypt,
            "the queue does not accept encrypted messages; send without --encrypt",
        ),
        ({}, lambda packet: sign(packet, signer=2), "the message has no valid signature: "),
    ],
)
def test_explain_and_the_log_say_why_a_message_was_refused(
    net: Net, demand: Any, protect: Any, sentence: str
) -> None:  # fmt: skip
    a = add(net)
    a.create("strict", **demand)
    peer = connected(net, a)
    peer.send(protect(peer.message(r"DIRECT=OS:a\private$\strict", "m")))
    (notice,) = [notice for notice in a.notices if notice.event == "message rejected"]
    assert re.search(sentence.rstrip(": "), str(notice.facts["meaning"]))
    explanation = explain_queue(a.node, FormatName.parse(r"DIRECT=OS:a\private$\strict"), net.now)
    (told,) = [each for each in explanation.sentences if "was refused" in each]
    assert re.search(sentence, told)
    assert f"a message from anonymous at {peer.address}" in told or "not verified" in told
    # A wrong signature is not a missing right.
    assert not a.node.access.refused


def test_a_sender_without_the_right_is_counted_and_named(net: Net) -> None:
    a = add(net)
    a.create("closed", security=SecurityDescriptor(owner=BOB, dacl=Acl()).encode())
    peer = connected(net, a)
    peer.send(peer.message(r"DIRECT=OS:a\private$\closed", "m"))
    peer.send(sign(peer.message(r"DIRECT=OS:a\private$\closed", "m")))
    assert a.node.access.refused == {"send": 2}
    explanation = explain_queue(a.node, FormatName.parse(r"DIRECT=OS:a\private$\closed"), net.now)
    (told,) = [each for each in explanation.sentences if "were refused" in each]
    assert told.startswith("2 requests were refused")
    assert f"from {ALICE} at {peer.address}, who does not have the right send" in told
    (check,) = [each for each in rights_checks(a.node) if each.check == "refusals"]
    assert f"{ALICE} at {peer.address}, who does not have the right send on closed" in check.message


def test_the_queue_has_to_exist_first(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    peer.send(forged_and_wrong(a, peer.message(r"DIRECT=OS:a\private$\missing", "m", **ADMIN)))
    assert a.classes("admin") == [NO_QUEUE]


def test_a_key_without_encryption_is_a_claim(net: Net) -> None:
    a = add(net)
    a.create("strict", privacy_level=QueuePrivacy.MQ_PRIV_LEVEL_BODY)
    peer = connected(net, a)
    packet = peer.message(r"DIRECT=OS:a\private$\strict", "clear", **ADMIN)
    packet.security = SecurityHeader(security_header.PRIVATE, encryption_key=bytes(76))
    packet.properties.privacy_level = 5
    peer.send(packet)
    assert (a.bodies("strict"), a.classes("admin")) == ([], [BAD_ENCRYPTION])


def test_a_header_that_only_names_a_sender_does_not_protect(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    packets = [peer.message(Q, body) for body in ("sid", "certificate")]
    packets[0].security = SecurityHeader(SENDER_SID, ALICE.encode())
    packets[1].security = SecurityHeader(SENDER_SID, ALICE.encode(), sender_cert=bytes(300))
    peer.send(*packets)
    assert a.bodies("q") == ["sid", "certificate"]
    assert a.network.statistics.messages_unverified == 0


def test_the_messages_behind_one_that_is_checked_wait_for_it(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    a.key_desk.is_held = True
    peer.send(peer.message(Q, "1"), sign(peer.message(Q, "2")), peer.message(Q, "3"))
    peer.send(sign(peer.message(Q, "4")), peer.message(Q, "5"))
    assert a.bodies("q") == ["1"]
    a.key_desk.is_held = False
    while a.key_desk.held:
        a.key_desk.carry_out(a.key_desk.held.pop(0), a.node.kernel, net.now)
        net.settle()
    assert a.bodies("q") == ["1", "2", "3", "4", "5"]


def test_messages_that_come_together_keep_their_order_and_the_result_for_each(net: Net) -> None:
    a = add(net, certificates={certificate(1): ALICE, certificate(2): BOB})
    peer = connected(net, a)
    oldest = sign(peer.message(Q, "oldest"), 1)
    forged = sign(peer.message(Q, "forged"))
    forged.properties.message_body = b"other"
    anonymous = sign(peer.message(Q, "nobody"), sid=None)
    peer.send(
        *(sign(peer.message(Q, each)) for each in ("1", "2")),
        forged,
        sign(peer.message(Q, "3")),
        oldest,
        sign(peer.message(Q, "bob"), signer=2, sid=BOB),
        sign(peer.message(Q, "not alice"), signer=2),
        anonymous,
        *(encrypt(peer.message(Q, each)) for each in ("4", "5")),
        encrypt(sign(peer.message(Q, "both"))),
        peer.message(Q, "6"),
    )
    new, old, none = AuthenticationLevel.SIG20, AuthenticationLevel.SIG10, AuthenticationLevel.NONE
    expected = {
        **dict.fromkeys(("1", "2", "3"), (new, ALICE.encode(), False)),
        "oldest": (old, ALICE.encode(), False),
        "bob": (new, BOB.encode(), False),
        "nobody": (new, b"", False),
        **dict.fromkeys(("4", "5"), (none, b"", True)),
        "both": (new, ALICE.encode(), True),
        "6": (none, b"", False),
    }
    for _ in range(2):
        found = {}
        for message in a.messages("q"):
            security = UserMessage.decode(message.packet).security
            was_encrypted = security is not None and security.flags & security_header.PRIVATE != 0
            found[message.label] = message.authentication_level, message.sender_identifier, was_encrypted
            assert message.body == message.label.encode()
        assert list(found.items()) == list(expected.items())
        a.crash_and_start()
    assert a.network.statistics.messages_unverified == 0


def test_a_session_that_ends_while_its_messages_are_checked_leaves_nothing(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    a.key_desk.is_held = True
    packet = sign(peer.message(Q, "late"))
    peer.send(packet)
    peer.hang_up()
    a.key_desk.is_held = False
    a.key_desk.carry_out(a.key_desk.held.pop(0), a.node.kernel, net.now)
    net.settle()
    assert a.bodies("q") == []
    peer = connected(net, a)
    peer.send(packet)
    assert a.bodies("q") == ["late"]


def test_the_work_for_a_message_has_its_turn_by_the_address_that_sent_it(net: Net) -> None:
    a = add(net)
    peers = [connected(net, a), connected(net, a)]
    for peer in peers:
        peer.send(encrypt(sign(peer.message(Q, "m"))))
    assert [each.peer for each in a.key_desk.done] == [peers[0].address] * 2 + [peers[1].address] * 2


@pytest.mark.parametrize("protect", [sign, encrypt])
def test_the_work_of_a_session_ends_with_it(net: Net, protect: Callable[[UserMessage], UserMessage]) -> None:
    a = add(net)
    a.key_desk.is_held = True
    for _ in range(3):
        peer = connected(net, a)
        peer.send(protect(peer.message(Q, "m")))
        peer.hang_up()
    assert a.node.kernel._jobs == {}
    assert a.key_desk.dropped == [each.job for each in a.key_desk.held]
    assert len(a.key_desk.dropped) == 3


def test_the_messages_that_wait_for_a_check_count_as_unfinished_ones(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.node.network.network.MAX_UNFINISHED_BYTES", 100_000)
    a = add(net)
    a.key_desk.is_held = True
    honest, flood = net.add_peer("honest"), net.add_peer("flood")
    honest.connect(a)
    honest.send(sign(honest.message(Q, "small")))
    for _ in range(20):
        number = flood.connect(a)
        flood.send(sign(flood.message(Q, "large", body=bytes(10_000))), on=number)
        assert sum(each.inlet.kept_bytes for each in a.network.sessions) <= 100_000
    assert len(flood.connections) == 4
    assert len(honest.connections) == 1
    reasons = {notice.facts["reason"] for notice in a.notices if notice.event == "session closed"}
    assert reasons == {"the limit of unfinished bytes is reached, and this address has the most of them"}
    # Checked messages make room.
    a.key_desk.is_held = False
    for effect in a.key_desk.held:
        a.key_desk.carry_out(effect, a.node.kernel, net.now)
    net.settle()
    assert a.bodies("q") == ["small", *["large"] * 4]
    assert a.network._sessions.kept_bytes == 0


def test_nothing_more_is_read_from_a_session_whose_messages_are_checked(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    a.key_desk.is_held = True
    peer.send(sign(peer.message(Q, "first")))
    (session,) = a.network.open_sessions
    for number in range(3):
        peer.send(peer.message(Q, str(number)))
    assert session.inlet.is_held
    assert not session.inlet.packets
    assert list(a.unread) == [session.connection]
    a.key_desk.is_held = False
    a.key_desk.carry_out(a.key_desk.held.pop(0), a.node.kernel, net.now)
    net.settle()
    assert a.bodies("q") == ["first", *map(str, range(3))]
    assert not session.inlet.is_held


@pytest.mark.parametrize("protect", [sign, encrypt])
def test_work_with_keys_that_fails_refuses_nothing_and_the_message_comes_again(
    net: Net, protect: Callable[[UserMessage], UserMessage]
) -> None:
    a = add(net)
    peer = connected(net, a)
    a.key_desk.is_held = True
    packet = protect(peer.message(a.name_of("t"), "again", tx=TX))
    peer.send(packet)
    failed = a.key_desk.held.pop(0)
    a.node.kernel.job_done(failed.job, ServiceNotAvailable("the process has ended"), net.now)
    net.settle()
    assert a.network.sessions == []
    assert a.network.statistics.messages_unverified == 0
    assert not [each for each in peer.received if isinstance(each, FinalAck)]
    a.key_desk.is_held = False
    peer = connected(net, a)
    peer.send(packet)
    assert a.bodies("t") == ["again"]


def test_a_session_that_closes_over_a_checked_message_is_forgotten(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    a.key_desk.is_held = True
    peer.send(sign(peer.message(Q, "no room")))
    a.node.kernel.trouble = StoreError("the disk is full")
    a.key_desk.is_held = False
    a.key_desk.carry_out(a.key_desk.held.pop(0), a.node.kernel, net.now)
    net.settle()
    assert a.network.sessions == []


def express(packet: UserMessage) -> UserMessage:
    packet.user.flags &= ~user_header.DM
    return packet


def test_express_messages_are_acknowledged_when_they_are_checked_and_not_before(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    peer.window = 2
    a.key_desk.is_held = True
    # Half a window is acknowledged at once.
    peer.send(*(sign(express(peer.message(Q, str(number)))) for number in range(32)))
    net.advance(1)
    assert {each.session.ack_sequence_number for each in peer.of(SessionAck)} <= {0}
    a.key_desk.is_held = False
    while a.key_desk.held:
        a.key_desk.carry_out(a.key_desk.held.pop(0), a.node.kernel, net.now)
    net.settle()
    assert a.bodies("q") == list(map(str, range(32)))
    assert peer.of(SessionAck)[-1].session.ack_sequence_number == 32


def test_messages_before_one_that_is_checked_are_acknowledged(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    a.key_desk.is_held = True
    peer.send(*(express(peer.message(Q)) for _ in range(31)), sign(express(peer.message(Q))), peer.message(Q))
    net.advance(60)
    assert {each.session.ack_sequence_number for each in peer.of(SessionAck)} == {31}


def test_a_cached_key_counts_although_the_facts_change_while_another_is_decrypted(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    known = peer.message(Q, "known")
    encrypt(known)
    blob = known.security
    assert blob is not None
    peer.send(known)
    a.key_desk.is_held = True
    again = encrypt(peer.message(Q, "again"))
    assert again.security is not None
    again.security.encryption_key = blob.encryption_key
    peer.send(encrypt(peer.message(Q, "other"), 5, 0x660E, 16), again)
    a.node.protection.facts_changed(ProtectionFacts())
    a.key_desk.is_held = False
    a.key_desk.carry_out(a.key_desk.held.pop(0), a.node.kernel, net.now)
    net.settle()
    assert a.bodies("q") == ["known", "other", "again"]


def test_a_key_that_is_decrypted_while_the_keys_change_is_not_cached(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    a.key_desk.is_held = True
    peer.send(encrypt(peer.message(Q, "in time")))
    a.node.protection.facts_changed(ProtectionFacts())
    a.key_desk.is_held = False
    a.key_desk.carry_out(a.key_desk.held.pop(0), a.node.kernel, net.now)
    net.settle()
    assert a.bodies("q") == ["in time"]
    assert len(a.node.protection.receive_keys) == 0


def test_a_message_with_a_cached_key_is_stored_behind_those_before_it(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    first = encrypt(peer.message(Q, "first"))
    assert first.security is not None
    peer.send(first)
    third = encrypt(peer.message(Q, "third"))
    assert third.security is not None
    third.security.encryption_key = first.security.encryption_key
    net.advance(60)
    a.hold_disk()
    peer.send(peer.message(Q, "second"), third)
    a.release_disk()
    assert a.bodies("q") == ["first", "second", "third"]
    net.advance(60)
    header = peer.of(SessionAck)[-1].session
    assert (header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags) == (2, 0b11)
