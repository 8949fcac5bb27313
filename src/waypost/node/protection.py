"""Keys and certificates as the engine knows them: facts of the key folder and of the directory, and the caches of
MS-MQQB 3.1.1.3.
"""

from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from waypost.clock import Now
from waypost.core.message_values import AuthenticationLevel
from waypost.errors import DecodeError
from waypost.guid import NULL_GUID, guid_text
from waypost.limits import MAX_ANSWERED_ADDRESSES
from waypost.node.directory import NodeDirectory
from waypost.node.effects import EndKeys
from waypost.node.kernel import Kernel
from waypost.node.users import Users
from waypost.security.access import QUEUE_MANAGER, Sender, user_sender
from waypost.security.aging_cache import AgingCache
from waypost.security.certificates import public_key_of
from waypost.security.ciphers import BodyEncryption, BodySealer, CryptoServiceProvider
from waypost.security.protection_facts import NO_FACTS, ExchangeKeys, ProtectionFacts, strong_keys
from waypost.wire.format_names import DirectFormatName, FormatName
from waypost.wire.keys import KeyType, PublicKeyBlob, SessionKeyAlgorithm
from waypost.wire.security_header import SENDER_QUEUE_MANAGER, SENDER_SID, SecurityHeader

K = TypeVar("K")
V = TypeVar("V")

# MS-MQQB product notes on 3.1.1.3: sizes of the caches, and lifetimes in seconds.
RECEIVE_KEYS: Final = 127
SEND_KEYS: Final = 53
USER_CERTS: Final = 53
KEY_LIFETIME: Final = 600.0
CERT_LIFETIME: Final = 1200.0
_LATER: Final = 60.0
# Seconds between two looks at the end of a grace: the wall clock may jump, and the key folder may fail to delete a key.
_GRACE_LOOK: Final = 3600.0

# The destination of an encrypted message: the GUID of its queue manager, or the host of a direct name.
Remote = bytes | str
# RemoteQMGuid, CryptoServiceProvider and CryptoAlgorithm of a CachedSymmetricKey.
# The public key belongs to it: a symmetric key that is made for it never counts for another one.
SendKey = tuple[Remote, CryptoServiceProvider, SessionKeyAlgorithm, PublicKeyBlob]
# SourceQueueManager, provider, algorithm, and EncryptedSymmetricKey.
ReceiveKey = tuple[bytes, CryptoServiceProvider, SessionKeyAlgorithm, bytes]


class Protection:
    """The facts about keys and certificates of one node.

    `receive_keys` has the candidates for a symmetric key: a single private key that is the wrong one seldom gives one.
    """

    __slots__ = (
        "_answered",
        "_directory",
        "_directory_keys",
        "_kernel",
        "_trusts_unsigned",
        "_users",
        "facts",
        "receive_keys",
        "send_keys",
        "user_certs",
    )

    def __init__(
        self, kernel: Kernel, users: Users, directory: NodeDirectory, *, trusts_unsigned: bool = False
    ) -> None:  # fmt: skip
        self._kernel: Final = kernel
        self._users: Final = users
        self._directory: Final = directory
        self._trusts_unsigned: Final = trusts_unsigned
        self.facts: ProtectionFacts = NO_FACTS
        # The queue manager that answered last at the host of a direct name, on a session that was opened here.
        self._answered: dict[str, bytes] = {}
        self.receive_keys: Final[AgingCache[ReceiveKey, tuple[bytes, ...]]] = AgingCache(RECEIVE_KEYS, KEY_LIFETIME)
        self.send_keys: Final[AgingCache[SendKey, BodySealer]] = AgingCache(SEND_KEYS, KEY_LIFETIME)
        # SenderCert and SecurityID of certificates that are registered.
        self.user_certs: Final[AgingCache[tuple[bytes, bytes], bool]] = AgingCache(USER_CERTS, CERT_LIFETIME)
        # RemoteQMPublicKey, for all sessions.
        self._directory_keys: Final[dict[bytes, ExchangeKeys]] = {}

    def facts_changed(self, facts: ProtectionFacts) -> None:
        """Take the facts of the key folder. Nothing that was true before counts any more."""
        self._take(facts)
        self._answered = {**self._answered, **facts.answered}
        if self._kernel.failure is None and not self._directory.has_keys(facts.encryption_list, facts.signing_list):
            with self._kernel.operation(self._kernel.now):
                self._directory.publish_keys(facts.encryption_list, facts.signing_list)
        self._await_grace(self._kernel.now)

    def _take(self, facts: ProtectionFacts) -> None:
        self.facts = facts
        for cache in (self.receive_keys, self.send_keys, self.user_certs):
            cache.clear()

    def _await_grace(self, now: Now) -> None:
        timer, ends = (Protection, "grace"), self.facts.grace_ends
        if ends is None:
            self._kernel.timers.stop(timer)
        else:
            delay = min(max(ends - now.wall, 0.0), _GRACE_LOOK)
            self._kernel.timers.start(timer, now.monotonic + delay, self._look_at_grace)

    def _look_at_grace(self, now: Now) -> None:
        """Forget all that was decrypted with a key whose grace has ended, and let the key folder delete the key."""
        ends = self.facts.grace_ends
        if ends is None or now.wall < ends:
            self._await_grace(now)
            return
        self._take(replace(self.facts))
        self._kernel.ask_keys(EndKeys(now.wall), lambda _result, _now: None)
        # The facts change when the key is deleted; if that fails, this is the next attempt.
        self._kernel.timers.start((Protection, "grace"), now.monotonic + _GRACE_LOOK, self._look_at_grace)

    def directory_changed(self) -> None:
        """Forget what the directory said before."""
        self.user_certs.clear()
        self._directory_keys.clear()

    def remember(self, cache: AgingCache[K, V], key: K, value: V, now: Now) -> None:
        """Add an entry to a cache, which is cleaned up when its oldest entry ends."""
        cache.add(key, value, now.monotonic)
        timer = (Protection, id(cache))
        if not self._kernel.timers.is_running(timer):
            self._kernel.timers.start(timer, now.monotonic + cache.lifetime, partial(self._clean_up, cache))

    def _clean_up(self, cache: AgingCache[K, V], now: Now) -> None:
        """MS-MQQB 3.1.6.10 to 3.1.6.13: the next time is a minute after the end of the oldest entry."""
        ends = cache.prune(now.monotonic)
        if ends is not None:
            self._kernel.timers.start((Protection, id(cache)), ends + _LATER, partial(self._clean_up, cache))

    def is_registered(self, certificate: bytes, sid: bytes, now: Now) -> bool:
        """MS-MQQB 3.1.5.8.3: whether a certificate is registered for a SID, in the user store or in the directory.

        A certificate of the user store belongs to its owner there, whatever the directory says.
        """
        key = certificate, sid
        if self.user_certs.get(key, now.monotonic):
            return True
        known = self.facts.owner(certificate)
        if not (certificate in self._directory.certificates_of(sid) if known is None else known.sid == sid):
            return False
        self.remember(self.user_certs, key, True, now)
        return True

    def sender(self, sid: bytes) -> Sender:
        """The sender whose certificate is registered for this SID, with its groups if it is a user here."""
        found = user_sender(sid)
        user = next((each for each in map(self._users.of_sid, found.sids) if each is not None), None)
        return found if user is None else Sender(found.sids | self._users.caller(user, "message").sids)

    def is_signing_key(self, certificate: bytes, queue_manager: bytes) -> bool:
        """MS-MQQB 3.1.5.8.3: whether the key of a certificate is in the PublicSigningKeyList of a queue manager.

        The list is that of this queue manager, or that of the directory. Pinned signing keys count too, for the GUID or
        for a host where it answered.
        """
        try:
            key = public_key_of(certificate, KeyType.CALG_RSA_KEYX)
        except DecodeError:
            return False
        if any(
            each.a_buf.numbers == key.numbers for each in self._directory.signing_keys_of(queue_manager).a_public_keys
        ):
            return True
        pins = self.facts.signing_pins
        return any(
            any(each.numbers == key.numbers for each in keys)
            for who, keys in pins.items()
            if (who if isinstance(who, bytes) else self._answered.get(who)) == queue_manager
        )

    def known_sender(self, security: SecurityHeader, sid: bytes, level: AuthenticationLevel) -> Sender | None:
        """The sender of an arrival for its access check. `sid` is the verified one, else empty.

        None if the message only names a sender, unless `security.trust_unsigned_sender` lets its SID count.
        """
        if sid:
            return self.sender(sid)
        if level is not AuthenticationLevel.NONE and security.sender_type == SENDER_QUEUE_MANAGER:
            return QUEUE_MANAGER
        if self._trusts_unsigned and security.sender_type == SENDER_SID:
            return self.sender(security.security_id)
        return None

    # Keys of destinations.

    def answered(self, name: FormatName, guid: bytes) -> bool:
        """Note which queue manager answers at the host of a direct name. True if that is news.

        News are kept over restarts even before the first pin: a GUID that is pinned later counts for the host then.
        """
        if not isinstance(name, DirectFormatName):
            return False
        host = name.address.lower()
        if self._answered.get(host) == guid:
            return False
        self._answered.pop(host, None)
        self._answered[host] = guid
        if len(self._answered) > MAX_ANSWERED_ADDRESSES:
            del self._answered[next(iter(self._answered))]
        return True

    def exchange_keys(self, name: FormatName | None, queue_manager: bytes) -> tuple[Remote, ExchangeKeys] | None:
        """The exchange keys of the queue manager of a queue, with the name under which they are known.

        Pinned keys have precedence over those of the directory, which has none for a direct name.
        """
        pins = self.facts.pins
        if not isinstance(name, DirectFormatName):
            keys = pins.get(queue_manager) or self._keys_in_directory(queue_manager)
            return (queue_manager, keys) if keys and queue_manager != NULL_GUID else None
        host = name.address.lower()
        found = pins.get(host)
        if found is not None:
            return host, found
        guid = self._answered.get(host)
        found = None if guid is None else pins.get(guid)
        return None if guid is None or found is None else (guid, found)

    def _keys_in_directory(self, queue_manager: bytes) -> ExchangeKeys:
        """MS-MQQB 3.1.7.1.5: PublicEncryptionKeyList of another queue manager."""
        found = self._directory_keys.get(queue_manager)
        if found is None:
            found = strong_keys(self._directory.encryption_keys_of(queue_manager))
            if found:
                self._directory_keys[queue_manager] = found
        return found

    def unknown_keys(self, name: FormatName | None, queue_manager: bytes) -> str:
        """The sentence about missing keys, with the command to type."""
        host = name.address if isinstance(name, DirectFormatName) else guid_text(queue_manager)
        return (
            f"the exchange keys of {host} are not known; run `waypost key export --out FILE` there, and "
            f"`waypost key trust {host} FILE` here"
        )


def send_key(remote: Remote, encryption: BodyEncryption, public: PublicKeyBlob) -> SendKey:
    return remote, encryption.provider, encryption.algorithm, public
