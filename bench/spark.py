"""Measure the data pipeline on Spark: `python bench/spark.py [--counts N,N] [--rounds N]`.

A daemon holds a number of messages of 1 KiB, each with a different body; Spark is local[2]. In each round everything is
timed in turns, reads three times and the rest once; a figure is the median, and a ratio the median of the ratios of
neighbours. A round before them is not timed.

- read: format("msmq") with all columns, beside Spark's own scan of Parquet with the same rows and columns, and beside
  reading message by message from the same daemon;
- decode: Parquet with a column of packets to all columns, beside the plain scan of that Parquet;
- sink: rows from Parquet into a queue, exactly once, beside what the daemon takes of messages that are ready in memory
  (stages of the same size from two processes, then one commit), and rows with different labels, priorities, tags and
  correlations beside rows with the same label;
- archive: the pipeline, from a queue to Parquet, with nothing removed, beside the plain read;
- audit: the join of so many sent messages with twice as many acknowledgments, from Parquet;
- senders: what two processes send one by one while Spark reads the queue, beside the same while Spark reads Parquet.

Peak memory is of the driver's Python, its JVM, the workers and the daemon, in the round that is not timed. The table
and the targets are printed, and build/bench.json has the figures. The exit code does not depend on them.
"""

import argparse
import multiprocessing
import random
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.pool import Pool
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

import waypost
from bench import record
from bench.memory import Peaks
from tests.crash.daemons import Daemon, loopback
from waypost.api.bulk import StagedMessages
from waypost.api.properties import MessageProperties
from waypost.arrow import schema
from waypost.arrow.decoder import decode
from waypost.arrow.packets import OnMalformed, Packets
from waypost.client.bulk.client import BulkClient
from waypost.spark.pipelines.archive import archive_queues
from waypost.spark.pipelines.audit import audit
from waypost.spark.session import session
from waypost.wire.message_class import MessageClass

COUNTS: Final = (300_000, 1_000_000, 5_000_000)
ROUNDS: Final = 3
BODY_SIZE: Final = 1024
FILL: Final = 2000
QUOTA_KB: Final = 64 << 20
STAGE: Final = 2000
SINGLES: Final = 2000
# The number of reads in a round.
READS: Final = 3
TIMEOUT: Final = 300.0
# Spark reads again until the senders have had so much time.
SENDING_SECONDS: Final = 5.0


# The steps that others are compared with.
PARQUET: Final = "parquet, all columns"
READ: Final = 'format("msmq"), all columns'
SINGLE: Final = "message by message"
PACKETS: Final = "parquet, packets"
DECODE: Final = "decode to all columns"
INGEST: Final = "daemon's ingest limit"
SINK: Final = 'sink, format("msmq")'
VARIED: Final = "sink, different properties"
ARCHIVE: Final = "archive"
SENDS: Final = "sends beside a read"
SENDS_BESIDE_PARQUET: Final = "sends beside a Parquet scan"


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    rows: int
    rows_per_second: float
    beside: str = ""
    ratio: float | None = None


class Bench:
    """One level: a daemon with `count` messages, and the same rows as Parquet."""

    def __init__(self, spark: SparkSession, senders: Pool, daemon: Daemon, place: Path, count: int) -> None:
        self._spark: Final = spark
        self._senders: Final = senders
        self._daemon: Final = daemon
        self._place: Final = place
        self._count: Final = count
        self._target = 0
        self._has_sent = False

    def prepare(self) -> None:
        self._messages().write.mode("overwrite").parquet(self._path("rows"))
        packets = self._messages("queue string, packet binary").select("packet")
        packets.write.mode("overwrite").parquet(self._path("packets"))
        rows = self._spark.read.parquet(self._path("rows"))
        rows.select("body", "label").write.mode("overwrite").parquet(self._path("bodies"))
        varied = rows.selectExpr(
            "body",
            "concat('order ', seq) as label",
            "cast(seq % 8 as int) as priority",
            "seq as app_specific",
            "unhex(sha1(cast(seq as string))) as correlation_id",
        )
        varied.write.mode("overwrite").parquet(self._path("varied"))

    def prepare_audit(self) -> None:
        ids = self._spark.range(self._count).selectExpr("unhex(sha1(cast(id as string))) as message_id", "id")
        sent = ids.selectExpr(
            "message_id",
            "timestamp_seconds(1700000000 + id div 1000) as sent_time",
            "'ALPHA' as source_qm",
            "concat('DIRECT=OS:beta\\\\private$\\\\q', id % 20) as dest_queue",
            "'order' as label",
            "5 as acknowledge",
        )
        sent.write.mode("overwrite").parquet(self._path("sent"))
        classes = (MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE, MessageClass.MQMSG_CLASS_ACK_RECEIVE)
        acknowledgments = ids.select(
            sf.col("message_id").alias("correlation_id"),
            sf.explode(sf.array([sf.lit(int(each)) for each in classes])).alias("message_class"),
            sf.expr("timestamp_seconds(1700000001 + id div 1000)").alias("sent_time"),
            sf.expr("timestamp_seconds(1700000002 + id div 1000)").alias("arrived_time"),
        )
        acknowledgments.write.mode("overwrite").parquet(self._path("acknowledgments"))

    def steps(self) -> Iterator[tuple[str, int, Callable[[], object]]]:
        """Name, rows, and what is to be timed, in the order in which they take turns.

        A step that returns a number has had so many rows.
        """
        parquet = self._spark.read.parquet

        def scan() -> None:
            to_nowhere(parquet(self._path("rows")))

        def read() -> None:
            to_nowhere(self._messages())

        for _ in range(READS):
            yield PARQUET, self._count, scan
            yield READ, self._count, read
            yield SINGLE, min(self._count, SINGLES), self._singles
        yield PACKETS, self._count, lambda: to_nowhere(parquet(self._path("packets")))
        yield DECODE, self._count, lambda: to_nowhere(self._decoded(parquet(self._path("packets"))))
        yield INGEST, self._count, self._ingest
        yield SINK, self._count, lambda: self._sink("bodies")
        yield VARIED, self._count, lambda: self._sink("varied")
        yield ARCHIVE, self._count, self._archive
        yield "audit", self._count, self._audit
        yield SENDS_BESIDE_PARQUET, 0, lambda: self._sends_beside(scan)
        yield SENDS, 0, lambda: self._sends_beside(read)

    def clean(self) -> None:
        """Drop the messages that one round has written before the next."""
        shutil.rmtree(self._path("archive"), ignore_errors=True)
        with self._daemon.connect() as manager:
            for number in range(self._target):
                manager.delete_queue(f"target{number}")
            if self._has_sent:
                manager.delete_queue("sends")
        self._has_sent = False
        self._target = 0

    def _messages(self, columns: Any = None) -> DataFrame:
        reader = self._spark.read.format("msmq").option("server", self._daemon.url).option("queue", "orders")
        return (reader.schema(columns) if columns is not None else reader).load()

    def _singles(self) -> None:
        with self._daemon.connect() as manager, manager.queue("orders").cursor() as cursor:
            cursor.peek(0)
            for _ in range(min(self._count, SINGLES) - 1):
                cursor.peek_next(0)

    def _decoded(self, packets: DataFrame) -> DataFrame:
        names = [field.name for field in schema.MESSAGE]

        def decoded(batches: Iterable[Any]) -> Iterator[Any]:
            for batch in batches:
                yield decode(Packets.of_array(batch.column(0)), names, on_malformed=OnMalformed.QUARANTINE)

        return packets.mapInArrow(decoded, from_arrow_schema(schema.ALL.empty_table().select(names).schema))

    def _new_target(self) -> str:
        name = f"target{self._target}"
        self._target += 1
        with self._daemon.connect() as manager:
            manager.create_queue(name, transactional=True)
        return name

    def _sink(self, name: str) -> None:
        rows = self._spark.read.parquet(self._path(name))
        options = {"server": self._daemon.url, "queue": self._new_target()}
        rows.write.format("msmq").options(**options).mode("append").save()

    def _ingest(self) -> None:
        target, query = self._new_target(), str(uuid4())
        work = [(self._daemon.url, query, target, self._count // 2)] * 2
        stages = [stage for found in self._senders.starmap(stage_all, work) for stage in found]
        with BulkClient(self._daemon.url, timeout=TIMEOUT) as client:
            client.commit(query, 0, stages)

    def _sends_beside(self, job: Callable[[], None]) -> int:
        """The number of messages that two processes send until Spark has done the job, several times if it is short."""
        if not self._has_sent:
            with self._daemon.connect() as manager:
                manager.create_queue("sends")
            self._has_sent = True
        end = self._place / "end"
        work = [(self._daemon.url, "sends", str(end))] * 2
        sending = self._senders.starmap_async(send_until, work)
        start = perf_counter()
        try:
            while perf_counter() - start < SENDING_SECONDS:
                job()
        finally:
            end.touch()
            counts = sending.get(TIMEOUT)
            end.unlink()
        return sum(counts)

    def _archive(self) -> None:
        # Peeked, so that the messages stay for the next round.
        options = {"server": self._daemon.url, "queue": "orders", "mode": "peek"}
        archive_queues(self._spark, options, self._path("archive")).awaitTermination()

    def _audit(self) -> None:
        parquet = self._spark.read.parquet
        to_nowhere(audit(parquet(self._path("sent")), parquet(self._path("acknowledgments"))))

    def _path(self, name: str) -> str:
        return str(self._place / name)


def stage_all(url: str, query: str, target: str, count: int) -> list[str]:
    """Stage so many messages that are ready in memory."""
    bodies = [random.randbytes(BODY_SIZE) for _ in range(STAGE)]
    group = StagedMessages(queue=target, like=MessageProperties(label="order"), bodies=bodies)
    with BulkClient(url, timeout=TIMEOUT) as client:
        return [client.stage(query, 0, [group]) for _ in range(count // STAGE)]


def send_until(url: str, target: str, end: str) -> int:
    """Send messages one by one until there is a file `end`. Returns their number."""
    body, count = random.randbytes(BODY_SIZE), 0
    with waypost.connect(url) as manager:
        queue = manager.queue(target)
        while not Path(end).exists():
            queue.send(body, label="order")
            count += 1
    return count


def to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def fill(folder: Path, count: int) -> float:
    """Messages into the store of the daemon before it starts. Returns the seconds that it took."""
    with waypost.open(folder, name="alpha", quota_kb=QUOTA_KB) as manager:
        names = {queue.info().path.rpartition("\\")[2] for queue in manager.queues()}
        queue = manager.queue("orders") if "orders" in names else manager.create_queue("orders", transactional=True)
        missing = count - queue.info().message_count
        start = perf_counter()
        for at in range(0, missing, FILL):
            bodies = [random.randbytes(BODY_SIZE) for _ in range(min(FILL, missing - at))]
            with manager.transaction() as transaction:
                queue.send_many(bodies, transaction=transaction, label="order")
        return perf_counter() - start


RATIOS: Final = (
    (READ, PARQUET),
    (READ, SINGLE),
    (DECODE, PACKETS),
    (SINK, INGEST),
    (VARIED, SINK),
    (ARCHIVE, READ),
    (SENDS, SENDS_BESIDE_PARQUET),
)


@dataclass(frozen=True, slots=True)
class Target:
    """The least ratio of a step to another one."""

    what: str
    beside: str
    ratio: float
    words: str

    def verdict(self, figures: Iterable[Figure]) -> str:
        for figure in figures:
            if (figure.what, figure.beside) == (self.what, self.beside) and figure.ratio is not None:
                return f"{'met' if figure.ratio >= self.ratio else 'MISSED'}: {self.words} (ratio {figure.ratio:.2f})"
        return f"not measured: {self.words}"


TARGETS: Final = (
    Target(READ, PARQUET, 0.6, "a read has at least 0.6 times the rate of Parquet"),
    Target(DECODE, PACKETS, 0.2, "decoding has at least 0.2 times the rate of a plain scan"),
    Target(SINK, INGEST, 0.5, "the sink has at least 0.5 times the rate of the daemon's ingest"),
    Target(VARIED, SINK, 1 / 1.5, "different properties cost at most 1.5 times as much as equal ones"),
    Target(ARCHIVE, READ, 0.6, "the archive has at least 0.6 times the rate of the plain read"),
    Target(SENDS, SENDS_BESIDE_PARQUET, 0.9, "senders have at least 0.9 times their rate beside a Parquet scan"),
)


def one_round(bench: Bench, number: int) -> Iterator[tuple[str, int, float]]:
    """Name, rows and rows per second of each step."""
    for name, rows, step in bench.steps():
        start = perf_counter()
        found = step()
        count = found if isinstance(found, int) else rows
        rate = count / (perf_counter() - start)
        print(f"  round {number}: {name}: {rate:,.0f} rows/s", file=sys.stderr, flush=True)
        yield name, count, rate
    bench.clean()


def measure(bench: Bench, rounds: int) -> list[Figure]:
    rates: dict[str, list[float]] = defaultdict(list)
    rows_of = {}
    for number in range(1, rounds + 1):
        for name, rows, rate in one_round(bench, number):
            rates[name].append(rate)
            rows_of[name] = rows
    figures = []
    for name, rows in rows_of.items():
        for beside in [beside for what, beside in RATIOS if what == name] or [""]:
            ratio = ratio_of(rates[name], rates[beside]) if beside else None
            figures.append(Figure(name, rows, median(rates[name]), beside, ratio))
    return figures


def ratio_of(rates: list[float], beside: list[float]) -> float:
    """The median of the ratios of runs side by side; of the medians if one of the two runs more often."""
    if len(rates) != len(beside):
        return median(rates) / median(beside)
    return median(a / b for a, b in zip(rates, beside, strict=True))


def kind_of(daemon: Daemon) -> Callable[[int, str], str | None]:
    def kind(process: int, command: str) -> str | None:
        if process == daemon.process:
            return "daemon"
        if "java" in command.partition(" ")[0]:
            return "JVM"
        if "pyspark" in command:
            return "workers"
        return "driver" if "bench/spark.py" in command else None

    return kind


def show(count: int, figures: list[Figure], megabytes: dict[str, float], fill_seconds: float) -> None:
    print(f"\n{count:,} messages of 1 KiB (filled in {fill_seconds:.0f} s)\n")
    print(f"| {'what':30} | {'rows':>9} | {'rows/s':>9} | {'ratio':>6} | to |")
    print(f"|{'-' * 32}|{'-' * 11}|{'-' * 11}|{'-' * 8}|----|")
    for figure in figures:
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        print(
            f"| {figure.what:30} | {figure.rows:9,} | {figure.rows_per_second:9,.0f} | {ratio:>6} | {figure.beside} |"
        )
    print()
    for target in TARGETS:
        print(target.verdict(figures))
    print("\npeak memory, MB: " + ", ".join(f"{kind} {peak:,.0f}" for kind, peak in sorted(megabytes.items())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)), help="numbers of messages, ascending")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    build = Path(__file__).resolve().parents[1] / "build"
    build.mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="bench-spark-", dir=build))
    spark = session("waypost-bench", master="local[2]")
    senders = multiprocessing.get_context("spawn").Pool(2)
    try:
        for count in map(int, arguments.counts.split(",")):
            seconds = fill(place / "alpha", count)
            with Daemon(place, "alpha", loopback(61), f"quotas.machine_kb={QUOTA_KB}") as daemon:
                daemon.start()
                bench = Bench(spark, senders, daemon, place, count)
                bench.prepare()
                bench.prepare_audit()
                # Not timed: it warms up the JVM, and to look at the memory of processes takes time from them.
                with Peaks(kind_of(daemon)).watching() as peaks:
                    list(one_round(bench, 0))
                figures = measure(bench, arguments.rounds)
                daemon.stop()
            show(count, figures, peaks.megabytes, seconds)
            record.keep(
                {
                    f"spark {count}": {
                        **record.setting(),
                        "figures": [asdict(figure) for figure in figures],
                        "peak_megabytes": peaks.megabytes,
                    }
                }
            )
    finally:
        senders.terminate()
        spark.stop()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
