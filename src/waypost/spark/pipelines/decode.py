"""Decode raw packets to the columns of messages, from captures, files of packets, hexadecimal text and archives.

    packets = read_packets(spark, ["traffic.pcapng"])
    decoded(packets).select("label", "dest_queue", "packet_error").show()

A malformed packet has null in every column of a message, and the reason in `packet_error`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from waypost.arrow import schema
from waypost.arrow.captures import captured
from waypost.arrow.decoder import decode
from waypost.arrow.packets import OnMalformed, Packets
from waypost.captures.inputs import Kind
from waypost.captures.source import InputError
from waypost.errors import InvalidParameter
from waypost.spark.pipelines.expressions import Listed, listed
from waypost.spark.pipelines.storage import local_folder

PACKET: Final = "packet"
# Files that Spark writes.
OURS: Final = re.compile(r"\.?(?:part-|_SUCCESS|_temporary$)")
# Columns from a packet, with the text of its body.
DECODED: Final = tuple(field.name for field in (*schema.MESSAGE, schema.PACKET_ERROR, *schema.BODY_TEXT))

# Columns from a file: its name, and the facts that a capture has on each packet.
CAPTURED: Final = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("captured_time", schema.TIMESTAMP),
        pa.field("captured_from", pa.string()),
        pa.field("captured_to", pa.string()),
        schema.PACKET,
        # Reason why the file was not read to its end: in a separate row without a packet.
        pa.field("file_error", pa.string()),
    ]
)

_Batches = Iterator[Any]


def read_packets(spark: SparkSession, files: Sequence[str], kind: str = "") -> DataFrame:
    """The packets of files that every worker can open: captures, raw packets or hexadecimal text, one task per file.

    `kind` is pcap, raw or hex (default: the kind that the content shows). Raises InvalidParameter for another kind.
    """
    known = kind_of(kind)
    names = spark.createDataFrame([(name,) for name in files], "file string").repartition(len(files), "file")
    return names.mapInArrow(_reader(known), from_arrow_schema(CAPTURED))


def kind_of(kind: str) -> Kind | None:
    """The kind of files; None for the kind that their content shows. Raises InvalidParameter for another kind."""
    if kind and kind not in list(Kind):
        raise InvalidParameter(f"the type of a file must be one of {', '.join(Kind)}, not {kind!r}")
    return Kind(kind) if kind else None


def _reader(kind: Kind | None) -> Callable[[_Batches], _Batches]:
    def read(batches: _Batches) -> _Batches:
        for batch in batches:
            for name in batch.column("file").to_pylist():
                yield from packets_of(name, kind)

    return read


def packets_of(name: str, kind: Kind | None) -> _Batches:
    """The packets of one file, with the columns CAPTURED."""
    try:
        for found in captured(name, kind=kind):
            size = len(found.packets)
            columns = [pa.array([name] * size), found.times, found.sources, found.destinations]
            yield pa.RecordBatch.from_arrays(
                [*columns, _binary(found.packets), pa.nulls(size, pa.string())], schema=CAPTURED
            )
    except InputError as error:
        yield pa.RecordBatch.from_pylist([{"file": name, "file_error": error.sentence}], schema=CAPTURED)


def decoded(packets: DataFrame, columns: Sequence[str] = DECODED) -> DataFrame:
    """Add columns that are decoded from the column `packet`. Existing columns with these names are replaced.

    Raises InvalidParameter if `packet` is missing, or for a column that packets do not have.
    """
    check_packets(packets.columns, has_packets=dict(packets.dtypes).get(PACKET) == "binary")
    unknown = [name for name in columns if name not in DECODED]
    if unknown:
        raise InvalidParameter(f"a packet has no column {unknown[0]!r}; the columns are {', '.join(DECODED)}")
    kept = [name for name in packets.columns if name not in columns]
    given = packets.select(*kept)
    made = from_arrow_schema(pa.schema([schema.ALL.field(name) for name in columns]))
    return given.mapInArrow(_decoder(tuple(columns)), StructType([*given.schema.fields, *made.fields]))


def check_packets(names: Sequence[str], *, has_packets: bool) -> None:
    """Raises InvalidParameter if the column `packet` is not among the columns with these names."""
    if not has_packets:
        raise InvalidParameter(
            f"the binary column {PACKET} with the packets is missing; the columns are {', '.join(names)}"
        )


def _decoder(columns: tuple[str, ...]) -> Callable[[_Batches], _Batches]:
    return lambda batches: (decoded_batch(batch, columns) for batch in batches)


def decoded_batch(batch: Any, columns: Sequence[str]) -> Any:
    """A RecordBatch with columns that are decoded from its column `packet`."""
    made = decode(Packets.of_array(batch.column(PACKET)), columns, on_malformed=OnMalformed.QUARANTINE)
    return pa.RecordBatch.from_arrays([*batch.columns, *made.columns], names=[*batch.schema.names, *columns])


def write(rows: DataFrame, path: str, form: str, columns: Sequence[str]) -> None:
    """Write rows as parquet, csv or json, by default all columns. CSV and JSON have ids in hex and bytes in base64.

    Files of an earlier run are replaced. Raises InvalidParameter for an unknown column, and if the path is a file or a
    folder with other files, which would be deleted.
    """
    check_output(path, rows.columns, columns)
    chosen = rows.select(*columns) if columns else rows
    if form != "parquet":
        # Spark breaks base64 into lines of 76 characters, which would break the rows of CSV into many lines.
        in_one_line = {name: sf.replace(sf.base64(name), sf.lit("\r\n"), sf.lit("")) for name in _binaries(chosen)}
        texts = {name: sf.hex(name) if is_identifier(name) else text for name, text in in_one_line.items()}
        chosen = chosen.withColumns(texts)
    writer = chosen.write.mode("overwrite").option("compression", "zstd" if form == "parquet" else "none")
    writer.options(header=True).format(form).save(path)


def is_identifier(name: str) -> bool:
    """True for columns with bytes that texts show in hex."""
    return name.endswith("_id")


def check_output(path: str, there: Sequence[str], columns: Sequence[str]) -> None:
    """Raises InvalidParameter if one of the columns is not there, and if the path has files that are not ours."""
    unknown = [name for name in columns if name not in there]
    if unknown:
        raise InvalidParameter(f"unknown column {unknown[0]!r}; the columns are {', '.join(there)}")
    folder = local_folder(path)
    # The text after the scheme is a path, without escapes.
    file = Path(path.removeprefix("file:"))
    if folder is None and file.exists() and not file.is_dir():
        raise InvalidParameter(f"{path} is a file, which would be deleted; specify a folder instead")
    others = [] if folder is None else [each.name for each in folder.iterdir() if not OURS.match(each.name)]
    if others:
        raise InvalidParameter(f"{path} contains {others[0]!r}, which would be deleted; specify a new or empty folder")


def _binaries(rows: DataFrame) -> list[str]:
    return [name for name, kind in rows.dtypes if kind == "binary"]


def _binary(packets: Packets) -> Any:
    """An Arrow array with the packets, which are not copied."""
    buffers = [None, pa.py_buffer(packets.offsets), pa.py_buffer(packets.data)]
    return pa.Array.from_buffers(pa.binary(), len(packets), buffers)


# --- Counts for a report ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counts:
    """The messages and the malformed packets; `kinds` is None if bodies were not decoded."""

    good: int
    bad: int
    classes: Listed
    queues: Listed
    kinds: Listed | None
    errors: Listed
    failed: Listed


def count(decoded: DataFrame) -> Counts:
    """Count decoded packets by class, destination and body, malformed packets and failed files. Rows are read once.

    The rows must have all columns of `decoded`.
    """
    kept = decoded.drop("body", "packet", "extension", "body_text").persist()
    try:
        packets = kept.where("file_error is null") if "file_error" in kept.columns else kept
        sound, malformed = packets.where("packet_error is null"), packets.where("packet_error is not null")
        return Counts(
            good=sound.count(),
            bad=malformed.count(),
            classes=_counted(sound, "message_class"),
            queues=_queues(sound),
            kinds=_counted(sound, "body_kind") if "body_kind" in kept.columns else None,
            errors=_counted(malformed, "packet_error"),
            failed=_failed(kept),
        )
    finally:
        kept.unpersist()


def _failed(rows: DataFrame) -> Listed:
    if "file_error" not in rows.columns:
        return Listed([], 0)
    return listed(rows.where("file_error is not null").select("file", "file_error").orderBy("file"))


def _counted(rows: DataFrame, name: str) -> Listed:
    found = rows.groupBy(name).agg(sf.count("*").alias("packets"))
    return listed(found.orderBy(sf.desc("packets"), name))


def _queues(rows: DataFrame) -> Listed:
    found = rows.groupBy("dest_queue").agg(
        sf.count("*").alias("packets"),
        sf.coalesce(sf.sum("body_size"), sf.lit(0)).alias("bytes"),
        sf.countDistinct("source_qm").alias("senders"),
        sf.min("sent_time").alias("first"),
        sf.max("sent_time").alias("last"),
    )
    return listed(found.orderBy(sf.desc("packets"), "dest_queue"))
