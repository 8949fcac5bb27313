"""`waypost spark trace`: the routes of traced messages."""

from importlib import import_module

import typer

from waypost.cli.spark.common import Conf, Engine, Json, Master, Means, Quiet, ReportFolder, Sources, reading, tell


def trace(
    context: typer.Context,
    reports: Sources,
    *,
    report: ReportFolder = None,
    engine: Engine = "auto",
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show the routes of traced messages, and find slow hops, loops and messages that did not arrive.

    The report messages come from SOURCE, which is a report queue, an archive folder such as ./archive, or Parquet files
    such as ./reports.parquet.

    \b
    waypost spark trace reports
    waypost spark trace ./archive/reports --report routes
    """
    columns = ("message_class", "label", "body", "source_qm", "sent_time")
    wanted = {"sources": reports, "columns": columns, "options": {}}
    with reading(context, "trace", Means(engine, master, conf, quiet), wanted) as read:
        found = import_module("waypost.spark.pipelines.trace_report").report(*read.messages, ", ".join(reports))
    tell(found, report, "trace", as_json=as_json)
