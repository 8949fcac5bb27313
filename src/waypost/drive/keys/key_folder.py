"""The key folder: private keys, registered certificates and pinned keys, in the data folder of a queue manager.

`index.json` has everything that is public; the private keys are files beside it, in PKCS#8, with a passphrase if one is
set. Nobody but the account of the queue manager may read the folder. A change is a new index: written, flushed and
renamed, after the files that it names. The queue managers that answered at hosts are lines of another file, to which
each new one is appended. One lock guards the folder, because several workers use it.
"""

import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_der_private_key
from cryptography.x509 import Certificate

from waypost.api.excerpt import excerpt
from waypost.api.keys import KINDS, KeyKind
from waypost.drive.keys import formats
from waypost.drive.keys.key_records import KeyRecord, current_first, decrypting, rotated
from waypost.drive.keys.pin_names import GUID, HOST, check_host, pin_key, pin_name
from waypost.drive.keys.settings import KEY_FOLDER, KeySettings
from waypost.drive.keys.workers import Workers
from waypost.errors import CertificateNotFound, InvalidParameter, KeyFolderError, PinNotFound
from waypost.guid import guid_text, parse_guid
from waypost.limits import MAX_ANSWERED_ADDRESSES
from waypost.security.protection_facts import ExchangeKeys, ProtectionFacts, Registered, certificate_digest
from waypost.security.work import Generate, SelfSign
from waypost.wire.keys import MqDsPublicKeys
from waypost.wire.sid import Sid

DAY: Final = 86_400
# A certificate is valid a little earlier, for computers whose clocks are behind.
_EARLIER: Final = DAY
_INDEX: Final = "index.json"
# A line for each answer: the host, a space, and the GUID. The last line for a host counts.
_ANSWERS: Final = "answered.txt"
_MAX_LINES: Final = 2 * MAX_ANSWERED_ADDRESSES
_ENCRYPTED: Final = b"-----BEGIN ENCRYPTED"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


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


class _Index(msgspec.Struct):
    keys: list[KeyRecord] = []
    certificates: list[CertificateRecord] = []
    pins: list[PinRecord] = []


@dataclass(frozen=True, slots=True)
class Signer:
    """A certificate (DER) and its private key (PKCS#8)."""

    certificate: bytes
    key: bytes


class KeyFolder:
    """The keys of one queue manager. Methods may wait for the disk or a new key: call them in a worker."""

    def __init__(self, data_folder: Path, settings: KeySettings, workers: Workers, computer: str) -> None:
        """Raises KeyFolderError if others can read the folder, or if it is damaged."""
        self._path: Final = data_folder / KEY_FOLDER
        self._settings: Final = settings
        self._workers: Final = workers
        self._computer: Final = computer
        self._lock: Final = Lock()
        self._index = _Index()
        self._private: dict[str, bytes] = {}
        self._answered: dict[str, str] = {}
        self._answer_lines = 0
        self.changes = 0
        if self._path.exists():
            self._check_permissions()
            self._load()

    # Facts.

    def facts(self) -> ProtectionFacts:
        index = self._index
        registered = {}
        for each in index.certificates:
            sid = Sid.parse(each.sid).encode()
            found = Registered(each.certificate, sid, each.not_before, each.not_after)
            registered[certificate_digest(each.certificate)] = found
        pins: dict[KeyKind, dict[bytes | str, ExchangeKeys]] = {kind: {} for kind in KINDS}
        for pin in index.pins:
            pins[pin.kind][pin_key(pin.who)] = formats.exchange_keys(pin.keys, pin.who)
        signing = {who: tuple(dict.fromkeys(keys.values())) for who, keys in pins["signing"].items()}
        answered = {host: parse_guid(guid) for host, guid in self._answered.items()}
        lists = [self._current_list(kind) for kind in KINDS]
        return ProtectionFacts(registered, pins["exchange"], answered, signing, *lists)

    def _current_list(self, kind: KeyKind) -> MqDsPublicKeys:
        """The current public key, under the names of all providers; nothing before it is made."""
        for each in self._index.keys:
            if each.kind == kind and each.retired is None and each.digest in self._private:
                return formats.public_key_list(_loaded(self._private[each.digest]).public_key())
        return MqDsPublicKeys(())

    @property
    def keys(self) -> list[KeyRecord]:
        """All keys, the current ones first."""
        return current_first(self._index.keys)

    @property
    def certificates(self) -> list[CertificateRecord]:
        return sorted(self._index.certificates, key=lambda each: (each.user, each.not_before))

    @property
    def pins(self) -> list[PinRecord]:
        return sorted(self._index.pins, key=lambda each: (each.who, each.kind))

    def decrypting_keys(self, wall: float) -> tuple[bytes, ...]:
        """The exchange keys that decrypt now, in PKCS#8, the current one first."""
        with self._lock:
            return tuple(self._private[each.digest] for each in decrypting(self._index.keys, wall))

    # Keys of the queue manager.

    def current(self, kind: KeyKind) -> RSAPrivateKey:
        """The current key, made now if there is none."""
        with self._lock:
            return _loaded(self._private[self._current(kind).digest])

    def _current(self, kind: KeyKind) -> KeyRecord:
        for each in self._index.keys:
            if each.kind == kind and each.retired is None:
                return each
        return self._add_key(kind, self._workers.call(Generate(self._settings.bits)), 0)

    def make_keys(self) -> None:
        """Make the keys that are missing."""
        with self._lock:
            for kind in KINDS:
                self._current(kind)

    def rotate(self, kind: KeyKind, grace_days: int) -> None:
        """Make a new key. An exchange key before it decrypts for some days more."""
        data = self._workers.call(Generate(self._settings.bits))
        with self._lock:
            self._add_key(kind, data, grace_days)

    def import_key(self, kind: KeyKind, data: bytes, password: str, grace_days: int) -> str:
        """Make this key the current one. Returns a warning for a key shorter than new keys, or ""."""
        key = formats.private_key(data, password.encode() or None, "the file")
        with self._lock:
            digest = formats.public_key_digest(key.public_key())
            if any(each.digest == digest for each in self._index.keys):
                raise formats.refusal(
                    f"the key {digest} is already in the key folder", "`waypost key show` shows the keys"
                )
            self._add_key(kind, formats.pkcs8(key), grace_days)
        if key.key_size >= self._settings.bits:
            return ""
        return (
            f"the imported {kind} key has only {key.key_size} bits, but new keys have {self._settings.bits} bits "
            "(security.key_bits)"
        )

    def _add_key(self, kind: KeyKind, data: bytes, grace_days: int) -> KeyRecord:
        key, now = _loaded(data), int(time.time())
        digest = formats.public_key_digest(key.public_key())
        record = KeyRecord(kind=kind, digest=digest, bits=key.key_size, created=now)
        keys, gone = rotated(self._index.keys, record, grace_days * DAY)
        self._save_private(digest, data)
        self._write(msgspec.structs.replace(self._index, keys=keys))
        self._forget_private(gone)
        return record

    # Certificates.

    def add_certificate(
        self, found: Certificate, key: RSAPrivateKey | None, user: str, sid: Sid, *, is_internal: bool
    ) -> CertificateRecord:
        """Register a certificate, with its key if it is known."""
        data = found.public_bytes(Encoding.DER)
        now, digest = time.time(), certificate_digest(data).hex()
        not_before, not_after = _validity(found)
        if not_after < now:
            raise formats.refusal(
                f"the certificate {digest} expired on {_day(not_after)}",
                "use a certificate that is still valid; `waypost cert create` creates one",
            )
        if not_before > now:
            raise formats.refusal(
                f"the certificate {digest} is not valid before {_day(not_before)}",
                "use a certificate that is already valid, and check the clock of this computer",
            )
        with self._lock:
            others = [each for each in self._index.certificates if each.digest != digest]
            before = next((each for each in self._index.certificates if each.digest == digest), None)
            if before is not None and before.sid != str(sid):
                raise formats.refusal(
                    f"the certificate {digest} is already registered for {before.user} ({before.sid})",
                    f"use another certificate, or remove this one first: `waypost cert remove {digest}`",
                )
            record = CertificateRecord(
                digest=digest,
                user=user,
                sid=str(sid),
                subject=found.subject.rfc4514_string(),
                not_before=not_before,
                not_after=not_after,
                internal=is_internal or (before is not None and before.internal),
                has_key=key is not None or (before is not None and before.has_key),
                certificate=data,
            )
            if key is not None:
                self._save_private(digest, formats.pkcs8(key))
            self._write(msgspec.structs.replace(self._index, certificates=[*others, record]))
            return record

    def create_certificate(self, user: str, sid: Sid, days: int) -> CertificateRecord:
        """Make an internal certificate with a new key."""
        key = self._workers.call(Generate(self._settings.bits))
        now = int(time.time())
        work = SelfSign(key, user, f"Waypost on {self._computer}", now - _EARLIER, now + days * DAY)
        found = formats.certificate(self._workers.call(work), "the new certificate")
        return self.add_certificate(found, _loaded(key), user, sid, is_internal=True)

    def remove_certificate(self, digest: str) -> None:
        with self._lock:
            left = [each for each in self._index.certificates if each.digest != digest]
            if len(left) == len(self._index.certificates):
                raise CertificateNotFound(f"the certificate {excerpt(digest)} is not registered")
            self._write(msgspec.structs.replace(self._index, certificates=left))
            self._forget_private([digest])

    def remove_certificates(self, sid: Sid) -> None:
        """Remove all certificates of a user, with their keys."""
        with self._lock:
            gone = [each.digest for each in self._index.certificates if each.sid == str(sid)]
            if gone:
                left = [each for each in self._index.certificates if each.sid != str(sid)]
                self._write(msgspec.structs.replace(self._index, certificates=left))
                self._forget_private(gone)

    def signer(self, wanted: str, user: str, sid: Sid) -> Signer:
        """The certificate with this digest, or that of a PEM text; "" is the newest internal one, made if needed."""
        if "-----BEGIN " in wanted:
            found, key = formats.certificate_with_key(wanted.encode(), "", "the certificate")
            not_before, not_after = _validity(found)
            if not not_before <= time.time() <= not_after:
                raise InvalidParameter(f"the certificate is valid only from {_day(not_before)} to {_day(not_after)}")
            return Signer(found.public_bytes(Encoding.DER), formats.pkcs8(key))
        now = time.time()
        own = [each for each in self._index.certificates if each.sid == str(sid) and each.has_key]
        if wanted:
            digest = wanted.lower()
            named = next((each for each in own if each.digest == digest), None)
            if named is None:
                raise InvalidParameter(
                    f"{user} has no certificate {excerpt(wanted)} with a private key; see `waypost cert list`"
                )
            if not named.not_before <= now <= named.not_after:
                raise InvalidParameter(
                    f"the certificate {digest} is valid only from {_day(named.not_before)} to {_day(named.not_after)}"
                )
            return Signer(named.certificate, self._private[digest])
        valid = [each for each in own if each.internal and each.not_before <= now <= each.not_after]
        # The last one that was made, however long others are valid. Of those of one second it is the last in the index.
        newest = max(reversed(valid), key=lambda each: each.not_before, default=None)
        if newest is None:
            newest = self.create_certificate(user, sid, 365)
        return Signer(newest.certificate, self._private[newest.digest])

    # Keys of others.

    def pin(self, who: str, data: bytes, kind: KeyKind) -> PinRecord:
        """Pin the keys of one kind of another queue manager."""
        name = pin_name(who)
        check_host(name)
        keys = formats.exchange_keys(data, "the file")
        record = PinRecord(who=name, added=int(time.time()), keys=formats.encoded_keys(keys), kind=kind)
        with self._lock:
            others = [each for each in self._index.pins if (each.who, each.kind) != (name, kind)]
            self._write(msgspec.structs.replace(self._index, pins=[*others, record]))
        return record

    def unpin(self, who: str, kinds: Sequence[KeyKind]) -> None:
        name = pin_name(who)
        with self._lock:
            left = [each for each in self._index.pins if each.who != name or each.kind not in kinds]
            if len(left) == len(self._index.pins):
                raise PinNotFound(f"no keys are pinned for {excerpt(who)}")
            self._write(msgspec.structs.replace(self._index, pins=left))

    def note_answer(self, host: str, guid: bytes) -> None:
        """Remember which queue manager answers at a host. The engine knows it already: its facts do not change."""
        if not HOST.fullmatch(host):
            return
        with self._lock:
            self._know_answer(host, guid_text(guid))
            if self._answer_lines < _MAX_LINES:
                self._append(_ANSWERS, f"{host} {guid_text(guid)}\n".encode())
                self._answer_lines += 1
            else:
                lines = [f"{each} {found}\n" for each, found in self._answered.items()]
                self._write_file(_ANSWERS, "".join(lines).encode())
                self._answer_lines = len(lines)

    def _know_answer(self, host: str, guid: str) -> None:
        self._answered.pop(host, None)
        self._answered[host] = guid
        if len(self._answered) > MAX_ANSWERED_ADDRESSES:
            del self._answered[next(iter(self._answered))]

    # The folder.

    def _check_permissions(self) -> None:
        if os.name != "posix":
            return
        for path in (self._path, *self._path.iterdir()):
            found = path.stat()
            if stat.S_IMODE(found.st_mode) & _OTHERS:
                mode = "700" if path == self._path else "600"
                raise KeyFolderError(f"other accounts can read {path}", f"run: chmod {mode} {path}")

    def _load_answers(self) -> None:
        """A line that a crash has cut off does not count: that queue manager answers again."""
        path = self._path / _ANSWERS
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            raise KeyFolderError(f"cannot read {path}: {error.strerror}", "check its owner and permissions") from None
        lines = text.splitlines()
        # Behind half a line, nothing is appended.
        self._answer_lines = len(lines) if text.endswith("\n") else _MAX_LINES
        for line in lines:
            host, _, guid = line.partition(" ")
            if HOST.fullmatch(host) and GUID.fullmatch(guid):
                self._know_answer(host, guid)

    def _load(self) -> None:
        self._load_answers()
        path = self._path / _INDEX
        try:
            self._index = msgspec.json.decode(path.read_bytes(), type=_Index)
        except FileNotFoundError:
            if any(self._path.glob("*.pem")):
                raise KeyFolderError(
                    f"{path} is missing, but {self._path} contains keys", "restore the folder"
                ) from None
            return
        except (msgspec.DecodeError, OSError) as error:
            raise KeyFolderError(f"{path} is damaged: {error}", f"restore the folder {self._path}") from None
        for each in self._index.keys:
            key = self._read_private(each.digest)
            if formats.public_key_digest(key.public_key()) != each.digest:
                raise self._wrong_key(each.digest, "the index")
            self._private[each.digest] = formats.pkcs8(key)
        for record in self._index.certificates:
            if record.has_key:
                key = self._read_private(record.digest)
                if self._certificate(record).public_key() != key.public_key():
                    raise self._wrong_key(record.digest, "its certificate")
                self._private[record.digest] = formats.pkcs8(key)
        try:
            self.facts()
        except (InvalidParameter, ValueError) as error:
            raise KeyFolderError(f"{path} is damaged: {error}", f"restore the folder {self._path}") from None

    def _certificate(self, record: CertificateRecord) -> Certificate:
        try:
            return formats.certificate(record.certificate, f"the certificate {record.digest}")
        except InvalidParameter as error:
            path = self._path / _INDEX
            raise KeyFolderError(f"{path} is damaged: {error}", f"restore the folder {self._path}") from None

    def _wrong_key(self, digest: str, of: str) -> KeyFolderError:
        path = self._path / f"{digest}.pem"
        return KeyFolderError(f"the private key in {path} does not belong to {of}", f"restore the folder {self._path}")

    def _read_private(self, digest: str) -> RSAPrivateKey:
        path = self._path / f"{digest}.pem"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise KeyFolderError(f"the private key {path} is missing", f"restore the folder {self._path}") from None
        except OSError as error:
            raise KeyFolderError(f"cannot read {path}: {error.strerror}", "check its owner and permissions") from None
        try:
            return formats.private_key(data, self._settings.passphrase, str(path))
        except InvalidParameter as error:
            hint = f"restore the folder {self._path}"
            if _ENCRYPTED in data:
                hint = (
                    "set security.key_passphrase_file to the file with the right passphrase, or set "
                    "WAYPOST_SECURITY_KEY_PASSPHRASE"
                )
            raise KeyFolderError(f"cannot use a private key: {error}", hint) from None

    def _save_private(self, digest: str, data: bytes) -> None:
        self._private[digest] = data
        self._write_file(f"{digest}.pem", formats.sealed_pem(_loaded(data), self._settings.passphrase))

    def _forget_private(self, digests: list[str]) -> None:
        for digest in digests:
            self._private.pop(digest, None)
            (self._path / f"{digest}.pem").unlink(missing_ok=True)

    def _write(self, index: _Index) -> None:
        self._write_file(_INDEX, msgspec.json.format(msgspec.json.encode(index)))
        self._index = index
        self.changes += 1

    def _append(self, name: str, data: bytes) -> None:
        path = self._path / name
        try:
            self._path.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            raise KeyFolderError(f"cannot write {path}: {error}") from error

    def _write_file(self, name: str, data: bytes) -> None:
        try:
            self._path.mkdir(mode=0o700, exist_ok=True)
            partial = self._path / f"{name}.partial"
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._path / name)
            folder = os.open(self._path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise KeyFolderError(f"cannot write {self._path / name}: {error}") from error


def _loaded(data: bytes) -> RSAPrivateKey:
    key = load_der_private_key(data, None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)
    return key


def _validity(found: Certificate) -> tuple[int, int]:
    return int(found.not_valid_before_utc.timestamp()), int(found.not_valid_after_utc.timestamp())


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
