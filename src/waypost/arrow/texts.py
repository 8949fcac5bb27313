"""UTF-16LE text of many packets to Arrow strings, all at once.

An Arrow string is UTF-8 and cannot hold half a surrogate pair, which a packet can: it becomes U+FFFD.
"""

from codecs import utf_16_le_decode
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waypost.arrow.gather import Mask, data_of, offsets_of

REPLACEMENT: Final = 0xFFFD

_Units = npt.NDArray[np.uint16]


def has_null(array: pa.BinaryArray) -> Mask:
    """True for values with a null among their UTF-16 units. Every value must have whole units."""
    found = np.zeros(len(array), np.bool_)
    nulls = np.flatnonzero(_units(array) == 0)
    if len(nulls):
        found[_rows(array, nulls)] = True
    return found


def to_strings(array: pa.BinaryArray, missing: Mask | None) -> pa.StringArray:
    """The same values as strings. No value may be null."""
    units = _units(array)
    offsets = offsets_of(array) // 2
    if not len(units) or units.max() < 0x80:
        data: bytes | npt.NDArray[np.uint8] = units.astype(np.uint8)
    else:
        units = _without_halves(units, offsets)
        data = utf_16_le_decode(units.tobytes())[0].encode()
        # Each half of a surrogate pair stands for two of its four bytes.
        width = 1 + (units >= 0x80) + ((units >= 0x800) & ~_is_surrogate(units))
        ends = np.zeros(len(units) + 1, np.int32)
        np.cumsum(width, out=ends[1:])
        offsets = ends[offsets]
    present = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(array), [present, pa.py_buffer(offsets), pa.py_buffer(data)])


def _units(array: pa.BinaryArray) -> _Units:
    return data_of(array).view("<u2")


def _rows(array: pa.BinaryArray, units: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The values that these units belong to."""
    return np.searchsorted(offsets_of(array)[1:] // 2, units, side="right")


def _is_surrogate(units: _Units) -> Mask:
    found: Mask = units & 0xF800 == 0xD800
    return found


def _without_halves(units: _Units, offsets: npt.NDArray[np.int32]) -> _Units:
    """The units with every surrogate replaced that has no other half in its value."""
    alone = _is_surrogate(units)
    if not alone.any():
        return units
    starts_value = np.zeros(len(units) + 1, np.bool_)
    starts_value[offsets] = True
    is_pair = (units[:-1] & 0xFC00 == 0xD800) & (units[1:] & 0xFC00 == 0xDC00) & ~starts_value[1:-1]
    alone[:-1] &= ~is_pair
    alone[1:] &= ~is_pair
    return np.where(alone, REPLACEMENT, units).astype("<u2")
