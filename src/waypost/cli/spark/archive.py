"""`waypost spark archive`: messages of queues into files, and then out of their queues."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from waypost.cli.program import Failure
from waypost.cli.spark.common import Conf, Json, Master, Quiet, ReportFolder, Work, tell, working

if TYPE_CHECKING:
    from waypost.spark.pipelines.report import Report

Folder = Annotated[
    str, typer.Argument(metavar="FOLDER", help="Archive: a folder, or any location that Spark can write to.")
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
            metavar="PATTERN", help="Archive all queues whose name matches the pattern. * matches any characters."
        ),
    ] = "",
    queue_type: Annotated[
        Type | None,
        typer.Option("--type", help="Type of the queues to archive. `journal` means the journals of queues."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Do not remove the messages from their queues.")] = False,
    kind: Annotated[
        Literal["parquet", "delta", "iceberg"] | None,
        typer.Option(
            "--format", help="Format of the archive: Parquet files, or a Delta or Iceberg table (default: parquet)."
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"Maximum number of messages in one batch (default: {BATCH:,})."),
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="FOLDER", help="Folder for the Spark checkpoint (default: a folder in the archive).")
    ] = "",
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compare all archived files with the manifests, without archiving anything."),
    ] = False,
    report: ReportFolder = None,
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Archive each message once, and remove it from its queue when the files are stored.

    Without a QUEUE, the command archives the journal of the queue manager. The next run of the same command archives
    the messages that arrived since the last run. After an interruption, it continues where it stopped. During a run, no
    other program should receive from these queues.

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
    options = _selection(queues, pattern, queue_type)
    with working(context, "archive", master=master, conf=conf, quiet=quiet) as work:
        if verify:
            found, is_sound = _verified(work, path)
        else:
            name = sha256(repr((work.target.url, sorted(options.items()))).encode()).hexdigest()[:12]
            options |= {"mode": "peek" if keep else "drain", "maxMessagesPerTrigger": str(batch or BATCH)}
            noted = checkpoint or f"{path}/_checkpoints/{name}"
            found, is_sound = _archived(work, path, options, kind or "parquet", noted), True
    tell(found, report, "archive", as_json=as_json)
    if not is_sound:
        raise Failure(found.summary, "the report lists the damaged files. Restore them from a copy.")


def place(folder: str) -> str:
    """The absolute path of the folder: Spark may run elsewhere. A name with a scheme is for Spark."""
    return folder.rstrip("/") if "://" in folder else str(Path(folder).expanduser().absolute())


def _refuse_with_verify(given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if value:
            raise typer.BadParameter("mutually exclusive with --verify", param_hint=name)


def _selection(queues: list[str] | None, pattern: str, queue_type: str | None) -> dict[str, str]:
    if queues and pattern:
        raise typer.BadParameter("mutually exclusive with the names of queues", param_hint="--pattern")
    options = {"queueType": queue_type} if queue_type else {}
    if queues:
        options["queues"] = ",".join(queues)
    elif pattern:
        options["queuePattern"] = pattern
    elif not queue_type:
        options["queueType"] = "journal"
    return options


def _archived(work: Work, path: str, options: dict[str, str], kind: str, checkpoint: str) -> "Report":
    pipeline = import_module("waypost.spark.pipelines.archive")
    began = datetime.now(UTC)
    wanted = {"server": work.target.url, **options}
    pipeline.archive_queues(work.spark, wanted, path, kind=kind, checkpoint=checkpoint).awaitTermination()
    outcome = pipeline.Outcome.since(work.spark, path, began)
    origin = ", ".join(f"{name} {value}" for name, value in options.items() if name.startswith("queue"))
    found: Report = import_module("waypost.spark.pipelines.archive_report").report(outcome, origin=origin)
    return found


def _verified(work: Work, path: str) -> tuple["Report", bool]:
    reading = import_module("waypost.spark.pipelines.archived")
    problems = reading.verify(work.spark, path).collect()
    files = reading.entries(work.spark, path).select("path").distinct().count()
    found = import_module("waypost.spark.pipelines.archive_report").verification(path, files, problems)
    return found, not problems
