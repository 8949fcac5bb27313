"""Sources of a pipeline: queues of a daemon, archives and Parquet files, by the names that an operator gives."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from waypost.arrow.decoder import decode
from waypost.arrow.packets import OnMalformed, Packets
from waypost.arrow.schema import ALL
from waypost.errors import InvalidParameter
from waypost.spark.options import read_options
from waypost.spark.origins import open_origin
from waypost.spark.pipelines.archive_writer import IN_FOLDERS
from waypost.spark.pipelines.archived import entries_on_disk, read_archive
from waypost.spark.pipelines.decode import DECODED, PACKET, decoded
from waypost.spark.pipelines.manifest import ARCHIVED
from waypost.spark.pipelines.report_parts import counted
from waypost.spark.pipelines.storage import OnlyWithSpark, local_path
from waypost.spark.ranges import chosen
from waypost.spark.source import with_token

# .\private$\orders is a queue, ./orders a folder.
_PATH: Final = re.compile(r"/|~/|\.{1,2}(?:/|$)|\w+:/")
_URL: Final = re.compile(r"\w+:/")


def is_path(source: str) -> bool:
    """True if a source names files, and not a queue."""
    return _PATH.match(source) is not None


def read_messages(
    spark: SparkSession, sources: Sequence[str], columns: Sequence[str], options: Mapping[str, str]
) -> DataFrame:
    """These columns of all sources together: folders are archives, *.parquet are plain files, other names are queues.
    Columns that files lack are decoded from their column `packet`.

    `options` are those of format("msmq"). Without sources, they must name queues. Raises InvalidParameter for files
    that have neither a column nor the packets to decode it from.
    """
    paths = [source for source in sources if is_path(source)]
    queues = [source for source in sources if not is_path(source)]
    found = [_chosen(_read_path(spark, path), path, columns) for path in paths]
    if queues or not paths:
        # A queue is read with the requested columns only: the bytes of others are not decoded.
        reader = spark.read.format("msmq").options(**options).schema(schema_of(columns))
        found.append((reader.option("queues", ",".join(queues)) if queues else reader).load())
    return reduce(DataFrame.unionByName, found)


def schema_of(columns: Sequence[str]) -> StructType:
    return StructType([StructField(name, from_arrow_type(ALL.field(name).type)) for name in columns])


def _read_path(spark: SparkSession, path: str) -> DataFrame:
    if not _URL.match(path):
        # Java may have started in another folder.
        path = str(Path(path).expanduser().absolute())
    return spark.read.parquet(path) if path.endswith(".parquet") else read_archive(spark, path)


def _chosen(rows: DataFrame, path: str, columns: Sequence[str]) -> DataFrame:
    # Spark ignores the case of names.
    there = {name.lower() for name in rows.columns}
    missing = [name for name in columns if name not in there]
    if not missing:
        return rows.select(*columns)
    made = DECODED if dict(rows.dtypes).get(PACKET) == "binary" else ()
    lost = [name for name in missing if name not in made]
    if lost:
        raise InvalidParameter(
            f"{path} has neither a column {lost[0]!r} nor a column `packet`; use files with one of these columns"
        )
    given = [name for name in columns if name in there and name != PACKET]
    return decoded(rows.select(*given, PACKET), missing).select(*columns)


# --- Without Spark ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """Messages to read: their sources and columns, and the options of format("msmq")."""

    sources: Sequence[str]
    columns: Sequence[str]
    options: Mapping[str, str]

    @property
    def paths(self) -> list[str]:
        return [source for source in self.sources if is_path(source)]

    @property
    def queues(self) -> dict[str, str] | None:
        """Options that choose the queues; None if only files are read."""
        names = [source for source in self.sources if not is_path(source)]
        if names:
            return {**self.options, "queues": ",".join(names)}
        return None if self.sources else dict(self.options)

    def data_frame(self, spark: SparkSession) -> DataFrame:
        return read_messages(spark, self.sources, self.columns, self.options)


@dataclass(frozen=True, slots=True)
class Size:
    """The number of messages and their bytes. For `files` of packets, the number of messages is an estimate."""

    messages: int
    bytes: int
    files: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.messages + other.messages, self.bytes + other.bytes, self.files + other.files)

    def __str__(self) -> str:
        count, word = (self.files, "file") if self.files else (self.messages, "message")
        return f"the input has {counted(count, word)} and {self.bytes / (1 << 20):,.1f} MiB"


def size_of(wanted: Wanted, token: str | None) -> Size:
    """The number and size of the messages that a read finds. Raises OnlyWithSpark for files on other storage."""
    total = Size(0, 0)
    for path in wanted.paths:
        if _URL.match(path):
            raise OnlyWithSpark(f"{path} is not on a local disk")
        for file, _ in files_of(path):
            metadata = metadata_of(file)
            total += Size(metadata.num_rows, file.stat().st_size)
    return total if wanted.queues is None else total + size_of_queues(wanted.queues, token)


def size_of_entries(entries: Iterable[Mapping[str, Any]]) -> Size:
    """The number and size of the messages in entries of an archive."""
    return sum((Size(entry["messages"], entry["bytes"]) for entry in entries), Size(0, 0))


def size_of_queues(options: Mapping[str, str], token: str | None) -> Size:
    """The number and size of the messages of queues. `options` are those of format("msmq")."""
    asked = read_options(options, token)
    with closing(open_origin(asked.endpoint)) as origin:
        return sum((Size(queue.count, queue.bytes) for queue in chosen(origin, asked)), Size(0, 0))


def read_table(wanted: Wanted, token: str | None) -> Any:
    """The same messages and columns as `read_messages`, in a table in memory. Files are on a disk of this computer."""
    columns = pa.schema([ALL.field(name) for name in wanted.columns])
    found: list[Any] = [
        _of_file(file, folders, wanted.columns) for path in wanted.paths for file, folders in files_of(path)
    ]
    if wanted.queues is not None:
        source = with_token(token)(wanted.queues)
        reader = source.reader(schema_of(wanted.columns))
        batches: list[Any] = [batch for part in reader.partitions() for batch in reader.read(part)]
        found.append(pa.Table.from_batches([each.cast(columns) for each in batches], columns))
    return pa.concat_tables([columns.empty_table(), *(each.cast(columns) for each in found)])


def read_archive_table(
    path: str, columns: Sequence[str] = ARCHIVED.names, *, batches: Collection[str] | None = None
) -> Any:
    """The messages of an archive on a disk, or of some of its batches, in a table in memory.

    Raises InvalidParameter if the path is not an archive, or one of its files is gone.
    """
    schema = pa.schema([ARCHIVED.field(name) for name in columns])
    found = [_of_file(file, folders, columns) for file, folders in files_of_archive(path, batches=batches)]
    return pa.concat_tables([schema.empty_table(), *(each.cast(schema) for each in found)])


def files_of(path: str) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """The Parquet files of a source. For those of an archive, the values that the names of folders give all rows."""
    place = Path(path).expanduser()
    if not path.endswith(".parquet"):
        yield from files_of_archive(str(place))
        return
    place = place.absolute()
    found = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    yield from ((file, None) for file in found)


def files_of_archive(path: str, *, batches: Collection[str] | None = None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The files of an archive on a disk, or of some of its batches, with the values that the names of folders give."""
    entries = {entry["path"]: entry for entry in entries_on_disk(path, batches=batches)}
    for name in sorted(entries):
        values = {each: entries[name][each] for each in IN_FOLDERS}
        yield local_path(path) / name, values if name.startswith(f"{IN_FOLDERS[0]}=") else {}


def metadata_of(file: Path) -> Any:
    """The metadata of a Parquet file. Raises InvalidParameter if the file is not there, or is not one."""
    try:
        return pq.read_metadata(file)
    except FileNotFoundError:
        raise InvalidParameter(f"{file} does not exist; verify the archive, or specify another file") from None
    except (OSError, pa.ArrowException) as error:
        raise InvalidParameter(f"cannot read {file}: {error}; specify Parquet files") from None


def _of_file(file: Path, folders: Mapping[str, Any] | None, columns: Sequence[str]) -> Any:
    """The columns of one file. Columns that it lacks are decoded from its packets."""
    is_archived, given = folders is not None, folders or {}
    names = {field.name.lower(): field.name for field in metadata_of(file).schema.to_arrow_schema()}
    inside = [name for name in columns if name in names and name not in given]
    missing = [name for name in columns if name not in names and name not in given]
    # An archive may be from before a column.
    empty = [name for name in missing if is_archived and name in ARCHIVED.names]
    made = [name for name in missing if name not in empty]
    lost = [name for name in made if name not in DECODED or PACKET not in names]
    if lost:
        raise InvalidParameter(
            f"{file} has neither a column {lost[0]!r} nor a column `packet`; use files with one of these columns"
        )
    read = dict.fromkeys([*inside, *([PACKET] if made else [])])
    table = pq.ParquetFile(file).read(columns=[names[name] for name in read])
    found = {name: table[names[name]] for name in read}
    for name in (*given, *empty):
        found[name] = pa.array([given.get(name)] * table.num_rows, ARCHIVED.field(name).type)
    if made:
        packets = pa.concat_arrays(found[PACKET].chunks) if found[PACKET].num_chunks else pa.array([], pa.binary())
        rows = decode(Packets.of_array(packets), made, on_malformed=OnMalformed.QUARANTINE)
        found |= {name: rows.column(name) for name in made}
    return pa.table({name: found[name] for name in columns})
