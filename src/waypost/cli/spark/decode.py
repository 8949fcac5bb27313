"""`waypost spark decode`: captures, raw packets and archives to columns."""

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from waypost.cli.spark.archive import place
from waypost.cli.spark.common import Conf, Json, Master, Quiet, ReportFolder, Work, tell, working

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def decode(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE", hidden=True)],
    *,
    kind: Annotated[
        Literal["pcap", "raw", "hex", "parquet", "archive"] | None,
        typer.Option("--as", help="What the files are, instead of looking at how they begin."),
    ] = None,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where to write the columns.")] = "",
    form: Annotated[Literal["parquet", "csv", "json"], typer.Option("--format", help="How to write them.")] = "parquet",
    columns: Annotated[
        str, typer.Option(metavar="NAMES", help="Which columns to write, joined with commas; all unless given.")
    ] = "",
    report: ReportFolder = None,
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Turn packets into columns, by the million; `waypost decode` shows single ones, field by field.

    FILE is a pcap or pcapng capture, raw packets, hexadecimal text, Parquet with a column `packet`, or an archive.
    What is no packet has its reason in the column packet_error.

    \b
    waypost spark decode traffic.pcapng --out columns
    waypost spark decode ./archive --as archive --out labels --format csv --columns queue,seq,label,body_text
    """
    with working(context, "decode", master=master, conf=conf, quiet=quiet) as work:
        pipeline = import_module("waypost.spark.pipelines.decode")
        found = pipeline.decoded(_packets(work, [place(name) for name in files], kind))
        if out:
            pipeline.write(found, place(out), form, [name.strip() for name in columns.split(",") if name.strip()])
        told = import_module("waypost.spark.pipelines.decode_report").report(found, origin=", ".join(files))
    tell(told, report, "decode", as_json=as_json)


def _packets(work: Work, files: list[str], kind: str | None) -> "DataFrame":
    """All files are of one kind."""
    if kind is None and files[0].endswith(".parquet"):
        kind = "parquet"
    found: DataFrame
    match kind:
        case "parquet":
            found = work.spark.read.parquet(*files)
        case "archive":
            found = import_module("waypost.spark.pipelines.archived").read_archive(work.spark, files[0])
        case _:
            found = import_module("waypost.spark.pipelines.decode").read_packets(work.spark, files, kind or "")
    return found
