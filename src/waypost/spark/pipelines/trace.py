"""Trace: the routes of messages through queue managers, from the report messages about them.

A queue manager that sends or receives a traced message sends a report to the report queue (MS-MQQB 3.1.5.8.9 and
3.1.7.1.7). The label of the report has the id of the traced message, its number of hops so far, and its source; the
body names the destination, and the address of the next hop if the message was sent. The source of the report is the
queue manager that reports. Reports are express messages: some may be missing.

Hop 0 leads from the source of a message to the first queue manager, and hop 1 from there to the next. A router that has
received a message reports the number of hops before or after it has counted itself, depending on its implementation; so
the hop of an arrival comes from the report of the same queue manager on sending the message on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from waypost.spark.pipelines.expressions import LISTED, message_id_bytes, percentile, records, seconds_between
from waypost.wire.message_class import MessageClass

# Digits may be upper or lower case; the rest of the label does not matter.
LABEL: Final = r"^[0-9A-Fa-f]{4}:([0-9A-Fa-f]{8}):([0-9A-Fa-f]{2}) received by ([0-9A-Fa-f-]{36}) at "
NEXT_HOP: Final = "<NEXT HOP>([^<]*)</NEXT HOP>"
TARGET: Final = "<TARGET QUEUE>([^<]*)</TARGET QUEUE>"
# More bytes than any report has.
BODY_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Routes:
    """The results of a trace, which Spark or waypost.spark.pipelines.in_memory makes.

    `reports` is the number of messages in the report queue. `totals` has numbers of traced messages, and percentiles of
    their durations. Lists of messages have the first LISTED rows of `journeys`.
    """

    reports: int
    totals: dict[str, Any]
    edges: Sequence[dict[str, Any]]
    unfinished: Sequence[dict[str, Any]]
    loops: Sequence[dict[str, Any]]
    slowest: Sequence[dict[str, Any]]


def find_routes(reports: DataFrame) -> Routes:
    """Collect all that a report shows. The hops are computed once."""
    hops = trace(reports).persist()
    try:
        travelled = journeys(hops)
        totals = travelled.agg(
            sf.count("*").alias("messages"),
            sf.count_if(~sf.col("arrived")).alias("unfinished"),
            sf.count_if("loop").alias("loops"),
            sf.count("seconds").alias("timed"),
            sf.max("hops").alias("hops"),
            percentile(sf.col("seconds"), 0.5).alias("p50"),
            percentile(sf.col("seconds"), 0.99).alias("p99"),
        ).first()
        assert totals is not None

        def listed(which: DataFrame, *order: Column | str) -> list[dict[str, Any]]:
            return records(which.orderBy(*order, "message_id").limit(LISTED))

        return Routes(
            reports=reports.count(),
            totals=totals.asDict(),
            edges=records(edges(hops)),
            unfinished=listed(travelled.where(~sf.col("arrived")), "sent_time") if totals["unfinished"] else [],
            loops=listed(travelled.where("loop"), "sent_time") if totals["loops"] else [],
            slowest=listed(travelled.where(sf.col("seconds").isNotNull()), sf.desc("seconds")),
        )
    finally:
        hops.unpersist()


def steps(reports: DataFrame) -> DataFrame:
    """A row for each valid report: the queue manager that sent or received a message, the message and the time."""
    label, text = sf.col("label"), _text(sf.col("body"))
    number, hops, source = (sf.regexp_extract(label, LABEL, group) for group in (1, 2, 3))
    next_hop = sf.regexp_extract(text, NEXT_HOP, 1)
    return reports.where(
        (sf.col("message_class") == MessageClass.MQMSG_CLASS_REPORT)
        & label.rlike(LABEL)
        & text.contains("<MESSAGE ID>")
    ).select(
        message_id_bytes(source, number).alias("message_id"),
        sf.lower(source).alias("source_qm"),
        sf.regexp_extract(text, TARGET, 1).alias("dest_queue"),
        _guid(sf.col("source_qm")).alias("reporter"),
        sf.conv(hops, 16, 10).cast("int").alias("hops"),
        sf.when(next_hop != "", next_hop).alias("next_hop"),
        (next_hop != "").alias("is_sent"),
        sf.col("sent_time").alias("time"),
    )


def trace(reports: DataFrame) -> DataFrame:
    """A row for each hop of each message: the two queue managers, the times, and the duration in seconds.

    `to_qm` and `received_time` are null if only the start of a hop was reported, `sent_time` if only its end.
    """
    of_message = Window.partitionBy("message_id")
    of_reporter = Window.partitionBy("message_id", "reporter")
    is_sent, hops = sf.col("is_sent"), sf.col("hops")
    own = sf.collect_set(sf.when(is_sent, hops)).over(of_reporter)
    last = sf.max(sf.when(is_sent, hops)).over(of_message)
    sent_on = sf.array_min(sf.filter(sf.col("own"), lambda hop: hop >= sf.greatest(hops, sf.lit(1)))) - 1
    arrived_by = sf.coalesce(sent_on, sf.least(hops, sf.col("last")), hops)
    placed = (
        steps(reports)
        .withColumns({"own": own, "last": last})
        .withColumn("hop", sf.when(is_sent, hops).otherwise(arrived_by))
    )
    time, reporter = sf.col("time"), sf.col("reporter")
    found = placed.groupBy("message_id", "hop").agg(
        sf.min("source_qm").alias("source_qm"),
        sf.max("dest_queue").alias("dest_queue"),
        sf.min_by(sf.when(is_sent, reporter), sf.when(is_sent, time)).alias("from_qm"),
        sf.min_by(sf.when(~is_sent, reporter), sf.when(~is_sent, time)).alias("to_qm"),
        sf.max_by("next_hop", sf.when(is_sent, time)).alias("next_hop"),
        sf.min(sf.when(is_sent, time)).alias("sent_time"),
        sf.min(sf.when(~is_sent, time)).alias("received_time"),
        sf.count_if(is_sent).alias("sent_count"),
        sf.count_if(~is_sent).alias("received_count"),
    )
    before = sf.lag("to_qm").over(of_message.orderBy("hop"))
    start = sf.coalesce(sf.col("from_qm"), sf.when(sf.col("hop") == 0, sf.col("source_qm")), before)
    return found.withColumn("from_qm", start).withColumn(
        "seconds", seconds_between(sf.col("sent_time"), sf.col("received_time"))
    )


def journeys(hops: DataFrame) -> DataFrame:
    """A row for each message of `trace`: its path, its duration, and its anomalies.

    `arrived` is true if a report says that the last known hop was received; `loop` is true if the message came to the
    same queue manager twice.
    """
    ordered = sf.array_sort(sf.collect_list(sf.struct("hop", "from_qm", "to_qm", "next_hop", "received_time")))
    found = hops.groupBy("message_id").agg(
        sf.min("source_qm").alias("source_qm"),
        sf.max("dest_queue").alias("dest_queue"),
        sf.count("*").alias("hops"),
        sf.min("sent_time").alias("sent_time"),
        sf.max("received_time").alias("received_time"),
        sf.max("seconds").alias("slowest_seconds"),
        sf.max_by("hop", "seconds").alias("slowest_hop"),
        ordered.alias("ordered"),
    )
    start = sf.array(sf.element_at("ordered", 1)["from_qm"])
    path = sf.concat(start, sf.transform("ordered", lambda each: sf.coalesce(each["to_qm"], each["next_hop"])))
    known = sf.filter(path, lambda place: place.isNotNull())
    return (
        found.withColumn("path", known)
        .withColumn("loop", sf.size("path") != sf.size(sf.array_distinct("path")))
        .withColumn("arrived", sf.element_at("ordered", -1)["received_time"].isNotNull())
        .withColumn(
            "seconds", sf.when(sf.col("arrived"), seconds_between(sf.col("sent_time"), sf.col("received_time")))
        )
        .drop("ordered")
    )


def edges(hops: DataFrame) -> DataFrame:
    """The graph of the routes: a row for each pair of queue managers, with the number of messages between them."""
    return (
        hops.groupBy("from_qm", "to_qm")
        .agg(
            sf.mode("next_hop", deterministic=True).alias("address"),
            sf.count("*").alias("messages"),
            sf.count_if(sf.col("received_time").isNull()).alias("unfinished"),
            sf.count_if(sf.col("sent_count") > 1).alias("repeated"),
            percentile(sf.col("seconds"), 0.5).alias("p50"),
            percentile(sf.col("seconds"), 0.99).alias("p99"),
            sf.max("seconds").alias("max"),
        )
        .orderBy(sf.desc("messages"), "from_qm", "to_qm")
    )


def _text(body: Column) -> Column:
    """UTF-16 as text. One lone surrogate fails a whole job of Spark, so a body with surrogates gives its low bytes:
    only the name of the queue may be damaged.
    """
    cut = sf.substring(body, 1, BODY_BYTES)
    whole = sf.when(sf.length(cut) % 2 == 0, cut)
    has_surrogates = sf.hex(whole).rlike("^(?:.{4})*?..D[89A-F]")
    plain = sf.regexp_replace(sf.decode(cut, "ISO-8859-1"), "\\x00", "")
    return sf.when(whole.isNull() | has_surrogates, plain).otherwise(
        sf.decode(sf.when(~has_surrogates, whole), "UTF-16LE")
    )


def _guid(text: Column) -> Column:
    return sf.regexp_replace(sf.lower(text), "[{}]", "")
