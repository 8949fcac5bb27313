"""The form of a backup, as a stream and as a file: a header, the copy of the store, and a trailer.

| bytes | content                                                                                              |
|-------|------------------------------------------------------------------------------------------------------|
| 4096  | a line that says what it is, a line of JSON (BackupInfo), and spaces                                  |
| any   | an LMDB file, as `data.mdb` of a data folder is                                                       |
| 64    | a line that says that this is the end, the length of the LMDB file u64, XXH3 with 128 bits of all before |

A stream that ends without the trailer, or with a wrong one, is not a backup: nobody takes a part for the whole. One
that its maker broke off ends with a line that says so, and a line with the reason.
"""

import json
from dataclasses import asdict, dataclass, replace
from struct import Struct
from typing import Final

from xxhash import xxh3_128

from waypost.errors import BackupDamaged, StoreTooNew

FORMAT: Final = 1
# The pages of the copy stay where they would be in a file of pages.
HEADER_SIZE: Final = 4096
MEDIA_TYPE: Final = "application/vnd.waypost.backup"

_BEGIN: Final = b"Waypost backup\n"
_END: Final = b"Waypost backup end\n"
_BROKEN: Final = b"Waypost backup broke off\n"
# The longest end of that kind.
_MOST_REASON: Final = 2000
_TRAILER: Final = Struct("<24sQ16s16x")
TRAILER_SIZE: Final = _TRAILER.size


@dataclass(frozen=True, slots=True)
class BackupInfo:
    """The description of a backup. `bytes` is the size of the store in it, `about_bytes` what was expected of it.

    `time` is when it began, in ISO 8601; everything that was acknowledged before that is in it.
    """

    name: str
    guid: str
    time: str
    about_bytes: int
    waypost: str
    format: int = FORMAT
    bytes: int = 0

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


class BackupWriter:
    """Makes the stream: `begin`, every part of the copy through `add`, `end`."""

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
    """The end of a stream that does not go on."""
    line = " ".join(reason.split()).encode()[: _MOST_REASON - len(_BROKEN) - 1]
    return _BROKEN + line.decode("utf-8", "ignore").encode() + b"\n"


class BackupReader:
    """Reads the stream as it comes. `info` is there when the header is."""

    __slots__ = ("_digest", "_held", "_last", "_size", "info")

    def __init__(self) -> None:
        self._digest: Final = xxh3_128()
        self._size = 0
        self._held = b""
        self._last = b""
        self.info: BackupInfo | None = None

    def feed(self, data: bytes) -> bytes:
        """The part of the copy that is known to be one: the last bytes may be the trailer. Raises BackupDamaged."""
        self._last = (self._last + data[-_MOST_REASON:])[-_MOST_REASON:]
        data = self._held + data
        if self.info is None:
            if not data.startswith(_BEGIN[: len(data)]):
                raise BackupDamaged("it is not a backup of Waypost: it begins in another way")
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
        """Why the stream was broken off, as far as it says so."""
        _, found, line = self._last.rpartition(_BROKEN)
        return line.decode("utf-8", "replace").strip() if found and line.endswith(b"\n") else ""

    def end(self) -> BackupInfo:
        """The stream has ended. Raises BackupDamaged if the backup is not whole."""
        if self.info is None or not self._held.startswith(_END):
            raise BackupDamaged("the backup is not whole: its end is missing")
        _, size, digest = _TRAILER.unpack(self._held)
        if (size, digest) != (self._size, self._digest.digest()):
            raise BackupDamaged("the backup is damaged: its checksum is another than that of its content")
        return replace(self.info, bytes=size)


def _info_of(header: bytes) -> BackupInfo:
    try:
        found = json.loads(header[len(_BEGIN) :])
        number = found.pop("format")
        if number > FORMAT:
            raise StoreTooNew(f"the backup has format {number}, and this Waypost knows formats up to {FORMAT}")
        return BackupInfo(**found, format=number)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BackupDamaged("the header of the backup is damaged") from None
