"""The archive: every message once, whatever ends between two of its steps."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from tests.late import late
from tests.spark.pipeline_samples import INVOICES, ORDERS, message, write_messages
from waypost.errors import InvalidParameter

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import errors
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.pandas import types

    from tests.crash.daemons import Daemon
    from waypost.spark.pipelines import archive as pipeline
    from waypost.spark.pipelines import archive_writer as writer
    from waypost.spark.pipelines import archived as archiveds
    from waypost.spark.pipelines import delta, iceberg, manifest
else:
    writer = late("waypost.spark.pipelines.archive_writer")
    archiveds = late("waypost.spark.pipelines.archived")
    delta = late("waypost.spark.pipelines.delta")
    errors = late("pyspark.errors")
    iceberg = late("waypost.spark.pipelines.iceberg")
    manifest = late("waypost.spark.pipelines.manifest")
    pipeline = late("waypost.spark.pipelines.archive")
    types = late("pyspark.sql.pandas.types")


class Crash(Exception):
    pass


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """One batch for every file."""
    reader = spark.readStream.schema(types.from_arrow_schema(manifest.MESSAGE)).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def archived(spark: SparkSession, path: Path) -> list[tuple[str, int, bytes]]:
    rows = archiveds.read_archive(spark, str(path)).select("queue", "seq", "packet").collect()
    return sorted((row.queue, row.seq, bytes(row.packet)) for row in rows)


def batch_of(spark: SparkSession, *seqs: int) -> DataFrame:
    return spark.createDataFrame([message(seq) for seq in seqs], types.from_arrow_schema(manifest.MESSAGE))


def test_a_stream_is_archived_by_queue_and_day_and_goes_on_where_it_ended(spark: SparkSession, tmp_path: Path) -> None:
    messages, path = tmp_path / "in", tmp_path / "archive"
    write_messages(messages / "1.parquet", [message(1), message(2), message(3), message(4, INVOICES)])
    pipeline.archive(stream(spark, messages), str(path)).awaitTermination()
    write_messages(messages / "2.parquet", [message(5)])
    pipeline.archive(stream(spark, messages), str(path)).awaitTermination()
    pipeline.archive(stream(spark, messages), str(path)).awaitTermination()
    assert archived(spark, path) == sorted(
        [*((ORDERS, seq, b"packet %d" % seq) for seq in (1, 2, 3, 5)), (INVOICES, 4, b"packet 4")]
    )
    entries = manifest.noted(spark, str(path)).orderBy("first_seq").collect()
    assert [(row.queue, row.date, row.messages, row.bytes, row.first_seq, row.last_seq) for row in entries] == [
        (ORDERS, date(2026, 3, 1), 1, 8, 1, 1),
        (ORDERS, date(2026, 3, 2), 2, 16, 2, 3),
        (INVOICES, date(2026, 3, 2), 1, 8, 4, 4),
        (ORDERS, date(2026, 3, 2), 1, 8, 5, 5),
    ]
    assert [row.batch[-2:] for row in entries] == ["-0", "-0", "-0", "-1"]
    assert archiveds.verify(spark, str(path)).collect() == []


def test_a_stream_that_fails_between_files_and_manifest_archives_everything_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages, path = tmp_path / "in", tmp_path / "archive"
    write_messages(messages / "1.parquet", [message(1), message(2)])
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "write_manifest", _crash)
        with pytest.raises(errors.StreamingQueryException, match="Crash"):
            pipeline.archive(stream(spark, messages), str(path)).awaitTermination()
    assert list(path.glob("queue=*/date=*/batch=*/*.parquet"))
    with pytest.raises(InvalidParameter, match="is not an archive, or is empty"):
        archiveds.read_archive(spark, str(path))
    pipeline.archive(stream(spark, messages), str(path)).awaitTermination()
    assert [seq for _, seq, _ in archived(spark, path)] == [1, 2]
    assert len(list(path.glob("queue=*/date=*/batch=*/*.parquet"))) == manifest.noted(spark, str(path)).count()


def _crash(*_: object) -> None:
    raise Crash


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_tasks_that_read_queues_write_the_files_and_a_run_that_fails_is_repeated(
    spark: SparkSession, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path, names = tmp_path / "archive", [f"archived-{kind}-{number}" for number in (1, 2)]
    options = {"server": daemon.url, "queues": ",".join(names), "mode": "drain", "maxMessagesPerPartition": "2"}

    def run() -> list[int]:
        query = pipeline.archive_queues(spark, options, str(path), kind=kind)
        query.awaitTermination()
        return [each.numInputRows for each in query.recentProgress if each.numInputRows]

    with daemon.connect() as manager:
        queues = [manager.create_queue(name) for name in names]
        for name, queue in zip(names, queues, strict=True):
            queue.send_many([f"{name} {number}" for number in range(5)], label="first")
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "write_manifest", _crash)
            with pytest.raises(errors.StreamingQueryException, match="Crash"):
                run()
        assert [queue.info().message_count for queue in queues] == [5, 5]
        # Spark has a row for each file, and not one for each message. Delta has the files already.
        assert run() == ([6] if kind == "parquet" else [])
        assert [queue.info().message_count for queue in queues] == [0, 0]
        queues[0].send("another", label="later")
        assert run() == [1]
        assert run() == []
    wanted = sorted([f"{name} {number}" for name in names for number in range(5)] + ["another"])
    rows = archiveds.read_archive(spark, str(path)).collect()
    assert sorted(bytes(row.body).decode("utf-16-le") for row in rows) == wanted
    assert sorted(row.label for row in rows) == ["first"] * 10 + ["later"]
    assert {row.queue for row in rows} == {row.queue for row in manifest.noted(spark, str(path)).collect()}
    assert archiveds.verify(spark, str(path)).collect() == []
    assert not list(path.rglob(".part-*.parquet"))


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_batch_is_archived_once_wherever_a_run_ends(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = str(tmp_path)
    table, query = pipeline.table_of(path, kind), str(uuid4())
    first, second = manifest.Batch(query, 0), manifest.Batch(query, 1)
    pipeline.archive_batch(batch_of(spark, 1, 2), path, table, first)
    # After hidden files are written, after they have their names, and after the table has taken them over.
    for module, step in ((writer, "_shown"), (pipeline, "flush"), (pipeline, "write_manifest")):
        with monkeypatch.context() as patch:
            patch.setattr(module, step, _crash)
            with pytest.raises(Crash):
                pipeline.archive_batch(batch_of(spark, 3, 4), path, table, second)
        assert [seq for _, seq, _ in archived(spark, tmp_path)] == [1, 2], step
    assert table.has(second) is (kind != "parquet")
    pipeline.archive_batch(batch_of(spark, 3, 4), path, table, second)
    # A batch that is archived is passed over, whatever comes with its number.
    pipeline.archive_batch(batch_of(spark, 9), path, table, second)
    assert not [file.name for file in tmp_path.rglob(".part-*.parquet")]
    assert [seq for _, seq, _ in archived(spark, tmp_path)] == [1, 2, 3, 4]
    assert archiveds.verify(spark, path).collect() == []
    if kind != "parquet":
        assert sorted(_table_seqs(path, kind)) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_an_archive_from_before_a_column_is_read_and_goes_on_with_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path, query = str(tmp_path), str(uuid4())
    table = pipeline.table_of(path, kind)
    with monkeypatch.context() as patch:
        # Earlier versions let Spark write the files, as for storage other than a disk.
        patch.setattr(pipeline, "is_on_disk", lambda _: False)
        older = pa.schema([field for field in manifest.ARCHIVED if field.name != "label"])
        patch.setattr(pipeline, "MESSAGE", pa.schema([field for field in manifest.MESSAGE if field.name != "label"]))
        patch.setattr(iceberg, "ARCHIVED", older)
        patch.setattr(delta, "SCHEMA", Schema.from_arrow(older))
        pipeline.archive_batch(batch_of(spark, 1, 2), path, table, manifest.Batch(query, 0))
    labels = {1: None, 2: None, 3: "label 3", 4: "label 4"}
    for number, seqs in enumerate([(3,), (4,)], 1):
        pipeline.archive_batch(batch_of(spark, *seqs), path, table, manifest.Batch(query, number))
    found = archiveds.read_archive(spark, path).select("seq", "label").collect()
    assert {row.seq: row.label for row in found} == labels
    assert archiveds.verify(spark, path).collect() == []
    digests = {row.batch: row.digest for row in manifest.noted(spark, path).collect()}
    assert [digest.startswith("sha256:") for _, digest in sorted(digests.items())] == [False, True, True]
    if kind == "parquet":
        # Both give folders the same name.
        assert len(list(tmp_path.glob("queue=*"))) == 1
    else:
        rows = _table(path, kind).select(["seq", "label"]).to_pylist()
        assert {row["seq"]: row["label"] for row in rows} == labels


def _table(path: str, kind: str) -> pa.Table:
    """As other programs see the table."""
    is_delta = kind == "delta"
    return DeltaTable(path).to_pyarrow_table() if is_delta else iceberg.IcebergArchive(path).open().scan().to_arrow()


def _table_seqs(path: str, kind: str) -> list[int]:
    found = _table(path, kind)
    assert set(found.column("queue").to_pylist()) == {ORDERS}
    assert set(found.column("label").to_pylist()) == {f"label {seq}" for seq in (1, 2, 3, 4)}
    seqs: list[int] = found.column("seq").to_pylist()
    return seqs


@pytest.mark.parametrize("left", ["_temporary/0/_temporary/attempt/part-0.json", "part-0.json"])
def test_a_manifest_that_a_run_could_not_finish_is_none(spark: SparkSession, tmp_path: Path, left: str) -> None:
    """Killed while Spark writes it; or the computer went down, and the file has its length but not its content."""
    path, batch = str(tmp_path), manifest.Batch(str(uuid4()), 0)
    file = tmp_path / manifest.BATCHES / str(batch) / left
    file.parent.mkdir(parents=True)
    file.write_bytes(bytes(100))
    pipeline.archive_batch(batch_of(spark, 1, 2), path, pipeline.table_of(path, "parquet"), batch)
    assert [seq for _, seq, _ in archived(spark, tmp_path)] == [1, 2]


def test_a_path_that_spark_takes_for_a_pattern_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"must not contain any of \* \? \[ \\ \] \{ \}; choose another path"):
        pipeline.archive(stream(spark, tmp_path), str(tmp_path / "year[2026]"))


def test_a_lost_checkpoint_replaces_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path)
    for seq in (1, 2):
        pipeline.archive_batch(
            batch_of(spark, seq), path, pipeline.table_of(path, "parquet"), manifest.Batch(str(uuid4()), 0)
        )
    assert [seq for _, seq, _ in archived(spark, tmp_path)] == [1, 2]


def test_a_damaged_archive_is_found_out(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path)
    table, query = pipeline.table_of(path, "parquet"), str(uuid4())
    pipeline.archive_batch(batch_of(spark, 1), path, table, manifest.Batch(query, 0))
    pipeline.archive_batch(batch_of(spark, 2), path, table, manifest.Batch(query, 1))
    (gone,) = tmp_path.glob("queue=*/date=*/batch=*-0/*.parquet")
    (other,) = tmp_path.glob("queue=*/date=*/batch=*-1/*.parquet")
    gone.unlink()
    (other.parent / f".{other.name}.crc").unlink(missing_ok=True)
    write_messages(tmp_path / "changed.parquet", [message(2, packet=b"packet x")])
    (tmp_path / "changed.parquet").rename(other)
    found = {row.path.rpartition("/")[2]: row.problem for row in archiveds.verify(spark, path).collect()}
    assert found[gone.name] == "the file is missing or unreadable"
    assert "digest is" in found[other.name]


def test_an_archive_has_one_kind(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "archive")
    pipeline.archive_batch(
        batch_of(spark, 1), path, pipeline.table_of(path, "parquet"), manifest.Batch(str(uuid4()), 0)
    )
    with pytest.raises(InvalidParameter, match="is an archive of Parquet files"):
        pipeline.archive(stream(spark, tmp_path), path, kind="delta")
    with pytest.raises(InvalidParameter, match="parquet, delta, iceberg, not 'orc'"):
        pipeline.archive(stream(spark, tmp_path), path, kind="orc")


def test_what_is_no_archive_is_said_to_be_none(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="is not an archive"):
        archiveds.read_archive(spark, str(tmp_path))
