"""Binary arrays of Arrow for numpy: the bytes of all rows one after the other, and the offset of each row."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waypost.arrow.gather import Bytes, Numbers


def flat(array: pa.BinaryArray) -> tuple[Bytes, Numbers]:
    """Data and offsets: row i is data[offsets[i]:offsets[i + 1]]. The array has no nulls, and may be a slice.

    No byte is copied.
    """
    _, bounds, data = array.buffers()
    if not len(array) or data is None:
        return np.zeros(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    offsets = np.frombuffer(bounds, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def any_bits(values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """All values of each row combined by bitwise OR; 0 for a row without values."""
    result = np.zeros(len(offsets) - 1, values.dtype)
    filled = offsets[1:] > offsets[:-1]
    if filled.any():
        # `reduceat` gives a row without values the value of the next row; without such rows the others are adjacent.
        result[filled] = np.bitwise_or.reduceat(values, offsets[:-1][filled])
    return result
