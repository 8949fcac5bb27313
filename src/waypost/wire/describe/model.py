"""The parts of a description, and the machine that makes it from tables.

A table names the fields of one fixed run in the order of its `struct.Struct`, which gives their offsets and sizes; a
field may have a table of its bits. Nothing here knows a header.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct, calcsize
from typing import Any, Final

from waypost.errors import DecodeError

Value = int | str | bytes
# From a value as `struct` gives it to the value as it is shown and its meaning.
Show = Callable[[Any], tuple[Value, str]]


@dataclass(slots=True, frozen=True)
class FieldText:
    """A field. Its value is a number, a text (in hexadecimal for flags and codes) or bytes.

    Bits of a word are separate fields, named Word.BITS, with the offset and the size of the word.
    """

    name: str
    offset: int
    size: int
    value: Value
    meaning: str = ""


@dataclass(slots=True, frozen=True)
class HeaderText:
    name: str
    section: str
    offset: int
    fields: tuple[FieldText, ...]


@dataclass(slots=True, frozen=True)
class Description:
    """A packet in words. With an error, the headers are those before it and the readable part of the one it is in."""

    kind: str
    headers: tuple[HeaderText, ...]
    error: DecodeError | None


@dataclass(slots=True, frozen=True)
class Bits:
    """One or more neighbouring bits of a word. A meaning by value, or one for all values."""

    name: str
    mask: int
    meaning: str | Mapping[int, str]

    def describe(self, word: FieldText, number: int) -> FieldText:
        value = (number & self.mask) // (self.mask & -self.mask)
        meaning = self.meaning if isinstance(self.meaning, str) else self.meaning.get(value, "not defined")
        return FieldText(f"{word.name}.{self.name}", word.offset, word.size, value, meaning)


def flag(name: str, mask: int, meaning: str) -> Bits:
    """A bit with a meaning when it is set."""
    return Bits(name, mask, {0: "", 1: meaning})


def as_it_is(raw: Value) -> tuple[Value, str]:
    return raw, ""


@dataclass(slots=True, frozen=True)
class Column:
    """A field of a fixed run."""

    name: str
    show: Show = as_it_is


@dataclass(slots=True, frozen=True)
class CodeColumn(Column):
    """A number whose digits matter: it is shown in hexadecimal, as wide as it is, with its bits."""

    bits: tuple[Bits, ...] = ()

    def describe_bits(self, word: FieldText, number: int) -> list[FieldText]:
        fields = [part.describe(word, number) for part in self.bits]
        unused = number & ~sum(part.mask for part in self.bits) if self.bits else 0
        if unused:
            name, value = f"{word.name}.X", _hexadecimal(unused, word.size)
            fields.append(FieldText(name, word.offset, word.size, value, "unused bits that are set"))
        return fields


def _hexadecimal(number: int, size: int) -> str:
    return f"0x{number:0{size * 2}X}"


def columns_of(names: Sequence[str], *special: Column) -> Iterator[Column]:
    """The columns of a run whose codec names them; a field that is not special is shown as it is."""
    columns = {column.name: column for column in special}
    assert columns.keys() <= set(names)
    return (columns.get(name) or Column(name) for name in names)


_ITEM: Final = re.compile(r"\d*[a-zA-Z]")


class Run:
    """A fixed run of fields: the table that describes `layout`."""

    def __init__(self, layout: Struct, *columns: Column) -> None:
        self.layout = layout
        self._columns = columns
        self._sizes = tuple(calcsize(f"<{item}") for item in _ITEM.findall(layout.format))
        assert len(self._sizes) == len(columns)

    def describe(self, data: bytes, at: int) -> list[FieldText]:
        """The fields of the run at `at`; none if the data ends inside it."""
        if len(data) - at < self.layout.size:
            return []
        fields = []
        for column, size, raw in zip(self._columns, self._sizes, self.layout.unpack_from(data, at), strict=True):
            value, meaning = column.show(raw)
            if isinstance(column, CodeColumn):
                word = FieldText(column.name, at, size, _hexadecimal(raw, size), meaning)
                fields += [word, *column.describe_bits(word, raw)]
            else:
                fields.append(FieldText(column.name, at, size, value, meaning))
            at += size
        return fields


class Walk:
    """Fields of one header, one behind the other. The header begins at `start`, the next field at `at`."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.start = start
        self.at = start
        self.fields: list[FieldText] = []

    def run(self, run: Run) -> None:
        """All fields of a fixed run; none if the data ends inside it."""
        fields = run.describe(self.data, self.at)
        self.fields += fields
        self.at += run.layout.size if fields else 0

    def add(self, name: str, size: int, value: Value, meaning: str = "") -> None:
        """A field of `size` bytes; none if it has no bytes."""
        if size:
            self.fields.append(FieldText(name, self.at, size, value, meaning))
            self.at += size

    def take(self, size: int) -> bytes:
        """The next `size` bytes, fewer where the data ends."""
        return self.data[self.at : self.at + size]
