"""Facts of PySpark that streams, their source and their sink rely on. A failing test names the fact that has changed.

One query shows most of them. It has six numbers at first, two for each batch, and is run five times on one checkpoint:
to the end; with nothing new; after its last commit was forgotten; with two more numbers; and with a task that fails.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.crash.daemons import patience
from tests.late import late

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyspark
    from pyspark import errors
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.spark.contract import recorder
    from tests.spark.contract.recorder import Event, Record
else:
    errors = late("pyspark.errors")
    pyspark = late("pyspark")
    recorder = late("tests.spark.contract.recorder")


SECONDS = 300


@dataclass(frozen=True, slots=True)
class Run:
    """The calls of one run of the query, and its progress."""

    events: list[Event]
    progress: list[dict[str, Any]]
    query: str
    run: str
    failure: str

    def of(self, call: str) -> list[Event]:
        return [event for event in self.events if event["call"] == call]

    def batches(self, call: str) -> list[int]:
        return sorted({int(event["batch"]) for event in self.of(call)})


@dataclass(frozen=True, slots=True)
class Story:
    first: Run
    idle: Run
    replayed: Run
    more: Run
    failing: Run


def start(spark: SparkSession, record: Record, limit: str) -> StreamingQuery:
    place = str(record.place)
    stream = spark.readStream.format("recorder").options(place=place, limit=limit).load()
    writer = stream.writeStream.format("recorder").options(place=place, checkpointLocation=f"{place}/checkpoint")
    return writer.trigger(availableNow=True).start()


def run(spark: SparkSession, record: Record, limit: str = "rows=2") -> Run:
    before = len(record.events())
    query = start(spark, record, limit)
    failure = ""
    try:
        assert query.awaitTermination(SECONDS), "the query does not end"
    except errors.StreamingQueryException as error:
        failure = str(error)
    progress = [json.loads(entry.json) for entry in query.recentProgress]
    return Run(record.events()[before:], progress, str(query.id), str(query.runId), failure)


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    record = recorder.Record(tmp_path_factory.mktemp("story"))
    commits = record.place / "checkpoint/commits"
    record.tell("available", 6)
    first = run(spark, record)
    idle = run(spark, record)
    forget(commits, 2)
    replayed = run(spark, record)
    record.tell("available", 8)
    more = run(spark, record)
    record.tell("available", 10)
    record.tell("refuse", 9)
    return Story(first, idle, replayed, more, run(spark, record))


def forget(commits: Path, batch: int) -> None:
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)


def test_one_process_and_one_reader_plan_for_the_whole_run(story: Story) -> None:
    calls = [event for event in story.first.events if event["call"] in ("latestOffset", "partitions", "commit")]
    assert len({event["process"] for event in calls}) == 1
    assert [event["calls"] for event in calls] == sorted({event["calls"] for event in calls}), "it is one object"


def test_the_reader_that_reads_shares_nothing_with_the_one_that_plans(story: Story) -> None:
    planner = story.first.of("latestOffset")[0]["process"]
    assert planner not in {event["process"] for event in story.first.of("read")}
    assert {event["calls"] for event in story.first.of("read")} == {1}, "each task has its own reader"


def test_the_initial_offset_may_be_asked_for_again_and_only_in_the_first_run(story: Story) -> None:
    assert len(story.first.of("initialOffset")) >= 1
    for later in (story.idle, story.replayed, story.more):
        assert later.of("latestOffset")[0]["start"] != {"n": 0}, "later runs start from the checkpoint"


def test_available_now_is_prepared_once_before_anything_is_planned(story: Story) -> None:
    for each in (story.first, story.idle, story.more):
        (prepared,) = each.of("prepareForTriggerAvailableNow")
        assert prepared["calls"] < each.of("latestOffset")[0]["calls"]


def test_the_limit_is_the_default_of_the_reader_and_has_max_rows(story: Story) -> None:
    assert story.first.of("getDefaultReadLimit")
    assert {(event["limit"], event.get("max_rows")) for event in story.first.of("latestOffset")} == {("ReadMaxRows", 2)}
    assert [entry["numInputRows"] for entry in story.first.progress if entry["numInputRows"]] == [2, 2, 2]


def test_commit_of_a_batch_comes_when_the_next_one_is_planned(story: Story) -> None:
    def place(call: str, **words: object) -> int:
        """Of the first such call among all."""
        return next(
            number
            for number, event in enumerate(story.first.events)
            if event["call"] == call and words.items() <= event.items()
        )

    assert [event["end"]["n"] for event in story.first.of("commit")] == [2, 4]
    for batch, end in enumerate((2, 4)):
        finished = place("sink commit", batch=batch)
        asked = place("latestOffset", start={"n": end})
        committed = place("commit", end={"n": end})
        assert finished < asked < committed, "it comes after the batch, and after there is a next one"


def test_the_last_batch_of_available_now_is_never_committed_nor_by_a_restart_without_news(story: Story) -> None:
    for each in (story.first, story.idle):
        assert {"n": 6} not in [event["end"] for event in each.of("commit")]


def test_the_next_run_with_news_commits_the_last_batch_at_the_latest(story: Story) -> None:
    assert {"n": 6} in [event["end"] for each in (story.replayed, story.more) for event in each.of("commit")]


def test_latest_offset_is_asked_for_after_every_batch_and_after_the_last_one(story: Story) -> None:
    starts = [event["start"]["n"] for event in story.first.of("latestOffset")]
    assert sorted(set(starts)) == [0, 2, 4, 6]
    assert starts == sorted(starts)


def test_latest_offset_is_asked_for_by_a_restart_without_news(story: Story) -> None:
    assert {"n": 6} in [event["start"] for event in story.idle.of("latestOffset")]
    assert story.idle.of("read") == []


def test_latest_offset_starts_where_the_sink_has_committed(story: Story) -> None:
    done = 0
    for event in story.first.events:
        if event["call"] == "sink commit":
            done = max(number + 1 for message in event["messages"] for number in message["numbers"])
        if event["call"] == "latestOffset":
            assert event["start"]["n"] <= done, "a start that no commit covers must not be acknowledged"


def test_a_batch_without_its_commit_entry_is_replayed_with_the_same_range_and_number(story: Story) -> None:
    def ranges(each: Run) -> list[tuple[int, int]]:
        return sorted((event["start"], event["stop"]) for event in each.of("read") if int(event["batch"]) == 2)

    assert story.replayed.batches("read") == [2]
    assert ranges(story.replayed) == ranges(story.first) != []
    assert story.replayed.batches("sink commit") == [2]


def test_a_replay_has_the_same_query(story: Story) -> None:
    assert {each.query for each in (story.first, story.idle, story.replayed, story.more)} == {story.first.query}


@pytest.mark.parametrize("call", ["read", "write"])
def test_tasks_know_the_query_and_the_batch(story: Story, call: str) -> None:
    assert {event["query"] for event in story.first.of(call)} == {story.first.query}
    assert story.first.batches(call) == [0, 1, 2]
    for event in story.first.of("write"):
        assert {number // 2 for number in event["numbers"]} <= {int(event["batch"])}


def test_tasks_know_the_run_by_the_group_of_their_jobs(story: Story) -> None:
    runs = [story.first, story.replayed, story.more]
    assert len({each.run for each in runs}) == len(runs)
    for each in runs:
        assert {event["group"] for event in each.of("write")} == {each.run}


def test_the_sink_commits_in_a_new_writer_that_has_only_the_messages(story: Story) -> None:
    writers = {event["process"] for event in story.first.of("write")}
    for event in story.first.of("sink commit"):
        assert event["calls"] == 0
        assert event["process"] not in writers
        assert len(event["messages"]) == 2, "one message from each task"
    assert story.first.batches("sink commit") == [0, 1, 2]


def test_a_failed_task_aborts_the_batch_with_none_in_place_of_its_message(story: Story) -> None:
    assert "refused as told" in story.failing.failure
    assert story.failing.of("sink commit") == []
    (abort,) = story.failing.of("sink abort")
    assert abort["batch"] == 4
    assert None in abort["messages"]


def test_each_latest_offset_is_followed_by_one_report_at_once(story: Story) -> None:
    asked = ("latestOffset", "reportLatestOffset")
    calls = [(event["call"], event["calls"]) for event in story.first.events if event["call"] in asked]
    assert [call for call, _ in calls] == [*asked] * (len(calls) // 2)
    assert all(after == before + 1 for (_, before), (_, after) in zip(calls[::2], calls[1::2], strict=True))


def test_progress_shows_what_the_source_reports_as_its_latest_offset(story: Story) -> None:
    assert {json.dumps(source["latestOffset"]) for entry in story.first.progress for source in entry["sources"]} == {
        json.dumps({"n": 6})
    }


def test_stop_need_not_be_called(story: Story) -> None:
    # Nothing may depend on it. If this fails, leases could end early.
    assert [each for each in (story.first, story.idle, story.replayed, story.more) if each.of("stop")] == []


def test_bytes_can_be_the_limit(spark: SparkSession, tmp_path: Path) -> None:
    record = recorder.Record(tmp_path)
    record.tell("available", 6)
    done = run(spark, record, "bytes=300")
    assert {(event["limit"], event.get("max_bytes")) for event in done.of("latestOffset")} == {("ReadMaxBytes", 300)}
    assert done.batches("read") == [0, 1]


def test_a_stream_that_goes_on_commits_each_batch_with_the_next_and_sees_new_messages(
    spark: SparkSession, tmp_path: Path
) -> None:
    record = recorder.Record(tmp_path)
    record.tell("available", 2)
    stream = spark.readStream.format("recorder").option("place", str(tmp_path)).load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        # `start` names the end of the batch before, whose entry in the log of commits is then on disk.
        await_start(record, 2)
        assert (tmp_path / "checkpoint/commits/0").exists()
        assert record.events("commit") == [], "nothing new, nothing committed"
        record.tell("available", 5)
        await_start(record, 5)
        assert {"n": 2} in [event["end"] for event in record.events("commit")]
        assert {event["limit"] for event in record.events("latestOffset")} == {"ReadAllAvailable"}
    finally:
        query.stop()


def test_a_stream_that_is_joined_with_itself_has_two_readers_of_one_source_that_are_asked_in_turn(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Claims rely on this: one object for each load, all readers made before one is asked, and always one order."""
    record = recorder.Record(tmp_path)
    record.tell("available", 4)
    stream = spark.readStream.format("recorder").options(place=str(tmp_path), limit="rows=2").load()
    joined = stream.alias("one").join(stream.alias("two"), "n").select("n")
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(SECONDS)
    assert len(record.events("options")) == 1
    first = next(number for number, event in enumerate(record.events()) if event["call"] == "initialOffset")
    planners = {event["process"] for event in record.events("latestOffset")}
    made = [event["process"] for event in record.events()[:first] if event["call"] == "streamReader"]
    assert planners <= set(made)
    asked = [event["process"] for event in record.events("latestOffset")]
    assert len(planners) == 2
    assert asked == asked[:2] * (len(asked) // 2)
    starts = [event["start"]["n"] for event in record.events("latestOffset")]
    assert starts == sorted(starts), "both are asked from one place before either is asked from the next"


def test_asynchronous_progress_of_a_sink_shows_in_nothing_that_a_source_or_a_task_can_see(
    spark: SparkSession, tmp_path: Path
) -> None:
    """If this fails, the modes claim and drain can refuse it, instead of a warning at each start."""
    record = recorder.Record(tmp_path)
    record.tell("available", 2)
    stream = spark.readStream.format("recorder").option("place", str(tmp_path)).load()
    options = {"checkpointLocation": str(tmp_path / "checkpoint"), "asyncProgressTrackingEnabled": "true"}
    query = stream.writeStream.format("noop").options(**options).start()
    try:
        await_start(record, 2)
    finally:
        query.stop()
    seen = [event.get("properties", ()) for event in record.events("read")]
    assert seen
    assert not [name for names in seen for name in names if "async" in name.lower()]
    assert "asyncprogress" not in str(record.events("options")).lower()


def await_start(record: Record, number: int) -> None:
    with patience(SECONDS, f"latestOffset was not asked for with the start {number}") as turns:
        for _ in turns:
            if {"n": number} in [event["start"] for event in record.events("latestOffset")]:
                return


def _properties(batches: Iterable[Any]) -> Iterator[Any]:
    """A task knows its query, batch, group and execution."""
    context = pyspark.TaskContext.get()
    assert context is not None
    names = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id", "spark.sql.execution.id")
    for _ in batches:
        yield pa.RecordBatch.from_pylist([{name: context.getLocalProperty(name) for name in names}])


def test_tasks_inside_foreach_batch_know_query_batch_and_run_and_each_action_is_an_execution(
    spark: SparkSession, tmp_path: Path
) -> None:
    found: list[dict[str, str]] = []
    columns = "`sql.streaming.queryId` string, `streaming.sql.batchId` string, `spark.jobGroup.id` string, "

    def each(frame: DataFrame, _batch: int) -> None:
        for _ in range(2):
            told = frame.coalesce(1).limit(1).mapInArrow(_properties, columns + "`spark.sql.execution.id` string")
            found.append(told.collect()[0].asDict())

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = rows.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path)).start()
    try:
        with patience(SECONDS, "no batch came") as turns:
            for _ in turns:
                if len(found) >= 2:
                    break
    finally:
        query.stop()
    first, second = found[:2]
    for told in (first, second):
        assert (told["sql.streaming.queryId"], told["streaming.sql.batchId"]) == (query.id, "0")
        assert told["spark.jobGroup.id"] == query.runId
    assert first["spark.sql.execution.id"] != second["spark.sql.execution.id"]
