"""Signed and encrypted messages of a hostile peer, at a daemon in a separate process: refused, named and counted."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import CertificateBuilder, Name, NameAttribute, random_serial_number
from cryptography.x509.oid import NameOID

import waypost
from tests.crash.daemons import Daemon, loopback
from tests.daemon.strangers import Stranger
from tests.daemon.test_forged_acks import metric, until
from tests.node.test_protected_arrivals import encrypt, key, sign
from waypost.wire.message_class import MessageClass
from waypost.wire.packets import decode_packet
from waypost.wire.sid import Sid
from waypost.wire.transactional_acks import FinalAck
from waypost.wire.user_message import UserMessage

BAD_SIGNATURE: Final = MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE
BAD_ENCRYPTION: Final = MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION
ALICE: Final = Sid(5, (21, 1, 2, 3, 1104))
BOB: Final = Sid(5, (21, 1, 2, 3, 1105))
EXCHANGE: Final = 9
REFUSED: Final = "waypost_transfer_messages_unverified_total"


def certificate(number: int, days: int = 100) -> bytes:
    """A certificate for a key. It has expired if `days` is negative."""
    name = Name([NameAttribute(NameOID.COMMON_NAME, f"user {number}")])
    now = datetime.now(UTC)
    builder = CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key(number).public_key(),
        serial_number=random_serial_number(),
        not_valid_before=now - timedelta(days=200),
        not_valid_after=now + timedelta(days=days),
    )
    return builder.sign(key(number), SHA256()).public_bytes(Encoding.DER)


class Peer:
    """A sender that signs and encrypts with keys of the test, by the second implementation of tests/security."""

    def __init__(self, stranger: Stranger, certificates: dict[int, bytes]) -> None:
        self.stranger = stranger
        self.certificates = certificates
        self.queue = "orders"
        self._time_stamps = count(int(time.time()))

    def message(self) -> UserMessage:
        """The first message of a new sequence."""
        data = self.stranger.message(self.queue, b"a secret", (next(self._time_stamps), 1, 0))
        packet = decode_packet(data)
        assert isinstance(packet, UserMessage)
        return packet

    def signed(self, packet: UserMessage | None = None, **changes: Any) -> UserMessage:
        signer = changes.get("signer", 1)
        changes = {"cert": self.certificates.get(signer), **changes}
        return sign(packet or self.message(), **changes)

    def honest(self) -> UserMessage:
        return encrypt(self.signed(), number=EXCHANGE)

    def final_acks(self) -> list[int]:
        """The classes of all that came."""
        return [each.message_class for each in self.stranger.of(FinalAck)]


def _altered(peer: Peer) -> UserMessage:
    packet = peer.signed()
    packet.properties.message_body = b"A secret"
    return encrypt(packet, number=EXCHANGE)


def _altered_on_the_way(peer: Peer) -> UserMessage:
    packet = peer.honest()
    body = bytearray(packet.properties.message_body)
    body[-1] ^= 1
    packet.properties.message_body = bytes(body)
    return packet


def _redirected(peer: Peer) -> UserMessage:
    here, peer.queue = peer.queue, "orders"
    packet, peer.queue = peer.signed(), here
    packet.user.destination_queue = peer.message().user.destination_queue
    return encrypt(packet, number=EXCHANGE)


def _of_another_level(peer: Peer) -> UserMessage:
    packet = peer.honest()
    packet.properties.privacy_level = 2
    return packet


@dataclass(frozen=True, slots=True)
class Forgery:
    make: Callable[[Peer], UserMessage]
    answer: MessageClass
    reason: str


FORGERIES: Final = {
    "forged": Forgery(
        lambda peer: encrypt(peer.signed(signer=3, cert=peer.certificates[1]), number=EXCHANGE),
        BAD_SIGNATURE,
        "the signature does not match",
    ),
    "altered": Forgery(_altered, BAD_SIGNATURE, "the signature does not match"),
    "altered-on-the-way": Forgery(_altered_on_the_way, BAD_ENCRYPTION, "padding"),
    "redirected": Forgery(_redirected, BAD_SIGNATURE, "the signature does not match"),
    "wrong-key": Forgery(lambda peer: encrypt(peer.signed(), number=8), BAD_ENCRYPTION, "key"),
    "another-level": Forgery(_of_another_level, BAD_ENCRYPTION, "level"),
    "expired": Forgery(
        lambda peer: encrypt(peer.signed(signer=4, sid=None), number=EXCHANGE), BAD_SIGNATURE, "expired"
    ),
    "unregistered": Forgery(
        lambda peer: encrypt(peer.signed(signer=3), number=EXCHANGE), BAD_SIGNATURE, "is not registered for the SID"
    ),
    "of-somebody-else": Forgery(
        lambda peer: encrypt(peer.signed(signer=2, sid=ALICE), number=EXCHANGE),
        BAD_SIGNATURE,
        "is not registered for the SID",
    ),
    "removed": Forgery(
        lambda peer: encrypt(peer.signed(signer=5), number=EXCHANGE), BAD_SIGNATURE, "is not registered for the SID"
    ),
    "downgraded-signature": Forgery(
        lambda peer: encrypt(peer.signed(version=1), number=EXCHANGE),
        BAD_SIGNATURE,
        "version msmq10, but security.min",
    ),
    "downgraded-hash": Forgery(
        lambda peer: encrypt(peer.signed(hashed=0x8003), number=EXCHANGE), BAD_SIGNATURE, "security.hashes"
    ),
    "unsigned": Forgery(lambda peer: encrypt(peer.message(), number=EXCHANGE), BAD_SIGNATURE, "signed"),
    "in-the-clear": Forgery(lambda peer: peer.signed(), BAD_ENCRYPTION, "encrypted"),
}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings = ("security.key_bits=1024", "security.min_signature=msmq20", "security.hashes=sha512,sha256")
    with Daemon(tmp_path, "alpha", loopback(51), *settings) as daemon:
        daemon.start()
        yield daemon


def prepared(manager: waypost.Manager) -> dict[int, bytes]:
    """Queues, keys and users; the certificates of the peer, by the numbers of their keys."""
    certificates = {number: certificate(number, -1 if number == 4 else 100) for number in (1, 2, 3, 4, 5)}
    for name in ("orders", *FORGERIES):
        manager.create_queue(name, transactional=True, authenticate=True, privacy="body")
    pem = key(EXCHANGE).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    manager.import_key(pem)
    for name, sid, numbers in (("alice", ALICE, (1, 5)), ("bob", BOB, (2,))):
        manager.users.add(name, sid=str(sid))
        for number in numbers:
            registered = manager.register_certificate(certificates[number], name)
            if number == 5:
                manager.remove_certificate(registered.digest)
    return certificates


def refused(daemon: Daemon, queue: str, forgery: Forgery) -> bool:
    """Whether the log names the refusal, with its reason."""
    lines = (line for line in daemon.log.splitlines() if '"message rejected"' in line and f'\\\\{queue}"' in line)
    return any(forgery.reason in line and forgery.answer.name in line for line in lines)


def test_forgeries_are_refused_with_their_class_and_a_final_ack_and_named_and_counted(daemon: Daemon) -> None:
    with daemon.connect() as manager, Stranger(daemon, 52) as stranger:
        peer, orders = Peer(stranger, prepared(manager)), manager.queue("orders")

        def is_taken(packet: UserMessage, bodies: int) -> None:
            stranger.send(packet.encode())
            until("the message is not there", lambda: len(list(orders.browse())) == bodies)

        is_taken(peer.honest(), 1)
        for number, (name, forgery) in enumerate(FORGERIES.items(), 1):
            peer.queue = name
            stranger.send(forgery.make(peer).encode())
            stranger.read_until(FinalAck, number)
            assert peer.final_acks()[-1] == forgery.answer, name
            until(f"{name} is not in the log", lambda name=name, forgery=forgery: refused(daemon, name, forgery))
            assert metric(daemon, REFUSED) == number, name
            assert manager.queue(name).info().message_count == 0, name
        peer.queue = "orders"
        again = peer.honest()
        is_taken(again, 2)
        # The same identifier once more, and in another sequence: dropped as a duplicate.
        stranger.send(again.encode())
        is_taken(peer.honest(), 3)
        assert metric(daemon, REFUSED) == len(FORGERIES)
        for message in orders.browse():
            assert (message.body, message.authenticated, message.sender_verified) == (b"a secret", True, True)
            assert (message.signature, message.encrypted, message.sender_sid) == ("msmq20", "aes256", str(ALICE))
