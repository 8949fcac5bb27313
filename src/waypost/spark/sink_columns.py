"""The columns of rows to send: check them, and turn rows into groups of messages that share properties.

Rows are not handled one by one. Each column is reduced to its distinct values, each of which is converted once, and
rows that follow each other with the same properties become one group. Rows for one queue keep their order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from waypost.api.bodies import BYTES, VT_BSTR
from waypost.api.message_attributes import acknowledge_text
from waypost.api.new_bodies import encode_body
from waypost.api.properties import MESSAGE_ROWS
from waypost.api.rows import Kind
from waypost.errors import InvalidParameter
from waypost.limits import MAX_PACKET_SIZE
from waypost.spark.options import WriteOptions

Codes = npt.NDArray[np.int64]

# The column with the destination of each row.
DESTINATION: Final = "dest_queue"

_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
# Types that the column of a property may have.
_KINDS: Final[dict[Kind, tuple[type[DataType], ...]]] = {
    Kind.TEXT: (StringType,),
    Kind.NUMBER: _WHOLE,
    Kind.FLAG: (BooleanType, *_WHOLE),
    Kind.SECONDS: (*_WHOLE, FloatType, DoubleType),
    Kind.ACKNOWLEDGMENTS: (*_WHOLE, StringType),
    Kind.QUEUES: (StringType,),
    Kind.IDENTIFIER: (BinaryType, StringType),
    Kind.BYTES: (BinaryType,),
}
_PROPERTIES: Final = {column: row for row in MESSAGE_ROWS for column in row.columns}
_TYPES: Final[dict[str, tuple[type[DataType], ...]]] = {
    "body": (BinaryType, StringType),
    DESTINATION: (StringType,),
    **{column: _KINDS[row.kind] for column, row in _PROPERTIES.items()},
}
# MS-MQMQ 2.2.20.3: the same values as in the column `journal` of the source.
_DEAD_LETTER: Final = 1
_JOURNAL: Final = 2
# Largest number of bytes in one frame, and of rows.
_FRAME_BYTES: Final = 4 << 20
_FRAME_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Group:
    """Messages for one queue that differ only in their bodies; the properties have the names of `Queue.send`."""

    queue: str
    properties: dict[str, Any]
    bodies: list[bytes]


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Check the columns before a job starts. Raises InvalidParameter with the name of a wrong column."""
    for field in schema.fields:
        if schema.names.count(field.name) > 1:
            raise InvalidParameter(f"several columns have the name {field.name}; keep one of them")
        if field.name not in _TYPES:
            near = get_close_matches(field.name, list(_TYPES), 1)
            known = dict.fromkeys(_shown(name) for name in _TYPES)
            hint = f"did you mean {_shown(near[0])}?" if near else f"the columns are {', '.join(known)}"
            raise InvalidParameter(
                f"the column {field.name!r} is not a property of a message; drop it, or rename it: {hint}"
            )
        kinds = _TYPES[field.name]
        if not isinstance(field.dataType, kinds):
            allowed = " or ".join(kind().simpleString() for kind in kinds)
            raise InvalidParameter(f"the column {field.name} is {field.dataType.simpleString()}; it must be {allowed}")
    for row in MESSAGE_ROWS:
        given = [name for name in row.columns if name in schema.names]
        if len(given) > 1:
            raise InvalidParameter(f"the columns {' and '.join(given)} are mutually exclusive; keep one of them")
    if "body" not in schema.names:
        raise InvalidParameter("the column body is missing; it must be binary or string")
    if DESTINATION not in schema.names and options.queue is None:
        raise InvalidParameter("the messages have no destination; give the option queue, or a column dest_queue")


def frames(batch: Any) -> Iterator[Any]:
    """The rows of a RecordBatch in pieces for one request each: bodies and extensions may be large."""
    lengths = np.zeros(batch.num_rows, np.int64)
    for name in ("body", "extension"):
        if name in batch.schema.names:
            lengths += pc.fill_null(pc.binary_length(batch.column(name)), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + _FRAME_BYTES, "right"))
        stop = max(min(stop, start + _FRAME_ROWS), start + 1)
        yield batch.slice(start, stop - start)
        start = stop


def groups(batch: Any, queue: str | None) -> list[Group]:
    """The messages of a RecordBatch; `queue` is for rows without a destination."""
    rows = batch.num_rows
    names = [name for name in batch.schema.names if name not in ("body", DESTINATION)]
    columns = {name: _distinct(batch.column(name)) for name in names}
    queues, codes = _destinations(batch, queue)
    order: Codes = np.argsort(codes, kind="stable") if len(queues) > 1 else np.arange(rows)
    changes = np.zeros(max(rows - 1, 0), bool)
    for each in (codes, *(theirs for _, theirs in columns.values())):
        changes |= np.diff(each[order]) != 0
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), rows] if rows else []
    converted = {name: [_converted(name, value) for value in values] for name, (values, _) in columns.items()}
    bodies = batch.column("body").take(pa.array(order)).to_pylist()
    kind = batch.schema.field("body").type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    found = []
    for start, stop in pairwise(edges):
        row = order[start]
        properties: dict[str, Any] = {"body_type": VT_BSTR if is_text else BYTES}
        for name, (_, theirs) in columns.items():
            properties.update(converted[name][theirs[row]])
        encoded = _encoded(bodies[start:stop], properties["body_type"], is_text=is_text)
        found.append(Group(queues[codes[row]], properties, encoded))
    return found


def _destinations(batch: Any, queue: str | None) -> tuple[Sequence[str], Codes]:
    if DESTINATION not in batch.schema.names:
        assert queue is not None
        return [queue], np.zeros(batch.num_rows, np.int64)
    values, codes = _distinct(batch.column(DESTINATION))
    names = [queue if value is None else str(value) for value in values]
    if None in names:
        raise InvalidParameter("the column dest_queue is null in a row, and the option queue names no other queue")
    return cast("list[str]", names), codes


def _distinct(array: Any) -> tuple[list[Any], Codes]:
    """The distinct values, null included, and for each row the number of its value."""
    encoded = pc.dictionary_encode(array, null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _encoded(bodies: list[Any], body_type: int, *, is_text: bool) -> list[bytes]:
    if is_text:
        return [encode_body(body or "", body_type)[0] for body in bodies]
    found = [body or b"" for body in bodies]
    longest = max(map(len, found), default=0)
    if longest > MAX_PACKET_SIZE:
        raise InvalidParameter(
            f"the column body has a value of {longest} bytes; a message has at most {MAX_PACKET_SIZE} (4 MiB), headers "
            "included"
        )
    return found


def _shown(column: str) -> str:
    """The name of the column in the documents."""
    return _PROPERTIES[column].columns[0] if column in _PROPERTIES else column


def _converted(column: str, value: Any) -> dict[str, Any]:
    """The property for a value of the column; nothing for null."""
    row = _PROPERTIES[column]
    if value is None:
        return {}
    return _CONVERT[row.kind](value) if row.kind in _CONVERT else {row.name: value}


def _acknowledge(value: Any) -> dict[str, Any]:
    word = acknowledge_text(value) if isinstance(value, int) else value
    return {} if word in ("", "none") else {"acknowledge": word}


def _journal(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"journal": value}
    if value & ~(_DEAD_LETTER | _JOURNAL):
        raise InvalidParameter(
            f"the column journal must be 1 for the dead-letter queue, 2 for the journal or 3 for both, not {value}"
        )
    return {"journal": bool(value & _JOURNAL), "dead_letter": bool(value & _DEAD_LETTER)}


def _correlation(value: Any) -> dict[str, Any]:
    return {"correlation_id": value.hex() if isinstance(value, bytes) else value}


# Kinds of properties with other values in columns than in `Queue.send`.
_CONVERT: Final[dict[Kind, Callable[[Any], dict[str, Any]]]] = {
    Kind.ACKNOWLEDGMENTS: _acknowledge,
    Kind.FLAG: _journal,
    Kind.IDENTIFIER: _correlation,
}
