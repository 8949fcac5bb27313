"""The columns of messages with Spark's types. A schema of the user selects some of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from waypost.arrow.choice import Choice
from waypost.arrow.packets import OnMalformed, Packets
from waypost.arrow.schema import ALL, BODY_TEXT, DEFAULT, HEADERS, PACKET, PACKET_ERROR
from waypost.errors import InvalidParameter
from waypost.spark.options import Columns

_SECURITY: Final = frozenset({"sender_id", "authenticated"})


class Form(Protocol):
    """The form that the messages of a task get."""

    def batches(self, pages: Iterator[Packets]) -> Iterator[Any]:
        """The RecordBatches for Spark."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of decoded packets: these columns, in this order."""

    names: tuple[str, ...]
    # Columns that must not be null, by the schema of the user.
    required: frozenset[str]
    on_malformed: OnMalformed
    max_body_bytes: int | None
    choice: Choice

    def batches(self, pages: Iterator[Packets]) -> Iterator[Any]:
        """A RecordBatch for each page, with exactly the types that Spark expects."""
        # Imported here because it loads pandas, which planning a read does not need.
        decode = import_module("waypost.arrow.decoder").decode
        schema = pa.schema([ALL.field(name).with_nullable(name not in self.required) for name in self.names])
        for page in map(self.choice.of, pages):
            if not len(page):
                continue
            batch = decode(page, self.names, on_malformed=self.on_malformed)
            arrays = [self._bounded(name, batch.column(name)) for name in self.names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _bounded(self, name: str, array: Any) -> Any:
        if name != "body" or self.max_body_bytes is None:
            return array
        return pc.if_else(pc.greater(pc.binary_length(array), self.max_body_bytes), None, array)


def default_schema(columns: Columns) -> StructType:
    """The schema of a read without a schema of the user."""
    if columns.names:
        return StructType([StructField(name, from_arrow_type(_column(name).type)) for name in columns.names])
    left_out = set() if columns.include_security else set(_SECURITY)
    if not columns.include_body:
        left_out.add("body")
    fields = [field for field in DEFAULT if field.name not in left_out]
    if columns.include_packet or columns.on_malformed is OnMalformed.QUARANTINE:
        fields.append(PACKET)
    if columns.on_malformed is OnMalformed.QUARANTINE:
        fields.append(PACKET_ERROR)
    if columns.decode_body:
        fields.extend(BODY_TEXT)
    if columns.include_headers:
        fields.append(HEADERS)
    return StructType([StructField(field.name, from_arrow_type(field.type)) for field in fields])


def shape_of(schema: StructType, columns: Columns) -> Shape:
    """The shape that a schema of the user selects. Raises InvalidParameter for an unknown column or a wrong type."""
    _check_added(schema, columns)
    for field in schema.fields:
        expected = from_arrow_type(_column(field.name).type)
        if field.dataType != expected:
            raise InvalidParameter(
                f"the column `{field.name}` must have the type {expected.simpleString()}, not "
                f"{field.dataType.simpleString()}; read the column with the required type, then cast it"
            )
    return Shape(
        names=tuple(schema.names),
        required=frozenset(field.name for field in schema.fields if not field.nullable),
        on_malformed=columns.on_malformed,
        max_body_bytes=columns.max_body_bytes,
        choice=columns.choice,
    )


def _check_added(schema: StructType, columns: Columns) -> None:
    """Raise InvalidParameter if options choose or add columns that a schema of the user, or of a table, lacks."""
    if columns.names:
        if tuple(schema.names) != columns.names:
            raise _of_table(
                "the option `columns` and a schema are mutually exclusive: both select columns", columns.names
            )
        return
    if not set(DEFAULT.names) <= set(schema.names):
        # Somebody has chosen the columns.
        return
    added = (
        ("includePacket", columns.include_packet, (PACKET,)),
        ("includeHeaders", columns.include_headers, (HEADERS,)),
        ("decodeBody", columns.decode_body, BODY_TEXT),
    )
    for option, is_given, fields in added:
        if is_given and not any(field.name in schema.names for field in fields):
            reason = f"the option `{option}` has no effect, because the schema has no column `{fields[0].name}`"
            raise _of_table(reason, ("seq", "label", fields[0].name))


def _of_table(reason: str, names: Sequence[str]) -> InvalidParameter:
    example = ", ".join(f"{name} {from_arrow_type(_column(name).type).simpleString().upper()}" for name in names)
    return InvalidParameter(
        f"{reason}; the columns of a table are those of its CREATE TABLE statement: list the columns there, as in "
        f"CREATE TABLE t ({example}) USING msmq"
    )


def _column(name: str) -> pa.Field:
    if name not in ALL.names:
        near = get_close_matches(name, ALL.names, 1)
        hint = f"did you mean {near[0]}?" if near else f"the columns are {', '.join(ALL.names)}"
        raise InvalidParameter(f"a message has no column {name!r}; {hint}")
    return ALL.field(name)
