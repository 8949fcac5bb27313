"""Entries as text for people and as JSON for machines.

Text from packets is hostile: a label can hold the control sequences of a terminal. Whatever is not printable is
escaped; JSON escapes for itself.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final, Protocol, TextIO

import typer

from waypost.cli.decode.entries import Entry, Trouble
from waypost.wire.describe import TEXT_MARK, FieldText, HeaderText

SHOWN_BYTES: Final = 64
SHOWN_TEXT: Final = 200
ROW: Final = 16
INLINE: Final = 20


class Report(Protocol):
    """Takes entries one by one; `close` writes what must stand behind the last."""

    def input(self, name: str) -> None: ...
    def entry(self, entry: Entry) -> None: ...
    def close(self) -> None: ...


class JsonReport:
    """One array. Values are whole: bytes as hexadecimal digits, flags and codes as 0x text, the rest as they are."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._input = ""
        self._separator = "[\n"

    def input(self, name: str) -> None:
        self._input = name

    def entry(self, entry: Entry) -> None:
        self._out.write(self._separator + json.dumps(_json_entry(self._input, entry)))
        self._separator = ",\n"

    def close(self) -> None:
        self._out.write("[]\n" if self._separator == "[\n" else "\n]\n")


def _json_entry(name: str, entry: Entry) -> dict[str, Any]:
    trouble = entry.trouble or Trouble("")
    return {
        "input": name,
        "number": entry.number,
        "source": entry.source,
        "destination": entry.destination,
        "time": entry.time,
        "kind": entry.kind,
        "size": entry.size,
        "verdict": {
            "ok": entry.trouble is None,
            "section": trouble.section,
            "field": trouble.field,
            "offset": trouble.offset,
            "reason": trouble.reason or None,
        },
        "headers": [_json_header(header) for header in entry.headers],
    }


def _json_header(header: HeaderText) -> dict[str, Any]:
    fields = [
        {
            "name": field.name,
            "offset": field.offset,
            "size": field.size,
            "value": field.value.hex() if isinstance(field.value, bytes) else field.value,
            "meaning": field.meaning,
        }
        for field in header.fields
    ]
    return {"name": header.name, "section": header.section, "offset": header.offset, "fields": fields}


class TextReport:
    """A block for each entry. `shown` is how many characters of a long text appear, None for all."""

    def __init__(self, out: TextIO, shown: int | None, *, colour: bool) -> None:
        self._out = out
        self._shown = shown
        self._colour = colour

    def input(self, name: str) -> None:
        """Each heading says where it comes from."""

    def close(self) -> None:
        """Nothing stands behind the last block."""

    def entry(self, entry: Entry) -> None:
        for line in self._block(entry):
            self._out.write(line + "\n")
        self._out.write("\n")

    def _paint(self, text: str, **looks: Any) -> str:
        return typer.style(text, **looks) if self._colour else text

    def _block(self, entry: Entry) -> Iterator[str]:
        yield self._heading(entry)
        for header in entry.headers:
            yield f"  {self._paint(header.name, fg='cyan')} ({header.section})"
            for name, group in groupby(header.fields, key=lambda field: field.name.partition(".")[0]):
                word, *bits = group
                yield from self._field(name, word)
                yield from self._bits(bits)
        if entry.trouble is not None and entry.data:
            offset = entry.trouble.offset or 0
            start = max(offset // ROW - 1, 0) * ROW
            yield f"  bytes {'around' if entry.number else 'from'} offset 0x{offset:04x}"
            for at, row in _rows(entry.data, start, start + 4 * ROW):
                mark = ">" if at <= offset < at + ROW and entry.number else " "
                yield f"   {mark}{_dump(at, row)}"

    def _heading(self, entry: Entry) -> str:
        route = " -> ".join(filter(None, (entry.source, entry.destination)))
        if entry.trouble is None:
            verdict = self._paint("OK", fg="green")
        else:
            verdict = self._paint(_verdict(entry), fg="red", bold=True)
        size = f"{entry.size} byte{'' if entry.size == 1 else 's'}" if entry.size else ""
        parts = (f"#{entry.number}" if entry.number else "--", printable(route), entry.time or "", entry.kind, size)
        return f"{self._paint('  '.join(filter(None, parts)), bold=True)}  {verdict}"

    def _field(self, name: str, field: FieldText) -> Iterator[str]:
        start = f"    {field.offset:04x}  {name:<26}"
        value, meaning = field.value, self._cut(field.meaning)
        if not isinstance(value, bytes):
            yield f"{start}  {self._cut(str(value))}  {meaning}".rstrip()
            return
        yield f"{start}  {_summary(value)}  {meaning}".rstrip()
        if len(value) > INLINE and len(set(value)) > 1 and not field.meaning.startswith(TEXT_MARK):
            yield from self._dump(value, field.offset)

    def _bits(self, bits: list[FieldText]) -> Iterator[str]:
        clear = [bit.name.partition(".")[2] for bit in bits if bit.value == 0 and not bit.meaning]
        for bit in bits:
            if bit.value or bit.meaning:
                yield f"            {bit.name.partition('.')[2]} = {bit.value!s}  {bit.meaning}".rstrip()
        if clear:
            yield f"            clear: {' '.join(clear)}"

    def _dump(self, value: bytes, offset: int) -> Iterator[str]:
        end = len(value) if self._shown is None else min(len(value), SHOWN_BYTES)
        for at, row in _rows(value, 0, end):
            yield f"            {_dump(offset + at, row)}"
        if end < len(value):
            yield f"            ... {len(value) - end} bytes more; --body shows them"

    def _cut(self, text: str) -> str:
        if self._shown is None or len(text) <= self._shown:
            return printable(text)
        return f"{printable(text[: self._shown])} ... {len(text) - self._shown} characters more; --body shows them"


def _verdict(entry: Entry) -> str:
    assert entry.trouble is not None
    trouble = entry.trouble
    if trouble.section is None:
        return printable(trouble.reason)
    return (
        f"MALFORMED: {trouble.field} at offset 0x{trouble.offset:04x}: {printable(trouble.reason)} ({trouble.section})"
    )


def _summary(value: bytes) -> str:
    if len(value) <= INLINE:
        return value.hex(" ")
    if len(set(value)) == 1:
        return f"{len(value)} bytes, all 0x{value[0]:02X}"
    return f"{len(value)} bytes"


def _rows(data: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    for at in range(start, min(end, len(data)), ROW):
        yield at, data[at : min(at + ROW, end)]


def _dump(at: int, row: bytes) -> str:
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
    return f"{at:04x}  {row.hex(' '):<{ROW * 3 - 1}}  {text}"


def printable(text: str) -> str:
    """The text with everything that a terminal could obey written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode() for letter in text
    )
