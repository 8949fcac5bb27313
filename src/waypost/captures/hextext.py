"""Hexadecimal text: plain digits, lists of 0x10 or \\x10, and dumps of many programs.

They are xxd, hexdump -C, od -A x -t x1, the Format-Hex of PowerShell, and Wireshark. Each line stands alone. A dump
line is an offset, the bytes, and a column of text that is ignored; a line of * repeats the one before. Wireshark's
"follow stream" indents what the second side said: indented dump lines are a separate stream. Words before the first
bytes are skipped, and so are the declarations of xxd -i; any other line that is not hexadecimal is an error that names
it.
"""

import codecs
import io
import re
from collections.abc import Iterator
from typing import Final

from waypost.captures.source import InputError, Source
from waypost.limits import MAX_HEX_BYTES, MAX_HEX_LINE

# An offset, alone or followed by a colon (xxd) or by two blanks at least (the others), then the columns.
_DUMP_LINE: Final = re.compile(r"( *)(?:0x)?([0-9a-fA-F]{4,16})(?:(?::[ \t]|[ \t]{2})[ \t]*(.*))?", re.DOTALL)
# Eight pairs, the two blanks in the middle of a line, and the rest.
_FIRST_HALF: Final = re.compile(r"((?:[0-9a-fA-F]{2} ){7}[0-9a-fA-F]{2})  (?! )(.*)", re.DOTALL)
_HALF: Final = re.compile(r"(?:[0-9a-fA-F]{2} ){0,7}[0-9a-fA-F]{2}(?=  | *\||$)")
_GROUPS: Final = re.compile(r"[0-9a-fA-F]{2,}(?: [0-9a-fA-F]{2,})*")
# od and the Format-Hex of PowerShell 7 leave one blank behind the offset; the latter also before the column of text.
_NARROW_LINE: Final = re.compile(r"([0-9a-fA-F]{6,16}) ((?:[0-9a-fA-F]{2} ){0,15}[0-9a-fA-F]{2})(?: .*)?", re.DOTALL)
_OD_OTHER_OFFSETS: Final = "0000000"
_DECLARATION: Final = re.compile(r"unsigned (?:char|int) \w+(?:\[\])? = .*", re.DOTALL)
_SOME_PAIRS: Final = re.compile(r"(?:\b(?:0x)?[0-9a-fA-F]{2}\b[\s,:-]*){2}")
# Format-Hex writes the last digit of the offsets over the bytes.
_RULER: Final = bytes(range(16))
_DECORATION: Final = re.compile(r"0[xX]|\\x|[\s,;:{}\"'-]|^b(?=['\"])")
_TEXT_BYTES: Final = frozenset((9, 10, 13, *range(32, 127), *range(128, 256)))
_HINT: Final = "use pairs of hexadecimal digits, or the output of xxd, hexdump -C or Wireshark; # starts a comment."


def is_text(head: bytes) -> bool:
    """Whether a file with this beginning is text: no control characters, or UTF-16 as PowerShell writes it."""
    return bool(head) and (head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF8)) or _TEXT_BYTES.issuperset(head))


class _Bytes(io.RawIOBase):
    """A source as a file, for TextIOWrapper."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._source.read(len(view))
        view[: len(data)] = data
        return len(data)


class HexText:
    """The bytes of a hexadecimal text with the number of their stream: 1 for indented dump lines, else 0."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._total = 0
        self._offsets = [0, 0]
        self._row = b""
        self._repeats = False

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        encoding = "utf-16" if self._source.head.startswith(codecs.BOM_UTF16_LE) else "utf-8-sig"
        text = io.TextIOWrapper(io.BufferedReader(_Bytes(self._source)), encoding, "replace")
        number = 0
        words: InputError | None = None
        while line := text.readline(MAX_HEX_LINE):
            number += 1
            stripped = line.strip()
            if stripped == "*" and self._row:
                self._repeats = True
                continue
            if not stripped or stripped.startswith("#") or _DECLARATION.fullmatch(stripped):
                continue
            try:
                stream, data = self._line(line.rstrip(), number)
            except InputError as error:
                if self._total or _SOME_PAIRS.search(line):
                    raise
                words = words or error
                continue
            if data == _RULER and not self._total:
                continue
            self._check_room(len(data))
            self._total += len(data)
            self._offsets[stream] += len(data)
            yield stream, data
        if not self._total:
            raise words or InputError(f"{self._source.name} contains no hexadecimal digits.", _HINT)

    def _check_room(self, size: int) -> None:
        if self._total + size > MAX_HEX_BYTES:
            raise InputError(
                f"{self._source.name} contains more than {MAX_HEX_BYTES} bytes, the limit for hexadecimal text.",
                "split the file, or decode the original capture.",
            )

    def _line(self, line: str, number: int) -> tuple[int, bytes]:
        dump = _DUMP_LINE.fullmatch(line)
        if dump is None:
            return 0, self._narrow_bytes(line, number)
        stream = 1 if dump[1] else 0
        offset = int(dump[2], 16)
        repeated = self._repeated(offset - self._offsets[stream])
        expected = self._offsets[stream] + len(repeated)
        if dump[3] and offset in (0, expected):
            # An offset of 0 starts a new dump in the same text.
            self._offsets[stream] = offset - len(repeated)
            return stream, repeated + self._dump_bytes(dump[3], number)
        if not dump[3] and self._row and offset == expected:
            return stream, repeated
        return 0, self._plain_bytes(line, number)

    def _narrow_bytes(self, line: str, number: int) -> bytes:
        narrow = _NARROW_LINE.fullmatch(line)
        if narrow is None or not (self._row or int(narrow[1], 16) == self._total == 0):
            return self._plain_bytes(line, number)
        offset = int(narrow[1], 16)
        repeated = self._repeated(offset - self._offsets[0])
        if narrow[1] == _OD_OTHER_OFFSETS or offset != self._offsets[0] + len(repeated):
            raise InputError(
                f"line {number} of {self._source.name} has a wrong offset: offsets must be hexadecimal, without gaps.",
                "dump the bytes with od -A x -t x1, xxd or hexdump -C.",
            )
        return repeated + self._dump_bytes(narrow[2], number)

    def _repeated(self, missing: int) -> bytes:
        """The bytes that a * stands for, once the offset after it is known."""
        if not self._repeats or missing <= 0 or missing % len(self._row):
            return b""
        self._repeats = False
        self._check_room(missing)
        return self._row * (missing // len(self._row))

    def _dump_bytes(self, columns: str, number: int) -> bytes:
        first = _FIRST_HALF.fullmatch(columns)
        if first is not None:
            second = _HALF.match(first[2])
            digits = first[1] + (second[0] if second else "")
        else:
            groups = _GROUPS.match(columns)
            digits = groups[0] if groups else ""
        digits = digits.replace(" ", "")
        if not digits or len(digits) % 2:
            raise self._not_hex(columns, number)
        self._row = bytes.fromhex(digits)
        return self._row

    def _plain_bytes(self, line: str, number: int) -> bytes:
        try:
            return bytes.fromhex(_DECORATION.sub("", line))
        except ValueError:
            raise self._not_hex(line, number) from None

    def _not_hex(self, line: str, number: int) -> InputError:
        shown = ascii(line.strip()[:40])
        return InputError(
            f"line {number} of {self._source.name} is not hexadecimal: {shown}.",
            _HINT,
        )
