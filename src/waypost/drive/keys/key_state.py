"""The content of a key folder at one moment: its index, private keys, and the queue managers that answered.

A state never changes. The key folder replaces it with one assignment, so that any thread can read it without a lock.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from waypost.api.keys import KINDS, KeyKind
from waypost.drive.keys import formats
from waypost.drive.keys.key_records import KeyRecord, decrypting
from waypost.drive.keys.pin_names import pin_key
from waypost.guid import parse_guid
from waypost.security.protection_facts import ExchangeKeys, ProtectionFacts, Registered, certificate_digest
from waypost.wire.keys import MqDsPublicKeys
from waypost.wire.sid import Sid


class CertificateRecord(msgspec.Struct, kw_only=True):
    """A registered certificate. With `has_key`, its private key is in the file with the name of its digest."""

    digest: str
    user: str
    sid: str
    subject: str
    not_before: int
    not_after: int
    internal: bool
    has_key: bool
    certificate: bytes


class PinRecord(msgspec.Struct, kw_only=True):
    """Pinned keys of one kind, as MQDSPUBLICKEYS."""

    who: str
    added: int
    keys: bytes
    kind: KeyKind = "exchange"


class Index(msgspec.Struct, frozen=True):
    """Everything that is public. The lists are replaced, never changed."""

    keys: list[KeyRecord] = []
    certificates: list[CertificateRecord] = []
    pins: list[PinRecord] = []


@dataclass(frozen=True, slots=True)
class KeyState:
    """`private` has the private keys of the index in PKCS#8, by digest. `changes` counts those of the facts."""

    index: Index
    private: Mapping[str, bytes]
    answered: Mapping[str, str]
    changes: int = 0

    def facts(self) -> ProtectionFacts:
        registered = {}
        for each in self.index.certificates:
            sid = Sid.parse(each.sid).encode()
            found = Registered(each.certificate, sid, each.not_before, each.not_after)
            registered[certificate_digest(each.certificate)] = found
        pins: dict[KeyKind, dict[bytes | str, ExchangeKeys]] = {kind: {} for kind in KINDS}
        for pin in self.index.pins:
            pins[pin.kind][pin_key(pin.who)] = formats.exchange_keys(pin.keys, pin.who)
        signing = {who: tuple(dict.fromkeys(keys.values())) for who, keys in pins["signing"].items()}
        answered = {host: parse_guid(guid) for host, guid in self.answered.items()}
        exchange_list, signing_list = (self._current_list(kind) for kind in KINDS)
        grace_ends = min((each.ends for each in self.index.keys if each.ends is not None), default=None)
        return ProtectionFacts(registered, pins["exchange"], answered, signing, exchange_list, signing_list, grace_ends)

    def _current_list(self, kind: KeyKind) -> MqDsPublicKeys:
        """The current public key, under the names of all providers; nothing before it is made."""
        key = self.current(kind)
        return MqDsPublicKeys(()) if key is None else formats.public_key_list(formats.loaded(key).public_key())

    def current(self, kind: KeyKind) -> bytes | None:
        """The current key, in PKCS#8; None before it is made."""
        for each in self.index.keys:
            if each.kind == kind and each.retired is None:
                return self.private[each.digest]
        return None

    def decrypting_keys(self, wall: float) -> tuple[bytes, ...]:
        """The exchange keys that decrypt now, in PKCS#8, the current one first."""
        return tuple(self.private[each.digest] for each in decrypting(self.index.keys, wall))
