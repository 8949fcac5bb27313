"""A source and sink of numbers that writes down what Spark calls, where and with what.

Everything happens in processes of Spark, so the record is a file, one JSON object a line. The numbers of the source,
and the places where it fails, are in files too: a test can change them between two batches.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

Event: TypeAlias = dict[str, Any]
Offset: TypeAlias = dict[str, int]

# Two for each batch of a stream.
PARTS: Final = 2
BYTES_EACH: Final = 100


class Record:
    """The file in the folder `place`, and what the test says there."""

    def __init__(self, place: str | Path) -> None:
        self.place = Path(place)

    def add(self, call: str, **words: object) -> None:
        line = json.dumps({"call": call, "process": os.getpid(), **words}, default=str) + "\n"
        with (self.place / "record").open("a", encoding="utf-8") as file:
            # One write, so that lines of several processes do not mix.
            file.write(line)

    def events(self, call: str | None = None) -> list[Event]:
        path = self.place / "record"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        events: list[Event] = [json.loads(line) for line in lines]
        return [event for event in events if call in (None, event["call"])]

    def tell(self, name: str, value: int) -> None:
        (self.place / name).write_text(str(value), encoding="ascii")

    def told(self, name: str) -> int:
        path = self.place / name
        return int(path.read_text(encoding="ascii")) if path.exists() else 0


@dataclass
class Part(InputPartition):
    start: int
    stop: int


@dataclass
class Written(WriterCommitMessage):
    process: int
    part: int
    numbers: list[int]


class Recorder(DataSource):
    """Options: `place`, `limit` (rows=2 or bytes=200 for each batch), `arrow` (the type of the column in batches)."""

    @classmethod
    def name(cls) -> str:
        return "recorder"

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.options = dict(options)
        self.record = Record(options["place"])
        self.record.add(
            "options",
            kind=type(options).__name__,
            values=sorted({type(value).__name__ for value in options.values()}),
            upper=options.get("PLACE"),
            flag=options.get("flag"),
            number=options.get("number"),
            path=options.get("path"),
        )

    def schema(self) -> str:
        self.record.add("schema")
        return "n long, part int"

    def reader(self, schema: StructType) -> DataSourceReader:
        self.record.add("reader", columns=schema.simpleString())
        kind = Filtering if "filtering" in self.options else Reading
        return kind(self.record, schema, self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self.record.add("streamReader")
        return Streaming(self.record, self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        self.record.add("writer", columns=schema.simpleString())
        return Writing(self.record)

    def streamWriter(
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamArrowWriter:
        return StreamWriting(self.record)


class Discovered(Recorder):
    @classmethod
    def name(cls) -> str:
        return "waypost_contract"


class Reading(DataSourceReader):
    """Three rows in two partitions, in one batch each, with the columns that are asked for."""

    def __init__(self, record: Record, schema: StructType, options: Mapping[str, str]) -> None:
        self.record = record
        self.names = schema.names
        self.options = options

    def partitions(self) -> list[Part]:
        self.record.add("partitions")
        total = int(self.options.get("rows", "3"))
        return [Part(0, total - 1), Part(total - 1, total)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        self.record.add("read", start=partition.start, stop=partition.stop)
        kind = pa.type_for_alias(self.options.get("arrow", "int64"))
        columns = {
            "n": pa.array(range(partition.start, partition.stop)).cast(kind),
            "part": pa.array([partition.start] * (partition.stop - partition.start), pa.int32()),
            "word": pa.array(["x"] * (partition.stop - partition.start)),
        }
        yield pa.RecordBatch.from_pydict({name: columns[name] for name in self.names})


class Filtering(Reading):
    """Claims to apply every filter, and applies none."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for each in filters:
            value = getattr(each, "value", None)
            self.record.add("filter", filter=type(each).__name__, kind=type(value).__name__, value=value)
        return iter(())


class Streaming(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The numbers from 0 up to what the test says is `available`."""

    def __init__(self, record: Record, options: Mapping[str, str]) -> None:
        self.record = record
        self.limit = options.get("limit", "")
        self.target: int | None = None
        self.calls = 0

    def initialOffset(self) -> Offset:
        self._note("initialOffset")
        return {"n": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        self._note("getDefaultReadLimit")
        word, _, number = self.limit.partition("=")
        if word == "rows":
            return ReadMaxRows(int(number))
        return ReadMaxBytes(int(number)) if word == "bytes" else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        self._note("latestOffset", start=start, limit=type(limit).__name__, **asdict(limit))  # type: ignore[call-overload]
        end = self.record.told("available") if self.target is None else self.target
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["n"] + limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            end = min(end, start["n"] + limit.max_bytes // BYTES_EACH)
        return {"n": max(end, start["n"])}

    def reportLatestOffset(self) -> Offset:
        self._note("reportLatestOffset")
        return {"n": self.record.told("available")}

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.record.told("available")
        self._note("prepareForTriggerAvailableNow", target=self.target)

    def partitions(self, start: Offset, end: Offset) -> list[Part]:
        self._note("partitions", start=start, end=end)
        middle = (start["n"] + end["n"]) // PARTS
        return [Part(start["n"], middle), Part(middle, end["n"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        self._note("read", start=partition.start, stop=partition.stop, **task())
        count = partition.stop - partition.start
        yield pa.RecordBatch.from_pydict(
            {
                "n": pa.array(range(partition.start, partition.stop), pa.int64()),
                "part": pa.array([partition.start] * count, pa.int32()),
            }
        )

    def commit(self, end: Offset) -> None:
        self._note("commit", end=end)

    def stop(self) -> None:
        self._note("stop")

    def _note(self, call: str, **words: object) -> None:
        self.calls += 1
        self.record.add(call, calls=self.calls, **words)


class Writing(DataSourceArrowWriter):
    def __init__(self, record: Record) -> None:
        self.record = record
        self.calls = 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write(self, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.record.add("sink commit", calls=self.calls, messages=plain(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.record.add("sink abort", calls=self.calls, messages=plain(messages))


class StreamWriting(DataSourceStreamArrowWriter):
    def __init__(self, record: Record) -> None:
        self.record = record
        self.calls = 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write(self, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.record.add("sink commit", calls=self.calls, messages=plain(messages), batch=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.record.add("sink abort", calls=self.calls, messages=plain(messages), batch=batchId)


def write(writer: Writing | StreamWriting, iterator: Iterator[pa.RecordBatch]) -> Written:
    """Fails where it meets the number that the test says to `refuse`, as often as it says, or always if it does not."""
    writer.calls += 1
    record = writer.record
    numbers = [number for batch in iterator for number in batch.column("n").to_pylist()]
    record.add("write", numbers=numbers, **task())
    context = TaskContext.get()
    assert context is not None
    if (record.place / "refuse").exists() and record.told("refuse") in numbers:
        attempts = record.told("attempts")
        if not attempts or context.attemptNumber() < attempts:
            raise ValueError("refused as told")
    return Written(os.getpid(), context.partitionId(), numbers)


def plain(messages: list[WriterCommitMessage | None]) -> list[Event | None]:
    return [asdict(message) if isinstance(message, Written) else None for message in messages]


def task() -> Event:
    context = TaskContext.get()
    assert context is not None
    return {
        "batch": context.getLocalProperty("streaming.sql.batchId"),
        "query": context.getLocalProperty("sql.streaming.queryId"),
        "group": context.getLocalProperty("spark.jobGroup.id"),
        "part": context.partitionId(),
        "attempt": context.attemptNumber(),
        "properties": sorted(context._localProperties or ()),
    }
