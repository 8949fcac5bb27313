"""Bodies of the text types: VT_BSTR and VT_LPWSTR in UTF-16, VT_LPSTR in the encoding of the sender.

waypost.api.bodies decodes texts one by one. Plain texts, UTF-16 without surrogates or ASCII, are decoded here for all
rows at once, with the same result.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from waypost.api.bodies import VT_BSTR, VT_LPSTR, VT_LPWSTR, Reading, decode_text
from waypost.arrow.bodies.columns import Columns, nulls
from waypost.arrow.bodies.flat import any_bits, flat
from waypost.arrow.gather import Mask, data_of, offsets_of, pieces
from waypost.arrow.texts import to_strings
from waypost.errors import DecodeError

STRING: Final = "string"
STRINGS: Final = (VT_BSTR, VT_LPSTR, VT_LPWSTR)


def read_strings(body: pa.BinaryArray, body_type: int) -> Columns:
    plain, text = _ascii(body) if body_type == VT_LPSTR else _wide(body)
    others = body.filter(pa.array(~plain)).to_pylist()
    return Columns.together(
        [
            (np.flatnonzero(plain), Columns.of(STRING, text)),
            (np.flatnonzero(~plain), Columns.of_readings(_read(each, body_type) for each in others)),
        ]
    )


def _ascii(body: pa.BinaryArray) -> tuple[Mask, pa.StringArray]:
    """Mask of the rows that are ASCII, and their texts without a final zero."""
    data, offsets = flat(body)
    plain = any_bits(data, offsets) < 0x80
    if not plain.any():
        return plain, nulls(0)
    at, ends = offsets[:-1][plain], offsets[1:][plain]
    ends[ends > at] -= data[ends[ends > at] - 1] == 0
    return plain, pieces(data, at, ends - at).cast(pa.string())


def _wide(body: pa.BinaryArray) -> tuple[Mask, pa.StringArray]:
    """Mask of the rows that are UTF-16 without surrogates (which may be unpaired), and their texts."""
    data, offsets = flat(body)
    plain = np.diff(offsets) % 2 == 0
    if not plain.any():
        return plain, nulls(0)
    at, ends = offsets[:-1][plain], offsets[1:][plain]
    last = ends[ends > at]
    ends[ends > at] -= 2 * ((data[last - 2] | data[last - 1]) == 0)
    array = pieces(data, at, ends - at)
    is_surrogate = data_of(array).view("<u2") & 0xF800 == 0xD800
    wanted = ~any_bits(is_surrogate, offsets_of(array) // 2)
    plain[plain] = wanted
    text = to_strings(array, None)
    return plain, text if wanted.all() else text.filter(pa.array(wanted))


def _read(body: bytes, body_type: int) -> Reading:
    try:
        return Reading(decode_text(body, body_type), STRING)
    except DecodeError as error:
        return Reading(None, STRING, error.reason)
