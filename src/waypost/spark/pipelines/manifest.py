"""The manifests of an archive: its files, batch by batch, and their contents.

    _batches/BATCH/part-*.json      one line for every file, and for every queue and day in it: Entry
    _checkpoints/                   checkpoints of streams
    queue=.../ or data/             the files (waypost.spark.pipelines.archive)

Spark writes and reads them, so that an archive can be on any storage of Spark.
"""

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from waypost.arrow import schema as columns
from waypost.errors import InvalidParameter

BATCHES: Final = "_batches"
SHA256: Final = "sha256:"
# All columns from the queue manager and the packet. The body is in the packet too; the separate column is for
# searches.
MESSAGE: Final = pa.schema([*columns.PLACE, *columns.MESSAGE, columns.PACKET, columns.PACKET_ERROR])
ARCHIVED: Final = pa.schema([*MESSAGE, pa.field("date", pa.date32()), pa.field("batch", pa.string())])

_ENTRY: Final = (
    "batch string, path string, queue string, date date, messages long, malformed long, bytes long, file_bytes long, "
    "first_seq long, last_seq long, digest string, written timestamp"
)
# queue=.../date=.../batch=.../FILE or data/BATCH/FILE.
_PARTS_OF_A_TREE: Final = 4
_PARTS_OF_A_TABLE: Final = 3
_PATTERN: Final = frozenset("*?[]{}\\")


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query. A query with a new checkpoint has a new id."""

    query: str
    number: int

    def __str__(self) -> str:
        return f"{self.query}-{self.number}"


@dataclass(frozen=True, slots=True)
class Entry:
    """The messages of one queue and day in one file. `path` is relative to the archive.

    `bytes` is the size of the packets. `digest` is that of the file, after SHA256, or a number that depends on all
    packets but not on their order: Spark makes such numbers for files that it writes, as earlier versions did.
    """

    path: str
    queue: str
    date: date | None
    messages: int
    malformed: int
    bytes: int
    file_bytes: int
    first_seq: int | None
    last_seq: int | None
    digest: str


def digest(*names: str) -> Column:
    """A digest of the values of all rows, in any order. A duplicate row counts again."""
    return sf.coalesce(sf.sum(sf.xxhash64(*names).cast("decimal(20,0)")).cast("string"), sf.lit("0"))


def entries_of(spark: SparkSession, path: str, files: str) -> list[Entry]:
    """The entries for the files of a batch, made by reading the files. `files` is a glob."""
    try:
        found = spark.read.option("basePath", path).parquet(files)
    except AnalysisException as error:
        if is_path_missing(error):
            return []
        raise
    return [Entry(**row.asDict()) for row in summed(found).collect()]


def summed(files: DataFrame) -> DataFrame:
    """The fields of entries, made from files of an archive."""
    parts = sf.split("_metadata.file_path", "/")
    depth = sf.when(sf.element_at(parts, -2).startswith("batch="), _PARTS_OF_A_TREE).otherwise(_PARTS_OF_A_TABLE)
    encoded = sf.array_join(sf.slice(parts, -depth, depth), "/")
    # The name of a file may have escapes, and Spark's path has escaped them again.
    name = sf.url_decode(sf.replace(encoded, sf.lit("+"), sf.lit("%2B")))
    return files.groupBy(name.alias("path"), "queue", "date").agg(
        sf.count("*").alias("messages"),
        sf.count("packet_error").alias("malformed"),
        sf.coalesce(sf.sum(sf.length("packet")), sf.lit(0)).alias("bytes"),
        sf.first("_metadata.file_size").alias("file_bytes"),
        sf.min("seq").alias("first_seq"),
        sf.max("seq").alias("last_seq"),
        digest("queue", "seq", "packet").alias("digest"),
    )


def write_manifest(spark: SparkSession, path: str, batch: Batch, entries: list[Entry]) -> None:
    """Write the manifest of a batch. From then on, the batch is in the archive."""
    written = datetime.now(UTC)
    rows = [asdict(entry) | {"batch": str(batch), "written": written} for entry in entries]
    place = f"{path}/{BATCHES}/{batch}"
    spark.createDataFrame(rows, _ENTRY).coalesce(1).write.mode("overwrite").json(place)
    folder = local_folder(place)
    if folder is not None:
        flush(path, (f"{BATCHES}/{batch}/{file.name}" for file in folder.iterdir()))


def has_manifest(spark: SparkSession, path: str, batch: Batch) -> bool:
    """True if the batch has a whole manifest. A run that was killed while it wrote leaves only the folder."""
    found = _read(spark, f"{path}/{BATCHES}/{batch}")
    return found is not None and not found.isEmpty()


def noted(spark: SparkSession, path: str) -> DataFrame:
    """All entries of all manifests; empty if the archive has no manifest."""
    found = _read(spark, f"{path}/{BATCHES}")
    return spark.createDataFrame([], _ENTRY) if found is None else found


def _read(spark: SparkSession, place: str) -> DataFrame | None:
    try:
        found = spark.read.schema(_ENTRY).option("recursiveFileLookup", "true").json(place)
        # A line that was cut short by a crash of the computer does not count.
        return found.where("path is not null")
    except AnalysisException as error:
        if is_path_missing(error):
            return None
        raise


def check_path(path: str) -> None:
    """Raises InvalidParameter for a path with characters that Spark reads as a pattern: Spark would write files there
    and not find them again."""
    if _PATTERN.intersection(path):
        raise InvalidParameter(
            f"the path {path} must not contain any of {' '.join(sorted(_PATTERN))}; choose another path"
        )


def is_path_missing(error: AnalysisException) -> bool:
    return error.getCondition() == "PATH_NOT_FOUND"


def is_on_disk(path: str) -> bool:
    """True if a path of Spark is on a disk of this computer."""
    return urlsplit(path).scheme in ("", "file")


def local_path(path: str) -> Path:
    """The absolute path of a folder on a disk of this computer: workers may run in another folder."""
    place = urlsplit(path)
    return Path(unquote(place.path) if place.scheme else path).absolute()


def local_folder(path: str) -> Path | None:
    """The folder of a path of Spark on a disk of this computer, or None if the path is on other storage."""
    if not is_on_disk(path):
        return None
    folder = local_path(path)
    return folder if folder.is_dir() else None


def flush(path: str, files: Iterable[str]) -> None:
    """Force files below the path and their folders to disk, which Spark does not do.

    Storage other than a disk of this computer keeps closed files safe.
    """
    root = local_folder(path)
    if root is None:
        return
    folders = {root}
    for name in files:
        _force(root / name)
        folders.update(root / parent for parent in Path(name).parents)
    for folder in folders:
        _force(folder)


def _force(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
