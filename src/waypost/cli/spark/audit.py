"""`waypost spark audit`: what was sent against the acknowledgments that came back."""

from datetime import timedelta
from importlib import import_module
from typing import Annotated

import typer

from waypost.cli.spark.common import (
    Conf,
    Engine,
    Json,
    Master,
    Means,
    Quiet,
    ReportFolder,
    Sources,
    reading,
    seconds,
    tell,
)


def audit(
    context: typer.Context,
    acknowledgments: Sources,
    *,
    sent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="Source of the sent messages (default: the journal of the queue manager). This option can be "
            "repeated.",
            show_default=False,
        ),
    ] = None,
    late: Annotated[
        float, seconds("Maximum delivery time, in seconds. A message with a longer delivery time counts as late.")
    ] = 60,
    lost: Annotated[
        float, seconds("Maximum time without an acknowledgment, in seconds. After this time, a message counts as lost.")
    ] = 600,
    report: ReportFolder = None,
    engine: Engine = "auto",
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find messages that are lost, refused, late or duplicated, and measure delivery times.

    The acknowledgments come from SOURCE, which is an administration queue, an archive folder such as ./archive, or
    Parquet files such as ./acks.parquet. The sender must request acknowledgments, and must keep a journal of the sent
    messages.

    \b
    waypost spark audit admin
    waypost spark audit ./archive/admin --sent ./archive/journal --late 5 --report audit
    """
    columns = ("message_id", "source_qm", "dest_queue", "label", "sent_time", "acknowledge")
    journal = {"sources": sent or (), "columns": columns, "options": {} if sent else {"queueType": "journal"}}
    facts = ("correlation_id", "message_class", "sent_time")
    words = {"sources": acknowledgments, "columns": facts, "options": {}}
    with reading(context, "audit", Means(engine, master, conf, quiet), journal, words) as read:
        rules = import_module("waypost.spark.pipelines.audit").Rules(
            late_after=timedelta(seconds=late), lost_after=timedelta(seconds=lost)
        )
        origin = f"{', '.join(sent or ['the journal'])} and {', '.join(acknowledgments)}"
        found = import_module("waypost.spark.pipelines.audit_report").report(*read.messages, rules, origin)
    tell(found, report, "audit", as_json=as_json)
