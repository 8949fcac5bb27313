"""`waypost spark decode`: captures, raw packets and archives to columns."""

from fnmatch import fnmatchcase
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from waypost.cli.program import Failure
from waypost.cli.program_options import Target
from waypost.cli.spark.archive import place
from waypost.cli.spark.common import Conf, Engine, Json, Master, Means, Quiet, ReportFolder, choosing, tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waypost.spark.pipelines.reading import Size


def decode(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE", hidden=True)],
    *,
    kind: Annotated[
        Literal["pcap", "raw", "hex", "parquet", "archive"] | None,
        typer.Option("--as", help="Format of the files (default: detected from their first bytes)."),
    ] = None,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Write the decoded columns to files in this folder.")] = "",
    form: Annotated[
        Literal["parquet", "csv", "json"] | None,
        typer.Option("--format", help="Format of the files to write (default: parquet)."),
    ] = None,
    columns: Annotated[
        str, typer.Option(metavar="NAMES", help="Columns to write, separated by commas (default: all).")
    ] = "",
    report: ReportFolder = None,
    engine: Engine = "auto",
    master: Master = None,
    conf: Conf = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Decode millions of packets into columns. Use `waypost decode` to show single packets, field by field.

    FILE is a pcap or pcapng capture, a file with raw packets or hexadecimal text, a Parquet file with a column
    `packet`, or an archive. If a packet is malformed, the column packet_error contains the reason. If the command
    cannot read a file to its end, the exit code is 1.

    \b
    waypost spark decode traffic.pcapng --out columns
    waypost spark decode ./archive --as archive --out labels --format csv --columns queue,seq,label,body_text
    """
    for option, value in (("--format", form), ("--columns", columns)):
        if value and not out:
            raise typer.BadParameter(f"{option} is only valid with --out", param_hint=option)
    if out:
        _check_apart(files, out)
    places, target = [place(name) for name in files], place(out) if out else ""
    # All files are of one kind.
    known = kind or ("parquet" if places[0].endswith(".parquet") else "")

    def measured(_: Target) -> "Size":
        import_module("waypost.spark.pipelines.storage").require_disk(target)
        found: Size = import_module("waypost.spark.pipelines.decode_in_memory").size_of(places, known)
        return found

    with choosing(context, "decode", Means(engine, master, conf, quiet), measured) as work:
        names = [name.strip() for name in columns.split(",") if name.strip()]
        if work.spark is None:
            pipeline = import_module("waypost.spark.pipelines.decode_in_memory")
            found = pipeline.decoded_table(pipeline.read_packets(places, known))
            write = pipeline.write_table
        else:
            pipeline = import_module("waypost.spark.pipelines.decode")
            found, write = pipeline.decoded(_packets(work.spark, places, known)), pipeline.write
        if out:
            write(found, target, form or "parquet", names)
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
                f"the input {name} is in this folder and would be deleted; specify another folder", param_hint="--out"
            )


def _parts(name: str) -> tuple[str, ...]:
    return Path(place(name).removeprefix("file://")).resolve().parts


def _matches(part: str, pattern: str) -> bool:
    """Whether Spark may take one for the other: it knows {a,b} besides, which is taken for anything here."""
    return part == pattern or "{" in pattern or fnmatchcase(part, pattern)


def _packets(spark: "SparkSession", files: list[str], kind: str) -> "DataFrame":
    found: DataFrame
    match kind:
        case "parquet":
            found = spark.read.parquet(*files)
        case "archive":
            read = import_module("waypost.spark.pipelines.archived").read_archive
            found = reduce(lambda some, more: some.unionByName(more), [read(spark, name) for name in files])
        case _:
            found = import_module("waypost.spark.pipelines.decode").read_packets(spark, files, kind)
    return found
