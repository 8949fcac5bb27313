"""Write more rows than a queue can hold while a reader drains it: `python -m tests.crash.backpressure_campaign`.

Spark writes --count rows (1,000,000) of 200 bytes to a queue with a quota of --quota-kb (10 MB), once exactly-once and
once at-least-once. The job has to end by itself, and every row must have been received once; rows that are written
exactly once must be received in their order. A reader that gets nothing for a minute gives up, and that is a violation.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Final

from pyspark.sql import SparkSession

from tests.crash.daemons import Daemon, loopback
from waypost.errors import Timeout, WaypostError
from waypost.spark import session
from waypost.spark.java import make_archive

COUNT: Final = 1_000_000
QUOTA_KB: Final = 10_240
BODY_SIZE: Final = 200
DIGITS: Final = 9
PAGE: Final = 1000
DELIVERIES: Final = ("exactly-once", "at-least-once")
# The reader waits so long for the next messages.
SECONDS_WITHOUT: Final = 60.0


class Drain(Thread):
    """Receive until `count` messages have come, or none comes for a minute."""

    def __init__(self, daemon: Daemon, queue: str, count: int) -> None:
        super().__init__(daemon=True)
        self.taken: Final[list[int]] = []
        self.largest = 0
        self._daemon: Final = daemon
        self._queue: Final = queue
        self._count: Final = count

    def run(self) -> None:
        with self._daemon.connect() as manager:
            queue = manager.queue(self._queue)
            while len(self.taken) < self._count:
                try:
                    found = queue.receive_many(PAGE, SECONDS_WITHOUT)
                except Timeout:
                    return
                self.taken.extend(int(message.body[:DIGITS]) for message in found)
                self.largest = max(self.largest, queue.info().bytes)


@dataclass(slots=True)
class Report:
    """The figures of one write."""

    delivery: str
    seconds: float = 0.0
    received: int = 0
    # The most bytes that the queue had after a receive.
    largest: int = 0
    problems: list[str] = field(default_factory=list)


def violations(taken: Sequence[int], count: int, *, is_ordered: bool) -> Iterator[str]:
    """The rows that were lost, doubled or received out of order, in words."""
    counts = Counter(taken)
    lost = count - sum(row in counts for row in range(count))
    doubled = counts.total() - len(counts)
    foreign = sum(row not in range(count) for row in counts)
    yield from (
        f"{number} rows are {kind}"
        for kind, number in (("lost", lost), ("doubled", doubled), ("foreign", foreign))
        if number
    )
    if is_ordered and list(taken) != sorted(taken):
        yield "the rows were received out of order"


def run(spark: SparkSession, daemon: Daemon, delivery: str, count: int, quota_kb: int) -> Report:
    report, name = Report(delivery), f"small-{delivery}"
    with daemon.connect() as manager:
        manager.create_queue(name, transactional=delivery == "exactly-once", quota_kb=quota_kb)
    drain = Drain(daemon, name, count)
    drain.start()
    rest = BODY_SIZE - DIGITS
    rows = spark.range(0, count, 1, 2).selectExpr(
        f"cast(concat(lpad(id, {DIGITS}, '0'), repeat('x', {rest})) as binary) body"
    )
    start = monotonic()
    try:
        options = {"server": daemon.url, "queue": name, "delivery": delivery}
        if delivery == "exactly-once":
            options["txnId"] = "back pressure"
        rows.write.format("msmq").mode("append").options(**options).save()
    except Exception as error:  # noqa: BLE001, any end but success is a violation
        report.problems.append(f"the job has failed: {error}")
    drain.join()
    report.seconds, report.received, report.largest = monotonic() - start, len(drain.taken), drain.largest
    report.problems += violations(drain.taken, count, is_ordered=delivery == "exactly-once")
    try:
        with daemon.connect() as manager:
            left = manager.queue(name).info().message_count
    except WaypostError as error:
        report.problems.append(f"the daemon does not answer: {error}")
    else:
        report.problems += [f"{left} messages are left"] if left else []
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT, help=f"rows of each write (default: {COUNT:,})")
    parser.add_argument("--quota-kb", type=int, default=QUOTA_KB, help=f"quota of the queue (default: {QUOTA_KB:,})")
    arguments = parser.parse_args()
    make_archive()
    place = Path(tempfile.mkdtemp(prefix="waypost-backpressure-"))
    reports = []
    spark = session("waypost-backpressure", master="local[2]")
    try:
        with Daemon(place, "pressed", loopback(58)) as daemon:
            daemon.start()
            for delivery in DELIVERIES:
                reports.append(run(spark, daemon, delivery, arguments.count, arguments.quota_kb))
                print(f"{delivery}: {'; '.join(reports[-1].problems) or 'every row once'}", file=sys.stderr, flush=True)
    finally:
        spark.stop()
        shutil.rmtree(place, ignore_errors=True)
    print(f"{'delivery':14} {'rows':>10} {'received':>10} {'seconds':>8} {'rows/s':>8} {'most KB':>8}")
    for each in reports:
        rate = each.received / each.seconds
        print(
            f"{each.delivery:14} {arguments.count:10,} {each.received:10,} {each.seconds:8.1f} {rate:8,.0f} "
            f"{each.largest // 1024:8,}"
        )
    problems = [f"{each.delivery}: {problem}" for each in reports for problem in each.problems]
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
