"""The key folder: private keys, registered certificates and pinned keys, in the data folder of a queue manager.

`index.json` has everything that is public; the private keys are files beside it, in PKCS#8, with a passphrase if one is
set. Nobody but the account of the queue manager may read the folder. A change is a new index: written, flushed and
renamed, after the files that it names. The queue managers that answered at hosts are lines of another file, to which
each new one is appended.

Several threads use the folder. A lock guards its changes, and nobody makes a key while it holds this lock. The content
is an immutable state, which a change replaces with one assignment: to read it, no thread waits.
"""

import dataclasses
import os
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Certificate
from msgspec.structs import replace

from waypost.api.excerpt import excerpt
from waypost.api.keys import KINDS, KeyKind
from waypost.drive.keys import formats
from waypost.drive.keys.key_records import KeyRecord, current_first, ended, rotated
from waypost.drive.keys.key_state import CertificateRecord, Index, KeyState, PinRecord
from waypost.drive.keys.pin_names import GUID, HOST, check_host, pin_name
from waypost.drive.keys.settings import KEY_FOLDER, KeySettings
from waypost.drive.keys.workers import Workers
from waypost.errors import CertificateNotFound, InvalidParameter, KeyFolderError, PinNotFound
from waypost.guid import guid_text
from waypost.limits import MAX_ANSWERED_ADDRESSES
from waypost.security.protection_facts import ProtectionFacts, certificate_digest
from waypost.security.work import Generate, SelfSign
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


@dataclass(frozen=True, slots=True)
class Signer:
    """A certificate (DER) and its private key (PKCS#8)."""

    certificate: bytes
    key: bytes


class KeyFolder:
    """The keys of one queue manager.

    Methods that change the folder, or need a key that may be missing, wait for the disk or for a new key: call them in
    a worker.
    """

    def __init__(self, data_folder: Path, settings: KeySettings, workers: Workers, computer: str) -> None:
        """Raises KeyFolderError if others can read the folder, or if it is damaged or unreadable."""
        self._path: Final = data_folder / KEY_FOLDER
        self._settings: Final = settings
        self._workers: Final = workers
        self._computer: Final = computer
        # Changes come one after the other, and so do the missing keys that are made.
        self._lock: Final = Lock()
        self._making: Final = Lock()
        self._state = KeyState(Index(), {}, {})
        self._answer_lines = 0
        try:
            if self._path.exists():
                self._check_permissions()
                self._load()
        except OSError as error:
            raise KeyFolderError(f"cannot read {self._path}: {error}") from error

    # The content now: any thread can ask for it, and never waits.

    @property
    def changes(self) -> int:
        """The number of changes of the facts."""
        return self._state.changes

    def facts(self) -> ProtectionFacts:
        return self._state.facts()

    @property
    def keys(self) -> list[KeyRecord]:
        """All keys, the current ones first."""
        return current_first(self._state.index.keys)

    @property
    def certificates(self) -> list[CertificateRecord]:
        return sorted(self._state.index.certificates, key=lambda each: (each.user, each.not_before))

    @property
    def pins(self) -> list[PinRecord]:
        return sorted(self._state.index.pins, key=lambda each: (each.who, each.kind))

    def decrypting_keys(self, wall: float) -> tuple[bytes, ...]:
        """The exchange keys that decrypt now, in PKCS#8, the current one first."""
        return self._state.decrypting_keys(wall)

    # Keys of the queue manager.

    def current(self, kind: KeyKind) -> RSAPrivateKey:
        """The current key, made now if there is none."""
        found = self._state.current(kind)
        if found is None:
            with self._making:
                found = self._state.current(kind) or self._made(kind)
        return formats.loaded(found)

    def _made(self, kind: KeyKind) -> bytes:
        data: bytes = self._workers.call(Generate(self._settings.bits))
        with self._lock:
            # Another one may have come from a file meanwhile.
            found = self._state.current(kind)
            if found is None:
                self._add_key(kind, data, 0)
            return found or data

    def make_keys(self) -> None:
        """Make the keys that are missing."""
        for kind in KINDS:
            self.current(kind)

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
            if any(each.digest == digest for each in self._state.index.keys):
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

    def end_keys(self, wall: float) -> None:
        """Forget the keys whose grace has ended, and delete their files."""
        with self._lock:
            keys, gone = ended(self._state.index.keys, wall)
            if gone:
                self._write(replace(self._state.index, keys=keys), gone=gone)

    def _add_key(self, kind: KeyKind, data: bytes, grace_days: int) -> None:
        key, now = formats.loaded(data), int(time.time())
        digest = formats.public_key_digest(key.public_key())
        record = KeyRecord(kind=kind, digest=digest, bits=key.key_size, created=now)
        keys, gone = rotated(self._state.index.keys, record, grace_days * DAY)
        self._write(replace(self._state.index, keys=keys), {digest: data}, gone)

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
            index = self._state.index
            others = [each for each in index.certificates if each.digest != digest]
            before = next((each for each in index.certificates if each.digest == digest), None)
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
            added = {} if key is None else {digest: formats.pkcs8(key)}
            self._write(replace(index, certificates=[*others, record]), added)
            return record

    def create_certificate(self, user: str, sid: Sid, days: int) -> CertificateRecord:
        """Make an internal certificate with a new key."""
        key = self._workers.call(Generate(self._settings.bits))
        now = int(time.time())
        work = SelfSign(key, user, f"Waypost on {self._computer}", now - _EARLIER, now + days * DAY)
        found = formats.certificate(self._workers.call(work), "the new certificate")
        return self.add_certificate(found, formats.loaded(key), user, sid, is_internal=True)

    def remove_certificate(self, digest: str) -> None:
        with self._lock:
            index = self._state.index
            left = [each for each in index.certificates if each.digest != digest]
            if len(left) == len(index.certificates):
                raise CertificateNotFound(f"the certificate {excerpt(digest)} is not registered")
            self._write(replace(index, certificates=left), gone=[digest])

    def remove_certificates(self, sid: Sid) -> None:
        """Remove all certificates of a user, with their keys."""
        with self._lock:
            index = self._state.index
            gone = [each.digest for each in index.certificates if each.sid == str(sid)]
            if gone:
                left = [each for each in index.certificates if each.sid != str(sid)]
                self._write(replace(index, certificates=left), gone=gone)

    def signer(self, wanted: str, user: str, sid: Sid) -> Signer:
        """The certificate with this digest, or that of a PEM text; "" is the newest internal one, made if needed."""
        if "-----BEGIN " in wanted:
            found, key = formats.certificate_with_key(wanted.encode(), "", "the certificate")
            not_before, not_after = _validity(found)
            if not not_before <= time.time() <= not_after:
                raise InvalidParameter(f"the certificate is valid only from {_day(not_before)} to {_day(not_after)}")
            return Signer(found.public_bytes(Encoding.DER), formats.pkcs8(key))
        now, state = time.time(), self._state
        own = [each for each in state.index.certificates if each.sid == str(sid) and each.has_key]
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
            return Signer(named.certificate, state.private[digest])
        valid = [each for each in own if each.internal and each.not_before <= now <= each.not_after]
        # The last one that was made, however long others are valid. Of those of one second it is the last in the index.
        newest = max(reversed(valid), key=lambda each: each.not_before, default=None)
        if newest is None:
            newest = self.create_certificate(user, sid, 365)
            state = self._state
        return Signer(newest.certificate, state.private[newest.digest])

    # Keys of others.

    def pin(self, who: str, data: bytes, kind: KeyKind) -> PinRecord:
        """Pin the keys of one kind of another queue manager."""
        name = pin_name(who)
        check_host(name)
        keys = formats.exchange_keys(data, "the file")
        record = PinRecord(who=name, added=int(time.time()), keys=formats.encoded_keys(keys), kind=kind)
        with self._lock:
            index = self._state.index
            others = [each for each in index.pins if (each.who, each.kind) != (name, kind)]
            self._write(replace(index, pins=[*others, record]))
        return record

    def unpin(self, who: str, kinds: Sequence[KeyKind]) -> None:
        name = pin_name(who)
        with self._lock:
            index = self._state.index
            left = [each for each in index.pins if each.who != name or each.kind not in kinds]
            if len(left) == len(index.pins):
                raise PinNotFound(f"no keys are pinned for {excerpt(who)}")
            self._write(replace(index, pins=left))

    def note_answer(self, host: str, guid: bytes) -> None:
        """Remember which queue manager answers at a host. The engine knows it already: its facts do not change."""
        if not HOST.fullmatch(host):
            return
        with self._lock:
            answered = dict(self._state.answered)
            _know_answer(answered, host, guid_text(guid))
            self._state = dataclasses.replace(self._state, answered=answered)
            if self._answer_lines < _MAX_LINES:
                self._append(_ANSWERS, f"{host} {guid_text(guid)}\n".encode())
                self._answer_lines += 1
            else:
                lines = [f"{each} {found}\n" for each, found in answered.items()]
                self._write_file(_ANSWERS, "".join(lines).encode())
                self._answer_lines = len(lines)

    # The folder.

    def _check_permissions(self) -> None:
        if os.name != "posix":
            return
        for path in (self._path, *self._path.iterdir()):
            found = path.stat()
            if stat.S_IMODE(found.st_mode) & _OTHERS:
                mode = "700" if path == self._path else "600"
                raise KeyFolderError(f"other accounts can read {path}", f"run: chmod {mode} {path}")

    def _read_answers(self) -> dict[str, str]:
        """A line that a crash has cut off does not count: that queue manager answers again."""
        answered: dict[str, str] = {}
        path = self._path / _ANSWERS
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return answered
        except OSError as error:
            raise KeyFolderError(f"cannot read {path}: {error.strerror}", "check its owner and permissions") from None
        lines = text.splitlines()
        # Behind half a line, nothing is appended.
        self._answer_lines = len(lines) if text.endswith("\n") else _MAX_LINES
        for line in lines:
            host, _, guid = line.partition(" ")
            if HOST.fullmatch(host) and GUID.fullmatch(guid):
                _know_answer(answered, host, guid)
        return answered

    def _load(self) -> None:
        answered = self._read_answers()
        self._state = KeyState(Index(), {}, answered)
        path = self._path / _INDEX
        try:
            index = msgspec.json.decode(path.read_bytes(), type=Index)
        except FileNotFoundError:
            if any(self._path.glob("*.pem")):
                raise KeyFolderError(
                    f"{path} is missing, but {self._path} contains keys", "restore the folder"
                ) from None
            return
        except (msgspec.DecodeError, OSError) as error:
            raise KeyFolderError(f"{path} is damaged: {error}", f"restore the folder {self._path}") from None
        private: dict[str, bytes] = {}
        for each in index.keys:
            key = self._read_private(each.digest)
            if formats.public_key_digest(key.public_key()) != each.digest:
                raise self._wrong_key(each.digest, "the index")
            private[each.digest] = formats.pkcs8(key)
        for record in index.certificates:
            if record.has_key:
                key = self._read_private(record.digest)
                if self._certificate(record).public_key() != key.public_key():
                    raise self._wrong_key(record.digest, "its certificate")
                private[record.digest] = formats.pkcs8(key)
        self._state = KeyState(index, private, answered)
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

    def _write(self, index: Index, added: Mapping[str, bytes] | None = None, gone: Sequence[str] = ()) -> None:
        """Write a new index, after the private keys that it adds, and before those that have gone are deleted."""
        state = self._state
        private = {**state.private, **(added or {})}
        try:
            if added and not (self._path / _INDEX).exists():
                # Without an index, a private key that a crash leaves alone would be one of a lost folder.
                self._write_index(state.index)
            for digest, data in (added or {}).items():
                pem = formats.sealed_pem(formats.loaded(data), self._settings.passphrase)
                self._write_file(f"{digest}.pem", pem)
            self._write_index(index)
        except KeyFolderError:
            for digest in added or {}:
                if not self._may_name(digest):
                    self._discard(f"{digest}.pem")
            raise
        for digest in gone:
            private.pop(digest, None)
        self._state = dataclasses.replace(state, index=index, private=private, changes=state.changes + 1)
        for digest in gone:
            path = self._path / f"{digest}.pem"
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise KeyFolderError(f"cannot delete {path}: {error}") from error

    def _write_index(self, index: Index) -> None:
        self._write_file(_INDEX, msgspec.json.format(msgspec.json.encode(index)))

    def _may_name(self, digest: str) -> bool:
        """Whether the index on disk may name a private key: the write that failed may have been the last flush."""
        try:
            return digest.encode() in (self._path / _INDEX).read_bytes()
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def _discard(self, name: str) -> None:
        """Delete a file that a failed write has left. One that stays does no harm."""
        with suppress(OSError):
            (self._path / name).unlink()

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
            self._discard(f"{name}.partial")
            raise KeyFolderError(f"cannot write {self._path / name}: {error}") from error


def _know_answer(answered: dict[str, str], host: str, guid: str) -> None:
    answered.pop(host, None)
    answered[host] = guid
    if len(answered) > MAX_ANSWERED_ADDRESSES:
        del answered[next(iter(answered))]


def _validity(found: Certificate) -> tuple[int, int]:
    return int(found.not_valid_before_utc.timestamp()), int(found.not_valid_after_utc.timestamp())


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
