"""Archive queues into a folder on a disk, in this process, without Spark: for small queues, in seconds.

The steps, the files and the checkpoint are those of waypost.spark.pipelines.archive, and each continues the archive of
the other.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.pandas.types import from_arrow_schema

from waypost.errors import InvalidParameter
from waypost.spark.pipelines.archive import QUARANTINE, Outcome, archive_batch, checked_table, default_checkpoint
from waypost.spark.pipelines.checkpoints import Checkpoint, run_available
from waypost.spark.pipelines.manifest import BATCHES, ENTRY, MESSAGE, Batch
from waypost.spark.pipelines.notes import DiskNotes
from waypost.spark.pipelines.storage import OnlyWithSpark, local_path, require_disk
from waypost.spark.source import with_token
from waypost.spark.stream_ranges import RangeStream


def check_is_on_disk(path: str, checkpoint: str = "") -> None:
    """Raises OnlyWithSpark unless archive and checkpoint are on a disk, in a format that this process continues."""
    for each in (path, checkpoint):
        require_disk(each)
    folder = local_path(checkpoint or default_checkpoint(path))
    if Checkpoint(folder).is_of_another_format():
        raise OnlyWithSpark(f"the checkpoint {folder} is of another version of Spark")


def archive_on_disk(
    options: Mapping[str, str], path: str, *, kind: str = "parquet", checkpoint: str = "", token: str | None = None
) -> Outcome:
    """Archive the current messages of queues, and end. `options` are those of format("msmq").

    The caller holds the checkpoint (`Checkpoint.held`), so that no other run works on the same batch.
    """
    path = path.rstrip("/")
    check_is_on_disk(path, checkpoint)
    notes = DiskNotes(path)
    table = checked_table(notes, path, kind)
    stream = with_token(token)({**QUARANTINE, **options}).streamReader(from_arrow_schema(MESSAGE))
    if not isinstance(stream, RangeStream):
        raise InvalidParameter("an archive without Spark reads in the modes peek and drain only")
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
