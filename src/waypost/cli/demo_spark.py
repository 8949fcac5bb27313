"""The last act of `waypost demo`: Spark lays what was sent beside what came back about it, and finds what is missing.

Nothing of Spark is imported here: the demo works without it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from waypost.api.properties import MessageProperties
from waypost.cli.program import Failure, printable
from waypost.cli.spark.common import working
from waypost.errors import Timeout, WaypostError

if TYPE_CHECKING:
    from waypost import Manager, Queue
    from waypost.spark.pipelines.report import Report

WAIT: Final = 30.0
SENT: Final = 300
TAKEN: Final = 200

_ABOUT: Final = ("message_id", "source_qm", "dest_queue", "label", "sent_time", "acknowledge")
_WORDS: Final = ("correlation_id", "message_class", "sent_time")
# Spark itself takes longer to start.
_LOST_AFTER: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Stage:
    """The two queue managers, with all that the acts before have sent and got back."""

    here: "Manager"
    there: "Manager"
    # The name of a queue of one queue manager for the other.
    queue_here: Callable[[str], str]
    queue_there: Callable[[str], str]
    # The number of messages from here in the journal at the end, and of acknowledgments in acks.
    delivered: int
    answered: int


def spark_act(context: typer.Context, tell: Callable[[str], None], stage: Stage, folder: Path | None) -> None:
    """Show the report, and write it if there is a folder for it."""
    here, there = stage.here.name, stage.there.name
    tell(f"4. A Spark report on all messages that {here} has sent.")
    _send(stage)
    tell(f"   {here} has sent more messages: {SENT} orders, of which {there} has received {TAKEN}, and a message to")
    tell(f"   a queue that {there} does not have. By default, {there} does not report this error to senders.")
    tell("   Spark starts, which takes 10 to 15 seconds, and reads the queues...")
    report = _audited(context, stage)
    for line in _lines(report):
        tell(f"     {printable(line)}")
    if folder is None:
        tell("   --report FOLDER keeps the whole report, as Markdown and as HTML with charts.")
    else:
        tell(f"   The whole report is in {printable(str(_write(report, folder)))}.")


@dataclass(frozen=True, slots=True)
class Missing:
    """A part of Spark that is not installed, and the command that installs it."""

    reason: str
    command: str


def missing_part() -> Missing | None:
    """None if Spark can start."""
    extra = "spark"
    try:
        import_module("waypost.spark.session").require_packages()
        extra = "jre"
        import_module("waypost.spark.java").find_java()
    except WaypostError as error:
        command = import_module("waypost.spark.java").command_for(extra)
        return Missing(str(error).partition(";")[0], command)
    return None


def _send(stage: Stage) -> None:
    """Send the messages, and wait until all acknowledgments have arrived."""
    here = stage.here
    order = MessageProperties(
        label="order",
        acknowledge="full-reach-queue,full-receive",
        admin_queue=stage.queue_here("acks"),
        journal=True,
    )
    here.queue(stage.queue_there("ordres")).send_record("7 nuts", order)
    here.queue(stage.queue_there("orders")).send_records([f"{number} bolts" for number in range(SENT)], order)
    orders, left = stage.there.queue("orders"), TAKEN
    while left:
        left -= len(orders.receive_many(left, WAIT))
    _await(here.queue("acks"), stage.answered + SENT + TAKEN)
    _await(here.queue("system$;journal"), stage.delivered + SENT + 1)


def _await(queue: "Queue", count: int) -> None:
    deadline = time.monotonic() + WAIT
    while queue.info().message_count < count:
        if time.monotonic() > deadline:
            raise Timeout(f"{queue.name} did not receive {count} messages within {WAIT:.0f} seconds")
        time.sleep(0.1)


def _audited(context: typer.Context, stage: Stage) -> "Report":
    server = stage.here.url
    settings = ("spark.sql.shuffle.partitions=2",)
    with working(context, "demo", master="local[2]", conf=settings, quiet=False) as (spark, _):
        read = import_module("waypost.spark.pipelines.reading").read_messages
        # Delivered messages are in the journal, the others are dead-letter messages.
        sent = read(spark, ("system$;journal", "system$;deadletter"), _ABOUT, {"server": server})
        words = read(spark, ("acks",), _WORDS, {"server": server})
        rules = import_module("waypost.spark.pipelines.audit").Rules(lost_after=_LOST_AFTER)
        origin = f"the journal, the dead-letter messages and the acknowledgments of {stage.here.name}"
        report: Report = import_module("waypost.spark.pipelines.audit_report").report(sent, words, rules, origin)
    return report


def _lines(report: "Report") -> list[str]:
    figures = {figure.name: figure.value for figure in report.figures}
    return [
        report.summary,
        f"{figures['Received']} messages were received, and {figures['In their queue']} wait in their queue.",
        *(f"Refused, {row['dest_queue']}: {row['reason']}." for row in _rows(report, "refusals")),
        *(f"Lost message for {row['dest_queue']}: no acknowledgment arrived." for row in _rows(report, "lost")),
    ]


def _rows(report: "Report", name: str) -> list[dict[str, Any]]:
    """The rows of a table of the report, if the report has this table."""
    table_type = import_module("waypost.spark.pipelines.report").Table
    tables = [part for part in report.parts() if isinstance(part, table_type) and part.name == name]
    return [
        dict(zip([column.name for column in table.columns], row, strict=True)) for table in tables for row in table.rows
    ]


def _write(report: "Report", folder: Path) -> Path:
    try:
        return report.write(folder).html
    except OSError as error:
        raise Failure(
            f"Cannot write the report to {folder}: {error.strerror or error}.",
            "specify another folder with --report.",
        ) from None
