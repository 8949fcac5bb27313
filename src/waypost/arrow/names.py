"""The queue names of UserHeaders as format names (MS-MQMQ 2.2.19.2), each distinct one made once.

A name in an unknown form becomes UNKNOWN=, as in a message object: a reader still wants to see what was sent.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waypost.arrow.gather import OBJECT_ID, Mask, Records, records
from waypost.arrow.headers import DIRECT, Headers, Name
from waypost.guid import guid_text
from waypost.wire.format_names import PrivateFormatName, PublicFormatName
from waypost.wire.packet_names import (
    ON_ADMIN_HOST,
    ON_DESTINATION_HOST,
    ON_SOURCE_HOST,
    SAME_AS_ADMIN,
    direct_format_name,
)
from waypost.wire.unknown_names import UnknownFormatName

PUBLIC: Final = 5
WITH_HOST: Final = 6

_GUID: Final = np.dtype("V16")
_NUMBER: Final = np.dtype("<u4")


# Arrow's hash has no secret: a sender can choose names that all have the same hash, and Arrow then compares each with
# every other name of one call.
_AT_ONCE: Final = 4096


class Distinct:
    """A column of texts, most of them repeated: the texts, and for each row the number of its text or NONE."""

    NONE: Final = -1

    __slots__ = ("index", "texts")

    def __init__(self, count: int) -> None:
        self.index: Final = np.full(count, self.NONE, np.int32)
        self.texts: Final[list[str]] = []

    def put(self, rows: npt.NDArray[np.intp], keys: pa.Array, text_of: Callable[[bytes], str]) -> None:
        """Give these rows the texts that belong to their keys."""
        for at in range(0, len(keys), _AT_ONCE):
            encoded = keys.slice(at, _AT_ONCE).dictionary_encode()
            self.index[rows[at : at + _AT_ONCE]] = np.asarray(encoded.indices) + len(self.texts)
            self.texts.extend(map(text_of, encoded.dictionary.to_pylist()))

    def strings(self, missing: Mask | None) -> pa.StringArray:
        absent = self.index == self.NONE
        if missing is not None:
            absent |= missing
        return pa.array(self.texts, pa.string()).take(pa.array(self.index, mask=absent))


def guids(values: npt.NDArray[Any], missing: Mask | None) -> pa.StringArray:
    """GUIDs as text."""
    column = Distinct(len(values))
    column.put(np.arange(len(values)), _keys(values), guid_text)
    return column.strings(missing)


def destination_names(headers: Headers) -> Distinct:
    return _names(headers, headers.destination)


def admin_names(headers: Headers) -> Distinct:
    return _names(headers, headers.admin)


def response_names(headers: Headers) -> Distinct:
    column = _names(headers, headers.response)
    same = headers.ok & (headers.response.code == SAME_AS_ADMIN)
    if same.any():
        admin = admin_names(headers)
        has_admin = same & (admin.index != Distinct.NONE)
        column.index[has_admin] = admin.index[has_admin] + len(column.texts)
        column.texts.extend(admin.texts)
    return column


def _names(headers: Headers, name: Name) -> Distinct:
    column = Distinct(len(headers.ok))
    for code in np.flatnonzero(np.bincount(name.code[headers.ok], minlength=8)):
        rows = np.flatnonzero(headers.ok & (name.code == code))
        if code == DIRECT and name.text is not None:
            is_all = len(rows) == len(name.text)
            column.put(rows, name.text if is_all else name.text.take(pa.array(rows)), _direct_text)
        elif code == PUBLIC:
            column.put(rows, _keys(records(headers.data, _GUID, name.at[rows])), _public_text)
        elif code == WITH_HOST:
            column.put(rows, _keys(records(headers.data, OBJECT_ID, name.at[rows])), _private_text)
        elif code in (ON_SOURCE_HOST, ON_DESTINATION_HOST, ON_ADMIN_HOST):
            hosts, known = _hosts(headers, int(code), rows)
            unknown = np.setdiff1d(rows, known, assume_unique=True)
            column.put(unknown, _keys(records(headers.data, _NUMBER, name.at[unknown])), _unknown_text)
            rows = known
            keys = np.empty(len(rows), OBJECT_ID)
            keys["lineage"] = hosts
            keys["uniquifier"] = records(headers.data, _NUMBER, name.at[rows])
            column.put(rows, _keys(keys), _private_text)
    return column


def _hosts(
    headers: Headers, code: int, rows: npt.NDArray[np.intp]
) -> tuple[Records, npt.NDArray[np.intp]]:  # fmt: skip
    """The queue managers of private queue numbers, and the rows that have one."""
    if code == ON_SOURCE_HOST:
        return headers.head["source_queue_manager"][rows], rows
    if code == ON_DESTINATION_HOST:
        return headers.head["queue_manager_address"][rows], rows
    admin_code = headers.admin.code[rows]
    rows = rows[np.isin(admin_code, (ON_SOURCE_HOST, ON_DESTINATION_HOST, WITH_HOST))]
    admin_code = headers.admin.code[rows]
    hosts = headers.head["source_queue_manager"][rows]
    on_destination, other = admin_code == ON_DESTINATION_HOST, admin_code == WITH_HOST
    hosts[on_destination] = headers.head["queue_manager_address"][rows[on_destination]]
    hosts[other] = records(headers.data, _GUID, headers.admin.at[rows[other]])
    return hosts, rows


def _keys(values: npt.NDArray[Any]) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.binary(values.dtype.itemsize), len(values), [None, data])


def _direct_text(key: bytes) -> str:
    return str(direct_format_name(key.decode("utf-16-le", "surrogatepass")))


def _unknown_text(key: bytes) -> str:
    return str(UnknownFormatName("", int.from_bytes(key, "little")))


def _public_text(key: bytes) -> str:
    return str(PublicFormatName(key))


def _private_text(key: bytes) -> str:
    return str(PrivateFormatName(key[:16], int.from_bytes(key[16:], "little")))
