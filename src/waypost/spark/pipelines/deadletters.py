"""Dead letters: why messages were not delivered.

    letters = spark.read.format("msmq").option("queues", "system$;deadletter,system$;deadxact").load()
    triage(chosen(letters, Choice(reasons=("reach-queue-timeout",)))).show()

What becomes of them is in waypost.spark.pipelines.desk.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf

from waypost.arrow import schema
from waypost.errors import InvalidParameter
from waypost.guid import GUID_PATTERN
from waypost.spark.pipelines.expressions import message_id_text
from waypost.spark.pipelines.sending import like
from waypost.wire.message_class import NEGATIVE, MessageClass

# How many groups of letters a report lists.
GROUPS: Final = 1000
QUEUES: Final = (r"system$;deadletter", r"system$;deadxact")

_PREFIX: Final = "MQMSG_CLASS_NACK_"
# The word for each reason, as people give it: reach-queue-timeout.
REASONS: Final = {
    each.name.removeprefix(_PREFIX).lower().replace("_", "-"): each for each in MessageClass if each & NEGATIVE
}
_CLASS: Final = re.compile(r"0x[0-9a-fA-F]{1,4}")
# What is asked for of letters.
COLUMNS: Final = (*schema.DEFAULT.names, "body_kind")
# What makes labels of one kind differ, besides GUIDs.
_NUMBER: Final = r"[0-9]+"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which letters: those that match one of each kind that is given. Destinations and labels may have * and ?."""

    reasons: Sequence[str] = ()
    destinations: Sequence[str] = ()
    labels: Sequence[str] = ()
    # They came before.
    before: datetime | None = None


def chosen(letters: DataFrame, choice: Choice) -> DataFrame:
    """Raises InvalidParameter for a reason that there is not."""
    found = letters
    if choice.reasons:
        found = found.where(sf.col("message_class").isin([class_of(reason) for reason in choice.reasons]))
    if choice.destinations:
        found = found.where(_any(like("dest_queue", pattern) for pattern in choice.destinations))
    if choice.labels:
        found = found.where(_any(like("label", pattern) for pattern in choice.labels))
    if choice.before is not None:
        found = found.where(sf.col("arrived_time") < sf.lit(choice.before))
    return found


def class_of(reason: str) -> int:
    """The class that a word, or its number as 0x8002, stands for."""
    if reason.lower() in REASONS:
        return REASONS[reason.lower()]
    if _CLASS.fullmatch(reason):
        return int(reason, 16)
    raise InvalidParameter(f"there is no reason {reason!r}; there are {', '.join(REASONS)}, and numbers like 0x8002")


def _any(conditions: Iterable[Column]) -> Column:
    found = sf.lit(False)
    for condition in conditions:
        found = found | condition
    return found


def reason() -> Column:
    """The word for the class of a letter."""
    known = sf.create_map(*(sf.lit(part) for word, number in REASONS.items() for part in (int(number), word)))
    number = sf.format_string("0x%04X", "message_class")
    word = sf.coalesce(sf.try_element_at(known, sf.col("message_class")), number)
    return sf.when(sf.col("message_class").isNull(), "malformed").otherwise(word)


def triage(letters: DataFrame) -> DataFrame:
    """How many letters there are for each reason, destination, form of label and kind of body; the most first.

    The form of a label has # for numbers and GUIDs. `oldest`, `newest` and `sample_id` are of the group; `sample` is a
    label as it is.
    """
    kind = sf.col("body_kind") if "body_kind" in letters.columns else sf.format_string("0x%04X", "body_type")
    form = sf.regexp_replace(sf.regexp_replace("label", GUID_PATTERN, "#"), _NUMBER, "#")
    return (
        letters.groupBy(
            reason().alias("reason"), "message_class", "dest_queue", form.alias("label_form"), kind.alias("body_kind")
        )
        .agg(
            sf.count("*").alias("letters"),
            sf.coalesce(sf.sum("body_size"), sf.lit(0)).alias("bytes"),
            sf.count_if("transactional").alias("transactional"),
            sf.min("arrived_time").alias("oldest"),
            sf.max("arrived_time").alias("newest"),
            sf.min_by("label", "seq").alias("sample"),
            message_id_text(sf.min_by("message_id", "seq")).alias("sample_id"),
        )
        .orderBy(sf.desc("letters"), "reason", "dest_queue", "label_form", "body_kind")
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """Letters as a report needs them: the greatest groups of `triage`, and all letters by reason, the most first.

    A row of `reasons` has the `letters`, the `oldest` and the number of `groups` of a reason.
    """

    groups: Sequence[Row]
    reasons: Sequence[Row]


def tally(letters: DataFrame) -> Tally:
    """Reads the letters once, so that groups and reasons are of the same letters."""
    groups = triage(letters).persist()
    try:
        counts = (sf.sum("letters").alias("letters"), sf.count("*").alias("groups"), sf.min("oldest").alias("oldest"))
        reasons = groups.groupBy("reason", "message_class").agg(*counts).orderBy(sf.desc("letters"), "reason")
        return Tally(groups.limit(GROUPS).collect(), reasons.collect())
    finally:
        groups.unpersist()
