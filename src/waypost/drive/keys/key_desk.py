"""The key desk: performs what the engine asks of keys, off its thread, and keeps the results until it takes them."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

from cryptography.hazmat.primitives.serialization import Encoding

from waypost.api.excerpt import excerpt
from waypost.api.keys import (
    KINDS,
    CertificateCreated,
    CertificateInfo,
    Certificates,
    CreateCertificate,
    ExportedKeys,
    ExportKeys,
    ImportCertificate,
    ImportedKeys,
    ImportKey,
    KeyInfo,
    Keys,
    ListCertificates,
    ListTrustedKeys,
    RegisterCertificate,
    RemoveCertificate,
    RotateKeys,
    ShowKeys,
    TrustedKey,
    TrustedKeys,
    TrustKeys,
    UntrustKeys,
)
from waypost.drive.keys import formats
from waypost.drive.keys.key_folder import KeyFolder
from waypost.drive.keys.key_records import KeyRecord
from waypost.drive.keys.key_state import CertificateRecord, PinRecord
from waypost.drive.keys.settings import KeySettings
from waypost.drive.keys.workers import Piece, Workers
from waypost.errors import InvalidParameter, ServiceNotAvailable, WaypostError
from waypost.node.effects import (
    CheckSignatures,
    EndKeys,
    KeyOperation,
    KeyWork,
    MakeKeys,
    NoteAnswer,
    OpenKeys,
    RemoveCertificates,
    Signed,
    SignFor,
)
from waypost.node.node import Node
from waypost.security.ciphers import CryptoServiceProvider
from waypost.security.protection_facts import ProtectionFacts
from waypost.security.work import CheckSignature, SignDigests, UnwrapKeys, Work, WrapKeys

# Pieces of work that a worker does at a time. With a private key, one takes most of a millisecond. To check a signature
# takes a twentieth of that: all workers get a part, but no worker gets few.
_PIECE: Final = 16
_CHECKS: Final = 64
# Bytes of the longest signature that costs no more than others: a longer one takes time with the square of its size.
_ORDINARY_SIGNATURE: Final = 512


class KeyDesk:
    """`notify` says, from any thread, that a result waits."""

    def __init__(self, folder: KeyFolder, workers: Workers, notify: Callable[[], None]) -> None:
        self.folder: Final = folder
        self._workers: Final = workers
        self._notify: Final = notify
        # One thread for the folder, which may wait for the workers.
        self._clerk: ThreadPoolExecutor | None = None
        self._done: Final[deque[tuple[int, object]]] = deque()
        # The pieces of jobs for the workers, until their results are taken.
        self._pieces: Final[dict[int, list[Piece]]] = {}
        # The number of changes of the folder that the engine knows.
        self._told = -1
        self._is_closed = False

    def start(self, effect: KeyWork) -> None:
        """Begin some work."""
        match effect.request:
            case KeyOperation() as asked:
                self._ask_clerk(effect.job, lambda: self._perform(asked))
            case NoteAnswer(host, guid):
                self._ask_clerk(effect.job, lambda: self.folder.note_answer(host, guid))
            case EndKeys(wall):
                self._ask_clerk(effect.job, lambda: self.folder.end_keys(wall))
            case RemoveCertificates(sid):
                self._ask_clerk(effect.job, lambda: self.folder.remove_certificates(sid))
            case SignFor() as request:
                self._ask_clerk(effect.job, lambda: self._sign(effect, request))
            case CheckSignatures(checks):
                part = -(-len(checks) // self._workers.count)
                most = max(_PIECE, min(part, _CHECKS))
                self._divide(effect, list(checks), lambda answers: answers, most)
            case MakeKeys(key, size, count):
                work = WrapKeys(key.pub_exp, key.modulus, size, count)
                self._divide(effect, [work], lambda answers: answers[0])
            case OpenKeys(ciphertexts, sizes):
                keys = self.folder.decrypting_keys(time.time())
                pieces: list[Work] = [UnwrapKeys(keys, (each,), sizes) for each in ciphertexts]
                self._divide(effect, pieces, lambda answers: [each[0] for each in answers])

    def drop(self, job: int) -> None:
        """Do nothing of a job that has not begun: nobody waits for its result."""
        self._workers.drop(self._pieces.pop(job, ()))

    @property
    def finished(self) -> int:
        """The number of results that wait."""
        return len(self._done)

    def take(self) -> tuple[int, object]:
        """The oldest result: a job, and a value or a WaypostError."""
        job, result = self._done.popleft()
        self._pieces.pop(job, None)
        return job, result

    def take_facts(self) -> ProtectionFacts | None:
        """The facts, if they have changed since the last call."""
        changes = self.folder.changes
        if changes == self._told:
            return None
        facts = self.folder.facts()
        self._told = changes
        return facts

    def close(self) -> None:
        self._is_closed = True
        if self._clerk is not None:
            self._clerk.shutdown(wait=False, cancel_futures=True)
        self._workers.close()

    def _end(self, job: int, result: object) -> None:
        self._done.append((job, result))
        if not self._is_closed:
            self._notify()

    def _ask_clerk(self, job: int, work: Callable[[], object]) -> None:
        if self._clerk is None:
            self._clerk = ThreadPoolExecutor(1, "waypost-key-folder")

        def run() -> None:
            try:
                result = work()
            except WaypostError as error:
                result = error
            except Exception as error:  # noqa: BLE001, the asker gets an answer in any case
                result = ServiceNotAvailable(f"the operation with keys failed: {error}")
            if result is not _LATER:
                self._end(job, result)

        self._clerk.submit(run)

    def _divide(
        self, effect: KeyWork, work: list[Work], join: Callable[[list[Any]], object], most: int = _PIECE
    ) -> None:  # fmt: skip
        """Let the workers do pieces of a job, and end it with all answers."""
        job = effect.job
        pieces = _pieces(work, most)
        answers: dict[int, list[Any] | WaypostError] = {}
        lock = Lock()

        def done(place: int, found: list[Any] | WaypostError) -> None:
            with lock:
                answers[place] = found
                if len(answers) < len(pieces):
                    return
            joined: list[Any] = []
            for at in range(len(pieces)):
                part = answers[at]
                if isinstance(part, WaypostError):
                    self._end(job, part)
                    return
                joined += part
            self._end(job, join(joined))

        begun = [Piece(piece, partial(done, place), effect.peer) for place, piece in enumerate(pieces)]
        self._pieces[job] = begun
        for each in begun:
            self._workers.submit(each)

    def _sign(self, effect: KeyWork, request: SignFor) -> object:
        caller = request.caller
        signer = self.folder.signer(request.certificate, caller.name, caller.sid)
        pieces: list[Work] = [SignDigests(signer.key, request.algorithm, (each,)) for each in request.digests]
        self._divide(
            effect, pieces, lambda answers: Signed(signer.certificate, tuple(signature for (signature,) in answers))
        )
        return _LATER

    # Operations.

    def _perform(self, asked: KeyOperation) -> object:
        folder, operation, names = self.folder, asked.operation, asked.names
        user, sid = asked.user, asked.sid
        match operation:
            case ShowKeys():
                return self._keys()
            case ExportKeys(kind=kind, format=wanted):
                key = folder.current(kind).public_key()
                data = formats.pem_of(key) if wanted == "pem" else formats.public_key_list(key).encode()
                return ExportedKeys(kind, wanted, data)
            case ImportKey():
                warning = folder.import_key(operation.kind, operation.data, operation.password, operation.grace)
                found = self._keys()
                return ImportedKeys(found.exchange, found.signing, warning)
            case RotateKeys():
                for kind in KINDS if not isinstance(operation.kind, str) else (operation.kind,):
                    folder.current(kind)
                    folder.rotate(kind, operation.grace)
                return self._keys()
            case ListTrustedKeys():
                return TrustedKeys(tuple(map(_trusted, folder.pins)))
            case TrustKeys():
                return _trusted(folder.pin(operation.who, operation.data, operation.kind))
            case UntrustKeys():
                folder.unpin(operation.who, KINDS if operation.kind == "both" else (operation.kind,))
                return None
            case ListCertificates():
                listed = [each for each in folder.certificates if not operation.user or each.sid == str(sid)]
                return Certificates(tuple(_certificate(each, names) for each in listed))
            case RegisterCertificate():
                found_certificate = formats.certificate(operation.certificate, "the file")
                record = folder.add_certificate(found_certificate, None, user, sid, is_internal=False)
                return _certificate(record, names)
            case CreateCertificate():
                if operation.days < 1:
                    raise InvalidParameter(f"a certificate must be valid for at least 1 day, not {operation.days}")
                record = folder.create_certificate(user, sid, operation.days)
                pem = formats.certificate(record.certificate, "the certificate").public_bytes(Encoding.PEM).decode()
                return CertificateCreated(**_values(_certificate(record, names)), pem=pem)
            case ImportCertificate():
                with_key = formats.certificate_with_key(operation.data, operation.password, "the file")
                return _certificate(folder.add_certificate(*with_key, user, sid, is_internal=False), names)
            case RemoveCertificate():
                folder.remove_certificate(operation.digest.lower())
                return None
        raise InvalidParameter(f"{excerpt(operation)} is not a key operation")

    def _keys(self) -> Keys:
        for kind in KINDS:
            self.folder.current(kind)
        found = self.folder.keys
        return Keys(
            tuple(info for each in found if each.kind == "exchange" for info in _key_infos(each)),
            tuple(info for each in found if each.kind == "signing" for info in _key_infos(each)),
        )


def _certificate(record: CertificateRecord, names: Mapping[str, str]) -> CertificateInfo:
    return CertificateInfo(
        digest=record.digest,
        user=names.get(record.sid, record.user),
        sid=record.sid,
        subject=record.subject,
        not_before=_time(record.not_before),
        not_after=_time(record.not_after),
        internal=record.internal,
        can_sign=record.has_key,
    )


def opened(path: Path, settings: KeySettings, node: Node, notify: Callable[[], None]) -> KeyDesk:
    """The desk of a queue manager with this data folder. Raises KeyFolderError if the key folder is unusable."""
    workers = Workers(processes=settings.uses_processes)
    folder = KeyFolder(path, settings, workers, node.manager.identity.computer_name)
    return KeyDesk(folder, workers, notify)


def _pieces(work: list[Work], most: int) -> list[list[Work]]:
    """Pieces of some work, in order, that take no longer than so many ordinary operations."""
    pieces: list[list[Work]] = [[]]
    cost = 0
    for each in work:
        if pieces[-1] and cost + _cost(each) > most:
            pieces.append([])
            cost = 0
        pieces[-1].append(each)
        cost += _cost(each)
    return pieces


def _cost(work: Work) -> int:
    if not isinstance(work, CheckSignature):
        return 1
    return max(1, (len(work.signature) // _ORDINARY_SIGNATURE) ** 2)


# The result of work that ends elsewhere.
_LATER: Final = object()


def _key_infos(record: KeyRecord) -> list[KeyInfo]:
    return [
        KeyInfo(
            provider=provider.value,
            bits=record.bits,
            digest=record.digest,
            created=_time(record.created),
            retired=None if record.retired is None else _time(record.retired),
            ends=None if record.ends is None else _time(record.ends),
        )
        for provider in CryptoServiceProvider
    ]


def _trusted(record: PinRecord) -> TrustedKey:
    keys = formats.exchange_keys(record.keys, record.who)
    bits = max(8 * len(each.modulus) for each in keys.values())
    digests = formats.digests_of(keys.values(), record.who)
    return TrustedKey(record.who, tuple(each.value for each in keys), bits, digests, _time(record.added), record.kind)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _values(info: CertificateInfo) -> dict[str, Any]:
    return {name: getattr(info, name) for name in info.__struct_fields__}
