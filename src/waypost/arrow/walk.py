"""A walk through many packets at once, step by step, never beyond the end of one of them.

A packet that breaks a rule is given up: it is no longer `ok`, and values read for it afterwards mean nothing, but still
come from inside the data.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waypost.arrow.gather import Bytes, Mask, Numbers, pieces, records
from waypost.arrow.packets import Packets
from waypost.arrow.texts import has_null

_U16: Final = np.dtype("<u2")

# Longest record of one read. Packets that were given up are read at offset 0, so the data must have this many bytes.
_LONGEST: Final = 64


class Walk:
    """`at` is the place in each packet, counted from the start of the data; `ok` marks packets that broke no rule."""

    __slots__ = ("at", "data", "ends", "ok", "starts")

    def __init__(self, packets: Packets) -> None:
        data = packets.data
        self.data: Final[Bytes] = (
            data if len(data) >= _LONGEST else np.concatenate([data, np.zeros(_LONGEST, np.uint8)])
        )
        self.starts: Final[Numbers] = packets.offsets[:-1].astype(np.int64)
        self.ends: Final[Numbers] = packets.offsets[1:].astype(np.int64)
        self.at: Numbers = self.starts
        self.ok: Mask = np.ones(len(packets), np.bool_)

    def require(self, rule: Mask) -> None:
        """Give up the packets that break a rule."""
        self.ok &= rule

    def skip(self, size: Numbers) -> None:
        self.at = self.at + size
        self.ok &= self.at <= self.ends

    def read(self, dtype: np.dtype[Any], present: Mask) -> npt.NDArray[Any]:
        """The next record of the packets that have one here, and zeros for the others."""
        if not present.any():
            return np.zeros(len(self.ok), dtype)
        self.ok &= ~present | (self.at + dtype.itemsize <= self.ends)
        there = present & self.ok
        found = records(self.data, dtype, np.where(there, self.at, 0))
        # As one value: a record is set field by field.
        found.view(f"V{dtype.itemsize}")[~there] = np.void(bytes(dtype.itemsize))
        self.at = self.at + np.where(there, dtype.itemsize, 0)
        return found

    def read_text(self, at: Numbers, size: Numbers, present: Mask) -> pa.BinaryArray:
        """UTF-16 text that the walk has skipped already, checked and without its null; b"" where none is present.

        MS-MQMQ has one null at the end of a text and none before.
        """
        self.ok &= ~present | (size >= 2) & (size & 1 == 0)
        there = present & self.ok
        last = records(self.data, _U16, np.where(there, at + size - 2, 0))
        self.ok &= ~there | (last == 0)
        there &= self.ok
        text = pieces(self.data, np.where(there, at, self.starts), np.where(there, size - 2, 0))
        self.ok &= ~has_null(text)
        return text
