"""`waypost spark inventory`: what is in queues."""

from importlib import import_module
from typing import Annotated, Final

import typer

from waypost.cli.spark.common import Conf, Engine, Json, Master, Means, Quiet, ReportFolder, reading, tell

COLUMNS: Final = (
    *("queue", "seq", "arrived_time", "sent_time", "message_id", "source_qm", "body_size", "body_type", "priority"),
    *("delivery", "transactional", "xact_id", "xact_first", "xact_last"),
)


def inventory(
    context: typer.Context,
    sources: Annotated[list[str] | None, typer.Argument(metavar="[SOURCE]", hidden=True)] = None,
    *,
    pattern: Annotated[
        str, typer.Option(metavar="PATTERN", help="Select queues by name. In the pattern, * matches any characters.")
    ] = "",
    bodies: Annotated[bool, typer.Option("--bodies", help="Inspect the bodies to detect their formats.")] = False,
    report: ReportFolder = None,
    engine: Engine = "auto",
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Report the number, size, age, rate, kinds and senders of the messages in queues.

    SOURCE is a queue such as orders, an archive folder such as ./archive, or Parquet files such as ./orders.parquet
    (default: all queues). The command checks transactional messages for duplicates, wrong order and incomplete
    transactions. The command does not remove messages from queues.

    \b
    waypost spark inventory
    waypost spark inventory orders invoices --bodies --report inventory
    """
    if sources and pattern:
        raise typer.BadParameter("--pattern and a SOURCE are mutually exclusive", param_hint="--pattern")
    columns = (*COLUMNS, "body_kind") if bodies else COLUMNS
    options = {"onMalformed": "null"} | ({"decodeBody": "true"} if bodies else {})
    if not sources:
        options["queuePattern"] = pattern or "*"
    wanted = {"sources": sources or (), "columns": columns, "options": options}
    with reading(context, "inventory", Means(engine, master, conf, quiet), wanted) as read:
        origin = ", ".join(sources or [f"the queues {pattern or '*'}"])
        found = import_module("waypost.spark.pipelines.inventory_report").report(*read.messages, origin=origin)
    tell(found, report, "inventory", as_json=as_json)
