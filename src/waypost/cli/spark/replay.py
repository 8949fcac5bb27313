"""`waypost spark replay`: messages of an archive to queues again."""

import csv
import re
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from waypost.cli.program import Failure
from waypost.cli.spark.archive import Folder, place
from waypost.cli.spark.common import Conf, Json, Master, Quiet, ReportFolder, Work, tell, working
from waypost.client.bulk.client import BulkClient
from waypost.errors import QueueNotFound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A name, which may be a format name with an equals sign, then the equals sign between the names.
_PAIR: Final = re.compile(r"((?:(?:DIRECT|PUBLIC|PRIVATE|MACHINE|CONNECTOR|DL|MULTICAST)=)?[^=]+)=(.+)", re.IGNORECASE)
_PAIR_COLUMNS: Final = 2
_FASTEST: Final = 1_000_000_000


def replay(
    context: typer.Context,
    folder: Folder,
    *,
    queue: Annotated[
        str,
        typer.Option(
            metavar="PATTERN",
            help="Select messages by the queue from which they were archived. * matches any characters.",
        ),
    ] = "*",
    label: Annotated[
        str, typer.Option(metavar="PATTERN", help="Select messages by label. * matches any characters.")
    ] = "*",
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Select messages that arrived at this time or later, such as 2026-03-01T12:00."
        ),
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Select messages that arrived before this time.")] = "",
    to: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FROM=TO", help="Send the messages of one queue to another; may be repeated."),
    ] = None,
    map_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV file with two columns, FROM and TO, as in --map.")
    ] = None,
    relabel: Annotated[
        str, typer.Option(metavar="TEXT", help="New label of the messages. {label} stands for the old label.")
    ] = "{label}",
    rate: Annotated[
        float | None, typer.Option(metavar="N", min=0.01, max=_FASTEST, help="Maximum number of messages per second.")
    ] = None,
    delivery: Annotated[
        Literal["exactly-once", "at-least-once"],
        typer.Option(help="Delivery guarantee. Nontransactional queues require at-least-once."),
    ] = "exactly-once",
    name: Annotated[
        str, typer.Option("--id", metavar="NAME", help="Name of the replay (default: derived from the command).")
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Check that the messages are in their destination queues.")
    ] = False,
    do: Annotated[bool, typer.Option("--do", help="Send the messages (default: dry run).")] = False,
    report: ReportFolder = None,
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Send archived messages again, to their original queues or to other local or remote queues.

    The daemon sends the messages. To continue an interrupted replay, run the same command again. Each message is sent
    only once.

    \b
    waypost spark replay ./archive --queue '*orders*' --since 2026-03-01 --do
    waypost spark replay ./archive --map 'orders=DIRECT=OS:new\\private$\\orders' --rate 500 --do
    """
    wanted: Any = {
        "queue": queue,
        "label_pattern": label,
        "since": _time(since, "--since"),
        "until": _time(until, "--until"),
        "destinations": _destinations(to or [], map_file),
        "label": relabel,
    }
    if name and not re.fullmatch(r"\w[\w.-]*", name):
        raise typer.BadParameter(
            f"{name!r} is invalid: only letters, digits, dots and hyphens are allowed", param_hint="--id"
        )
    path = place(folder)
    with working(context, "replay", master=master, conf=conf, quiet=quiet) as work:
        pipeline = import_module("waypost.spark.pipelines.replay")
        chosen = pipeline.Wanted(**wanted)
        known = name or pipeline.replay_id(path, chosen, work.target.url)
        plan = pipeline.make_plan(
            work.spark, path, chosen, name=known, target=work.target.url, size=pipeline.chunk_size(rate)
        )
        sent = 0
        if do:
            sink = import_module("waypost.spark.pipelines.sending").MsmqSink({"server": work.target.url})
            for chunk in pipeline.replay(plan, sink, rate=rate, delivery=delivery):
                sent += chunk.messages
        there = pipeline.found_there(plan, lambda dest: _read(work, dest)).collect() if check and plan.sent else None
        told = import_module("waypost.spark.pipelines.replay_report").report(plan, sent_now=sent, there=there)
    tell(told, report, "replay", as_json=as_json)


def _read(work: Work, name: str) -> "DataFrame | None":
    """None for a queue of another computer; what waits here to be sent to it is not there yet."""
    with BulkClient(work.target.url, work.target.token) as client:
        try:
            is_here = client.queue(name).kind != "outgoing"
        except QueueNotFound:
            is_here = False
    return work.read([name], ("label", "body"), onMalformed="null") if is_here else None


def _time(text: str, option: str) -> datetime | None:
    """In UTC unless it says otherwise."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time such as 2026-03-01T12:00", param_hint=option) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _destinations(pairs: list[str], file: Path | None) -> dict[str, str]:
    found = dict(_rows(file)) if file is not None else {}
    for pair in pairs:
        match = _PAIR.fullmatch(pair)
        if match is None:
            raise typer.BadParameter(f"{pair!r} is not FROM=TO", param_hint="--map")
        found[match[1].strip()] = match[2].strip()
    return found


def _rows(file: Path) -> list[tuple[str, str]]:
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            rows = [[cell.strip() for cell in row] for row in csv.reader(opened) if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Failure(f"Cannot read {file}: {error}.", "use a CSV file in UTF-8 with two columns.") from None
    for row in rows:
        if len(row) != _PAIR_COLUMNS or not all(row):
            raise Failure(
                f"{file} has the invalid line {','.join(row)!r}.",
                "write a name, a comma and another name on each line.",
            )
    return [(row[0], row[1]) for row in rows]
