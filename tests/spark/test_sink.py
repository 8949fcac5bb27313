"""The sink of format("msmq"): rows as messages, and the daemon that gets them once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from tests.crash import daemons
from tests.late import late
from waypost.api.bodies import BYTES, VT_BSTR
from waypost.errors import InsufficientResources, InvalidParameter, LimitReached, QueueNotFound
from waypost.limits import MAX_PACKET_SIZE
from waypost.spark.options import WriteOptions, write_options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import errors
    from pyspark.sql import DataFrame, SparkSession, functions, types
    from pyspark.sql.types import StructType

    from tests.crash.daemons import Daemon
    from waypost.spark import sink, sink_columns, source
    from waypost.spark.pipelines import sending
else:
    errors = late("pyspark.errors")
    functions = late("pyspark.sql.functions")
    sending = late("waypost.spark.pipelines.sending")
    sink = late("waypost.spark.sink")
    sink_columns = late("waypost.spark.sink_columns")
    source = late("waypost.spark.source")
    types = late("pyspark.sql.types")


# --- Rows as messages


def batch(**columns: Any) -> Any:
    return pa.RecordBatch.from_pydict(columns)


def options_of(**given: str) -> WriteOptions:
    return write_options(given)


def schema_of(columns: dict[str, str]) -> StructType:
    found = types.StructType()
    for name, kind in columns.items():
        found.add(name, kind)
    return found


def test_rows_with_equal_properties_share_them() -> None:
    found = sink_columns.groups(batch(body=[b"1", b"2", b"3"], label=["a", "a", "b"]), "orders")
    assert [(group.queue, group.properties["label"], group.bodies) for group in found] == [
        ("orders", "a", [b"1", b"2"]),
        ("orders", "b", [b"3"]),
    ]


def test_every_column_becomes_the_property_of_its_name() -> None:
    (group,) = sink_columns.groups(
        batch(
            body=["text"],
            label=["l"],
            priority=[4],
            body_type=[0],
            correlation_id=[bytes(20)],
            app_specific=[7],
            response_queue=["replies"],
            admin_queue=["acks"],
            acknowledge=[5],
            journal=[3],
            time_to_reach_queue=[60],
            time_to_be_received=[2.5],
            extension=[b"e"],
            dest_queue=["elsewhere"],
        ),
        "orders",
    )
    assert group.queue == "elsewhere"
    assert group.bodies == [b"text"]
    assert group.properties == {
        "label": "l",
        "priority": 4,
        "body_type": 0,
        "correlation_id": "00" * 20,
        "app_tag": 7,
        "response_queue": "replies",
        "admin_queue": "acks",
        "acknowledge": "full-reach-queue",
        "journal": True,
        "dead_letter": True,
        "time_to_reach_queue": 60,
        "time_to_be_received": 2.5,
        "extension": b"e",
    }


def test_null_is_not_given() -> None:
    columns = {"label": None, "priority": None, "body_type": None, "journal": None, "acknowledge": 0, "extension": None}
    (group,) = sink_columns.groups(
        batch(
            body=pa.array([""], pa.string()),
            **{name: pa.array([value], pa.string() if name == "label" else None) for name, value in columns.items()},
        ),
        "orders",
    )
    assert group.properties == {"body_type": VT_BSTR}
    assert group.bodies == [b""]


def test_text_is_utf_16_unless_its_type_says_otherwise() -> None:
    (wide,) = sink_columns.groups(batch(body=["é"]), "orders")
    assert (wide.bodies, wide.properties["body_type"]) == (["é".encode("utf-16-le")], VT_BSTR)
    (plain,) = sink_columns.groups(batch(body=[b"x"]), "orders")
    assert plain.properties["body_type"] == BYTES


def test_a_row_without_a_destination_needs_the_option() -> None:
    rows = batch(body=[b"1", b"2"], dest_queue=["a", None])
    assert [group.queue for group in sink_columns.groups(rows, "b")] == ["a", "b"]
    assert sink_columns.invalid_rows(rows, "b") == []
    (invalid,) = sink_columns.invalid_rows(rows, None)
    assert invalid.row == 1
    assert "the column `dest_queue` is null, and the option `queue` is not set" in invalid.reason


def test_invalid_rows_are_found_with_their_first_reason() -> None:
    rows = batch(
        body=[b"0", None, b"2", b"3", b"4", b"5", b"6", b"7"],
        label=["fine", "x" * 300, "a\0b", "\N{SNOWMAN}" * 249, None, "", "\N{GRINNING FACE}" * 125, "fine"],
        priority=[0, 9, 3, 7, -1, 3, 3, 3],
        app_tag=[0, 1, 2, 3, 4, 1 << 32, 6, 7],
        dest_queue=["a", "a", "a", "a", "a", "a", "a", "DIRECT=nonsense"],
    )
    found = {each.row: each.reason for each in sink_columns.invalid_rows(rows, None)}
    assert found.pop(1) == "the body is null"
    assert "null character" in found.pop(2)
    assert "the column `priority` has the value -1: a priority must be a number from 0 to 7" in found.pop(4)
    assert "the column `app_tag` has the value 4294967296" in found.pop(5)
    assert "a label must have at most 249 characters, not 250" in found.pop(6)
    assert "the column `dest_queue` is invalid" in found.pop(7)
    assert found == {}
    invalid = sink_columns.invalid_rows(rows, None)
    assert sink_columns.without(rows, invalid).column("body").to_pylist() == [b"0", b"3"]
    rejected = sink_columns.rejected(rows, invalid, None, 4)
    assert [(each.queue, each.body) for each in rejected[:2]] == [("a", b""), ("a", b"2")]
    assert rejected[0].reason == "partition 4: the body is null"


def test_a_row_is_measured_as_its_message_has_it() -> None:
    half = "x" * (MAX_PACKET_SIZE // 2)
    rows = batch(body=[half, half + "x", "é" * len(half), "\U0001f600" * (len(half) // 2), half + "x"])
    assert [each.row for each in sink_columns.invalid_rows(rows, "q")] == [1, 4]
    assert sink_columns.invalid_rows(rows, "q")[0].reason.startswith(f"the body has {MAX_PACKET_SIZE + 2} bytes; ")
    # Text of type 0 is UTF-8.
    types = pa.array([None, 0, None, None, 8], pa.int32())
    assert [each.row for each in sink_columns.invalid_rows(rows.append_column("body_type", types), "q")] == [4]
    rows = batch(body=[b"x" * 3_000_000, b"", b"x"], extension=[b"x" * 2_000_000, b"x" * 5_000_000, b"x"])
    assert [each.reason.partition(";")[0] for each in sink_columns.invalid_rows(rows, "q")] == [
        "the body and the extension have 5000000 bytes",
        "the extension has 5000000 bytes",
    ]


def test_rows_that_are_refused_are_found_in_few_requests() -> None:
    queues = ["good", "bad", None, "other"] * 250
    rows = batch(body=[b"large" if row in (400, 403) else b"" for row in range(1000)], dest_queue=queues)
    asked = []

    def probe(some: Any) -> None:
        asked.append(some.num_rows)
        if "bad" in some.column("dest_queue").to_pylist():
            raise QueueNotFound("the queue bad does not exist")
        if b"large" in some.column("body").to_pylist():
            raise InvalidParameter("too large")

    refused = sink_columns.refused_rows(rows, "good", probe)
    assert [each.row for each in refused] == sorted({*range(1, 1000, 4), 400, 403})
    assert {each.reason for each in refused if not each.queue} == {"too large"}
    assert {each.queue for each in refused} == {"", "bad"}
    assert {each.reason for each in refused if each.queue} == {
        "the column `dest_queue` has the value 'bad': the queue bad does not exist"
    }
    assert len(asked) < 50


def test_a_queue_of_the_option_that_is_refused_is_no_fault_of_a_row() -> None:
    def probe(_: Any) -> None:
        raise QueueNotFound("the queue q does not exist")

    for rows in (batch(body=[b"", b""]), batch(body=[b""], dest_queue=pa.array([None], pa.string()))):
        with pytest.raises(QueueNotFound):
            sink_columns.refused_rows(rows, "q", probe)


def test_acknowledgments_and_admin_queues_are_checked_together() -> None:
    rows = batch(body=[b""] * 4, acknowledge=[0, 5, 5, 0], admin_queue=[None, "acks", None, "acks"])
    assert [each.row for each in sink_columns.invalid_rows(rows, "q")] == [2, 3]


def test_labels_tags_and_correlations_may_differ_within_a_group() -> None:
    rows = batch(
        body=[b"0", b"1", b"2"],
        label=["a", "b", None],
        app_tag=[1, 1, 1],
        correlation_id=[bytes(20), None, b"\1" * 20],
        dest_queue=["one", "two", "one"],
    )
    one, two = sink_columns.groups(rows, None, varies=True)
    assert (one.queue, one.bodies, one.properties["app_tag"]) == ("one", [b"0", b"2"], 1)
    assert one.varied == {"label": ["a", None], "correlation_id": ["00" * 20, "01" * 20]}
    assert two.varied == {"label": ["b"], "correlation_id": [None]}
    assert [each.varied for each in sink.staged([one, two])] == [one.varied, two.varied]


ROWS = st.lists(
    st.tuples(st.binary(max_size=3), st.sampled_from(["a", "b"]), st.sampled_from([None, "x", "y"])), max_size=30
)


@given(rows=ROWS, varies=st.booleans())
@settings(max_examples=100, deadline=None)
def test_rows_of_one_destination_keep_their_order_and_their_properties(
    rows: list[tuple[bytes, str, str]], *, varies: bool
) -> None:
    bodies, queues, labels = zip(*rows, strict=True) if rows else ((), (), ())
    rows_batch = batch(
        body=pa.array(bodies, pa.binary()),
        dest_queue=pa.array(queues, pa.string()),
        label=pa.array(labels, pa.string()),
    )
    found: dict[str, list[tuple[bytes, str]]] = {"a": [], "b": []}
    for messages in sink.staged(sink_columns.groups(rows_batch, None, varies=varies)):
        if messages.like is not UNSET:
            given = messages.varied.get("label", [messages.like.label] * len(messages.bodies))
            found[messages.queue].extend(
                (body, str(text or "")) for body, text in zip(messages.bodies, given, strict=True)
            )
        found[messages.queue].extend(
            (bytes(each.body), each.label) for each in messages.messages if each.body is not UNSET
        )
    for queue in found:
        assert found[queue] == [(body, label or "") for body, to, label in rows if to == queue]


def test_frames_are_bounded_in_rows_and_bytes() -> None:
    assert [frame.num_rows for frame in sink_columns.frames(batch(body=[b"x"] * 25_000))] == [10_000, 10_000, 5_000]
    large = bytes(3 << 20)
    assert [frame.num_rows for frame in sink_columns.frames(batch(body=[large, large, b"x", b""]))] == [1, 3]
    assert list(sink_columns.frames(batch(body=pa.array([], pa.binary())))) == []
    extended = batch(body=[b"x"] * 3, extension=pa.array([large, None, large], pa.binary()))
    assert [frame.num_rows for frame in sink_columns.frames(extended)] == [2, 1]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"body": "binary", "lable": "string"},
            "the column 'lable' is not a property of a message; drop it, or rename it: did you mean label?",
        ),
        ({"body": "integer"}, "the column `body` has the type int, but must have the type binary or string"),
        (
            {"body": "string", "priority": "string"},
            "the column `priority` has the type string, but must have the type tinyint or smallint or int",
        ),
        ({"label": "string"}, "the column `body` is missing; its type must be binary or string"),
    ],
)
def test_a_wrong_column_is_refused_by_its_name(columns: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidParameter) as error:
        sink_columns.check_columns(schema_of(columns), options_of(queue="orders"))
    assert words in str(error.value)


def test_a_column_that_is_there_twice_is_refused() -> None:
    twice = types.StructType().add("body", "binary").add("label", "string").add("label", "string")
    with pytest.raises(InvalidParameter, match="several columns have the name `label`; keep only one"):
        sink_columns.check_columns(twice, options_of(queue="orders"))


def test_without_a_destination_nothing_is_written() -> None:
    with pytest.raises(InvalidParameter, match="no destination; set the option `queue`, or add a column `dest_queue`"):
        sink_columns.check_columns(schema_of({"body": "binary"}), options_of(server="http://127.0.0.1:8181"))


# --- On a real daemon


def write(frame: DataFrame, daemon: Daemon, **options: str) -> None:
    frame.write.format("msmq").mode("append").options(server=daemon.url, **options).save()


def bodies(daemon: Daemon, queue: str) -> list[bytes]:
    with daemon.connect() as manager:
        return [message.body for message in manager.queue(queue).browse()]


def test_a_batch_is_written_once_under_its_name_and_to_several_queues(spark: SparkSession, daemon: Daemon) -> None:
    with daemon.connect() as manager:
        for name in ("sink-a", "sink-b"):
            manager.create_queue(name, transactional=True)
    frame = spark.range(0, 2000, 1, 3).selectExpr(
        "cast(cast(id as string) as binary) body",
        "if(id % 2 = 0, 'sink-a', 'sink-b') dest_queue",
        "concat('n', id % 10) label",
        "id app_specific",
    )
    # Twice by one program that is started again.
    for run in (uuid4(), uuid4()):
        write(frame, daemon, txnId="import-1", runId=str(run))
    with daemon.connect() as manager:
        found = list(manager.queue("sink-a").browse())
    assert Counter(int(message.body) for message in found) == Counter(range(0, 2000, 2))
    assert all(message.label == f"n{int(message.body) % 10}" for message in found)
    assert all(message.app_tag == int(message.body) for message in found)
    assert len(bodies(daemon, "sink-b")) == 1000
    write(frame.where("id < 4"), daemon)
    assert len(bodies(daemon, "sink-a")) == 1002


def test_what_cannot_be_written_is_said_before_the_job_and_leaves_nothing(spark: SparkSession, daemon: Daemon) -> None:
    with daemon.connect() as manager:
        manager.create_queue("sink-plain")
        manager.create_queue("sink-strict", transactional=True)
    frame = spark.range(3).selectExpr("cast(id as string) body")
    for options, wrong, words in (
        ({"queue": "sink-plain"}, frame, "is not transactional, so exactly-once writes are not possible"),
        ({"queue": "no-such"}, frame, "no-such"),
        (
            {"queue": "sink-strict"},
            frame.selectExpr("body", "body size"),
            "the column 'size' is not a property of a message",
        ),
        (
            {"queue": "sink-strict"},
            frame.selectExpr("body", "9 priority"),
            "a priority must be a number from 0 to 7, not 9",
        ),
        (
            {"queue": "sink-strict"},
            frame.selectExpr("cast(null as string) dest_queue", "body", "'?' acknowledge"),
            "'?'",
        ),
    ):
        with pytest.raises(errors.PySparkException) as error:
            write(wrong, daemon, **options)
        assert words in str(error.value)
    assert bodies(daemon, "sink-strict") == []
    write(frame, daemon, queue="sink-plain", delivery="at-least-once")
    write(frame, daemon, queue="sink-strict", delivery="at-least-once")
    expected = sorted(text.encode("utf-16-le") for text in "012")
    assert sorted(bodies(daemon, "sink-plain")) == sorted(bodies(daemon, "sink-strict")) == expected


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_the_sink_of_pipelines_names_only_writes_that_happen_once(
    spark: SparkSession, daemon: Daemon, delivery: sending.Delivery
) -> None:
    name = f"piped-{delivery}"
    with daemon.connect() as manager:
        manager.create_queue(f"{name}-from").send_many([b"one", b"two"])
        manager.create_queue(name, transactional=delivery == "exactly-once")
    reader = spark.read.format("msmq").option("server", daemon.url).option("queue", f"{name}-from")
    messages = reader.load().withColumn("dest_queue", functions.lit(name))
    sending.MsmqSink({"server": daemon.url}).send(messages, delivery, f"replay {name}")
    assert sorted(bodies(daemon, name)) == [b"one", b"two"]


@pytest.mark.parametrize("named", [{"txnId": "a"}, {"txnAppId": "a", "txnVersion": "1"}])
def test_a_stream_refuses_the_name_of_a_batch_write(daemon: Daemon, named: dict[str, str]) -> None:
    columns = schema_of({"body": "string", "dest_queue": "string"})
    given = {"server": daemon.url, **named}
    source.MsmqDataSource(given).writer(columns, overwrite=False)
    words = f"the option `{next(iter(named))}` is only for batch writes: a stream writes each batch exactly once"
    with pytest.raises(InvalidParameter, match=words):
        source.MsmqDataSource(given).streamWriter(columns, overwrite=False)


@pytest.mark.parametrize(("mode", "left"), [("peek", 100), ("claim", 0)])
def test_a_batch_of_a_stream_that_is_repeated_is_seen_once(
    spark: SparkSession, daemon: Daemon, tmp_path: Path, mode: str, left: int
) -> None:
    """From one queue to another; then the last commit of Spark is lost, and the batch runs again."""
    come, go = f"from-{mode}", f"to-{mode}"
    with daemon.connect() as manager:
        manager.create_queue(come)
        manager.create_queue(go, transactional=True)
        manager.queue(come).send_many([str(number) for number in range(100)], label="as it was")
    # A claim that is settled does not read again, which only matters to a query that would lose messages.
    given = {"queue": come, "mode": mode, "maxMessagesPerTrigger": "60", "failOnDataLoss": "false"}
    for _ in range(2):
        query = (
            spark.readStream.format("msmq")
            .options(server=daemon.url, **given)
            .schema("body binary, body_type long, label string")
            .load()
            .writeStream.format("msmq")
            .options(server=daemon.url, queue=go, checkpointLocation=str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        assert query.exception() is None
        # Batches of 60 and of 40.
        assert {path.name for path in (tmp_path / "commits").glob("[0-9]*")} == {"0", "1"}
        for name in ("1", ".1.crc"):
            (tmp_path / "commits" / name).unlink(missing_ok=True)
    with daemon.connect() as manager:
        found = list(manager.queue(go).browse())
        assert Counter(message.text for message in found) == Counter(map(str, range(100)))
        assert {message.label for message in found} == {"as it was"}
        assert manager.queue(come).info().message_count == left


# --- Signed and encrypted


def test_a_protected_write_to_another_daemon_arrives_authenticated_and_encrypted(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    with daemons.Daemon(tmp_path, "far", daemons.loopback(229), "security.key_bits=1024") as far:
        far.start()
        with daemon.connect() as manager, far.connect() as other:
            created = manager.create_certificate()
            other.register_certificate(created.pem.encode(), created.sid)
            manager.trust_keys(far.address, other.export_keys())
            queue = other.create_queue("ledger", transactional=True, authenticate=True, privacy="body")
            name = rf"DIRECT=TCP:{far.address}\private$\ledger"
            frame = spark.range(4).selectExpr("cast(id as string) body")
            write(frame, daemon, queue=name, sign="true", encrypt="true", algorithm="aes192")
            found = [queue.receive(timeout=60) for _ in range(4)]
        assert sorted(message.text or "" for message in found) == ["0", "1", "2", "3"]
        for message in found:
            assert (message.authenticated, message.sender_verified, message.encrypted) == (True, True, "aes192")
            assert message.sender_sid == created.sid
        assert far.stop() == 0


def test_only_a_write_that_has_waited_for_room_says_so() -> None:
    options = write_options({"queue": "q", "quotaWait": "1ms"})

    def refused(error: Exception) -> list[str]:
        def write() -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            sink._patiently(options, write)
        return getattr(caught.value, "__notes__", [])

    assert refused(LimitReached("too many stages")) == []
    (note,) = refused(InsufficientResources("the queue is full"))
    assert "has waited 0.001 seconds for room" in note
