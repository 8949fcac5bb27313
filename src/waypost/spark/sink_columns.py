"""The columns of rows to send: check them, and turn rows into groups of messages that share properties.

Rows are not handled one by one. Each column is reduced to its distinct values, each of which is converted once, and
rows that follow each other with the same properties become one group. Rows for one queue keep their order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

from waypost.api.bodies import BYTES, VT_BSTR, WIDE
from waypost.api.bulk import RejectedRow
from waypost.api.excerpt import excerpt
from waypost.api.message_attributes import VARIED_ROWS, acknowledge_text, message_like
from waypost.api.names import check_can_be_sent_to, format_name
from waypost.api.new_bodies import encode_body
from waypost.api.properties import MESSAGE_ROWS, MessageProperties
from waypost.api.rows import Kind
from waypost.arrow.schema import ALL
from waypost.errors import (
    AccessDenied,
    DirectoryObjectNotFound,
    EncodeError,
    IllegalFormatName,
    InvalidParameter,
    PublicKeyUnknown,
    QueueDeleted,
    QueueNotFound,
    TransactionUsage,
    UnsupportedAccessMode,
    UnsupportedFormatName,
    WaypostError,
)
from waypost.limits import MAX_LABEL_LENGTH, MAX_PACKET_SIZE
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
# Columns of a read that a write leaves out: INSERT INTO a view has all of them, and null where no value is given.
READ_ONLY: Final = frozenset(ALL.names) - frozenset(_TYPES)
# MS-MQMQ 2.2.20.3: the same values as in the column `journal` of the source.
_DEAD_LETTER: Final = 1
_JOURNAL: Final = 2
# Largest number of bytes in one frame, and of rows.
_FRAME_BYTES: Final = 4 << 20
_FRAME_ROWS: Final = 10_000
# Bytes of the body of a row that is set aside: with its reason it fits into a message.
_MAX_REJECTED: Final = MAX_PACKET_SIZE - 0x1_0000
# Names of queues are checked as names of some computer: the daemon knows its own.
_SOME_COMPUTER: Final = "."
_IDENTIFIER_SIZE: Final = 20
# Errors of the daemon that refuse all messages for a queue, and those that refuse a message.
REFUSED_QUEUE: Final = (
    QueueNotFound,
    QueueDeleted,
    TransactionUsage,
    AccessDenied,
    UnsupportedAccessMode,
    UnsupportedFormatName,
    IllegalFormatName,
    DirectoryObjectNotFound,
    PublicKeyUnknown,
)
REFUSED_ROW: Final = (InvalidParameter, EncodeError)


@dataclass(frozen=True, slots=True)
class Group:
    """Messages for one queue that differ only in their bodies; the properties have the names of `Queue.send`.

    `varied` contains the properties that are different for each body, as in StagedMessages. `rows` are the numbers of
    the rows in their batch. `is_by_column` is true if the rows name the queue.
    """

    queue: str
    properties: dict[str, Any]
    bodies: list[bytes]
    varied: dict[str, list[Any]] = field(default_factory=dict)
    rows: Sequence[int] = field(default=(), compare=False)
    is_by_column: bool = field(default=False, compare=False)


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Check the columns before a job starts. Raises InvalidParameter with the name of a wrong column."""
    for column in schema.fields:
        if schema.names.count(column.name) > 1:
            raise InvalidParameter(f"several columns have the name `{column.name}`; keep only one")
        if column.name in READ_ONLY:
            continue
        if column.name not in _TYPES:
            near = get_close_matches(column.name, list(_TYPES), 1)
            known = dict.fromkeys(_shown(name) for name in _TYPES)
            hint = f"did you mean {_shown(near[0])}?" if near else f"the columns are {', '.join(known)}"
            raise InvalidParameter(
                f"the column {column.name!r} is not a property of a message; drop it, or rename it: {hint}"
            )
        kinds = _TYPES[column.name]
        if not isinstance(column.dataType, kinds):
            allowed = " or ".join(kind().simpleString() for kind in kinds)
            raise InvalidParameter(
                f"the column `{column.name}` has the type {column.dataType.simpleString()}, but must have the type "
                f"{allowed}"
            )
    for row in MESSAGE_ROWS:
        given = [name for name in row.columns if name in schema.names]
        if len(given) > 1:
            raise InvalidParameter(f"the columns {' and '.join(given)} are mutually exclusive; keep only one")
    if "body" not in schema.names:
        raise InvalidParameter("the column `body` is missing; its type must be binary or string")
    if DESTINATION not in schema.names and options.queue is None:
        raise InvalidParameter("the messages have no destination; set the option `queue`, or add a column `dest_queue`")


def writable(batch: Any) -> Any:
    """A RecordBatch without its read-only columns. Raises InvalidParameter if one of them has a value."""
    for name in READ_ONLY.intersection(batch.schema.names):
        if batch.column(name).null_count < batch.num_rows:
            raise InvalidParameter(
                f"the column `{name}` has a value in some rows, but a sender cannot set this column: "
                "remove the column, or set it to null"
            )
    return batch.select([name for name in batch.schema.names if name not in READ_ONLY])


def frames(batch: Any) -> Iterator[Any]:
    """The rows of a RecordBatch in pieces for one request each: bodies and extensions may be large."""
    lengths = np.zeros(batch.num_rows, np.int64)
    for name in ("body", "extension"):
        if name in batch.schema.names:
            lengths += _lengths(batch.column(name))
    ends = np.cumsum(lengths)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + _FRAME_BYTES, "right"))
        stop = max(min(stop, start + _FRAME_ROWS), start + 1)
        yield batch.slice(start, stop - start)
        start = stop


@dataclass(frozen=True, slots=True)
class Invalid:
    """A row that cannot become a message: its number in the batch, the reason, and its queue if that is the reason."""

    row: int
    reason: str
    queue: str = ""


def invalid_rows(batch: Any, queue: str | None, refused: Mapping[str, str] | None = None) -> list[Invalid]:
    """The rows of a RecordBatch that cannot become messages, ascending, each with its first reason.

    `refused` maps destinations that the daemon has refused to the reasons.
    """
    found: dict[int, str] = {}
    body = batch.column("body")
    for row in np.flatnonzero(body.is_null().to_numpy(zero_copy_only=False)).tolist():
        found[row] = "the body is null"
    found.update(_too_large(batch))
    for name in batch.schema.names:
        if name != "body":
            for row, reason in _invalid_values(batch.column(name), name, queue, refused or {}):
                found.setdefault(row, reason)
    for row, reason in _invalid_pairs(batch):
        found.setdefault(row, reason)
    return [Invalid(row, found[row]) for row in sorted(found)]


def _too_large(batch: Any) -> Iterator[tuple[int, str]]:
    """Rows whose body and extension do not fit into a message, even without its headers."""
    bodies, extensions = _body_lengths(batch), np.zeros(batch.num_rows, np.int64)
    if "extension" in batch.schema.names:
        extensions = _lengths(batch.column("extension"))
    for row in np.flatnonzero(bodies + extensions > MAX_PACKET_SIZE).tolist():
        if bodies[row] > MAX_PACKET_SIZE:
            what = f"the body has {bodies[row]} bytes"
        elif extensions[row] > MAX_PACKET_SIZE:
            what = f"the extension has {extensions[row]} bytes"
        else:
            what = f"the body and the extension have {bodies[row] + extensions[row]} bytes"
        yield row, f"{what}; a message can have at most {MAX_PACKET_SIZE} bytes (4 MiB)"


def _body_lengths(batch: Any) -> Codes:
    """The numbers of bytes of the bodies in their messages."""
    body = batch.column("body")
    lengths = _lengths(body)
    if not _is_text(batch):
        return lengths
    types = next((batch.column(name) for name in batch.schema.names if _is_body_type(name)), None)
    # UTF-16 takes at most twice as many bytes as UTF-8, so that only large texts have to be measured.
    for row in np.flatnonzero(2 * lengths > MAX_PACKET_SIZE).tolist():
        number = None if types is None else types[row].as_py()
        if number is None or number in WIDE:
            lengths[row] = len(body[row].as_py().encode("utf-16-le"))
    return lengths


def _is_body_type(column: str) -> bool:
    return column in _PROPERTIES and _PROPERTIES[column].name == "body_type"


def _lengths(array: Any) -> Codes:
    lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
    return cast("Codes", lengths.astype(np.int64))


def refused_rows(batch: Any, queue: str | None, probe: Callable[[Any], None]) -> list[Invalid]:
    """The rows that the daemon refuses, ascending. `probe` raises the daemon's error if it refuses one of some rows.

    Rows for one queue are tried together, and halved until the reason is that of a queue or of a row. Raises the error
    if the daemon refuses the queue of the option, because then no row is at fault.
    """
    queues, codes = _destinations(batch, queue)
    values = batch.column(DESTINATION) if DESTINATION in batch.schema.names else None
    found: list[Invalid] = []

    def search(rows: Codes) -> None:
        is_one_queue = codes[rows[0]] == codes[rows[-1]]
        try:
            probe(batch.take(pa.array(np.sort(rows))))
            return
        except REFUSED_QUEUE as error:
            if is_one_queue:
                if values is None or not values[rows[0].item()].is_valid:
                    raise
                found.extend(refused_queue(rows.tolist(), queues[codes[rows[0]]], error))
                return
        except REFUSED_ROW as error:
            if len(rows) == 1:
                found.append(Invalid(int(rows[0]), str(error)))
                return
        middle = len(rows) // 2
        if not is_one_queue:
            theirs = codes[rows]
            middle = int(np.searchsorted(theirs, theirs[middle])) or int(np.searchsorted(theirs, theirs[0], "right"))
        search(rows[:middle])
        search(rows[middle:])

    if batch.num_rows:
        search(np.argsort(codes, kind="stable"))
    return sorted(found, key=lambda each: each.row)


def refused_queue(rows: Iterable[int], queue: str, error: WaypostError) -> list[Invalid]:
    """Rows whose destination is refused."""
    reason = f"the column `dest_queue` has the value {excerpt(queue)}: {error}"
    return [Invalid(row, reason, queue) for row in rows]


def rejected(batch: Any, invalid: Sequence[Invalid], queue: str | None, partition: int) -> list[RejectedRow]:
    """Invalid rows in the form for the daemon."""
    rows = batch.take(pa.array([each.row for each in invalid], pa.int64()))
    columns = {name: rows.column(name).to_pylist() for name in rows.schema.names}
    found = []
    for at, each in enumerate(invalid):
        body, label = columns["body"][at], columns.get("label", [None] * len(invalid))[at]
        to = columns.get(DESTINATION, [None] * len(invalid))[at] or queue or ""
        data = body.encode("utf-8", "replace") if isinstance(body, str) else body or b""
        reason = f"partition {partition}: {each.reason}"
        found.append(RejectedRow(reason=reason, queue=to, label=label or "", body=data[:_MAX_REJECTED]))
    return found


def without(batch: Any, invalid: Sequence[Invalid]) -> Any:
    """The other rows."""
    is_valid = np.ones(batch.num_rows, bool)
    is_valid[[each.row for each in invalid]] = False
    return batch.filter(pa.array(is_valid))


def _invalid_values(
    array: Any, column: str, queue: str | None, refused: Mapping[str, str]
) -> Iterator[tuple[int, str]]:
    values, codes = _distinct(array)
    for code, value in enumerate(values):
        if column == DESTINATION:
            reason = refused.get(value, "") or _invalid_destination(value, queue)
        elif _is_quickly_valid(column, value):
            continue
        else:
            reason = _invalid_value(column, value)
        if reason:
            yield from ((row, reason) for row in np.flatnonzero(codes == code).tolist())


def _invalid_destination(value: str | None, queue: str | None) -> str:
    if value is None:
        return "" if queue else "the column `dest_queue` is null, and the option `queue` is not set"
    try:
        check_can_be_sent_to(format_name(value, _SOME_COMPUTER))
    except WaypostError as error:
        return f"the column `dest_queue` is invalid: {error}"
    return ""


def _invalid_value(column: str, value: Any) -> str:
    """The fault of a value of a property, or nothing."""
    if value is None:
        return ""
    try:
        properties = MessageProperties(**_converted(column, value))
        if column == "label":
            _check_label(value)
        elif _PROPERTIES[column].kind not in _PAIRED:
            message_like(properties, computer=_SOME_COMPUTER)
    except WaypostError as error:
        return f"the column `{column}` has the value {excerpt(value)}: {error}"
    return ""


def _check_label(value: str) -> None:
    units = len(value.encode("utf-16-le", "surrogatepass")) // 2
    if units >= MAX_LABEL_LENGTH:
        raise InvalidParameter(f"a label must have at most {MAX_LABEL_LENGTH - 1} characters, not {units}")
    if "\0" in value:
        raise InvalidParameter("a label must not contain a null character")
    message_like(MessageProperties(label=value), computer=_SOME_COMPUTER)


def _invalid_pairs(batch: Any) -> Iterator[tuple[int, str]]:
    """Rows with acknowledgments and admin queues that do not fit together, or are wrong each."""
    names = [name for name in batch.schema.names if name in _PROPERTIES and _PROPERTIES[name].kind in _PAIRED]
    if not names:
        return
    columns = [batch.column(name).to_pylist() for name in names]
    reasons: dict[tuple[Any, ...], str] = {}
    for row, found in enumerate(zip(*columns, strict=True)):
        if found not in reasons:
            properties: dict[str, Any] = {}
            try:
                for name, value in zip(names, found, strict=True):
                    properties.update(_converted(name, value))
                message_like(MessageProperties(**properties), computer=_SOME_COMPUTER)
                reasons[found] = ""
            except WaypostError as error:
                reasons[found] = str(error)
        if reasons[found]:
            yield row, reasons[found]


def groups(batch: Any, queue: str | None, *, varies: bool = False) -> list[Group]:
    """The messages of a RecordBatch; `queue` is for rows without a destination.

    If it `varies`, labels and other properties of a group may be different for each message.
    """
    rows = batch.num_rows
    names = [name for name in batch.schema.names if name not in ("body", DESTINATION)]
    columns = {name: _distinct(batch.column(name)) for name in names}
    varied = [name for name in names if varies and _may_vary(name) and len(columns[name][0]) > 1]
    own = {name: columns.pop(name) for name in varied}
    queues, codes = _destinations(batch, queue)
    order: Codes = np.argsort(codes, kind="stable") if len(queues) > 1 else np.arange(rows)
    changes = np.zeros(max(rows - 1, 0), bool)
    for each in (codes, *(theirs for _, theirs in columns.values())):
        changes |= np.diff(each[order]) != 0
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), rows] if rows else []
    converted = {name: [_converted(name, value) for value in values] for name, (values, _) in columns.items()}
    bodies = batch.column("body").take(pa.array(order)).to_pylist()
    is_text = _is_text(batch)
    has_destination = (
        batch.column(DESTINATION).is_valid().to_numpy(zero_copy_only=False)
        if DESTINATION in batch.schema.names
        else np.zeros(rows, bool)
    )
    found = []
    for start, stop in pairwise(edges):
        row = order[start]
        properties: dict[str, Any] = {"body_type": VT_BSTR if is_text else BYTES}
        for name, (_, theirs) in columns.items():
            properties.update(converted[name][theirs[row]])
        encoded = _encoded(bodies[start:stop], properties["body_type"], is_text=is_text)
        some = order[start:stop]
        lists = {_PROPERTIES[name].name: _listed(*own[name], some) for name in varied}
        found.append(
            Group(
                queues[codes[row]], properties, encoded, lists, some.tolist(), is_by_column=bool(has_destination[row])
            )
        )
    return found


def _is_text(batch: Any) -> bool:
    kind = batch.schema.field("body").type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _may_vary(column: str) -> bool:
    return _PROPERTIES[column].name in VARIED_ROWS


def _listed(values: list[Any], codes: Codes, rows: Codes) -> list[Any]:
    """The values of a column for some rows, as StagedMessages has them."""
    converted = [value.hex() if isinstance(value, bytes) else value for value in values]
    return [converted[code] for code in codes[rows].tolist()]


def _destinations(batch: Any, queue: str | None) -> tuple[Sequence[str], Codes]:
    if DESTINATION not in batch.schema.names:
        assert queue is not None
        return [queue], np.zeros(batch.num_rows, np.int64)
    values, codes = _distinct(batch.column(DESTINATION))
    names = [queue if value is None else str(value) for value in values]
    return cast("list[str]", names), codes


def _distinct(array: Any) -> tuple[list[Any], Codes]:
    """The distinct values, null included, and for each row the number of its value."""
    encoded = pc.dictionary_encode(array, null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _encoded(bodies: list[Any], body_type: int, *, is_text: bool) -> list[bytes]:
    return [encode_body(body, body_type)[0] for body in bodies] if is_text else bodies


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
            f"the column `journal` must be 1 for the dead-letter queue, 2 for the journal or 3 for both, not {value}"
        )
    return {"journal": bool(value & _JOURNAL), "dead_letter": bool(value & _DEAD_LETTER)}


def _correlation(value: Any) -> dict[str, Any]:
    return {"correlation_id": value.hex() if isinstance(value, bytes) else value}


# Kinds of properties that are checked together.
_PAIRED: Final = frozenset({Kind.ACKNOWLEDGMENTS, Kind.QUEUES})


def _is_quickly_valid(column: str, value: Any) -> bool:
    """Whether a value is certainly valid: labels, numbers and ids may be different in every row."""
    row = _PROPERTIES[column]
    if value is None or row.kind is Kind.BYTES:
        return True
    if row.kind is Kind.TEXT:
        return value.isascii() and len(value) < MAX_LABEL_LENGTH and "\0" not in value
    if row.kind is Kind.NUMBER:
        return bool(row.constraints["minimum"] <= value <= row.constraints["maximum"])
    return row.kind is Kind.IDENTIFIER and isinstance(value, bytes) and len(value) == _IDENTIFIER_SIZE


# Kinds of properties with other values in columns than in `Queue.send`.
_CONVERT: Final[dict[Kind, Callable[[Any], dict[str, Any]]]] = {
    Kind.ACKNOWLEDGMENTS: _acknowledge,
    Kind.FLAG: _journal,
    Kind.IDENTIFIER: _correlation,
}
