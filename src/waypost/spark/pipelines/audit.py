"""Delivery audit: compare the messages that were sent with the acknowledgments that came back.

The correlation id of an acknowledgment is the id of the acknowledged message (MS-MQQB 3.1.7.15). MSMQ records times
in whole seconds, and each computer uses its own clock. Therefore, a latency may be wrong by one second, and may be
negative if the clocks differ.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from waypost.spark.pipelines.expressions import (
    LISTED,
    is_negative,
    moment,
    percentile,
    percentiles,
    records,
    seconds_between,
)
from waypost.spark.pipelines.report_parts import Kind, shown
from waypost.wire.message_class import MessageClass
from waypost.wire.message_properties import PA, PR

RECEIVED: Final = "received"
REACHED: Final = "reached"
REFUSED: Final = "refused"
LOST: Final = "lost"
WAITING: Final = "waiting"
UNASKED: Final = "unasked"
OUTCOMES: Final = (RECEIVED, REACHED, REFUSED, LOST, WAITING, UNASKED)

ROUTE: Final = ("source_qm", "dest_queue")
SHARES: Final = (0.5, 0.95, 0.99)

# Upper ends of the classes of latencies in the histogram, in seconds.
_CLASSES: Final = (0, 1, 2, 5, 10, 30, 60, 300, 3600)

# Ids of one queue manager begin alike, and Spark sorts by the first bytes: a number before the ids makes sorting quick.
_KEY: Final = ["key", "message_id"]
_ABOUT: Final = ("message_id", *ROUTE, "label", "sent_time", "acknowledge")


@dataclass(frozen=True, slots=True)
class Rules:
    """Times after which a message is late, or lost."""

    late_after: timedelta = timedelta(minutes=1)
    lost_after: timedelta = timedelta(minutes=10)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    # Largest difference between the clocks of two computers. Only a stream needs it.
    skew: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of an audit, which Spark or waypost.spark.pipelines.in_memory makes.

    `latency` has the times to reach the queues of all routes together: percentiles, and the number of messages in each
    of `latency_classes`. Lists of messages have the first LISTED of them.
    """

    routes: Sequence[dict[str, Any]]
    latency: dict[str, Any]
    lost: Sequence[dict[str, Any]]
    refused: Sequence[dict[str, Any]]
    refusals: Sequence[dict[str, Any]]
    duplicated: Sequence[dict[str, Any]]
    unmatched: Sequence[dict[str, Any]]
    unmatched_count: int


def examine(sent: DataFrame, acknowledgments: DataFrame, rules: Rules) -> Findings:
    """Run the audit once, and collect all that a report shows."""
    both = matched(sent, acknowledgments).persist()
    try:
        audited = outcomes(both.where("is_sent"), rules)
        unknown = both.where("is_sent is null")
        found = records(routes(audited))

        def listed(condition: Column, name: str) -> list[dict[str, Any]]:
            """These messages, which are read only if there are any."""
            if not any(route[name] for route in found):
                return []
            return records(audited.where(condition).orderBy("sent_time", "message_id").limit(LISTED))

        refused = listed(sf.col("outcome") == REFUSED, REFUSED)
        return Findings(
            routes=found,
            latency=_latency(audited),
            lost=listed(sf.col("outcome") == LOST, LOST),
            refused=refused,
            refusals=records(refusals(audited)) if refused else [],
            duplicated=listed(sf.col("duplicated"), "duplicated"),
            unmatched=records(unknown.orderBy("message_id").limit(LISTED)),
            unmatched_count=unknown.count(),
        )
    finally:
        both.unpersist()


def latency_classes() -> Iterator[tuple[str, float | None, float | None]]:
    """The classes of latencies: title, and the seconds that they are above and up to."""
    for above, up_to in pairwise((None, *_CLASSES, None)):
        limit = f"≤ {shown(up_to, Kind.SECONDS)}" if up_to is not None else f"> {shown(above, Kind.SECONDS)}"
        yield limit, above, up_to


def _latency(audited: DataFrame) -> dict[str, Any]:
    """Only acknowledgments of arrival show when a message reached its queue: it may wait there before a receipt."""
    seconds = sf.col("reach_seconds")
    counts = []
    for title, above, up_to in latency_classes():
        is_in = seconds.isNotNull()
        if above is not None:
            is_in &= seconds > above
        if up_to is not None:
            is_in &= seconds <= up_to
        counts.append(sf.count_if(is_in).alias(title))
    shares = [percentile(seconds, share).alias(name) for name, share in (("p50", 0.5), ("p99", 0.99))]
    found = audited.agg(*shares, *counts).first()
    assert found is not None
    return found.asDict()


def audit(sent: DataFrame, acknowledgments: DataFrame, rules: Rules | None = None) -> DataFrame:
    """Return one row for each sent message. The column `outcome` has one of these values.

    received  an application received the message
    reached   the message reached its queue
    refused   the message was refused; `refusal` is the class of the negative acknowledgment
    lost      no acknowledgment arrived, and the time limit has passed
    waiting   no acknowledgment has arrived yet, and the time limit has not passed
    unasked   the sender requested no acknowledgment

    The columns `late` and `duplicated` (several acknowledgments of the same kind) are independent of the outcome.
    """
    return outcomes(_about(sent).join(_words(acknowledgments), _KEY, "left"), rules or Rules())


def unmatched(sent: DataFrame, acknowledgments: DataFrame) -> DataFrame:
    """Return the acknowledgments of messages that are not in `sent`, with one row for each of these messages."""
    return _words(acknowledgments).join(_about(sent), _KEY, "left_anti").drop("key")


def matched(sent: DataFrame, acknowledgments: DataFrame) -> DataFrame:
    """Messages joined with their acknowledgments; `is_sent` is null for acknowledgments of messages not in `sent`."""
    about = _about(sent).where(sf.col("message_id").isNotNull()).withColumn("is_sent", sf.lit(True))
    return about.join(_words(acknowledgments), _KEY, "full")


def outcomes(joined: DataFrame, rules: Rules) -> DataFrame:
    """The outcome of each message, from messages joined with their acknowledgments."""
    reach, receive = (seconds_between(sf.col("sent_time"), sf.col(name)) for name in ("reached_time", "received_time"))
    first = sf.least(reach, receive)
    is_asked = sf.coalesce(sf.col("acknowledge"), sf.lit(PA)).bitwiseAND(sf.lit(PA | PR)) != 0
    outcome = (
        sf.when(sf.col("received_time").isNotNull(), RECEIVED)
        .when(sf.col("refused_time").isNotNull(), REFUSED)
        .when(sf.col("reached_time").isNotNull(), REACHED)
        .when(~is_asked, UNASKED)
        .when(sf.col("sent_time") > moment(rules.now - rules.lost_after), WAITING)
        .otherwise(LOST)
    )
    return joined.select(
        *(name for name in _ABOUT if name != "acknowledge"),
        outcome.alias("outcome"),
        sf.coalesce(first > rules.late_after.total_seconds(), sf.lit(False)).alias("late"),
        sf.coalesce(sf.greatest("reach_count", "receive_count") > 1, sf.lit(False)).alias("duplicated"),
        "reached_time",
        "received_time",
        "refused_time",
        "refusal",
        reach.alias("reach_seconds"),
        receive.alias("receive_seconds"),
        sf.coalesce("reach_count", sf.lit(0)).alias("reach_count"),
        sf.coalesce("receive_count", sf.lit(0)).alias("receive_count"),
    )


def routes(audited: DataFrame) -> DataFrame:
    """A row for each source and destination: the number of messages with each outcome, and their latencies."""
    counts = [sf.count_if(sf.col("outcome") == name).alias(name) for name in OUTCOMES]
    spans = ("reach", "receive")
    found = audited.groupBy(*ROUTE).agg(
        sf.count("*").alias("sent"),
        *counts,
        sf.count_if("late").alias("late"),
        sf.count_if("duplicated").alias("duplicated"),
        *(percentiles(sf.col(f"{name}_seconds"), SHARES).alias(name) for name in spans),
        *(sf.max(f"{name}_seconds").alias(f"{name}_max") for name in spans),
    )
    times = [
        column
        for name in spans
        for column in (
            *(sf.col(name)[at].alias(f"{name}_p{share * 100:.0f}") for at, share in enumerate(SHARES)),
            sf.col(f"{name}_max"),
        )
    ]
    return found.select(*ROUTE, "sent", *OUTCOMES, "late", "duplicated", *times).orderBy(sf.desc("sent"), *ROUTE)


def refusals(audited: DataFrame) -> DataFrame:
    """The reasons of refusals, by destination."""
    refused = audited.where(sf.col("outcome") == REFUSED)
    return (
        refused.groupBy("dest_queue", "refusal")
        .agg(sf.count("*").alias("messages"))
        .orderBy(sf.desc("messages"), "dest_queue", "refusal")
    )


def audit_stream(sent: DataFrame, acknowledgments: DataFrame, rules: Rules | None = None) -> DataFrame:
    """Audit two streams. Returns a row for each pair of an acknowledgment and its message.

    If `lost_after` passes without an acknowledgment of a message, the function returns a row with the outcome lost.
    Spark keeps younger messages in its state.
    """
    rules = rules or Rules()
    wait, skew = (f"INTERVAL {round(span.total_seconds())} SECONDS" for span in (rules.lost_after, rules.skew))
    about = sent.select(*_ABOUT).withWatermark("sent_time", f"{round(rules.skew.total_seconds())} seconds")
    words = (
        acknowledgments.where(_is_word())
        .select(sf.col("correlation_id"), sf.col("message_class").alias("word"), sf.col("sent_time").alias("word_time"))
        .withWatermark("word_time", f"{round(rules.skew.total_seconds())} seconds")
    )
    belongs = sf.expr(
        f"correlation_id = message_id AND word_time >= sent_time - {skew} AND word_time <= sent_time + {wait}"
    )
    outcome = (
        sf.when(sf.col("word").isNull(), LOST)
        .when(sf.col("word") == MessageClass.MQMSG_CLASS_ACK_RECEIVE, RECEIVED)
        .when(sf.col("word") == MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE, REACHED)
        .otherwise(REFUSED)
    )
    seconds = seconds_between(sf.col("sent_time"), sf.col("word_time"))
    return about.join(words, belongs, "leftOuter").select(
        *(name for name in _ABOUT if name != "acknowledge"),
        outcome.alias("outcome"),
        sf.coalesce(seconds > rules.late_after.total_seconds(), sf.lit(False)).alias("late"),
        "word_time",
        sf.when(is_negative(sf.col("word")), sf.col("word")).alias("refusal"),
        seconds.alias("seconds"),
    )


def _words(acknowledgments: DataFrame) -> DataFrame:
    """All acknowledgments of a message in one row, so that a join keeps one row for each message."""
    message_class, time = sf.col("message_class"), sf.col("sent_time")
    is_reach = message_class == MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
    is_receive = message_class == MessageClass.MQMSG_CLASS_ACK_RECEIVE
    return (
        acknowledgments.where(_is_word())
        .groupBy(_key("correlation_id"), sf.col("correlation_id").alias("message_id"))
        .agg(
            sf.min(sf.when(is_reach, time)).alias("reached_time"),
            sf.min(sf.when(is_receive, time)).alias("received_time"),
            sf.min(sf.when(is_negative(message_class), time)).alias("refused_time"),
            sf.min(sf.when(is_negative(message_class), message_class)).alias("refusal"),
            sf.count_if(is_reach).alias("reach_count"),
            sf.count_if(is_receive).alias("receive_count"),
        )
    )


def _about(sent: DataFrame) -> DataFrame:
    return sent.select(_key("message_id"), *_ABOUT)


def _key(message_id: str) -> Column:
    return sf.xxhash64(message_id).alias("key")


def _is_word() -> Column:
    """Condition for administration acknowledgments, without order acks (waypost.wire.message_class)."""
    message_class = sf.col("message_class")
    is_positive = message_class.isin(MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE, MessageClass.MQMSG_CLASS_ACK_RECEIVE)
    return sf.col("correlation_id").isNotNull() & (is_positive | is_negative(message_class))
