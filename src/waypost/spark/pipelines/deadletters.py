"""Dead-letter messages: the reasons why messages were not delivered.

    dead = spark.read.format("msmq").option("queues", "system$;deadletter,system$;deadxact").load()
    triage(chosen(dead, Choice(reasons=("reach-queue-timeout",)))).show()

waypost.spark.pipelines.deadletter_actions sends them again, parks or drops them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from waypost.arrow import schema
from waypost.errors import InvalidParameter
from waypost.guid import GUID_PATTERN
from waypost.spark.pipelines.expressions import message_id_text, records
from waypost.spark.pipelines.sending import like
from waypost.wire.message_class import NEGATIVE, MessageClass

# Largest number of groups in a report.
GROUPS: Final = 1000
QUEUES: Final = (r"system$;deadletter", r"system$;deadxact")

_PREFIX: Final = "MQMSG_CLASS_NACK_"
# Names of the reasons on the command line, such as reach-queue-timeout.
REASONS: Final = {
    each.name.removeprefix(_PREFIX).lower().replace("_", "-"): each for each in MessageClass if each & NEGATIVE
}
_CLASS: Final = re.compile(r"0x[0-9a-fA-F]{1,4}")
# Columns to read of dead-letter messages.
COLUMNS: Final = (*schema.DEFAULT.names, "body_kind")
# Numbers and GUIDs are the parts in which labels of one form differ.
_NUMBER: Final = r"[0-9]+"


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of dead-letter messages. A message must match one value of every field that is not empty.

    Destinations and labels are patterns.
    """

    reasons: Sequence[str] = ()
    destinations: Sequence[str] = ()
    labels: Sequence[str] = ()
    # Only messages that arrived before this time.
    before: datetime | None = None


def chosen(messages: DataFrame, choice: Choice) -> DataFrame:
    """The dead-letter messages of a choice. Raises InvalidParameter for an unknown reason."""
    found = messages
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
    """The class of a reason, given by its name or by a number such as 0x8002."""
    if reason.lower() in REASONS:
        return REASONS[reason.lower()]
    if _CLASS.fullmatch(reason):
        return int(reason, 16)
    raise InvalidParameter(f"unknown reason {reason!r}; use one of {', '.join(REASONS)}, or a number such as 0x8002")


def _any(conditions: Iterable[Column]) -> Column:
    found = sf.lit(False)
    for condition in conditions:
        found = found | condition
    return found


def reason() -> Column:
    """Name of the reason of a dead-letter message."""
    known = sf.create_map(*(sf.lit(part) for word, number in REASONS.items() for part in (int(number), word)))
    number = sf.format_string("0x%04X", "message_class")
    word = sf.coalesce(sf.try_element_at(known, sf.col("message_class")), number)
    return sf.when(sf.col("message_class").isNull(), "malformed").otherwise(word)


def triage(messages: DataFrame) -> DataFrame:
    """Count dead-letter messages by reason, destination, form of label and kind of body, largest groups first.

    In the form of a label, # stands for numbers and GUIDs. `oldest` and `newest` are times of the group; `sample`
    and `sample_id` are the label and the id of its first message.
    """
    kind = sf.col("body_kind") if "body_kind" in messages.columns else sf.format_string("0x%04X", "body_type")
    form = sf.regexp_replace(sf.regexp_replace("label", GUID_PATTERN, "#"), _NUMBER, "#")
    return (
        messages.groupBy(
            reason().alias("reason"), "message_class", "dest_queue", form.alias("label_form"), kind.alias("body_kind")
        )
        .agg(
            sf.count("*").alias("messages"),
            sf.coalesce(sf.sum("body_size"), sf.lit(0)).alias("bytes"),
            sf.count_if("transactional").alias("transactional"),
            sf.min("arrived_time").alias("oldest"),
            sf.max("arrived_time").alias("newest"),
            sf.min_by("label", "seq").alias("sample"),
            message_id_text(sf.min_by("message_id", "seq")).alias("sample_id"),
        )
        .orderBy(sf.desc("messages"), "reason", "dest_queue", "label_form", "body_kind")
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts for a report, which Spark or waypost.spark.pipelines.in_memory makes.

    They are the largest groups of `triage`, and all dead-letter messages by reason, largest first.
    A row of `reasons` has the number of messages, the `oldest` and the number of `groups` of a reason.
    """

    groups: Sequence[dict[str, Any]]
    reasons: Sequence[dict[str, Any]]


def tally(messages: DataFrame) -> Tally:
    """Count the dead-letter messages. They are read once, so that groups and reasons agree."""
    groups = triage(messages).persist()
    try:
        counts = (sf.sum("messages").alias("messages"), sf.count("*").alias("groups"), sf.min("oldest").alias("oldest"))
        reasons = groups.groupBy("reason", "message_class").agg(*counts).orderBy(sf.desc("messages"), "reason")
        return Tally(records(groups.limit(GROUPS)), records(reasons))
    finally:
        groups.unpersist()
