"""The three columns of bodies, made for groups of rows and put together again in the order of the rows."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waypost.api.bodies import Reading

Rows = npt.NDArray[np.int64]


class Columns(NamedTuple):
    """Text, kind and error of bodies, one row for each body."""

    text: pa.StringArray
    kind: pa.StringArray
    error: pa.StringArray

    @classmethod
    def of(cls, kind: str | None, text: pa.StringArray) -> "Columns":
        """Bodies of one kind and without errors."""
        return cls(text, pa.repeat(pa.scalar(kind, pa.string()), len(text)), nulls(len(text)))

    @classmethod
    def of_readings(cls, rows: Iterable[Reading]) -> "Columns":
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        return cls(*(pa.array(column, pa.string()) for column in columns))

    @classmethod
    def together(cls, parts: "list[tuple[Rows, Columns]]") -> "Columns":
        """All rows in their order; each is in exactly one part."""
        parts = [part for part in parts if len(part[0])] or parts[:1]
        if len(parts) == 1:
            return parts[0][1]
        rows = np.concatenate([rows for rows, _ in parts])
        places = np.empty_like(rows)
        places[rows] = np.arange(len(rows))
        order = pa.array(places)
        return cls(*(pa.concat_arrays(each).take(order) for each in zip(*(part[1] for part in parts), strict=True)))


def nulls(count: int) -> pa.StringArray:
    return pa.nulls(count, pa.string())
