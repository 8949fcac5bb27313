"""`waypost spark deadletters`: why messages died, and what becomes of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Annotated, Any, Literal

import typer

from waypost.cli.daemon import connect
from waypost.cli.spark.common import Conf, Json, Master, Quiet, ReportFolder, Work, seconds, tell, working

Action = Literal["resend", "park", "drop"]


def deadletters(
    context: typer.Context,
    action: Annotated[
        Action | None, typer.Argument(metavar="ACTION", help="resend, park or drop (default: only report).")
    ] = None,
    *,
    reason: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Only these: reach-queue-timeout, or 0x8002; may be repeated."),
    ] = None,
    destination: Annotated[
        list[str] | None,
        typer.Option("--dest", metavar="PATTERN", help="Only messages for a queue that matches; * matches any text."),
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Only messages with such a label.")] = None,
    older: Annotated[float, seconds("Only messages that have been there for this long.")] = 0,
    to: Annotated[
        str, typer.Option(metavar="NAME", help="Queue for resent or parked messages (default for parked: `parked`).")
    ] = "",
    parked: Annotated[
        str, typer.Option(metavar="NAME", help="Work on the messages parked in this queue, not on new ones.")
    ] = "",
    do: Annotated[bool, typer.Option("--do", help="Apply the changes (default: dry run).")] = False,
    report: ReportFolder = None,
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Say why messages were not delivered, and send them again, park them or drop them.

    Messages for transactional queues are sent once, even after interruptions. Those for others are sent without a
    transaction; if the program is killed while it does that, the next run may send some of them a second time.

    \b
    waypost spark deadletters
    waypost spark deadletters resend --reason reach-queue-timeout --dest '*orders' --do
    waypost spark deadletters drop --label 'heartbeat *' --older 86400 --do
    """
    if to and action not in ("resend", "park"):
        raise typer.BadParameter("only valid with resend and park", param_hint="--to")
    if do and action is None:
        raise typer.BadParameter("no action to apply: give resend, park or drop", param_hint="--do")
    with working(context, "deadletters", master=master, conf=conf, quiet=quiet) as work:
        pipeline = import_module("waypost.spark.pipelines.deadletters")
        doing = import_module("waypost.spark.pipelines.desk")
        before = datetime.now(UTC) - timedelta(seconds=older) if older else None
        choice = pipeline.Choice(reason or (), destination or (), label or (), before)
        with _desk(work) as desk:
            # Before the letters are read: those that an interrupted run has sent must not be among them.
            settled = len(doing.settle(desk)) if do else 0
            queues = [parked] if parked else list(pipeline.QUEUES)
            found = work.read(queues, pipeline.COLUMNS, onMalformed="null", decodeBody="true")
            letters = pipeline.chosen(doing.unparked(found) if parked else found, choice)
            tally, done = pipeline.tally(letters), None
            if do:
                done = _do(desk, action, letters, to) if tally.groups else doing.Done()
                done = replace(done, settled=settled + done.settled)
            told = import_module("waypost.spark.pipelines.deadletters_report").report(
                tally, action=action or "", done=done
            )
    tell(told, report, "deadletters", as_json=as_json)


@contextmanager
def _desk(work: Work) -> Iterator[Any]:
    target = work.target
    sink = import_module("waypost.spark.pipelines.sending").MsmqSink({"server": target.url})
    bulk = import_module("waypost.client.bulk.client").BulkClient(target.url, target.token)
    with bulk, connect(target) as manager:
        yield import_module("waypost.spark.pipelines.desk").Desk(manager, sink, bulk)


def _do(desk: Any, action: Action | None, letters: Any, to: str) -> Any:
    doing = import_module("waypost.spark.pipelines.desk")
    match action:
        case "resend":
            return doing.resend(letters, desk, to=to)
        case "park":
            return doing.park(letters, desk, to=to or doing.PARKING)
    return doing.drop(letters, desk)
