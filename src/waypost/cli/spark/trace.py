"""`waypost spark trace`: the routes of traced messages."""

from importlib import import_module

import typer

from waypost.cli.spark.common import Conf, Json, Master, Quiet, ReportFolder, Sources, tell, working


def trace(
    context: typer.Context,
    reports: Sources,
    *,
    report: ReportFolder = None,
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw the routes of traced messages: slow hops, loops, and messages that did not arrive.

    SOURCE holds the report messages: a report queue, the folder of an archive like ./archive, or *.parquet.

    \b
    waypost spark trace reports
    waypost spark trace ./archive/reports --report routes
    """
    with working(context, "trace", master=master, conf=conf, quiet=quiet) as work:
        messages = work.read(reports, ("message_class", "label", "body", "source_qm", "sent_time"))
        found = import_module("waypost.spark.pipelines.trace_report").report(messages, ", ".join(reports))
    tell(found, report, "trace", as_json=as_json)
