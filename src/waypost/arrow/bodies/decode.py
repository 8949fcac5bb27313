"""Decode bodies of all types together: each goes to the reader of its type."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from waypost.api.bodies import BYTES, Reading, json_text
from waypost.api.framework_headers import envelope_headers, headers_of
from waypost.arrow.bodies.columns import Columns, nulls
from waypost.arrow.bodies.net_binary import root_type
from waypost.arrow.bodies.strings import STRINGS, read_strings
from waypost.arrow.bodies.untyped import read_untyped
from waypost.arrow.bodies.values import INTEGERS, VALUES, read_integers, read_values
from waypost.arrow.schema import HEADERS
from waypost.errors import DecodeError
from waypost.wire.variant_types import VarType

VT_ARRAY: Final = 0x2000
VT_STREAMED_OBJECT: Final = 68
VT_STORED_OBJECT: Final = 69
NET_BINARY: Final = 0x300

_JSON: Final = "application/json"
# RE2 sees bytes as Latin-1: a byte order mark, blanks, and the first byte of what is looked for.
_JSON_START: Final = r"^(?:\xef\xbb\xbf)?[ \t\r\n]*[{\[]"
_HEADERS_START: Final = r"^(?:\xef\xbb\xbf)?[ \t\r\n]*[{<]"
_ENVELOPE: Final = r'(?s)^(?:\xef\xbb\xbf)?[ \t\r\n]*\{.*"messageType"'
_HEADERS: Final = pa.map_(pa.string(), pa.string())


def decode_bodies(
    body: pa.Array, body_type: npt.NDArray[Any], extension: pa.Array
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The text, the kind and the error of each body; all null where the body is null."""
    present = body.is_valid().to_numpy(zero_copy_only=False)
    known = present & np.isin(body_type, _KNOWN)
    absent = np.flatnonzero(~present)
    parts = [(absent, Columns.of(None, nulls(len(absent))))]
    for number in np.unique(body_type[known]).tolist():
        rows = np.flatnonzero(known & (body_type == number))
        parts.append((rows, _READERS[number](_rows(body, rows), number)))
    unknown = np.flatnonzero(present & ~known)
    parts.append((unknown, _unknown(body_type[unknown])))
    columns = Columns.together(parts)
    return columns.text, _with_json(columns.kind, extension), columns.error


def _rows(body: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    return body if len(rows) == len(body) else body.take(pa.array(rows))


def _with_json(kind: pa.Array, extension: pa.Array) -> pa.Array:
    """NServiceBus and Rebus name the type of the content among their headers."""
    is_json = pc.and_(pc.equal(kind, "text"), pc.match_substring(extension, _JSON))
    return pc.if_else(pc.fill_null(is_json, False), "json", kind) if pc.any(is_json).as_py() else kind


def _unknown(body_type: npt.NDArray[Any]) -> Columns:
    kind = pa.array([f"type-{number}" for number in body_type.tolist()], pa.string())
    return Columns(nulls(len(kind)), kind, nulls(len(kind)))


def _untyped(body: pa.BinaryArray, _: int) -> Columns:
    return read_untyped(body)


def _bytes(body: pa.BinaryArray, _: int) -> Columns:
    """Arrays of bytes. Many senders write JSON in them."""
    may_be_json = pc.match_substring_regex(body, _JSON_START)
    rows = np.flatnonzero(may_be_json.to_numpy(zero_copy_only=False))
    texts = {row: text for row in rows.tolist() if (text := json_text(body[row].as_py())) is not None}
    if not texts:
        return Columns.of("bytes", nulls(len(body)))
    found = [texts.get(row) for row in range(len(body))]
    kinds = ["bytes" if text is None else "json" for text in found]
    return Columns(pa.array(found, pa.string()), pa.array(kinds, pa.string()), nulls(len(body)))


def _object(body: pa.BinaryArray, _: int) -> Columns:
    return Columns.of("object", nulls(len(body)))


def _net_binary(body: pa.BinaryArray, _: int) -> Columns:
    return Columns.of_readings(map(_net_reading, body.to_pylist()))


def _net_reading(body: bytes) -> Reading:
    try:
        return Reading(None, f"net-binary:{root_type(body)}")
    except DecodeError as error:
        return Reading(None, "net-binary", str(error))


_READERS: Final[dict[int, Callable[[pa.BinaryArray, int], Columns]]] = {
    int(VarType.VT_EMPTY): _untyped,
    **dict.fromkeys(STRINGS, read_strings),
    **dict.fromkeys(INTEGERS, read_integers),
    **dict.fromkeys(VALUES, read_values),
    **dict.fromkeys((BYTES, VT_ARRAY | VarType.VT_UI1), _bytes),
    **dict.fromkeys((VT_STREAMED_OBJECT, VT_STORED_OBJECT), _object),
    NET_BINARY: _net_binary,
}
_KNOWN: Final = np.array(sorted(_READERS))


def extension_headers(extension: pa.Array) -> pa.Array:
    """The headers of NServiceBus and Rebus in each extension field, null where it has none."""
    found = map(headers_of, extension.to_pylist())
    return pa.array((None if headers is None else list(headers.items()) for headers in found), _HEADERS)


def header_lists(extension: pa.Array, body: pa.Array) -> pa.Array:
    """The headers of NServiceBus, Rebus and MassTransit as lists of key and value, null where there are none."""
    found: list[dict[str, str] | None] = [None] * len(extension)
    for row in _rows_with(extension, _HEADERS_START):
        found[row] = headers_of(extension[row].as_py())
    for row in _rows_with(body, _ENVELOPE):
        if found[row] is None:
            found[row] = envelope_headers(body[row].as_py())
    lists = [
        None if headers is None else [{"key": key, "value": value} for key, value in headers.items()]
        for headers in found
    ]
    return pa.array(lists, HEADERS.type)


def _rows_with(array: pa.Array, expression: str) -> list[int]:
    """The rows whose bytes match. Most rows need no other look."""
    found = pc.fill_null(pc.match_substring_regex(array, expression), False)
    rows: list[int] = np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist()
    return rows
