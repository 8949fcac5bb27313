"""Entries as text for people and as JSON for machines.

Text from packets is hostile: a label can hold the control sequences of a terminal. Characters that are not printable
are escaped; JSON has its own escapes.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto
from itertools import groupby
from typing import Any, Final, Protocol

import typer

from waypost.cli.decode.entries import Entry, Problem, Trouble
from waypost.cli.program import printable
from waypost.wire.describe import TEXT_MARK, FieldText, HeaderText

SHOWN_BYTES: Final = 64
SHOWN_TEXT: Final = 200
ROW: Final = 16
INLINE: Final = 20


class Detail(Enum):
    """Amount of an entry that is shown: its heading, its fields with long values cut, or everything."""

    BRIEF = auto()
    USUAL = auto()
    WHOLE = auto()


class Writer(Protocol):
    def write(self, text: str, /) -> object: ...


class Report(Protocol):
    """Takes entries one by one; `close` writes the end of the output."""

    def input(self, name: str) -> None: ...
    def entry(self, entry: Entry) -> None: ...
    def close(self) -> None: ...


class JsonReport:
    """One array. Values are whole: bytes as hexadecimal digits, flags and codes as 0x text, the rest as they are.

    docs/decode.md is the promise.
    """

    def __init__(self, out: Writer, detail: Detail) -> None:
        self._out = out
        self._detail = detail
        self._input = ""
        self._separator = "[\n"

    def input(self, name: str) -> None:
        self._input = name

    def entry(self, entry: Entry) -> None:
        headers = () if self._detail is Detail.BRIEF else entry.headers
        self._out.write(self._separator + json.dumps(_json_entry(self._input, replace(entry, headers=headers))))
        self._separator = ",\n"

    def close(self) -> None:
        self._out.write("[]\n" if self._separator == "[\n" else "\n]\n")


def _json_entry(name: str, entry: Entry) -> dict[str, Any]:
    trouble = entry.trouble
    return {
        "input": name,
        "number": entry.number,
        "source": entry.source,
        "destination": entry.destination,
        "time": entry.time,
        "kind": entry.kind,
        "size": entry.size,
        "verdict": {
            "ok": trouble is None,
            "problem": trouble and trouble.problem,
            "section": trouble and trouble.section,
            "field": trouble and trouble.field,
            "offset": trouble and trouble.offset,
            "reason": trouble and trouble.reason,
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
    """A block for each entry, or a line. With `names`, an input whose headings do not name it is named before them."""

    def __init__(self, out: Writer, detail: Detail, *, colour: bool, names: bool) -> None:
        self._out = out
        self._detail = detail
        self._shown = None if detail is Detail.WHOLE else SHOWN_TEXT
        self._colour = colour
        self._names = names
        self._unnamed = ""

    def input(self, name: str) -> None:
        self._unnamed = name if self._names else ""

    def close(self) -> None:
        """Nothing stands behind the last block."""

    def entry(self, entry: Entry) -> None:
        end = "\n" if self._detail is Detail.BRIEF else "\n\n"
        if self._unnamed and not (entry.source or "").startswith(self._unnamed):
            self._out.write(self._paint(f"==> {printable(self._unnamed)} <==", bold=True) + end)
            self._unnamed = ""
        self._out.write("\n".join(self._block(entry)) + end)

    def _paint(self, text: str, **looks: Any) -> str:
        return typer.style(text, **looks) if self._colour else text

    def _block(self, entry: Entry) -> Iterator[str]:
        yield self._heading(entry)
        if self._detail is Detail.BRIEF:
            return
        for header in entry.headers:
            yield f"  {self._paint(header.name, fg='cyan')} ({header.section})"
            for name, group in groupby(header.fields, key=lambda field: field.name.partition(".")[0]):
                word, *bits = group
                yield from self._field(name, word)
                yield from self._bits(bits)
        if entry.trouble is not None and entry.trouble.problem in (Problem.MALFORMED, Problem.STRAY) and entry.data:
            offset = entry.trouble.offset or 0
            start = max(offset // ROW - 1, 0) * ROW
            yield f"  bytes {'around' if entry.number else 'from'} offset 0x{offset:04x}"
            for at, row in _rows(entry.data, start, start + 4 * ROW):
                mark = ">" if at <= offset < at + ROW and entry.number else " "
                yield f"   {mark}{_dump(at, row)}"

    def _heading(self, entry: Entry) -> str:
        route = " -> ".join(filter(None, (entry.source, entry.destination)))
        verdict = self._verdict(entry.trouble)
        size = f"{entry.size} byte{'' if entry.size == 1 else 's'}" if entry.size else ""
        parts = (f"#{entry.number}" if entry.number else "--", printable(route), entry.time or "", entry.kind, size)
        return f"{self._paint('  '.join(filter(None, parts)), bold=True)}  {verdict}"

    def _verdict(self, trouble: Trouble | None) -> str:
        if trouble is None:
            return self._paint("OK", fg="green")
        reason = printable(trouble.reason)
        match trouble.problem:
            case Problem.MALFORMED:
                place = f"{trouble.field} at offset 0x{trouble.offset:04x}"
                return self._paint(f"MALFORMED: {place}: {reason} ({trouble.section})", fg="red", bold=True)
            case Problem.INCOMPLETE:
                return self._paint(f"INCOMPLETE: {reason}", fg="yellow", bold=True)
            case _:
                return self._paint(reason, fg="yellow", bold=True)

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
            yield f"            ... {len(value) - end} more bytes; --body shows them"

    def _cut(self, text: str) -> str:
        if self._shown is None or len(text) <= self._shown:
            return printable(text)
        return f"{printable(text[: self._shown])} ... {len(text) - self._shown} more characters; --body shows them"


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
