"""Archive: write the messages of queues to Parquet files, and remove them from their queues once they are safe there.

    archive_queues(spark, {"queue": "orders;journal", "mode": "drain"}, "/archive").awaitTermination()
    read_archive(spark, "/archive").where("queue like '%orders%'").show()

The options are those of `format("msmq")`, with the mode `drain` (or `peek` to leave the messages in their queues). The
steps of a batch, and the action of the next run if this one ends there:

    1. Spark notes the queues and ranges of the batch.           The same batch begins again.
    2. Tasks write files with hidden names, and force them to    They are removed and written again: same batch, same
       disk; the driver renames them.                            folder.
    3. The table of Delta or Iceberg takes the files over.       It reports that it has the batch, and the files stay.
    4. The manifest of the batch is written, and forced to disk. The batch is skipped: it is archived.
    5. Spark notes that the batch is done.
    6. The source removes the range from the queues.             It is removed when the next run begins.

So a message is in the queue until step 6 and in the archive from step 4 on. Readers use the manifests, which name
whole files of whole batches; other files, left by a killed run, are ignored. A batch has the name of its query and
its number: a query with a lost checkpoint has a new name, and cannot replace archived batches.

`archive_on_disk` takes the same steps without Spark, for small queues, in seconds. It writes the same files and keeps
the same checkpoint, and each continues the archive of the other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from waypost.errors import InvalidParameter
from waypost.spark.pipelines.archive_writer import (
    IN_FOLDERS,
    Messages,
    entries_on_disk,
    write_files,
    written_by_tasks,
)
from waypost.spark.pipelines.checkpoints import Checkpoint, run_available
from waypost.spark.pipelines.in_memory import grouped, ordered
from waypost.spark.pipelines.manifest import (
    BATCHES,
    ENTRY,
    MESSAGE,
    Batch,
    Entry,
    entries_of,
    has_manifest,
    noted,
    write_manifest,
)
from waypost.spark.pipelines.notes import DiskNotes, Line, Notes, SparkNotes
from waypost.spark.pipelines.storage import OnlyWithSpark, check_path, flush, is_on_disk, local_path, require_disk
from waypost.spark.source import with_token
from waypost.spark.stream_ranges import RangeStream

FORMATS: Final = ("parquet", "delta", "iceberg")
CHECKPOINTS: Final = "_checkpoints"
# An archive has malformed packets too.
QUARANTINE: Final = {"onMalformed": "quarantine"}


class Table(Protocol):
    """The table that the files of a batch belong to, and their places below the path."""

    def write(self, messages: Messages, batch: Batch) -> list[Entry] | None:
        """Write the files of a batch, in place of those that it already has.

        Returns their entries, or None on storage where Spark writes them: then the files have to be read for entries.
        Messages that are not a DataFrame are written to a disk.
        """

    def files(self, batch: Batch) -> str:
        """The files of a batch, as a glob."""

    def has(self, batch: Batch) -> bool:
        """True if the table has taken the batch over."""

    def commit(self, batch: Batch, entries: list[Entry]) -> None:
        """Take the batch over, for all readers at once."""


@dataclass(frozen=True, slots=True)
class ParquetTree:
    """queue=.../date=.../batch=.../part-*.parquet: plain files, part of the archive once a manifest names them."""

    path: str

    def write(self, messages: Messages, batch: Batch) -> list[Entry] | None:
        if is_on_disk(self.path):
            return write_files(messages, local_path(self.path), batch, is_tree=True)
        assert isinstance(messages, DataFrame), "only Spark writes to storage that is not a local disk"
        writer = _named(messages, batch).write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.option("compression", "zstd").partitionBy(*IN_FOLDERS).parquet(self.path)
        return None

    def files(self, batch: Batch) -> str:
        return f"{self.path}/queue=*/date=*/batch={batch}"

    def has(self, batch: Batch) -> bool:  # noqa: ARG002
        return False

    def commit(self, batch: Batch, entries: list[Entry]) -> None:
        """Do nothing: the manifest makes the files part of the archive."""


@dataclass(frozen=True, slots=True)
class FlatFiles:
    """data/BATCH/part-*.parquet, for tables that keep their own list of files and need every column inside them."""

    path: str

    def write(self, messages: Messages, batch: Batch) -> list[Entry] | None:
        if is_on_disk(self.path):
            return write_files(messages, local_path(self.path), batch, is_tree=False)
        assert isinstance(messages, DataFrame), "only Spark writes to storage that is not a local disk"
        _named(messages, batch).write.mode("overwrite").option("compression", "zstd").parquet(self.files(batch))
        return None

    def files(self, batch: Batch) -> str:
        return f"{self.path}/data/{batch}"


def table_of(path: str, kind: str) -> Table:
    """The table at the path. Raises InvalidParameter if the kind is unknown or its library is not installed."""
    if kind not in FORMATS:
        raise InvalidParameter(f"the format of an archive must be one of {', '.join(FORMATS)}, not {kind!r}")
    if kind == "parquet":
        return ParquetTree(path)
    try:
        home = import_module(f"waypost.spark.pipelines.{kind}")
    except ModuleNotFoundError as error:
        raise InvalidParameter(
            f"an archive in the format {kind} requires the package {error.name}, which is not installed; run "
            f"pip install 'waypost[{kind}]'"
        ) from None
    found: Table = home.table(path)
    return found


def messages_of(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The stream of messages for an archive, malformed packets included. `options` are those of format("msmq")."""
    reader = spark.readStream.format("msmq").schema(from_arrow_schema(MESSAGE)).options(**QUARANTINE)
    return reader.options(**options).load()


def archive_queues(
    spark: SparkSession, options: Mapping[str, str], path: str, *, kind: str = "parquet", checkpoint: str = ""
) -> StreamingQuery:
    """Archive the current messages of queues, as `archive` does. `options` are those of format("msmq").

    On a disk, the tasks that read the messages write the files: the messages do not pass through Spark.
    """
    if not is_on_disk(path):
        return archive(messages_of(spark, options), path, kind=kind, checkpoint=checkpoint)
    entries = written_by_tasks(
        spark, {**QUARANTINE, **options}, local_path(path.rstrip("/")), is_tree=kind == "parquet"
    )
    return archive(entries, path, kind=kind, checkpoint=checkpoint)


def archive(messages: DataFrame, path: str, *, kind: str = "parquet", checkpoint: str = "") -> StreamingQuery:
    """Archive the current messages of a stream in batches, and end. A later call with the same checkpoint continues."""
    path = path.rstrip("/")
    table = checked_table(SparkNotes(messages.sparkSession, path), path, kind)

    def each(batch: DataFrame, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query, "Spark must set the id of the query for each batch"
        archive_batch(batch, path, table, Batch(query, number))

    writer = messages.writeStream.foreachBatch(each).trigger(availableNow=True)
    return writer.option("checkpointLocation", checkpoint or default_checkpoint(path)).start()


def default_checkpoint(path: str) -> str:
    return f"{path}/{CHECKPOINTS}/default"


def archive_batch(messages: Messages, path: str, table: Table, batch: Batch) -> None:
    """Do steps 2 to 4, or nothing for a batch that has a manifest."""
    notes = SparkNotes(messages.sparkSession, path) if isinstance(messages, DataFrame) else DiskNotes(path)
    if has_manifest(notes, batch):
        return
    entries = None if table.has(batch) else table.write(messages, batch)
    if entries is None:
        entries = _read_entries(messages, path, table, batch)
    flush(path, {entry.path for entry in entries})
    if entries and not table.has(batch):
        table.commit(batch, entries)
    write_manifest(notes, batch, entries)


def _read_entries(messages: Messages, path: str, table: Table, batch: Batch) -> list[Entry]:
    """The entries of files that are already there."""
    if is_on_disk(path):
        return entries_on_disk(local_path(path), batch)
    assert isinstance(messages, DataFrame), "only Spark reads from storage that is not a local disk"
    return entries_of(messages.sparkSession, path, table.files(batch))


def _named(messages: DataFrame, batch: Batch) -> DataFrame:
    """Add the batch, and the day on which a message arrived, or was sent if its arrival is unknown."""
    day = sf.to_date(sf.coalesce("arrived_time", "sent_time"))
    return messages.select(*MESSAGE.names).withColumns({"date": day, "batch": sf.lit(str(batch))})


def checked_table(notes: Notes, path: str, kind: str) -> Table:
    """The table at the path. Raises InvalidParameter if Spark cannot use the path, for an unknown kind, and if the
    archive has another kind: readers could not read a mixture."""
    check_path(path)
    table = table_of(path, kind)
    first = notes.first(BATCHES, ENTRY)
    if first is not None and first["path"].startswith("queue=") is not (kind == "parquet"):
        other = "of Parquet files" if first["path"].startswith("queue=") else "in the format delta or iceberg"
        raise InvalidParameter(f"{path} is an archive {other}; use the format of this archive, or another folder")
    return table


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run of the archive: its entries, summed up for every queue and day.

    `stored_bytes` is the size of all files, each counted once: a file may hold several queues and days.
    """

    path: str
    days: Sequence[Line]
    batches: int
    stored_bytes: int

    @classmethod
    def since(cls, spark: SparkSession, path: str, began: datetime) -> "Outcome":
        """The result of a run of Spark: the manifests since it began."""
        entries = noted(spark, path).where(sf.col("written") >= sf.lit(began.astimezone(UTC)))
        return cls.of(path, [row.asDict() for row in entries.collect()])

    @classmethod
    def of(cls, path: str, entries: Sequence[Line]) -> "Outcome":
        days = grouped(entries, lambda entry: (entry["queue"], entry["date"]))
        files = {entry["path"]: entry["file_bytes"] for entry in entries}
        return cls(
            path,
            ordered((_day(queue, date, each) for (queue, date), each in days.items()), "queue", "date"),
            len({entry["batch"] for entry in entries}),
            sum(files.values()),
        )


def _day(queue: str, date: Any, entries: Sequence[Line]) -> Line:
    """Batches, files, messages, bytes and the range of arrival numbers for a queue and day."""
    return {
        "queue": queue,
        "date": date,
        "batches": len({entry["batch"] for entry in entries}),
        "files": len(entries),
        **{name: sum(entry[name] for entry in entries) for name in ("messages", "malformed", "bytes")},
        "first_seq": min(_known(entries, "first_seq"), default=None),
        "last_seq": max(_known(entries, "last_seq"), default=None),
    }


def _known(entries: Iterable[Line], name: str) -> list[int]:
    return [entry[name] for entry in entries if entry[name] is not None]


# --- Without Spark ----------------------------------------------------------------------------------------------------


def check_is_on_disk(path: str, checkpoint: str = "") -> None:
    """Raises OnlyWithSpark unless archive and checkpoint are on a disk, in a format that this process continues."""
    for each in (path, checkpoint):
        require_disk(each)
    folder = local_path(checkpoint or default_checkpoint(path))
    if Checkpoint(folder).is_of_another_format():
        raise OnlyWithSpark(f"the checkpoint {folder} was written by another version of Spark")


def archive_on_disk(
    options: Mapping[str, str], path: str, *, kind: str = "parquet", checkpoint: str = "", token: str | None = None
) -> Outcome:
    """Archive the current messages of queues into a folder on a disk, and end. `options` are those of format("msmq").

    The caller holds the checkpoint (`Checkpoint.held`), so that no other run works on the same batch.
    """
    path = path.rstrip("/")
    check_is_on_disk(path, checkpoint)
    notes = DiskNotes(path)
    table = checked_table(notes, path, kind)
    stream = with_token(token)({**QUARANTINE, **options}).streamReader(from_arrow_schema(MESSAGE))
    if not isinstance(stream, RangeStream):
        raise InvalidParameter("without Spark, an archive supports only the modes peek and drain")
    place = Checkpoint(local_path(checkpoint or default_checkpoint(path)))
    began = datetime.now(UTC)
    query = place.query()

    def each(parts: Iterable[Iterator[Any]], number: int) -> None:
        archive_batch(parts, path, table, Batch(query, number))

    try:
        run_available(stream, place, each)
    finally:
        stream.stop()
    return Outcome.of(path, [line for line in notes.read(BATCHES, ENTRY) if line["written"] >= began])
