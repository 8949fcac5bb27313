"""Bodies of type 0, for which the sender names no type: XML, other text, or anything.

waypost.api.bodies decodes them one by one. Bodies that are certainly UTF-8 are decoded here for all rows at once.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from waypost.api.bodies import read_untyped_body
from waypost.arrow.bodies.columns import Columns, nulls
from waypost.arrow.bodies.flat import any_bits, flat

_KINDS: Final = pa.array(["empty", "xml", "text"])
_EMPTY, _XML, _TEXT = range(3)

# Bytes below the blank are control characters. Text may have those from the tabulator to the carriage return.
_BLANK: Final = 32
_FIRST_OF_TEXT: Final = np.uint8(9)
_OF_TEXT: Final = 5

# RE2 sees bytes as Latin-1. A name may begin with any letter that is not ASCII.
_XML_START: Final = r"^[ \t\r\n]*<[A-Za-z_:?!\x80-\xff]"
# A byte order mark, or a declaration of another encoding than UTF-8: all bodies in which _ENCODING finds one.
_MARKED: Final = (
    r"(?i)^(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)"
    r"|^<\?xml[^>]{0,201}encoding[\s\x0b]*=[\s\x0b]*[\"'](?:[^u]|u[^t]|ut[^f]|utf[^-]|utf-[^8]|utf-8[^\"'])"
)


def read_untyped(body: pa.BinaryArray) -> Columns:
    data, offsets = flat(body)
    # For bytes below the first, the difference wraps round to a big number.
    is_control = (data < _BLANK) & (data - _FIRST_OF_TEXT >= _OF_TEXT)
    is_text = ~any_bits(is_control, offsets)
    is_ascii = any_bits(data, offsets) < 0x80
    fast = is_text & is_ascii
    letters = is_text & ~is_ascii
    if letters.any():
        fast |= _utf_8(body, letters)
    slow = body.filter(pa.array(~fast)).to_pylist()
    return Columns.together(
        [
            (np.flatnonzero(fast), _texts(body if fast.all() else body.filter(pa.array(fast)))),
            (np.flatnonzero(~fast), Columns.of_readings(map(read_untyped_body, slow))),
        ]
    )


def _utf_8(body: pa.BinaryArray, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Mask of those rows that are certainly UTF-8; empty if one of them is not."""
    candidates = body.filter(pa.array(rows))
    sure = ~pc.match_substring_regex(candidates, _MARKED).to_numpy(zero_copy_only=False)
    result = np.zeros(len(rows), np.bool_)
    try:
        candidates.filter(pa.array(sure)).cast(pa.string())
    except pa.ArrowInvalid:
        return result
    result[np.flatnonzero(rows)[sure]] = True
    return result


def _texts(body: pa.BinaryArray) -> Columns:
    """Bodies that are known to be UTF-8 text."""
    is_xml = pc.match_substring_regex(body, _XML_START).to_numpy(zero_copy_only=False)
    kinds = np.where(is_xml, _XML, _TEXT)
    kinds[pc.binary_length(body).to_numpy() == 0] = _EMPTY
    text = body.cast(pa.string(), safe=False)
    return Columns(text, _KINDS.take(pa.array(kinds)), nulls(len(body)))
