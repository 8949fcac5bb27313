"""`waypost spark replay`: messages of an archive to queues again."""

import csv
import re
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from waypost.cli.program import Failure
from waypost.cli.program_options import Target
from waypost.cli.spark.archive import Folder, place
from waypost.cli.spark.common import Conf, Engine, Json, Master, Means, Quiet, ReportFolder, Work, choosing, tell
from waypost.client.bulk.client import BulkClient
from waypost.errors import QueueNotFound

if TYPE_CHECKING:
    from waypost.spark.pipelines.reading import Size

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
            help="Select messages by the queue from which they were archived. In the pattern, * matches any "
            "characters.",
        ),
    ] = "*",
    label: Annotated[
        str, typer.Option(metavar="PATTERN", help="Select messages by label. In the pattern, * matches any characters.")
    ] = "*",
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Select messages that arrived at this time or later. Example: 2026-03-01T12:00."
        ),
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Select messages that arrived before this time.")] = "",
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FROM=TO",
            help="Use TO as the destination for all messages of the queue FROM. This option can be repeated.",
        ),
    ] = None,
    map_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV file with two columns, FROM and TO. Each line has the same effect as --map FROM=TO.",
        ),
    ] = None,
    relabel: Annotated[
        str,
        typer.Option(metavar="TEXT", help="New label of the messages. In this text, {label} stands for the old label."),
    ] = "{label}",
    rate: Annotated[
        float | None, typer.Option(metavar="N", min=0.01, max=_FASTEST, help="Maximum number of messages per second.")
    ] = None,
    delivery: Annotated[
        Literal["exactly-once", "at-least-once"],
        typer.Option(help="Delivery guarantee. Nontransactional queues require the guarantee at-least-once."),
    ] = "exactly-once",
    name: Annotated[
        str,
        typer.Option(
            "--id",
            metavar="NAME",
            help="Name of the replay (default: derived from the archive, the daemon and the selection).",
        ),
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Check that the messages are in their destination queues.")
    ] = False,
    do: Annotated[bool, typer.Option("--do", help="Send the messages (default: dry run).")] = False,
    report: ReportFolder = None,
    engine: Engine = "auto",
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Send archived messages again, to their original queues or to other local or remote queues.

    The daemon sends the messages. To continue an interrupted replay, run the same command again. With exactly-once
    delivery, each message is sent only once.

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
            f"{name!r} is invalid: only letters, digits, underscores, dots and hyphens are allowed, and the first "
            "character must not be a dot or a hyphen",
            param_hint="--id",
        )
    path = place(folder)
    with choosing(context, "replay", Means(engine, master, conf, quiet), lambda _: _measured(path)) as work:
        pipeline = import_module("waypost.spark.pipelines.replay")
        chosen, server = pipeline.Wanted(**wanted), work.target.url
        known = name or pipeline.replay_id(path, chosen, server)
        size = pipeline.chunk_size(rate)
        plan = pipeline.plan_of(_library(work, path), chosen, name=known, target=server, size=size)
        sent = 0
        if do:
            for chunk in pipeline.replay(plan, _sink(work), rate=rate, delivery=delivery):
                sent += chunk.messages
        there = _found_there(work, plan) if check and plan.sent else None
        told = import_module("waypost.spark.pipelines.replay_report").report(plan, sent_now=sent, there=there)
    tell(told, report, "replay", as_json=as_json)


def _measured(path: str) -> "Size":
    import_module("waypost.spark.pipelines.storage").require_disk(path)
    entries = import_module("waypost.spark.pipelines.archived").entries_on_disk(path)
    found: Size = import_module("waypost.spark.pipelines.reading").size_of_entries(entries)
    return found


def _library(work: Work, path: str) -> Any:
    if work.spark is None:
        return import_module("waypost.spark.pipelines.replay_in_memory").TableLibrary(path)
    return import_module("waypost.spark.pipelines.replay").SparkLibrary(work.spark, path)


def _sink(work: Work) -> Any:
    module, options = import_module("waypost.spark.pipelines.sending"), {"server": work.target.url}
    return module.TableSink(options, work.target.token) if work.spark is None else module.MsmqSink(options)


def _found_there(work: Work, plan: Any) -> list[dict[str, Any]]:
    reading = import_module("waypost.spark.pipelines.reading")

    def read(name: str) -> Any:
        """The messages of a queue; None for a queue of another computer."""
        if not _is_here(work.target, name):
            return None
        wanted = reading.Wanted([name], ("label", "body"), {"server": work.target.url, "onMalformed": "null"})
        return reading.read_table(wanted, work.target.token) if work.spark is None else wanted.data_frame(work.spark)

    if work.spark is None:
        found: list[dict[str, Any]] = import_module("waypost.spark.pipelines.replay_in_memory").found_there(plan, read)
        return found
    rows = import_module("waypost.spark.pipelines.replay").found_there(plan, read).collect()
    return [row.asDict() for row in rows]


def _is_here(target: Target, name: str) -> bool:
    """False for a queue of another computer; messages that wait here to be sent to it are not there yet."""
    with BulkClient(target.url, target.token) as client:
        try:
            return client.queue(name).kind != "outgoing"
        except QueueNotFound:
            return False


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
            raise typer.BadParameter(f"{pair!r} does not have the form FROM=TO", param_hint="--map")
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
                f"{file} contains the invalid line {','.join(row)!r}.",
                "write a name, a comma and another name on each line.",
            )
    return [(row[0], row[1]) for row in rows]
