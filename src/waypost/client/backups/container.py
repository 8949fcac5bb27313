"""The form of a backup, as a stream and as a file: a header, the copy of the store, and a trailer.

| bytes | content                                                                                              |
|-------|------------------------------------------------------------------------------------------------------|
| 4096  | a line that identifies a backup, a line of JSON (BackupInfo), and spaces                              |
| any   | an LMDB file, like `data.mdb` of a data folder                                                        |
| 64    | a line that marks the end, the length of the LMDB file u64, XXH3 with 128 bits of all before          |

A stream that ends without the trailer, or with a wrong one, is not a backup, so a part never passes for the whole. If
the backup fails, the stream ends with a line that says so, and a line with the reason.
"""

import json
from dataclasses import asdict, dataclass, replace
from struct import Struct
from typing import Final

from xxhash import xxh3_128

from waypost.errors import BackupDamaged, StoreTooNew

FORMAT: Final = 1
# A multiple of the page size: the pages of the copy stay aligned.
HEADER_SIZE: Final = 4096
MEDIA_TYPE: Final = "application/vnd.waypost.backup"

_BEGIN: Final = b"Waypost backup\n"
_END: Final = b"Waypost backup end\n"
_BROKEN: Final = b"Waypost backup broke off\n"
# Longest end of a stream with a reason, in bytes.
_MOST_REASON: Final = 2000
_TRAILER: Final = Struct("<24sQ16s16x")
TRAILER_SIZE: Final = _TRAILER.size


@dataclass(frozen=True, slots=True)
class BackupInfo:
    """The description of a backup. `bytes` is the size of the store in the backup, and `about_bytes` is the size that
    was expected when the backup began.

    `time` is the start of the backup, in ISO 8601. The backup contains all changes that were acknowledged before that
    time.
    """

    name: str
    guid: str
    time: str
    about_bytes: int
    waypost: str
    format: int = FORMAT
    bytes: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the description as a dict that `json.dumps` accepts."""
        return asdict(self)


class BackupWriter:
    """Writer of the stream: call `begin`, then `add` with every part of the copy, then `end`."""

    __slots__ = ("_digest", "_size")

    def __init__(self) -> None:
        self._digest: Final = xxh3_128()
        self._size = 0

    def begin(self, info: BackupInfo) -> bytes:
        fields = {key: value for key, value in info.to_dict().items() if key != "bytes"}
        header = _BEGIN + json.dumps(fields).encode("ascii") + b"\n"
        assert len(header) <= HEADER_SIZE
        header = header.ljust(HEADER_SIZE - 1) + b"\n"
        self._digest.update(header)
        return header

    def add(self, data: bytes) -> None:
        self._digest.update(data)
        self._size += len(data)

    def end(self) -> bytes:
        return _TRAILER.pack(_END, self._size, self._digest.digest())


def broken_off(reason: str) -> bytes:
    """The end of a stream whose backup failed."""
    line = " ".join(reason.split()).encode()[: _MOST_REASON - len(_BROKEN) - 1]
    return _BROKEN + line.decode("utf-8", "ignore").encode() + b"\n"


class BackupReader:
    """Reader of the stream as it comes. `info` is set when the header is complete."""

    __slots__ = ("_digest", "_held", "_last", "_size", "info")

    def __init__(self) -> None:
        self._digest: Final = xxh3_128()
        self._size = 0
        self._held = b""
        self._last = b""
        self.info: BackupInfo | None = None

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the copy, without the last ones, which may be the trailer. Raises BackupDamaged."""
        self._last = (self._last + data[-_MOST_REASON:])[-_MOST_REASON:]
        data = self._held + data
        if self.info is None:
            if not data.startswith(_BEGIN[: len(data)]):
                raise BackupDamaged("the input is not a Waypost backup, because its first bytes are wrong")
            if len(data) < HEADER_SIZE:
                self._held = data
                return b""
            self.info = _info_of(data[:HEADER_SIZE])
            self._digest.update(data[:HEADER_SIZE])
            data = data[HEADER_SIZE:]
        found, self._held = data[:-TRAILER_SIZE], data[-TRAILER_SIZE:]
        self._digest.update(found)
        self._size += len(found)
        return found

    @property
    def reason(self) -> str:
        """The reason why the backup failed, if the stream has one."""
        _, found, line = self._last.rpartition(_BROKEN)
        return line.decode("utf-8", "replace").strip() if found and line.endswith(b"\n") else ""

    def end(self) -> BackupInfo:
        """The description, at the end of the stream. Raises BackupDamaged if the backup is incomplete."""
        if self.info is None or not self._held.startswith(_END):
            raise BackupDamaged("the backup is incomplete: its end is missing")
        _, size, digest = _TRAILER.unpack(self._held)
        if (size, digest) != (self._size, self._digest.digest()):
            raise BackupDamaged("the backup is damaged: its checksum does not match its content")
        return replace(self.info, bytes=size)


def _info_of(header: bytes) -> BackupInfo:
    try:
        found = json.loads(header[len(_BEGIN) :])
        number = found.pop("format")
        if number > FORMAT:
            raise StoreTooNew(
                f"the backup has format {number}, but this version of Waypost supports only formats up to {FORMAT}"
            )
        return BackupInfo(**found, format=number)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BackupDamaged("the header of the backup is damaged") from None
