"""Decode: raw packets to the columns of messages, out of captures, files of packets, hexadecimal text and archives.

    packets = read_packets(spark, ["traffic.pcapng"])
    decoded(packets).select("label", "dest_queue", "packet_error").show()

A packet that is none has null in every column of a message, and `packet_error` tells why.
"""

import re
from collections.abc import Callable, Iterator, Sequence
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
from waypost.spark.pipelines.manifest import local_folder

PACKET: Final = "packet"
# What Spark has written.
_OURS: Final = re.compile(r"\.?(?:part-|_SUCCESS|_temporary$)")
# What a packet tells, with its text if it has one.
DECODED: Final = tuple(field.name for field in (*schema.MESSAGE, schema.PACKET_ERROR, *schema.BODY_TEXT))

# A file, and what a capture tells of each packet in it.
CAPTURED: Final = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("captured_time", schema.TIMESTAMP),
        pa.field("captured_from", pa.string()),
        pa.field("captured_to", pa.string()),
        schema.PACKET,
        # Why the file could not be read to its end: in a row of its own, which has no packet.
        pa.field("file_error", pa.string()),
    ]
)

_Batches = Iterator[Any]


def read_packets(spark: SparkSession, files: Sequence[str], kind: str = "") -> DataFrame:
    """The packets of files that every worker can open: captures, raw packets or hexadecimal text, one task for each.

    `kind` is pcap, raw or hex, and is found out unless given. Raises InvalidParameter if there is no such kind.
    """
    if kind and kind not in list(Kind):
        raise InvalidParameter(f"files are {', '.join(Kind)}, not {kind!r}")
    names = spark.createDataFrame([(name,) for name in files], "file string").repartition(len(files), "file")
    return names.mapInArrow(_reader(Kind(kind) if kind else None), from_arrow_schema(CAPTURED))


def _reader(kind: Kind | None) -> Callable[[_Batches], _Batches]:
    def read(batches: _Batches) -> _Batches:
        for batch in batches:
            for name in batch.column("file").to_pylist():
                yield from _packets_of(name, kind)

    return read


def _packets_of(name: str, kind: Kind | None) -> _Batches:
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
    """The rows with what the packets in their column `packet` say. Columns of these names are made anew.

    Raises InvalidParameter without such a column, or for one that no packet has.
    """
    if dict(packets.dtypes).get(PACKET) != "binary":
        raise InvalidParameter(
            f"there is no column {PACKET} of binary to decode; there are {', '.join(packets.columns)}"
        )
    unknown = [name for name in columns if name not in DECODED]
    if unknown:
        raise InvalidParameter(f"a packet has no column {unknown[0]!r}; there are {', '.join(DECODED)}")
    kept = [name for name in packets.columns if name not in columns]
    given = packets.select(*kept)
    made = from_arrow_schema(pa.schema([schema.ALL.field(name) for name in columns]))
    return given.mapInArrow(_decoder(tuple(columns)), StructType([*given.schema.fields, *made.fields]))


def _decoder(columns: tuple[str, ...]) -> Callable[[_Batches], _Batches]:
    def run(batches: _Batches) -> _Batches:
        for batch in batches:
            made = decode(Packets.of_array(batch.column(PACKET)), columns, on_malformed=OnMalformed.QUARANTINE)
            arrays = [*batch.columns, *made.columns]
            yield pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, *columns])

    return run


def write(rows: DataFrame, path: str, form: str, columns: Sequence[str]) -> None:
    """As parquet, csv or json; all columns if none are given. In CSV and JSON, ids are hexadecimal and bytes base64.

    Files of an earlier run are replaced. Raises InvalidParameter for a column that there is not, and for a file or a
    folder with something else in it, which would be gone.
    """
    _check_place(path)
    unknown = [name for name in columns if name not in rows.columns]
    if unknown:
        raise InvalidParameter(f"there is no column {unknown[0]!r}; there are {', '.join(rows.columns)}")
    chosen = rows.select(*columns) if columns else rows
    if form != "parquet":
        texts = {name: sf.hex(name) if name.endswith("_id") else sf.base64(name) for name in _binaries(chosen)}
        chosen = chosen.withColumns(texts)
    writer = chosen.write.mode("overwrite").option("compression", "zstd" if form == "parquet" else "none")
    writer.options(header=True).format(form).save(path)


def _check_place(path: str) -> None:
    folder = local_folder(path)
    # What follows the scheme is a path as it stands.
    file = Path(path.removeprefix("file:"))
    if folder is None and file.exists() and not file.is_dir():
        raise InvalidParameter(f"{path} is a file, which would be deleted; name a folder")
    others = [] if folder is None else [each.name for each in folder.iterdir() if not _OURS.match(each.name)]
    if others:
        raise InvalidParameter(f"{path} has {others[0]!r} in it, which would be deleted; name a folder of its own")


def _binaries(rows: DataFrame) -> list[str]:
    return [name for name, kind in rows.dtypes if kind == "binary"]


def _binary(packets: Packets) -> Any:
    """An Arrow array with the packets, which are not copied."""
    buffers = [None, pa.py_buffer(packets.offsets), pa.py_buffer(packets.data)]
    return pa.Array.from_buffers(pa.binary(), len(packets), buffers)
