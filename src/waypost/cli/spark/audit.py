"""`waypost spark audit`: what was sent against the acknowledgments that came back."""

from datetime import timedelta
from importlib import import_module
from typing import Annotated

import typer

from waypost.cli.spark.common import Conf, Json, Master, Quiet, ReportFolder, Sources, seconds, tell, working


def audit(
    context: typer.Context,
    acknowledgments: Sources,
    *,
    sent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="Source of the sent messages; may be repeated (default: the journal of the queue manager).",
            show_default=False,
        ),
    ] = None,
    late: Annotated[float, seconds("A message that took longer is late.")] = 60,
    lost: Annotated[float, seconds("A message without an acknowledgment for this long is lost.")] = 600,
    report: ReportFolder = None,
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find messages that are lost, refused, late or duplicated, and measure how long the others took.

    SOURCE holds the acknowledgments: an administration queue, the folder of an archive like ./archive, or *.parquet.
    The messages must request acknowledgments, and their sender must keep a journal of sent messages.

    \b
    waypost spark audit admin
    waypost spark audit ./archive/admin --sent ./archive/journal --late 5 --report audit
    """
    with working(context, "audit", master=master, conf=conf, quiet=quiet) as work:
        rules = import_module("waypost.spark.pipelines.audit").Rules(
            late_after=timedelta(seconds=late), lost_after=timedelta(seconds=lost)
        )
        columns = ("message_id", "source_qm", "dest_queue", "label", "sent_time", "acknowledge")
        messages = work.read(sent, columns) if sent else work.read((), columns, queueType="journal")
        words = work.read(acknowledgments, ("correlation_id", "message_class", "sent_time"))
        origin = f"{', '.join(sent or ['the journal'])} and {', '.join(acknowledgments)}"
        found = import_module("waypost.spark.pipelines.audit_report").report(messages, words, rules, origin)
    tell(found, report, "audit", as_json=as_json)
