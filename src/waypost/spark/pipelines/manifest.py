"""The manifests of an archive: its files, batch by batch, and their contents.

    _batches/BATCH/part-*.json      one line for every file, and for every queue and day in it: Entry
    _checkpoints/                   checkpoints of streams
    queue=.../ or data/             the files (waypost.spark.pipelines.archive)

Spark writes and reads them, so that an archive can be on any storage of Spark; on a disk, this process can do so too.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from xxhash import xxh64_intdigest

from waypost.arrow import schema as columns
from waypost.spark.pipelines.notes import Form, Notes, SparkNotes
from waypost.spark.pipelines.storage import is_path_missing

BATCHES: Final = "_batches"
SHA256: Final = "sha256:"
# All columns from the queue manager and the packet. The body is in the packet too; the separate column is for
# searches.
MESSAGE: Final = pa.schema([*columns.PLACE, *columns.MESSAGE, columns.PACKET, columns.PACKET_ERROR])
ARCHIVED: Final = pa.schema([*MESSAGE, pa.field("date", pa.date32()), pa.field("batch", pa.string())])

# The fields of an entry, in the order of a line.
_NUMBERS: Final = ("messages", "malformed", "bytes", "file_bytes", "first_seq", "last_seq")
ENTRIES: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("queue", pa.string()),
        pa.field("date", pa.date32()),
        *(pa.field(name, pa.int64()) for name in _NUMBERS),
        pa.field("digest", pa.string()),
    ]
)
ENTRY: Final = Form(
    pa.schema([pa.field("batch", pa.string()), *ENTRIES, pa.field("written", columns.TIMESTAMP)]), key="path"
)
# queue=.../date=.../batch=.../FILE or data/BATCH/FILE.
_PARTS_OF_A_TREE: Final = 4
_PARTS_OF_A_TABLE: Final = 3
# Spark's seed of xxhash64.
_SEED: Final = 42
_LONG_BYTES: Final = 8


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


def digest_of(rows: Iterable[Iterable[str | int | bytes | None]]) -> str:
    """The same digest, of rows in memory."""
    return str(sum(map(_hash, rows)))


def _hash(values: Iterable[str | int | bytes | None]) -> int:
    """The xxhash64 of Spark: each value begins with the hash of those before it, and null changes nothing."""
    found = _SEED
    for value in values:
        if isinstance(value, int):
            found = xxh64_intdigest(value.to_bytes(_LONG_BYTES, "little", signed=True), found)
        elif value is not None:
            found = xxh64_intdigest(value.encode() if isinstance(value, str) else value, found)
    return found - (1 << 64) if found >> 63 else found


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


def write_manifest(notes: Notes, batch: Batch, entries: list[Entry]) -> None:
    """Write the manifest of a batch. From then on, the batch is in the archive."""
    written = datetime.now(UTC)
    lines = [asdict(entry) | {"batch": str(batch), "written": written} for entry in entries]
    notes.write(f"{BATCHES}/{batch}", ENTRY, lines)


def has_manifest(notes: Notes, batch: Batch) -> bool:
    """True if the batch has a whole manifest. A run that was killed while it wrote leaves only the folder."""
    return notes.has_any(f"{BATCHES}/{batch}", ENTRY)


def noted(spark: SparkSession, path: str) -> DataFrame:
    """All entries of all manifests; empty if the archive has no manifest."""
    return SparkNotes(spark, path).rows(BATCHES, ENTRY)
