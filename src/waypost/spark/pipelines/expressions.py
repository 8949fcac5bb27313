"""Parts of queries that several pipelines use: expressions on columns, and the rows of results.

The expressions are functions of Spark and start no Python worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from waypost.spark.functions import GUID_BYTES, ORDINAL_BYTES
from waypost.wire.message_class import NEGATIVE

# Largest number of rows in a list.
LISTED: Final = 1000
_ACCURACY: Final = 10_000

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """The first rows of a list, and the number of all rows."""

    rows: Sequence[Row]
    total: int

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Listed":
        return cls(rows[:LISTED], len(rows))


def records(rows: DataFrame) -> list[Row]:
    return [row.asDict() for row in rows.collect()]


def listed(ordered: DataFrame) -> Listed:
    rows = records(ordered.limit(LISTED))
    return Listed(rows, len(rows) if len(rows) < LISTED else ordered.count())


def message_id_text(message_id: Column) -> Column:
    """`{guid}\\number`, as people write the 20 bytes of a message id."""
    digits = sf.lower(sf.hex(message_id))
    guid = sf.concat_ws("-", *(_digits(digits, part) for part in GUID_BYTES))
    number = sf.conv(_digits(digits, ORDINAL_BYTES), 16, 10)
    return sf.concat(sf.lit("{"), guid, sf.lit("}\\"), number)


def message_id_bytes(guid: Column, number: Column) -> Column:
    """The 20 bytes of a message id, from a GUID as 8-4-4-4-12 and a number as 8 hexadecimal digits."""
    digits = sf.regexp_replace(guid, "-", "")
    places = [place for part in GUID_BYTES for place in part]
    ordered = [sf.substring(digits, 2 * places.index(byte) + 1, 2) for byte in range(1, 17)]
    return sf.unhex(sf.concat(*ordered, *(sf.substring(number, at, 2) for at in (7, 5, 3, 1))))


def ordinal(message_id: Column) -> Column:
    """The number of a message at its queue manager."""
    return sf.conv(_digits(sf.hex(message_id), ORDINAL_BYTES), 16, 10).cast("long")


def is_negative(message_class: Column) -> Column:
    return message_class.bitwiseAND(sf.lit(NEGATIVE)) != 0


def seconds_between(start: Column, end: Column) -> Column:
    return (sf.unix_micros(end) - sf.unix_micros(start)) / sf.lit(1_000_000.0)


def moment(time: datetime) -> Column:
    """A time with a zone, independent of the zone of this computer and of the session."""
    return sf.timestamp_micros(sf.lit(round(time.timestamp() * 1_000_000)))


def percentile(values: Column, share: float) -> Column:
    """A percentile, as one of the values; exact up to some thousands of values, and within 0.01 percent for more."""
    return sf.percentile_approx(values, share, _ACCURACY)


def percentiles(values: Column, shares: Sequence[float]) -> Column:
    """Several percentiles in an array, for the cost of one."""
    return sf.percentile_approx(values, list(shares), _ACCURACY)


def _digits(digits: Column, places: tuple[int, ...]) -> Column:
    return sf.concat(*(sf.substring(digits, 2 * place - 1, 2) for place in places))
