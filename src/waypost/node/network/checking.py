"""Signed and encrypted messages that arrive: MS-MQQB 3.1.5.8.3, for every message to a queue of this computer.

RSA runs outside of the engine. A session whose next message needs it waits with all messages behind that one, so that
their order stays: first for the symmetric keys that are not known yet, then for the signatures. Nothing more is read
from the session meanwhile. A body is decrypted before its signature is verified (readings MQQB 3.10). Rules,
registrations and times are judged here. If the work fails, as when its process ends, nothing was found out about the
messages: the session closes, and they come again.
"""

from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from waypost.api.protection import SIGNATURE_WORDS
from waypost.clock import Now
from waypost.core.message_values import AuthenticationLevel
from waypost.core.stored_message import with_security_flags
from waypost.errors import AuthenticationFailed, DecodeError, DecryptionFailed, WaypostError
from waypost.node.effects import CheckSignatures, KeyRequest, OpenKeys
from waypost.node.kernel import Kernel
from waypost.node.network.sessions import Sessions
from waypost.node.protection import Protection, ReceiveKey
from waypost.peers import peer_of
from waypost.security.ciphers import (
    PROVIDER_TYPES,
    PROVIDERS,
    BodyEncryption,
    body_encryption,
    open_body,
    received_key_sizes,
)
from waypost.security.header_rules import clear_authentication, record_authentication, signing_provider
from waypost.security.signatures import ClaimedSignature, SignatureVersion, claimed_digests, claimed_signature
from waypost.security.work import CheckedSignature, CheckSignature
from waypost.transfer.session import Incoming, Session, SessionState
from waypost.wire import security_header
from waypost.wire.algorithms import HashAlgorithm, PrivacyLevel
from waypost.wire.keys import SessionKeyAlgorithm, SimpleBlob
from waypost.wire.message_class import MessageClass
from waypost.wire.multi_queue import to_format_name
from waypost.wire.packet_names import destination_format_name
from waypost.wire.security_header import SENDER_QUEUE_MANAGER, SENDER_SID, ProviderInfo
from waypost.wire.user_message import UserMessage

_SIZES: Final = (5, 16, 24, 32)
# A key of 40 bits that was made one of 128.
_ZERO_BITS: Final = bytes(11)
_UNREGISTERED: Final = "the certificate is not registered for the SID of the sender"
_SHORT_RC2: Final = BodyEncryption(PrivacyLevel.ENHANCED, SessionKeyAlgorithm.RC2)


@dataclass(frozen=True, slots=True)
class ArrivalRules:
    """The demands on signed and encrypted messages that arrive.

    `min_signature` is the oldest signature that counts, and `hashes` are those that signatures may have.
    `rejects_short_rc2` is RejectEnhancedRC2Using40BitKeys of MS-MQQB 3.1.1.3.
    """

    min_signature: AuthenticationLevel
    hashes: Container[int]
    rejects_short_rc2: bool


@dataclass(slots=True)
class Verdict:
    """The result for one message: the class and the sentence of a refusal, or what was verified.

    `sid` is the SID of a sender whose certificate is registered for it. A decrypted packet has its body in the clear.
    """

    refusal: MessageClass | None = None
    sentence: str = ""
    level: AuthenticationLevel = AuthenticationLevel.NONE
    was_encrypted: bool = False
    sid: bytes = b""

    def refuse(self, message_class: MessageClass, sentence: str) -> None:
        self.refusal, self.sentence = message_class, sentence


@dataclass(slots=True)
class _Check:
    """A message that is being checked."""

    packet: UserMessage
    verdict: Verdict = field(default_factory=Verdict)
    encryption: BodyEncryption | None = None
    key: ReceiveKey | None = None
    claim: ClaimedSignature | None = None


def needs_check(packet: UserMessage) -> bool:
    """Whether a message says that it is signed or encrypted."""
    security, multi_queue = packet.security, packet.multi_queue
    if security is not None and (security.signature or security.is_body_encrypted):
        return True
    return multi_queue is not None and bool(multi_queue.signature.signature)


class Checking:
    """Checks the messages of all sessions. `go_on` takes those of a session that are checked."""

    __slots__ = ("_go_on", "_jobs", "_kernel", "_protection", "_rules", "_sessions", "held", "verdicts")

    def __init__(
        self,
        kernel: Kernel,
        sessions: Sessions,
        protection: Protection,
        go_on: Callable[[Session, Sequence[Incoming], Now], None],
        rules: ArrivalRules,
    ) -> None:
        self._kernel: Final = kernel
        self._sessions: Final = sessions
        self._protection: Final = protection
        self._go_on: Final = go_on
        self._rules: Final = rules
        # The messages of each session that wait, in pieces; the first piece is being checked.
        self.held: Final[dict[Session, deque[Sequence[Incoming]]]] = {}
        # The work with keys for which a session waits.
        self._jobs: Final[dict[Session, int]] = {}
        # The results for the messages that are taken now, by the identity of their packets.
        self.verdicts: dict[int, Verdict] = {}

    def hold(self, session: Session, messages: Sequence[Incoming]) -> None:
        """Check messages, which are taken afterwards. Those that come behind them wait, unread if possible."""
        session.inlet.hold(self._kernel.now)
        waiting = self.held.setdefault(session, deque())
        waiting.appendleft(messages)
        self._count_untaken(session, waiting)
        checks = [
            _Check(each.packet)
            for each in messages
            if isinstance(each.packet, UserMessage) and needs_check(each.packet)
        ]
        self._open_keys(session, checks)

    def wait(self, session: Session, messages: Sequence[Incoming]) -> None:
        """Keep messages that come behind messages of a session that are being checked."""
        waiting = self.held[session]
        waiting.append(messages)
        self._count_untaken(session, waiting)

    def _count_untaken(self, session: Session, waiting: deque[Sequence[Incoming]]) -> None:
        size = sum(_size(each) for piece in waiting for each in piece)
        self._sessions.set_untaken(session, sum(map(len, waiting)), size)

    def forget(self, session: Session) -> None:
        """Forget a closed session, with the work for it. Its messages are not acknowledged, and come again."""
        self.held.pop(session, None)
        job = self._jobs.pop(session, None)
        if job is not None:
            self._kernel.drop_keys(job)

    def _ask(self, session: Session, request: KeyRequest, then: Callable[[list[Any], Now], None]) -> None:
        """Let a session wait for some work with keys."""

        def done(result: object, now: Now) -> None:
            del self._jobs[session]
            if isinstance(result, WaypostError):
                self._give_up(session, result, now)
                return
            assert isinstance(result, list)
            then(result, now)

        assert session not in self._jobs, "a session waits for one job at a time"
        self._jobs[session] = self._kernel.ask_keys(request, done, peer_of(session.remote_qm_address))

    def _open_keys(self, session: Session, checks: list[_Check]) -> None:
        missing: dict[ReceiveKey, bytes] = {}
        # With those of the cache, which may be cleared before the others are there.
        found: dict[ReceiveKey, tuple[bytes, ...]] = {}
        now = self._kernel.now
        for check in checks:
            security = check.packet.security
            if security is None or not security.is_body_encrypted:
                continue
            try:
                check.encryption = encryption = body_encryption(check.packet)
                assert encryption is not None
                blob = SimpleBlob.decode(security.encryption_key)
                if blob.session_key_algorithm != encryption.algorithm:
                    raise DecryptionFailed(
                        f"the body is encrypted with {encryption.algorithm.name}, but its key is for "
                        f"{blob.session_key_algorithm.name}"
                    )
            except (DecryptionFailed, DecodeError) as error:
                check.verdict.refuse(MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION, str(error))
                continue
            source = check.packet.user.source_queue_manager
            check.key = source, encryption.provider, encryption.algorithm, security.encryption_key
            cached = self._protection.receive_keys.get(check.key, now.monotonic)
            if cached is None:
                missing[check.key] = blob.ciphertext
            else:
                found[check.key] = cached
        if not missing:
            self._check_signatures(session, checks, found)
            return

        asked_for = self._protection.facts

        def opened(result: list[list[bytes]], now: Now) -> None:
            for key, candidates in zip(missing, result, strict=True):
                found[key] = tuple(candidates)
                # The keys of this queue manager may be others now.
                if candidates and asked_for is self._protection.facts:
                    self._protection.remember(self._protection.receive_keys, key, tuple(candidates), now)
            self._check_signatures(session, checks, found)

        self._ask(session, OpenKeys(tuple(missing.values()), _SIZES), opened)

    def _check_signatures(
        self, session: Session, checks: list[_Check], opened: dict[ReceiveKey, tuple[bytes, ...]]
    ) -> None:  # fmt: skip
        wanted: list[CheckSignature] = []
        signed: list[_Check] = []
        for check in checks:
            if check.verdict.refusal is None and check.key is not None:
                self._decrypt(check, opened)
            if check.verdict.refusal is not None:
                continue
            try:
                asked = _signature_to_check(check, self._rules.hashes)
                if asked is not None:
                    # Strangers can make certificates, but none that is registered: they get no RSA for one.
                    self._require_registered(check.packet)
            except AuthenticationFailed as error:
                check.verdict.refuse(MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE, str(error))
                continue
            if asked is not None:
                wanted.append(asked)
                signed.append(check)
        if not wanted:
            self._end(session, checks, self._kernel.now)
            return

        def checked(result: list[CheckedSignature], now: Now) -> None:
            for check, found in zip(signed, result, strict=True):
                self._judge(check, found, now)
            self._end(session, checks, now)

        self._ask(session, CheckSignatures(tuple(wanted)), checked)

    def _decrypt(self, check: _Check, opened: dict[ReceiveKey, tuple[bytes, ...]]) -> None:
        assert check.key is not None
        assert check.encryption is not None
        sizes = received_key_sizes(check.encryption)
        reason = "this queue manager has no exchange key that can decrypt the key of the message"
        for key in opened[check.key]:
            if self._rules.rejects_short_rc2 and check.encryption == _SHORT_RC2 and key.endswith(_ZERO_BITS):
                reason = "only 40 bits of the RC2 key are random, and security.reject_short_rc2 rejects such keys"
            elif len(key) in sizes:
                try:
                    open_body(check.packet, key)
                except DecryptionFailed as error:
                    reason = str(error)
                else:
                    check.verdict.was_encrypted = True
                    return
            else:
                reason = f"the key of the message has a wrong size: {8 * len(key)} bits"
        check.verdict.refuse(MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION, reason)

    def _require_registered(self, packet: UserMessage) -> None:
        security = packet.security
        assert security is not None
        if security.sender_type == SENDER_SID and not self._protection.is_registered(
            security.sender_cert, security.security_id, self._kernel.now
        ):
            raise AuthenticationFailed(_UNREGISTERED)

    def _judge(self, check: _Check, found: CheckedSignature, now: Now) -> None:
        """The rules about a signature, its certificate and its sender."""
        packet, verdict, claim = check.packet, check.verdict, check.claim
        security = packet.security
        assert claim is not None
        assert security is not None
        reason = found.problem
        if found.found >= 0:
            version = claim.versions[found.found]
            level = AuthenticationLevel(int(version))
            reason = self._objection(packet, version, level) or _invalid(found, now)
            if not reason and security.sender_type == SENDER_SID:
                # Again: it may have been removed meanwhile.
                if self._protection.is_registered(security.sender_cert, security.security_id, now):
                    verdict.sid = security.security_id
                else:
                    reason = _UNREGISTERED
            if not reason:
                verdict.level = level
                return
        verdict.refuse(MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE, reason)

    def _objection(self, packet: UserMessage, version: SignatureVersion, level: AuthenticationLevel) -> str:
        if level < self._rules.min_signature:
            found = SIGNATURE_WORDS[level]
            return f"the signature has the version {found}, but security.min_signature requires a later version"
        assert packet.security is not None
        cert, source = packet.security.sender_cert, packet.security.security_id
        if packet.security.sender_type == SENDER_QUEUE_MANAGER and not self._protection.is_signing_key(cert, source):
            return "the message is signed by a queue manager, but not with a known signing key of that queue manager"
        if version is SignatureVersion.SIG30:
            assert packet.multi_queue is not None
            names = [to_format_name(each) for each in packet.multi_queue.destination.elements]
            if destination_format_name(packet.user) not in names:
                return "the signature does not cover this destination"
        elif packet.multi_queue is not None:
            # MS-MQMQ 2.5.1, 2.5.2: anybody could add the header to a signed message.
            return "the signature does not cover the lists of queues in the message"
        return ""

    def _give_up(self, session: Session, error: WaypostError, now: Now) -> None:
        if session in self.held:
            self._sessions.close(
                session, f"the queue manager cannot check signed or encrypted messages now: {error}", now
            )

    def _end(self, session: Session, checks: list[_Check], now: Now) -> None:
        """Take the piece that was checked, and the pieces behind it until one has to be checked."""
        waiting = self.held.pop(session, None)
        if waiting is None or _is_closed(session):
            return
        self.verdicts = {id(check.packet): check.verdict for check in checks}
        try:
            self._take_first(session, waiting, now)
        finally:
            self.verdicts = {}
        while waiting and not _is_closed(session) and session not in self.held:
            self._take_first(session, waiting, now)
        if session in self.held:
            self.held[session].extend(waiting)
            self._count_untaken(session, self.held[session])
        elif not _is_closed(session):
            session.all_taken(now)

    def _take_first(self, session: Session, waiting: deque[Sequence[Incoming]], now: Now) -> None:
        piece = waiting.popleft()
        self._count_untaken(session, waiting)
        self._go_on(session, piece, now)


def _is_closed(session: Session) -> bool:
    return session.state is SessionState.CLOSED


def _size(incoming: Incoming) -> int:
    """The bytes of a message in memory: a packet that was taken apart has its body once more."""
    packet, size = incoming.packet, len(incoming.data)
    return size + len(packet.properties.message_body) if isinstance(packet, UserMessage) else size


def _invalid(found: CheckedSignature, now: Now) -> str:
    if now.wall > found.not_after:
        return "the certificate has expired"
    return "the certificate is not valid yet" if now.wall < found.not_before else ""


def _signature_to_check(check: _Check, hashes: Container[int]) -> CheckSignature | None:
    packet = check.packet
    check.claim = claim = claimed_signature(packet)
    if claim is None:
        if packet.multi_queue is not None and packet.multi_queue.signature.signature:
            raise AuthenticationFailed("the message has a signature but no certificate")
        return None
    assert packet.security is not None
    if not packet.security.sender_cert:
        raise AuthenticationFailed("the message has a signature but no certificate")
    # MS-MQMQ 2.2.20.6: a provider other than the default one has to be named.
    signing_provider(packet.security)
    digests = claimed_digests(packet, claim)
    algorithm = packet.properties.hash_algorithm
    if algorithm not in hashes:
        word = HashAlgorithm(algorithm).name.replace("_", "-")
        raise AuthenticationFailed(
            f"the signature uses the hash {word}, which the configuration key security.hashes does not allow"
        )
    return CheckSignature(packet.security.sender_cert, claim.signature, algorithm, digests)


def verified_packet(packet: UserMessage, verdict: Verdict, data: bytes) -> bytes:
    """The packet of a checked message as it is kept. A second call changes nothing.

    `data` is the packet as it came, without a SessionHeader.
    """
    _mark_verified(packet, verdict)
    if packet.security is not None and not verdict.was_encrypted:
        # Nothing else has changed, and another packet takes ten times as long.
        found = with_security_flags(data, packet.security.flags)
        if found is not None:
            return found
    return (packet if packet.session is None else replace(packet, session=None)).encode()


def _mark_verified(packet: UserMessage, verdict: Verdict) -> None:
    """Write into a packet what was verified, and nothing that its sender claims."""
    security = packet.security
    if security is None:
        return
    clear_authentication(security)
    security.flags &= ~(security_header.PRIVATE | security_header.UNSENT)
    if verdict.level is not AuthenticationLevel.NONE:
        record_authentication(security, SignatureVersion(int(verdict.level)))
    if verdict.was_encrypted:
        security.flags |= security_header.PRIVATE
        security.encryption_key = b""
        if not (security.security_id or security.signature or security.sender_cert or security.provider_info):
            # A header has to have something.
            provider = PROVIDERS[PrivacyLevel(packet.properties.privacy_level)]
            security.provider_info = ProviderInfo(PROVIDER_TYPES[provider], provider.value).encode()
            security.flags &= ~security_header.DE
