"""`waypost spark decode`: captures, raw packets and archives to columns."""

from fnmatch import fnmatchcase
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from waypost.cli.program import Failure
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
        typer.Option("--as", help="Format of the files (default: detected from their first bytes)."),
    ] = None,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Folder for the decoded files.")] = "",
    form: Annotated[
        Literal["parquet", "csv", "json"] | None,
        typer.Option("--format", help="Format of the files to write (default: parquet)."),
    ] = None,
    columns: Annotated[
        str, typer.Option(metavar="NAMES", help="Columns to write, joined with commas (default: all).")
    ] = "",
    report: ReportFolder = None,
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Decode millions of packets into columns. Use `waypost decode` to show single packets, field by field.

    FILE is a pcap or pcapng capture, raw packets, hexadecimal text, Parquet with a column `packet`, or an archive. If
    bytes are not a packet, the column packet_error gives the reason. The exit code is 1 if a file is not readable.

    \b
    waypost spark decode traffic.pcapng --out columns
    waypost spark decode ./archive --as archive --out labels --format csv --columns queue,seq,label,body_text
    """
    for option, value in (("--format", form), ("--columns", columns)):
        if value and not out:
            raise typer.BadParameter("only valid with --out", param_hint=option)
    if out:
        _check_apart(files, out)
    with working(context, "decode", master=master, conf=conf, quiet=quiet) as work:
        pipeline = import_module("waypost.spark.pipelines.decode")
        found = pipeline.decoded(_packets(work, [place(name) for name in files], kind))
        if out:
            names = [name.strip() for name in columns.split(",") if name.strip()]
            pipeline.write(found, place(out), form or "parquet", names)
        told, is_whole = import_module("waypost.spark.pipelines.decode_report").report(found, origin=", ".join(files))
    tell(told, report, "decode", as_json=as_json)
    if not is_whole:
        raise Failure(told.summary, "the report describes the problem of each file.")


def _check_apart(files: list[str], out: str) -> None:
    """Files that are read must not be among those that are replaced."""
    folder = _parts(out)
    for name in files:
        parts = _parts(name)
        if len(parts) >= len(folder) and all(map(_matches, folder, parts)):
            raise typer.BadParameter(
                f"{name} is in this folder and would be deleted; specify another folder", param_hint="--out"
            )


def _parts(name: str) -> tuple[str, ...]:
    return Path(place(name).removeprefix("file://")).resolve().parts


def _matches(part: str, pattern: str) -> bool:
    """Whether Spark may take one for the other: it knows {a,b} besides, which is taken for anything here."""
    return part == pattern or "{" in pattern or fnmatchcase(part, pattern)


def _packets(work: Work, files: list[str], kind: str | None) -> "DataFrame":
    """All files are of one kind."""
    if kind is None and files[0].endswith(".parquet"):
        kind = "parquet"
    found: DataFrame
    match kind:
        case "parquet":
            found = work.spark.read.parquet(*files)
        case "archive":
            read = import_module("waypost.spark.pipelines.archived").read_archive
            found = reduce(lambda some, more: some.unionByName(more), [read(work.spark, name) for name in files])
        case _:
            found = import_module("waypost.spark.pipelines.decode").read_packets(work.spark, files, kind or "")
    return found
