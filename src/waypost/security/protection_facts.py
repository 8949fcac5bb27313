"""Facts about keys and certificates that the engine knows: they come from the key folder, whole, after each change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Final

from waypost.limits import MAX_RSA_BITS, MIN_RSA_BITS
from waypost.security.ciphers import CryptoServiceProvider
from waypost.wire.keys import MqDsPublicKeys, PublicKeyBlob


def certificate_digest(certificate: bytes) -> bytes:
    """The name of a certificate: SHA-1 of its DER form. It finds a certificate, and the bytes are compared then."""
    return sha1(certificate, usedforsecurity=False).digest()


@dataclass(frozen=True, slots=True)
class Registered:
    """A certificate that is registered for the user with this SID (packet form)."""

    certificate: bytes
    sid: bytes
    not_before: int
    not_after: int

    def is_valid(self, wall: float) -> bool:
        return self.not_before <= wall <= self.not_after


# The exchange keys of a queue manager by provider.
ExchangeKeys = Mapping[CryptoServiceProvider, PublicKeyBlob]


_NONE: Final = MqDsPublicKeys(())
_PROVIDERS: Final = {provider.value: provider for provider in CryptoServiceProvider}


def strong_keys(found: MqDsPublicKeys) -> ExchangeKeys:
    """The keys of a list that may encrypt: those that a file of keys may have."""
    known = keys_by_provider(found)
    return {
        provider: key
        for provider, key in known.items()
        if MIN_RSA_BITS <= key.modulus_number.bit_length() <= MAX_RSA_BITS and key.pub_exp & 1 and key.pub_exp > 1
    }


def keys_by_provider(found: MqDsPublicKeys) -> ExchangeKeys:
    """The keys of a list of MS-MQMQ 2.2.2, without those of unknown providers."""
    return {
        _PROVIDERS[each.s_provider_name]: each.a_buf
        for each in found.a_public_keys
        if each.s_provider_name in _PROVIDERS
    }


@dataclass(frozen=True, slots=True)
class ProtectionFacts:
    """`pins` are by GUID (bytes) or by the name of a host (text, in lower case).

    `answered` are the queue managers that answered at hosts, from before the start. `signing_pins` are the pinned
    signing keys of other queue managers. `encryption_list` and `signing_list` are the current keys of this one, and at
    `grace_ends` (wall clock) the next of its earlier keys ends.
    """

    registered: Mapping[bytes, Registered] = field(default_factory=dict)
    pins: Mapping[bytes | str, ExchangeKeys] = field(default_factory=dict)
    answered: Mapping[str, bytes] = field(default_factory=dict)
    signing_pins: Mapping[bytes | str, tuple[PublicKeyBlob, ...]] = field(default_factory=dict)
    encryption_list: MqDsPublicKeys = _NONE
    signing_list: MqDsPublicKeys = _NONE
    grace_ends: int | None = None

    def owner(self, certificate: bytes) -> Registered | None:
        """The registration of a certificate."""
        found = self.registered.get(certificate_digest(certificate))
        return found if found is not None and found.certificate == certificate else None


NO_FACTS: Final = ProtectionFacts()
