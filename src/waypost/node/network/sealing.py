"""Encryption of messages that leave: MS-MQQB 3.1.7.1.5.

A message waits in its outgoing queue in the clear, marked (SecurityHeader PRIVATE), and is encrypted for its
destination, not for the next hop, when a session carries it. It is never sent in the clear. A message without a
usable key is given up, but not if only the work with keys has failed: then it is tried again.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

from waypost.clock import Now
from waypost.core.stored_message import security_flags
from waypost.errors import InvalidParameter, WaypostError
from waypost.node.effects import MakeKeys
from waypost.node.kernel import Kernel
from waypost.node.protection import SEND_KEYS, Protection, SendKey, send_key
from waypost.security.ciphers import BodyEncryption, BodySealer
from waypost.security.work import WrappedKey
from waypost.transfer.links import Link
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.keys import PublicKeyBlob, SessionKeyAlgorithm, SimpleBlob
from waypost.wire.security_header import PRIVATE
from waypost.wire.user_message import UserMessage

# RC4 has a key for each message: two messages under one key would be encrypted with the same stream.
_FRESH: Final = 16
# Seconds until work that failed is tried again.
_RETRY_S: Final = 1.0


class Wait(Enum):
    """A message has to wait for its key."""

    FOR_KEY = "for its key"


class Sealing:
    """Encrypts outgoing messages of one node. `want` lets a link continue when its key is there."""

    __slots__ = ("_failed", "_fresh", "_kernel", "_making", "_protection", "_want")

    def __init__(self, kernel: Kernel, protection: Protection, want: Callable[[Link], None]) -> None:
        self._kernel: Final = kernel
        self._protection: Final = protection
        self._want: Final = want
        # The links that wait for a key that is being made, and the reasons why keys were not made.
        self._making: Final[dict[SendKey, dict[Link, None]]] = {}
        self._failed: Final[dict[SendKey, str]] = {}
        # Keys for one message each.
        self._fresh: Final[dict[SendKey, list[BodySealer]]] = {}

    def seal(self, link: Link, data: bytes, now: Now) -> bytes | str | Wait:
        """The packet as it is sent, or the reason why encryption fails."""
        flags = security_flags(data)
        if flags is not None and not flags & PRIVATE:
            # It is only signed.
            return data
        packet = UserMessage.decode(data)
        security, properties = packet.security, packet.properties
        if security is None or not security.flags & PRIVATE:
            return data
        name, host = link.queue.destination_format_name, packet.user.queue_manager_address
        known = self._protection.exchange_keys(name, host)
        if known is None:
            return self._protection.unknown_keys(name, host)
        try:
            algorithm = SessionKeyAlgorithm(properties.encryption_algorithm)
            encryption = BodyEncryption(PrivacyLevel(properties.privacy_level), algorithm)
        except ValueError as error:
            return str(error)
        if encryption.privacy_level is PrivacyLevel.BASE:
            # readings MQQB 7.46: anybody can break 40 bits.
            return "keys of 40 bits are never used"
        remote, keys = known
        public = keys.get(encryption.provider)
        if public is None or encryption.key_size is None:
            return f"the destination has no known key for {encryption.provider}"
        found = self._sealer(link, send_key(remote, encryption, public), public, encryption, now=now)
        if not isinstance(found, BodySealer):
            return found
        security.flags &= ~PRIVATE
        try:
            found.seal(packet)
        except InvalidParameter as error:
            return str(error)
        return packet.encode()

    def _sealer(
        self, link: Link, key: SendKey, public: PublicKeyBlob, encryption: BodyEncryption, *, now: Now
    ) -> BodySealer | str | Wait:
        is_fresh, size = encryption.algorithm is SessionKeyAlgorithm.RC4, encryption.key_size
        assert size is not None
        if is_fresh:
            fresh = self._fresh.pop(key, [])
            found = fresh.pop() if fresh else None
            if fresh:
                self._fresh[key] = fresh
        else:
            found = self._protection.send_keys.get(key, now.monotonic)
        if found is not None:
            return found
        failed = self._failed.pop(key, None)
        if failed is not None:
            return failed
        waiting = self._making.get(key)
        if waiting is None:
            self._making[key] = waiting = {}

            def made(result: object, now: Now) -> None:
                if isinstance(result, WaypostError) and not isinstance(result, InvalidParameter):
                    self._try_later(key, result, now)
                    return
                links = self._making.pop(key)
                # Of keys that no destination has any more nothing is taken out.
                for kept in (self._failed, self._fresh):
                    if len(kept) >= SEND_KEYS:
                        kept.clear()
                if isinstance(result, InvalidParameter):
                    self._failed[key] = str(result)
                else:
                    assert isinstance(result, list)
                    try:
                        sealers = [_sealer_of(encryption, each) for each in result]
                    except InvalidParameter as error:
                        self._failed[key] = str(error)
                    else:
                        if is_fresh:
                            self._fresh[key] = sealers
                        else:
                            self._protection.remember(self._protection.send_keys, key, sealers[0], now)
                for each in links:
                    self._want(each)

            self._kernel.ask_keys(MakeKeys(public, size, _FRESH if is_fresh else 1), made)
        waiting[link] = None
        return Wait.FOR_KEY

    def _try_later(self, key: SendKey, error: WaypostError, now: Now) -> None:
        """The work failed, as when its process ends: nothing was found out about the key, and the messages wait."""
        for link in self._making[key]:
            link.last_error = f"the queue manager cannot encrypt messages now: {error}"
        self._kernel.notice("encryption delayed", reason=str(error))

        def try_again(_now: Now) -> None:
            for link in self._making.pop(key):
                self._want(link)

        self._kernel.timers.start((Sealing, key), now.monotonic + _RETRY_S, try_again)


def _sealer_of(encryption: BodyEncryption, key: WrappedKey) -> BodySealer:
    blob = SimpleBlob.from_ciphertext(encryption.algorithm, key.ciphertext)
    return BodySealer(encryption, key.key, blob.encode())
