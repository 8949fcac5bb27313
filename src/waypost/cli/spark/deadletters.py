"""`waypost spark deadletters`: why messages died, and what becomes of them."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from waypost.cli.daemon import connect
from waypost.cli.program_options import target_of
from waypost.cli.spark.common import (
    Conf,
    Engine,
    Found,
    Json,
    Master,
    Means,
    Quiet,
    ReportFolder,
    reading,
    require,
    seconds,
    tell,
)
from waypost.cli.spark.failures import failure_of
from waypost.errors import WaypostError

if TYPE_CHECKING:
    from waypost import Manager

Action = Literal["resend", "park", "drop"]


def deadletters(
    context: typer.Context,
    action: Annotated[
        Action | None,
        typer.Argument(
            metavar="ACTION",
            help="Action for the messages, which is resend, park (move to another queue) or drop. Without an action, "
            "the command only writes a report.",
        ),
    ] = None,
    *,
    reason: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="Select messages with this reason, such as reach-queue-timeout or 0x8002. This option can be "
            "repeated.",
        ),
    ] = None,
    destination: Annotated[
        list[str] | None,
        typer.Option(
            "--dest",
            metavar="PATTERN",
            help="Select messages by destination queue. In the pattern, * matches any characters.",
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Select messages by label. In the pattern, * matches any characters."),
    ] = None,
    older: Annotated[
        float, seconds("Select messages that became dead-letter messages at least this number of seconds ago.")
    ] = 0,
    to: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Queue to which the messages are sent (default: for resend, the original destination; for park, the "
            "queue `parked`).",
        ),
    ] = "",
    parked: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Process the messages that are parked in this queue, instead of the messages in the "
            "dead-letter queues.",
        ),
    ] = "",
    do: Annotated[bool, typer.Option("--do", help="Apply the changes (default: dry run).")] = False,
    report: ReportFolder = None,
    engine: Engine = "auto",
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Report why messages were not delivered, and resend, park or drop these messages.

    Messages for transactional queues are sent exactly once, even if a run is interrupted or two runs work at the same
    time. Messages for nontransactional queues are sent without a transaction. If the command is killed while it sends
    messages to nontransactional queues, the next run might send some of these messages again.

    \b
    waypost spark deadletters
    waypost spark deadletters resend --reason reach-queue-timeout --dest '*orders' --do
    waypost spark deadletters drop --label 'heartbeat *' --older 86400 --do
    """
    if to and action not in ("resend", "park"):
        raise typer.BadParameter("--to is only valid with the actions resend and park", param_hint="--to")
    if do and action is None:
        raise typer.BadParameter("the action is missing; specify resend, park or drop", param_hint="--do")
    require()
    pipeline = import_module("waypost.spark.pipelines.deadletters")
    doing = import_module("waypost.spark.pipelines.deadletter_actions")
    before = datetime.now(UTC) - timedelta(seconds=older) if older else None
    choice = pipeline.Choice(reason or (), destination or (), label or (), before)
    settled = _settled(context, doing) if do else 0
    wanted = {
        "sources": [parked] if parked else list(pipeline.QUEUES),
        "columns": pipeline.COLUMNS,
        "options": {"onMalformed": "null", "decodeBody": "true"},
    }
    with reading(context, "deadletters", Means(engine, master, conf, quiet), wanted) as read:
        dead, tally = _chosen(read, choice, is_parked=bool(parked))
        done = None
        if do:
            done = doing.Done()
            if tally.groups:
                slices = (doing.table_slices if read.is_in_memory else doing.slices)(dead)
                with connect(read.target) as manager:
                    done = _do(manager, action, slices, to)
            done = replace(done, settled=settled)
        told = import_module("waypost.spark.pipelines.deadletters_report").report(tally, action=action or "", done=done)
    tell(told, report, "deadletters", as_json=as_json)


def _settled(context: typer.Context, doing: Any) -> int:
    """Finish an interrupted run of an earlier version, before messages are read: those that it sent are not read."""
    try:
        with connect(target_of(context)) as manager:
            count: int = doing.settle(manager)
            return count
    except WaypostError as error:
        raise failure_of(error, None) from None


def _chosen(read: Found, choice: Any, *, is_parked: bool) -> tuple[Any, Any]:
    """The chosen messages, and the counts of them."""
    doing = import_module("waypost.spark.pipelines.deadletter_actions")
    engine = import_module(f"waypost.spark.pipelines.{'in_memory' if read.is_in_memory else 'deadletters'}")
    (found,) = read.messages
    if is_parked:
        found = (doing.unparked_table if read.is_in_memory else doing.unparked)(found)
    dead = engine.chosen(found, choice)
    return dead, engine.tally(dead)


def _do(manager: "Manager", action: Action | None, slices: Iterator[Any], to: str) -> Any:
    doing = import_module("waypost.spark.pipelines.deadletter_actions")
    match action:
        case "resend":
            return doing.resend(slices, manager, to=to)
        case "park":
            return doing.park(slices, manager, to=to or doing.PARKING)
    return doing.drop(slices, manager)
