"""Two engines: Spark, and Arrow in this process. They give the same reports, and small queues need no Java."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from tests.late import late
from tests.spark.frames import at, frame
from tests.spark.pipeline_samples import ORDERS, message, write_messages
from tests.spark.test_audit import SENT, WORDS, rules
from tests.spark.test_inventory import MESSAGES
from tests.spark.test_trace import HANGING, LOOPING, OTHER, OTHERS, PARTLY, RESTING, STRAIGHT
from waypost.arrow.schema import ALL, DEFAULT
from waypost.cli import app
from waypost.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    import waypost
    from tests.crash.daemons import Daemon
    from waypost.spark import stream_ranges
    from waypost.spark.pipelines import (
        archive,
        archived,
        audit_report,
        checkpoints,
        deadletters,
        deadletters_report,
        in_memory,
        inventory_report,
        manifest,
        reading,
        replay,
        trace_report,
    )
    from waypost.spark.pipelines.report import Report
else:
    archive = late("waypost.spark.pipelines.archive")
    archived = late("waypost.spark.pipelines.archived")
    audit_report = late("waypost.spark.pipelines.audit_report")
    checkpoints = late("waypost.spark.pipelines.checkpoints")
    deadletters = late("waypost.spark.pipelines.deadletters")
    deadletters_report = late("waypost.spark.pipelines.deadletters_report")
    in_memory = late("waypost.spark.pipelines.in_memory")
    inventory_report = late("waypost.spark.pipelines.inventory_report")
    manifest = late("waypost.spark.pipelines.manifest")
    reading = late("waypost.spark.pipelines.reading")
    replay = late("waypost.spark.pipelines.replay")
    stream_ranges = late("waypost.spark.stream_ranges")
    trace_report = late("waypost.spark.pipelines.trace_report")


GUID = "8e5ddd7d-0411-49b5-94d9-8e85f1d0ff1a"
DEAD = [
    message(1, label="order 17", message_class=0x8002),
    message(2, label="order 23", message_class=0x8002, transactional=False),
    message(3, label=f"{{{GUID}}} paid", message_class=0x8000),
    message(4, label="order 4", message_class=0x1234, dest_queue=r"DIRECT=OS:gamma\private$\invoices"),
    {"queue": ORDERS, "seq": 5, "lookup_id": 5, "arrived_time": at(0)},
]


def table(rows: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(rows, schema=DEFAULT)


def inventories(spark: SparkSession) -> list[Report]:
    return [inventory_report.report(each, at(3600), "a test") for each in (frame(spark, MESSAGES), table(MESSAGES))]


def audits(spark: SparkSession) -> list[Report]:
    by_spark = audit_report.report(frame(spark, SENT), frame(spark, WORDS), rules(), "a test")
    return [by_spark, audit_report.report(table(SENT), table(WORDS), rules(), "a test")]


def dead_letters(spark: SparkSession) -> list[Report]:
    columns = pa.schema([*DEFAULT, ALL.field("body_kind")])
    rows = pa.Table.from_pylist([row | {"body_kind": "string"} for row in DEAD], schema=columns)
    choices = [deadletters.Choice(), deadletters.Choice(labels=["ORDER*"], reasons=["reach-queue-timeout", "0x1234"])]
    tallies = [
        (
            deadletters.tally(deadletters.chosen(spark.createDataFrame(rows), choice)),
            in_memory.tally(in_memory.chosen(rows, choice)),
        )
        for choice in choices
    ]
    assert [sum(row["messages"] for row in each.reasons) for each in tallies[1]] == [3, 3]
    return [deadletters_report.report(each, now=at(100_000)) for each in tallies[0]]


def traces(spark: SparkSession) -> list[Report]:
    rows = [*STRAIGHT, *OTHER, *HANGING, *RESTING, *LOOPING, *PARTLY, *OTHERS]
    made = [trace_report.report(each, "a test") for each in (frame(spark, rows), table(rows))]
    return [replace(each, made=at(0)) for each in made]


@pytest.mark.parametrize("reports", [inventories, audits, dead_letters, traces])
def test_both_engines_give_the_same_report(
    spark: SparkSession, tmp_path: Path, reports: Callable[[SparkSession], list[Report]]
) -> None:
    by_spark, by_arrow = reports(spark)
    by_spark.write(tmp_path / "spark")
    by_arrow.write(tmp_path / "arrow")
    names = sorted(file.name for file in (tmp_path / "spark").iterdir())
    assert names == sorted(file.name for file in (tmp_path / "arrow").iterdir())
    for name in names:
        assert (tmp_path / "arrow" / name).read_bytes() == (tmp_path / "spark" / name).read_bytes(), name


def test_both_engines_read_the_same_rows_of_archives_and_files(spark: SparkSession, tmp_path: Path) -> None:
    place, file = tmp_path / "archive", tmp_path / "messages.parquet"
    rows = spark.createDataFrame(pa.Table.from_pylist([message(1), message(2)], schema=manifest.MESSAGE))
    archive.archive_batch(rows, str(place), archive.table_of(str(place), "parquet"), manifest.Batch("query", 0))
    write_messages(file, [message(3), message(4)])
    wanted = reading.Wanted([str(place), str(file)], ("queue", "seq", "label", "arrived_time", "body"), {})
    by_spark = wanted.data_frame(spark).toArrow().sort_by("seq")
    by_arrow = reading.read_table(wanted, None).sort_by("seq")
    assert by_arrow.num_rows == 4
    assert by_arrow.to_pylist() == by_spark.cast(by_arrow.schema).to_pylist()
    size = reading.size_of(wanted, None)
    assert size is not None
    assert size.messages == 4
    pq.write_table(pa.table({"seq": [1]}), tmp_path / "bare.parquet")
    with pytest.raises(InvalidParameter, match="has neither a column 'body_kind' nor a column `packet`"):
        reading.read_table(reading.Wanted([str(tmp_path / "bare.parquet")], ("seq", "body_kind"), {}), None)
    with pytest.raises(InvalidParameter, match="is not an archive, or is empty"):
        reading.read_table(reading.Wanted([str(tmp_path / "nowhere")], ("seq",), {}), None)


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session can be started."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("waypost.cli.spark.common._session", refuse)


@pytest.mark.usefixtures("without_spark")
def test_small_queues_need_no_spark(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def told(*arguments: str) -> tuple[str, str]:
        result = CliRunner().invoke(app, ["--url", daemon.url, "spark", *arguments, "--json"])
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)["summary"], result.stderr

    with daemon.connect() as manager:
        queue = manager.create_queue("engines", transactional=True)
        with manager.transaction() as transaction:
            for number in range(3):
                queue.send(f"text {number}", label=f"engine {number}", dead_letter=True, transaction=transaction)
        summary, talk = told("inventory", "engines")
        assert summary.startswith("3 messages (")
        assert talk.startswith("engine: arrow, because the input has 3 messages and 0.0 MiB")
        assert told("inventory", "engines", "--bodies", "--quiet")[1] == ""
        queue.purge()
        dest = ("--dest", "*engines", "--engine", "arrow")
        assert told("deadletters", *dest)[0] == "There are 3 dead-letter messages."
        drop = ("deadletters", "drop", *dest, "--label", "engine 2", "--do")
        assert told(*drop)[0] == "1 of 1 dead-letter message was dropped."
        assert told("deadletters", "park", *dest, "--do")[0] == "2 of 2 dead-letter messages were parked."
        resent = told("deadletters", "resend", "--parked", "parked", "--engine", "arrow", "--do")[0]
        assert resent == "2 of 2 dead-letter messages were sent again."
        assert sorted(each.text for each in queue.browse()) == ["text 0", "text 1"]
        assert told("audit", "engines", "--sent", "engines")[0].startswith("None of 2 messages is lost")


def test_a_large_queue_and_a_cluster_ask_for_spark(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise InvalidParameter("Spark was asked for")

    monkeypatch.setattr("waypost.cli.spark.common._session", start)
    monkeypatch.setattr("waypost.cli.spark.common.SMALL_MESSAGES", 1)
    with daemon.connect() as manager:
        manager.create_queue("engines-large").send_many([b"1", b"2"])

    def ask(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["--url", daemon.url, "spark", "inventory", "engines-large", *arguments])

    large = ask().stderr
    assert large.startswith("engine: spark, because the input has 2 messages")
    assert "Spark was asked for" in large
    assert "Spark was asked for" in ask("--master", "local[1]").stderr
    refused = ask("--engine", "arrow", "--master", "local[1]")
    assert refused.exit_code == 2
    assert "and --engine arrow are mutually exclusive" in refused.stderr


# --- Commands that write files and send messages ----------------------------------------------------------------------

# A cell of CSV or a text of JSON may need quotes or escapes.
LABELS = [
    "plain",
    "a,b",
    'a "quote"',
    "back\\slash",
    '\\"',
    " blank ",
    "#1",
    "a#b",
    "two\nlines",
    "é☃😀",
    "",
    "\x1f\x7f",
]
_MADE = re.compile(rb"(?<= at )\S+ \S+(?=\. All times)")


class Commands:
    """`waypost spark` on a daemon, in the folder of a test."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["--url", self.url, "spark", *arguments])

    def told(self, *arguments: str) -> str:
        """The summary of the report."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        summary: str = json.loads(result.stdout)["summary"]
        return summary

    def refused(self, *arguments: str) -> tuple[int, list[str]]:
        """The exit code, and the lines of the error, without the choice of the engine."""
        result = self.run(*arguments)
        assert "Traceback" not in result.stderr
        assert result.exit_code != 0, result.stdout
        return result.exit_code, [line for line in result.stderr.splitlines() if not line.startswith("engine: ")]

    def report(self, name: str, **replaced: str) -> dict[str, bytes]:
        """The files of a report without the time at which it was made."""
        found = {file.name: _MADE.sub(b"", file.read_bytes()) for file in (self.folder / name).iterdir()}
        for old, new in replaced.items():
            found = {file: content.replace(old.encode(), new.encode()) for file, content in found.items()}
        return found


@pytest.fixture
def commands(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(daemon.url, tmp_path)


def fill(manager: waypost.Manager, name: str, count: int = len(LABELS), **properties: Any) -> waypost.Queue:
    """A transactional queue with messages that have the LABELS, and texts that differ."""
    queue = manager.create_queue(name, transactional=True, **properties)
    with manager.transaction() as transaction:
        for number in range(count):
            queue.send(f"{name} {number}", label=LABELS[number % len(LABELS)], transaction=transaction)
    return queue


def texts_of(queue: waypost.Queue) -> list[str]:
    return sorted(each.text for each in queue.browse())


def archived_texts(spark: SparkSession, path: Path) -> list[str]:
    rows = archived.read_archive(spark, str(path)).select("body").collect()
    return sorted(bytes(row.body).decode("utf-16-le") for row in rows)


def refuse_to(action: str) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise InvalidParameter(f"the test does not {action}")

    return fail


def other(engine: str) -> str:
    return "arrow" if engine == "spark" else "spark"


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_both_engines_write_the_same_archive_and_continue_that_of_the_other(
    spark: SparkSession, daemon: Daemon, commands: Commands, kind: str
) -> None:
    names = [f"engines-{kind}-{number}" for number in (1, 2)]
    run = ("archive", "archive", *names, "--format", kind)
    place = commands.folder / "archive"
    with daemon.connect() as manager:
        queues = [fill(manager, name) for name in names]
        texts = sorted(text for queue in queues for text in texts_of(queue))
        for engine in ("spark", "arrow"):
            summary = commands.told(*run, "--keep", "--batch", "9", "--engine", engine, "--report", engine)
            assert summary == f"{len(texts)} messages of 2 queues are in {place}."
            assert commands.told("archive", "archive", "--verify", "--engine", other(engine)).startswith("All ")
            assert archived_texts(spark, place) == texts
            place.rename(commands.folder / f"by-{engine}")
        assert commands.report("arrow")["days.csv"] == commands.report("spark")["days.csv"]
        if kind == "parquet":
            # The files of a table have the id of the query in them, which is new in each archive: sizes differ.
            assert commands.report("arrow") == commands.report("spark")
            columns = [
                "queue",
                "date",
                "messages",
                "malformed",
                "bytes",
                "file_bytes",
                "first_seq",
                "last_seq",
                "digest",
            ]
            entries = [
                sorted(tuple(str(row[name]) for name in columns) for row in manifest.noted(spark, str(each)).collect())
                for each in (commands.folder / "by-spark", commands.folder / "by-arrow")
            ]
            assert entries[0] == entries[1]
        for engine in ("spark", "arrow"):
            # The archive of one engine goes on with the other, and then with the first again.
            (commands.folder / f"by-{engine}").rename(place)
            with manager.transaction() as transaction:
                queues[0].send(f"after {engine}", transaction=transaction)
            texts = sorted(text for queue in queues for text in texts_of(queue))
            commands.told(*run, "--keep", "--engine", other(engine))
            assert archived_texts(spark, place) == texts
            nothing = f"The queues contain no new messages for the archive {place}."
            assert [commands.told(*run, "--keep", "--engine", each) for each in ("arrow", "spark")] == [nothing] * 2
            place.rename(commands.folder / f"by-{engine}")
        (commands.folder / "by-spark").rename(place)
        with manager.transaction() as transaction:
            queues[1].send("the last", transaction=transaction)
        # All that is archived is removed then, by either engine.
        commands.told(*run, "--engine", "arrow")
        assert [texts_of(queue) for queue in queues] == [[], []]
        commands.told("archive", "archive", "--verify", "--engine", "spark")


@pytest.mark.parametrize("engine", ["spark", "arrow"])
@pytest.mark.parametrize(
    "step",
    [
        "waypost.spark.pipelines.archive_writer._shown",
        "waypost.spark.pipelines.archive.flush",
        "waypost.spark.pipelines.archive.write_manifest",
    ],
)
def test_an_archive_that_one_engine_has_not_finished_is_finished_by_the_other(
    spark: SparkSession, daemon: Daemon, commands: Commands, monkeypatch: pytest.MonkeyPatch, engine: str, step: str
) -> None:
    name = f"unfinished-{engine}-{step.rpartition('.')[2]}"
    run = ("archive", "archive", name, "--batch", "4")
    with daemon.connect() as manager:
        queue = fill(manager, name)
        texts = texts_of(queue)
        with monkeypatch.context() as patch:
            patch.setattr(step, refuse_to("go on"))
            code, lines = commands.refused(*run, "--engine", engine)
            assert (code, len(lines)) == (2, 2)
            assert "The test does not go on" in lines[0]
        # Nothing is removed before it is safe.
        assert texts_of(queue) == texts
        assert commands.told(*run, "--engine", other(engine)) == (
            f"12 messages of 1 queue are in {commands.folder}/archive."
        )
        assert texts_of(queue) == []
    assert archived_texts(spark, commands.folder / "archive") == texts
    files = list((commands.folder / "archive").rglob("*part-*.parquet"))
    assert len(files) == manifest.noted(spark, str(commands.folder / "archive")).count()
    assert commands.told("archive", "archive", "--verify").startswith("All 3 files of ")


@pytest.mark.parametrize("step", ["finish", "latestOffset"])
def test_a_batch_with_a_manifest_is_removed_by_the_next_run_and_not_written_again(
    spark: SparkSession, daemon: Daemon, commands: Commands, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The run ends before it notes that the batch is done, or before it removes the messages."""
    name = f"noted-{step}"
    run = ("archive", "archive", name)
    with daemon.connect() as manager:
        queue = fill(manager, name)
        texts = texts_of(queue)
        with monkeypatch.context() as patch:
            if step == "finish":
                patch.setattr(checkpoints.Checkpoint, "finish", refuse_to("go on"))
            else:
                patch.setattr(stream_ranges.RangeStream, "_settle", lambda *_: None)
            CliRunner().invoke(app, ["--url", daemon.url, "spark", *run, "--engine", "arrow"])
        assert texts_of(queue) == texts
        assert archived_texts(spark, commands.folder / "archive") == texts
        assert commands.told(*run, "--engine", "spark").startswith(
            "The queues contain no new messages for the archive "
        )
        assert texts_of(queue) == []
    assert archived_texts(spark, commands.folder / "archive") == texts


def test_both_engines_find_the_same_damage(spark: SparkSession, daemon: Daemon, commands: Commands) -> None:
    with daemon.connect() as manager:
        fill(manager, "damaged")
    commands.told("archive", "archive", "damaged", "--batch", "4", "--engine", "arrow")
    gone, changed, _ = sorted((commands.folder / "archive").glob("queue=*/date=*/batch=*/*.parquet"))
    gone.unlink()
    changed.write_bytes(b"something else")
    failed = [
        commands.refused("archive", "archive", "--verify", "--engine", each, "--report", each)
        for each in ("spark", "arrow")
    ]
    assert failed[0] == failed[1]
    assert failed[0][1][0] == f"2 of 3 files of {commands.folder}/archive do not match the manifests."
    assert commands.report("arrow") == commands.report("spark")


def test_both_engines_check_the_digests_of_packets(
    spark: SparkSession, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions, and Spark on other storage, make digests of packets and not of files."""
    place = commands.folder / "archive"
    rows = [message(1), message(2), message(3, packet_error="it is none")]
    with monkeypatch.context() as patch:
        patch.setattr("waypost.spark.pipelines.archive.is_on_disk", lambda _: False)
        given = spark.createDataFrame(pa.Table.from_pylist(rows, schema=manifest.MESSAGE))
        archive.archive_batch(given, str(place), archive.table_of(str(place), "parquet"), manifest.Batch("query", 0))
    verify = ("archive", "archive", "--verify")
    assert [commands.told(*verify, "--engine", each) for each in ("spark", "arrow")] == [
        f"All 2 files of {place} match the manifests."
    ] * 2
    gone, changed = sorted(place.glob("queue=*/date=*/batch=*/*.parquet"))
    gone.unlink()
    (changed.parent / f".{changed.name}.crc").unlink(missing_ok=True)
    found = pq.ParquetFile(changed).read()
    packets = pa.array([b"another", *found["packet"].to_pylist()[1:]], pa.binary())
    pq.write_table(found.set_column(found.schema.get_field_index("packet"), "packet", packets), changed)
    for each in ("spark", "arrow"):
        assert commands.refused(*verify, "--engine", each, "--report", each)[0] == 1
    assert commands.report("arrow") == commands.report("spark")
    assert (
        b"the field bytes is 15, but must be 16; the field file_bytes is " in commands.report("arrow")["problems.csv"]
    )


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("left", ["_temporary/0/_temporary/attempt/part-0.json", ".part-0.json"])
def test_a_manifest_that_a_run_has_not_finished_is_not_read(daemon: Daemon, commands: Commands, left: str) -> None:
    name = f"left{len(left)}"
    with daemon.connect() as manager:
        fill(manager, name)
    commands.told("archive", "archive", name)
    (line,) = (commands.folder / "archive/_batches").rglob("part-*.json")
    file = line.parent / left
    file.parent.mkdir(parents=True, exist_ok=True)
    line.rename(file)
    for verb in (("replay", "archive"), ("archive", "archive", "--verify"), ("inventory", "./archive")):
        assert "is not an archive, or is empty" in commands.refused(*verb)[1][0]


def test_two_runs_do_not_archive_at_the_same_time_nor_with_a_damaged_checkpoint(
    daemon: Daemon, commands: Commands
) -> None:
    with daemon.connect() as manager:
        fill(manager, "held")
    run = ("archive", "archive", "held", "--checkpoint", "checkpoint", "--engine", "arrow")
    with checkpoints.Checkpoint(commands.folder / "checkpoint").held():
        code, lines = commands.refused(*run)
    assert code == 1
    assert lines[0].startswith(f"Another run uses the checkpoint {commands.folder}/checkpoint")
    assert commands.told(*run).startswith("12 messages of 1 queue ")
    with daemon.connect() as manager, manager.transaction() as transaction:
        manager.queue("held").send("another", transaction=transaction)
    (commands.folder / "checkpoint/offsets/0").write_text("v1\n{}\n")
    damaged = [commands.refused(*run)]
    (commands.folder / "checkpoint/metadata").unlink()
    damaged.append(commands.refused(*run))
    for code, lines in damaged:
        assert code == 2
        assert lines[0].startswith("The checkpoint is damaged: ")
    with daemon.connect() as manager:
        assert texts_of(manager.queue("held")) == ["another"]


@pytest.mark.parametrize("engine", ["spark", "arrow"])
def test_a_replay_that_one_engine_has_not_finished_is_finished_by_the_other(
    spark: SparkSession, daemon: Daemon, commands: Commands, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    name = f"replayed-{engine}"
    with daemon.connect() as manager:
        queue, copy = fill(manager, name), manager.create_queue(f"{name}-copy", transactional=True)
        texts = texts_of(queue)
        commands.told("archive", "archive", name, "--batch", "5", "--keep")
        run = ("replay", "archive", "--map", f"{name}={copy.name}", "--rate", "1000000000", "--do", "--id", name)
        with monkeypatch.context() as patch:
            # The messages of the first chunk are sent, and it is not noted.
            patch.setattr(replay.Plan, "note", refuse_to("go on"))
            assert commands.refused(*run, "--engine", engine)[0] == 2
        assert len(texts_of(copy)) == 5
        assert commands.told(*run, "--engine", other(engine)) == "All 12 messages were sent once."
        assert texts_of(copy) == texts
        again = "All 12 messages were sent by an earlier run; to send the same messages again, use another --id."
        assert [commands.told(*run, "--engine", each) for each in ("spark", "arrow")] == [again] * 2
        assert texts_of(copy) == texts
        others = [commands.refused(*run, "--relabel", "x", "--engine", each) for each in ("spark", "arrow")]
        assert others[0] == others[1]
        assert "was started with other options" in others[0][1][0]


def test_both_engines_report_the_same_replay(
    spark: SparkSession, daemon: Daemon, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MESSAGES_PER_CHUNK", 3)
    with daemon.connect() as manager:
        names = ["replays-1", "replays-2"]
        queues = [fill(manager, name) for name in names]
        plain = manager.create_queue("replays-plain")
        commands.told("archive", "archive", *names, "--batch", "7")
        choices = [
            ("--relabel", "again {label}"),
            ("--queue", "*REPLAYS-2", "--label", "?*", "--relabel", "new", "--map", "replays-2=replays-1"),
            ("--since", "2026-01-01", "--until", "2999-01-01", "--rate", "1000000000"),
            ("--until", "2026-01-01"),
        ]
        for number, options in enumerate(choices):
            run = ("replay", "archive", *options, "--check")
            sent = []
            for engine in ("spark", "arrow"):
                commands.told(*run, "--engine", engine, "--report", f"dry-{engine}")
                summary = commands.told(
                    *run, "--do", "--id", f"{engine}-{number}", "--engine", engine, "--report", engine
                )
                sent.append((summary, [[(each.label, each.body) for each in queue.browse()] for queue in queues]))
                for queue in queues:
                    queue.purge()
            assert sent[0] == sent[1]
            assert commands.report("dry-arrow") == commands.report("dry-spark")
            assert commands.report("arrow", arrow="spark") == commands.report("spark")
        # A queue that is not transactional is refused, and nothing is sent.
        refusals = [
            commands.refused("replay", "archive", "--map", f"replays-1={plain.name}", "--do", "--engine", each)
            for each in ("spark", "arrow")
        ]
        assert refusals[0] == refusals[1]
        assert "replays-plain" in refusals[0][1][0]
        assert texts_of(plain) == []
        run = ("replay", "archive", "--queue", "*replays-1", "--map", f"replays-1={plain.name}", "--do")
        assert commands.told(*run, "--delivery", "at-least-once", "--engine", "arrow").startswith("All 12 messages ")
        assert texts_of(plain) == sorted(f"replays-1 {number}" for number in range(12))
    elsewhere = [commands.refused("replay", ".", "--engine", each) for each in ("spark", "arrow")]
    assert elsewhere[0] == elsewhere[1]
    assert "is not an archive, or is empty" in elsewhere[0][1][0]


def written(folder: Path) -> list[str]:
    """The lines of texts, in any order of rows but the header; the rows of Parquet, with their types."""
    files = sorted(folder.glob("part-*"))
    if files[0].suffix == ".parquet":
        found = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
        return [str(found.schema.remove_metadata()), *sorted(map(str, in_memory.rows_of(found)))]
    contents = [file.read_text("utf-8") for file in files]
    if files[0].suffix == ".json":
        return sorted("".join(contents).split("\n"))
    header = contents[0].partition("\n")[0] + "\n"
    return [header, *sorted("".join(content.removeprefix(header) for content in contents).split("\n"))]


def test_both_engines_decode_the_same_packets(
    spark: SparkSession, daemon: Daemon, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon.connect() as manager:
        queue = fill(manager, "decoded")
        packets = [each.packet for each in queue.browse()]
        commands.told("archive", "archive", "decoded", "--keep", "--engine", "arrow")
        commands.told("archive", "other", "decoded", "--keep", "--format", "delta", "--engine", "arrow")
    for name, content in {
        "raw.bin": b"".join(packets),
        "cut.bin": packets[0] + packets[1][:-7],
        "hex.txt": packets[0].hex().encode(),
        "broken.bin": b"no packet \xff\xfe",
        "empty.bin": b"",
    }.items():
        (commands.folder / name).write_bytes(content)
    write_messages(
        commands.folder / "rows.parquet", [message(1), message(2, packet=packets[0]), message(3, packet=None)]
    )
    for form, files in [
        ("csv", ("raw.bin", "hex.txt")),
        ("json", ("raw.bin", "cut.bin", "broken.bin", "gone.pcap", "empty.bin")),
        ("parquet", ("raw.bin", "hex.txt", "--as", "raw")),
        ("parquet", ("archive", "other", "--as", "archive")),
        ("csv", ("other", "archive", "--as", "archive", "--columns", "label,body_text,queue,date")),
        ("json", ("archive", "--as", "archive", "--columns", "queue,date,seq,label,message_id,body,sent_time,trace")),
        ("csv", ("rows.parquet",)),
        ("parquet", ("rows.parquet", "--as", "parquet", "--columns", "label,packet_error")),
    ]:
        results = [
            commands.run("decode", *files, "--out", f"out-{each}", "--format", form, "--engine", each, "--report", each)
            for each in ("spark", "arrow")
        ]
        assert results[0].exit_code == results[1].exit_code == (1 if "gone.pcap" in files else 0), results[1].stderr
        assert results[0].stdout.replace("spark", "arrow") == results[1].stdout
        assert commands.report("arrow") == commands.report("spark")
        assert written(commands.folder / "out-arrow") == written(commands.folder / "out-spark")


def test_both_engines_refuse_to_decode_the_same(spark: SparkSession, commands: Commands) -> None:
    pq.write_table(pa.table({"label": ["x"]}), commands.folder / "bare.parquet")
    write_messages(commands.folder / "rows.parquet", [message(1)])
    (commands.folder / "full").mkdir()
    (commands.folder / "full/mine.txt").write_text("mine")
    for arguments, sentence in [
        (("bare.parquet",), "The binary column packet with the packets is missing; the columns are label"),
        (("rows.parquet", "--out", "out", "--columns", "colour"), "Unknown column 'colour'; the columns are queue, "),
        (("rows.parquet", "--out", "full"), "contains 'mine.txt', which would be deleted"),
        (("rows.parquet", "--out", "full/mine.txt"), "is a file, which would be deleted; specify a folder"),
        ((".", "--as", "archive"), "is not an archive, or is empty"),
    ]:
        found = [commands.refused("decode", *arguments, "--engine", each) for each in ("spark", "arrow")]
        assert found[0] == found[1]
        assert sentence in found[0][1][0]
    assert (commands.folder / "full/mine.txt").read_text() == "mine"
    assert not (commands.folder / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("archive", "s3a://bucket/archive", "x"), "s3a://bucket/archive is not on a local disk"),
        (("archive", "archive", "x", "--checkpoint", "s3a://b/c"), "s3a://b/c is not on a local disk"),
        (("archive", "archive", "x", "--checkpoint", "later"), "later was written by another version of Spark"),
        (("archive", "s3a://bucket/archive", "--verify"), "s3a://bucket/archive is not on a local disk"),
        (("replay", "s3a://bucket/archive"), "s3a://bucket/archive is not on a local disk"),
        (("decode", "s3a://bucket/archive", "--as", "archive"), "s3a://bucket/archive is not on a local disk"),
        (("decode", "x.bin", "--out", "s3a://bucket/out"), "s3a://bucket/out is not on a local disk"),
        (("decode", "*.parquet", "--as", "parquet"), "*.parquet is a pattern"),
        (("decode", "folder", "--as", "parquet"), "folder contains folders"),
        (("decode", "one.parquet", "two.parquet"), "two.parquet have different columns"),
        (("decode", "two.parquet"), "has the type double, which only Spark can read"),
        (("trace", "s3a://bucket/archive"), "s3a://bucket/archive is not on a local disk"),
    ],
)
def test_work_that_needs_spark_is_refused_by_arrow_and_given_to_spark(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], reason: str
) -> None:
    monkeypatch.setattr("waypost.cli.spark.common._session", refuse_to("start Spark"))
    (commands.folder / "folder/x=1").mkdir(parents=True)
    (commands.folder / "later/offsets").mkdir(parents=True)
    (commands.folder / "later/offsets/0").write_text("v2\n{}\n{}")
    pq.write_table(pa.table({"packet": [b"x"]}), commands.folder / "one.parquet")
    pq.write_table(pa.table({"packet": [b"x"], "weight": [0.5]}), commands.folder / "two.parquet")
    code, lines = commands.refused(*arguments, "--engine", "arrow")
    assert code == 2
    assert lines[0].startswith("--engine arrow is not possible, because ")
    assert reason in lines[0]
    assert any("--engine spark" in line for line in lines)
    chosen = commands.run(*arguments)
    assert chosen.stderr.startswith("engine: spark, because ")
    assert reason in chosen.stderr.splitlines()[0]
    assert "The test does not start Spark" in chosen.stderr


@pytest.mark.usefixtures("without_spark")
def test_small_archives_are_written_replayed_and_decoded_without_spark(daemon: Daemon, commands: Commands) -> None:
    with daemon.connect() as manager:
        queue = fill(manager, "small")
        told = commands.run("archive", "archive", "small")
        assert told.stderr.startswith("engine: arrow, because the input has 12 messages and 0.0 MiB")
        assert told.stdout.startswith(f"12 messages of 1 queue are in {commands.folder}/archive.\n")
        assert commands.told("archive", "archive", "--verify").startswith("The only file of ")
        assert commands.told("replay", "archive", "--do", "--check") == "All 12 messages were sent once."
        assert len(texts_of(queue)) == 12
        assert commands.told("decode", "archive", "--as", "archive") == (
            "12 messages were decoded; 0 packets are malformed."
        )
        (commands.folder / "packet.bin").write_bytes(queue.peek().packet)
        decoded = commands.run("decode", "packet.bin", "--out", "out")
        assert decoded.stderr == "engine: arrow, because the input has 1 file and 0.0 MiB\n"
    for arguments, sentence in [
        (("archive", "archive", "nowhere"), "nowhere"),
        (
            ("archive", "archive", "small", "--format", "delta"),
            "is an archive of Parquet files; use the format of this archive",
        ),
        (("archive", "year[2026]", "small"), "must not contain any of"),
        (("archive", "packet.bin/archive", "small"), "packet.bin"),
        (("archive", "out", "--verify"), "is not an archive, or is empty"),
        (("replay", "out"), "is not an archive, or is empty"),
        (("decode", "gone.parquet"), "gone.parquet does not exist"),
        (("decode", "packet.bin", "--as", "parquet"), "packet.bin"),
    ]:
        assert any(sentence in line for line in commands.refused(*arguments)[1]), arguments
    assert not (commands.folder / "year[2026]").exists()
