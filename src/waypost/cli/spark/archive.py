"""`waypost spark archive`: messages of queues into files, and then out of their queues."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from waypost.cli.program import Failure
from waypost.cli.program_options import Target, target_of
from waypost.cli.spark.common import Conf, Engine, Json, Master, Means, Quiet, ReportFolder, choosing, tell
from waypost.errors import QueueNotFound

if TYPE_CHECKING:
    from waypost.spark.pipelines.reading import Size
    from waypost.spark.pipelines.report import Report

Folder = Annotated[
    str, typer.Argument(metavar="FOLDER", help="Folder of the archive, or the URL of a location that Spark can access.")
]
Type = Literal["message", "journal", "deadletter", "xactdeadletter", "admin", "report"]
BATCH: Final = 1_000_000


def archive(
    context: typer.Context,
    folder: Folder,
    queues: Annotated[list[str] | None, typer.Argument(metavar="[QUEUE]", hidden=True)] = None,
    *,
    pattern: Annotated[
        str,
        typer.Option(
            metavar="PATTERN",
            help="Archive all queues whose names match the pattern. In the pattern, * matches any characters.",
        ),
    ] = "",
    queue_type: Annotated[
        Type | None,
        typer.Option(
            "--type", help="Type of the queues to archive. The type `journal` selects the journals of the queues."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Do not remove the messages from their queues.")] = False,
    kind: Annotated[
        Literal["parquet", "delta", "iceberg"] | None,
        typer.Option(
            "--format",
            help="Format of the archive, which is Parquet files, a Delta table or an Iceberg table (default: parquet).",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"Maximum number of messages in one batch (default: {BATCH:,})."),
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="FOLDER", help="Folder for the checkpoint (default: a folder in the archive).")
    ] = "",
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compare all archived files with the manifests, without archiving anything."),
    ] = False,
    report: ReportFolder = None,
    engine: Engine = "auto",
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Archive each message once, and remove it from its queue when the archive files are stored.

    Without a QUEUE, the command archives the journal of the queue manager. The next run of the same command archives
    the messages that have arrived since the last run. After an interruption, the next run continues where the
    interrupted run stopped. While the command runs, no other program should receive messages from the archived queues.

    \b
    waypost spark archive ./archive 'orders;journal' 'invoices;journal'
    waypost spark archive ./archive --type journal --pattern '*' --format delta
    waypost spark archive ./archive --verify
    """
    if verify:
        _refuse_with_verify(
            {
                "QUEUE": queues,
                "--pattern": pattern,
                "--type": queue_type,
                "--keep": keep,
                "--format": kind,
                "--batch": batch,
                "--checkpoint": checkpoint,
            }
        )
    path = place(folder)
    means = Means(engine, master, conf, quiet)
    if verify:
        found, is_sound = _verified(context, path, means)
    else:
        options = _selection(queues, pattern, queue_type)
        name = sha256(repr((target_of(context).url, sorted(options.items()))).encode()).hexdigest()[:12]
        options |= {"mode": "peek" if keep else "drain", "maxMessagesPerTrigger": str(batch or BATCH)}
        wish = _Wish(path, options, kind or "parquet", checkpoint or f"{path}/_checkpoints/{name}")
        found, is_sound = _archived(context, wish, means), True
    tell(found, report, "archive", as_json=as_json)
    if not is_sound:
        raise Failure(found.summary, "restore the damaged files from a copy. The report lists these files.")


def place(folder: str) -> str:
    """The absolute path of the folder: Spark may run elsewhere. A name with a scheme is for Spark."""
    return folder.rstrip("/") if "://" in folder else str(Path(folder).expanduser().absolute())


def _refuse_with_verify(given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if value:
            raise typer.BadParameter(f"{name} and --verify are mutually exclusive", param_hint=name)


def _selection(queues: list[str] | None, pattern: str, queue_type: str | None) -> dict[str, str]:
    if queues and pattern:
        raise typer.BadParameter("--pattern and QUEUE are mutually exclusive", param_hint="--pattern")
    options = {"queueType": queue_type} if queue_type else {}
    if queues:
        options["queues"] = ",".join(queues)
    elif pattern:
        options["queuePattern"] = pattern
    elif not queue_type:
        options["queueType"] = "journal"
    return options


@dataclass(frozen=True, slots=True)
class _Wish:
    """The archive of a command: its path, format and checkpoint, and the options of format("msmq")."""

    path: str
    options: dict[str, str]
    kind: str
    checkpoint: str


def _archived(context: typer.Context, wish: _Wish, means: Means) -> "Report":
    def measured(target: Target) -> "Size | None":
        import_module("waypost.spark.pipelines.archive").check_is_on_disk(wish.path, wish.checkpoint)
        try:
            found: Size = import_module("waypost.spark.pipelines.reading").size_of_queues(
                {"server": target.url, **wish.options}, target.token
            )
        except QueueNotFound:
            # The run says more about a queue that is gone.
            return None
        return found

    with choosing(context, "archive", means, measured) as work, _held(wish):
        options = {"server": work.target.url, **wish.options}
        pipeline = import_module("waypost.spark.pipelines.archive")
        if work.spark is None:
            outcome = pipeline.archive_on_disk(
                options, wish.path, kind=wish.kind, checkpoint=wish.checkpoint, token=work.target.token
            )
        else:
            began = datetime.now(UTC)
            query = pipeline.archive_queues(work.spark, options, wish.path, kind=wish.kind, checkpoint=wish.checkpoint)
            query.awaitTermination()
            outcome = pipeline.Outcome.since(work.spark, wish.path, began)
        origin = ", ".join(f"{name} {value}" for name, value in wish.options.items() if name.startswith("queue"))
        found: Report = import_module("waypost.spark.pipelines.archive_report").report(outcome, origin=origin)
    return found


def _held(wish: _Wish) -> AbstractContextManager[None]:
    """Keep other runs of the same command away: both would write the files of the same batch."""
    storage = import_module("waypost.spark.pipelines.storage")
    storage.check_path(wish.path)
    if not storage.is_on_disk(wish.checkpoint):
        return nullcontext()
    checkpoints = import_module("waypost.spark.pipelines.checkpoints")
    held: AbstractContextManager[None] = checkpoints.Checkpoint(storage.local_path(wish.checkpoint)).held()
    return held


def _verified(context: typer.Context, path: str, means: Means) -> tuple["Report", bool]:
    reading = import_module("waypost.spark.pipelines.archived")
    entries: list[dict[str, Any]] = []

    def measured(_: Target) -> "Size":
        import_module("waypost.spark.pipelines.storage").require_disk(path)
        entries.extend(reading.entries_on_disk(path))
        found: Size = import_module("waypost.spark.pipelines.reading").size_of_entries(entries)
        return found

    with choosing(context, "archive", means, measured) as work:
        if work.spark is None:
            problems = reading.verify_on_disk(path, entries)
            files = len({entry["path"] for entry in entries})
        else:
            problems = [row.asDict() for row in reading.verify(work.spark, path).collect()]
            files = reading.entries(work.spark, path).select("path").distinct().count()
        found = import_module("waypost.spark.pipelines.archive_report").verification(path, files, problems)
    return found, not problems
