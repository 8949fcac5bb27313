"""Values out of many packets at once: records and runs of bytes at any offsets, copied without a loop in Python.

Offsets count from the start of the data that all packets share. The caller makes sure that offsets and sizes lie inside
the data, and that runs of bytes are in the order of the data and do not overlap, as those of successive packets.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
# One number, truth value or record for each packet.
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Records = npt.NDArray[np.void]

# MS-MQMQ 2.2.8 OBJECTID, which is the form of message and transaction identifiers.
OBJECT_ID: Final = np.dtype([("lineage", "V16"), ("uniquifier", "<u4")])


def records(data: Bytes, dtype: np.dtype[Any], at: Numbers) -> npt.NDArray[Any]:
    """The record at each offset, aligned or not."""
    # A view of every offset of the data. Elements of kind V are copied whole, those of a dtype field by field.
    size = dtype.itemsize
    every = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    return every[at].view(dtype)


def pieces(data: Bytes, at: Numbers, size: Numbers, missing: Mask | None = None) -> pa.BinaryArray:
    """The bytes [at, at + size) of each packet; null where they are missing."""
    count = len(at)
    # Every second value of this array is a piece, and the others are the gaps: nothing is copied yet.
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = at
    bounds[1::2] = at + size
    everything = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )  # fmt: skip
    return everything.take(pa.array(np.arange(0, 2 * count, 2), mask=missing))


def fixed(values: npt.NDArray[Any], missing: Mask | None = None) -> pa.BinaryArray:
    """The bytes of each record."""
    size = values.dtype.itemsize
    bounds = np.arange(0, size * len(values) + 1, size, dtype=np.int32)
    present = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.binary(), len(values), [present, pa.py_buffer(bounds), data])


def offsets_of(array: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Offsets where the values of an array made by `pieces` begin and end in its data."""
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1)


def data_of(array: pa.BinaryArray) -> Bytes:
    """All values of an array made by `pieces`, one after the other."""
    data = array.buffers()[2]
    size = int(offsets_of(array)[-1])
    return np.frombuffer(data, np.uint8, size) if size else np.empty(0, np.uint8)
