"""Facts of PySpark that the batch source relies on. A failing test names the fact that a new version has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.late import late

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import errors
    from pyspark.sql import DataFrame, SparkSession, functions

    from tests.spark.contract.recorder import Record
else:
    errors = late("pyspark.errors")
    functions = late("pyspark.sql.functions")


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def _takes_filters(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


def load(spark: SparkSession, record: Record, **options: str) -> DataFrame:
    return spark.read.format("recorder").options(place=str(record.place), **options).load()


def test_a_source_is_found_by_the_name_of_its_module_without_registration(spark: SparkSession, record: Record) -> None:
    frame = spark.newSession().read.format("waypost_contract").option("place", str(record.place)).load()
    assert frame.count() == 3


def test_a_registered_source_can_be_used_from_sql(spark: SparkSession, record: Record) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW recorded USING recorder OPTIONS (place '{record.place}')")
    try:
        assert spark.sql("SELECT sum(n) FROM recorded").first() == (3,)
    finally:
        spark.catalog.dropTempView("recorded")


def test_options_are_text_and_their_names_have_no_case(spark: SparkSession, record: Record) -> None:
    reader = spark.read.format("recorder").option("Place", str(record.place)).option("flag", True).option("number", 7)
    reader.load()
    event = record.events("options")[0]
    assert event["kind"] == "CaseInsensitiveDict"
    assert event["values"] == ["str"]
    assert (event["upper"], event["flag"], event["number"]) == (str(record.place), "true", "7")


def test_a_frame_is_planned_at_load_and_read_in_the_same_ranges_by_every_action(
    spark: SparkSession, record: Record
) -> None:
    frame = load(spark, record)
    assert record.events("options"), "the source is made by load()"
    assert frame.count() == frame.count() == 3
    assert len(record.events("partitions")) == 1, "partitions() is called once for a frame"
    assert len(record.events("read")) == 4, "read() is called for each partition in every action"
    load(spark, record).count()
    assert len(record.events("partitions")) == 2, "another load() plans again"


def test_the_schema_of_the_user_reaches_the_reader_and_schema_is_not_called(
    spark: SparkSession, record: Record
) -> None:
    frame = spark.read.format("recorder").schema("word string, n long").option("place", str(record.place)).load()
    assert [tuple(row) for row in frame.collect()] == [("x", 0), ("x", 1), ("x", 2)]
    assert {event["columns"] for event in record.events("reader")} == {"struct<word:string,n:bigint>"}
    assert record.events("schema") == []


def test_columns_that_a_query_does_not_use_are_read_all_the_same(spark: SparkSession, record: Record) -> None:
    load(spark, record).select("n").collect()
    assert {event["columns"] for event in record.events("reader")} == {"struct<n:bigint,part:int>"}


@pytest.mark.usefixtures("_takes_filters")
def test_filters_arrive_typed_and_spark_trusts_the_reader_to_apply_them(spark: SparkSession, record: Record) -> None:
    frame = load(spark, record, filtering="yes").filter((functions.col("n") > 1) & functions.col("part").isNotNull())
    assert frame.count() == 3, "a filter that the reader takes is not checked again"
    seen = {(event["filter"], event["kind"], event["value"]) for event in record.events("filter")}
    assert ("GreaterThan", "int", 1) in seen
    assert ("IsNotNull", "NoneType", None) in seen


@pytest.mark.usefixtures("_takes_filters")
def test_a_query_without_a_filter_gets_the_plan_that_another_filter_made_for_the_same_frame(
    spark: SparkSession, record: Record
) -> None:
    """So its rows are missing where readers plan by filters, and format("msmq") takes no filters over."""
    frame = load(spark, record, filtering="yes")
    frame.filter("n > 1").count()
    frame.count()
    assert len(record.events("partitions")) == 1, "the second query is not planned without the filter of the first"
    frame.filter("n > 0").count()
    assert len(record.events("partitions")) == 2, "one with another filter is planned again"
    load(spark, record, filtering="yes").count()
    assert len(record.events("partitions")) == 3, "and so is another frame"


@pytest.mark.usefixtures("_takes_filters")
def test_or_is_never_pushed(spark: SparkSession, record: Record) -> None:
    frame = load(spark, record, filtering="yes").filter((functions.col("n") == 1) | (functions.col("n") == 2))
    assert frame.count() == 2
    assert {event["filter"] for event in record.events("filter")} <= {"In", "IsNotNull"}


def test_options_of_a_table_are_dropped_and_those_of_a_query_arrive(spark: SparkSession, record: Record) -> None:
    """So format("msmq") needs WITH (...) in a query of a table. A failure here means that it can do without."""
    spark.sql(f"CREATE TABLE contract_table USING recorder OPTIONS (place '{record.place}')")
    try:
        for statement in (
            "SELECT * FROM contract_table",
            "INSERT INTO contract_table VALUES (1, 2)",
            f"CREATE TABLE contract_made USING recorder OPTIONS (place '{record.place}') AS SELECT 1L AS n",
        ):
            with pytest.raises(errors.PySparkException, match="KeyError: 'place'"):
                spark.sql(statement).collect()
        assert record.events("write") == []
        assert spark.sql(f"SELECT n FROM contract_table WITH (place = '{record.place}')").count() == 3
        spark.sql(f"INSERT INTO contract_table WITH (place = '{record.place}') (n) VALUES (7)")
        (write,) = record.events("write")
        assert write["numbers"] == [7]
        assert record.events("writer")[-1]["columns"] == "struct<n:bigint,part:int>", "a missing column is null"
    finally:
        spark.sql("DROP TABLE contract_table")


def test_options_of_a_temporary_view_reach_reads_and_writes(spark: SparkSession, record: Record) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW contract_view USING recorder OPTIONS (place '{record.place}')")
    try:
        assert spark.sql("SELECT * FROM contract_view").count() == 3
        spark.sql("INSERT INTO contract_view (n) VALUES (7)")
        assert [event["numbers"] for event in record.events("write")] == [[7]]
    finally:
        spark.catalog.dropTempView("contract_view")


def test_the_argument_of_load_is_the_option_path(spark: SparkSession, record: Record) -> None:
    spark.read.format("recorder").option("place", str(record.place)).load("some/place")
    assert record.events("options")[0]["path"] == "some/place"


@pytest.mark.parametrize("arrow", ["int32", "uint64", "float64"])
def test_a_batch_with_another_arrow_type_than_the_schema_is_refused(
    spark: SparkSession, record: Record, arrow: str
) -> None:
    with pytest.raises(errors.PySparkException):
        load(spark, record, arrow=arrow).collect()


def test_a_batch_is_taken_whole_however_many_rows_it_has(spark: SparkSession, record: Record) -> None:
    rows = 3 * int(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0)
    assert rows > 0
    assert load(spark, record, rows=str(rows)).count() == rows
    assert [event["stop"] - event["start"] for event in record.events("read")] in ([rows - 1, 1], [1, rows - 1])


def test_batches_to_python_are_bounded_in_bytes(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") in ("67108864b", "64MB", "67108864")


def test_binary_is_bytes_and_timestamps_are_microseconds_in_utc(spark: SparkSession) -> None:
    frame = spark.sql("SELECT X'00FF' AS b, TIMESTAMP '2026-01-02 03:04:05Z' AS t")
    assert frame.collect()[0].b == b"\x00\xff"
    schema = frame.toArrow().schema
    assert schema.field("b").type == pa.binary()
    assert schema.field("t").type == pa.timestamp("us", "UTC")


def test_writing_commits_in_a_new_writer_with_a_message_from_each_task(spark: SparkSession, record: Record) -> None:
    frame = spark.range(4).selectExpr("id AS n").repartition(2)
    frame.write.format("recorder").option("place", str(record.place)).mode("append").save()
    writes = record.events("write")
    (commit,) = record.events("sink commit")
    assert commit["calls"] == 0, "the writer that commits has written nothing"
    assert commit["process"] not in {event["process"] for event in writes}
    assert sorted(number for message in commit["messages"] for number in message["numbers"]) == [0, 1, 2, 3]
    assert [message["part"] for message in commit["messages"]] == [0, 1]
    assert {(event["batch"], event["query"]) for event in writes} == {(None, None)}, "a batch write has no query"


def test_a_failed_task_aborts_the_job_with_none_in_place_of_its_message(spark: SparkSession, record: Record) -> None:
    record.tell("refuse", 3)
    frame = spark.range(0, 4, 1, 2).selectExpr("id AS n")
    with pytest.raises(errors.PySparkException, match="refused as told"):
        frame.write.format("recorder").option("place", str(record.place)).mode("append").save()
    assert record.events("sink commit") == []
    (abort,) = record.events("sink abort")
    assert None in abort["messages"]


def test_a_writer_is_made_with_the_columns_before_any_task_runs(spark: SparkSession, record: Record) -> None:
    spark.range(1).selectExpr("id AS n", "'x' AS label").write.format("recorder").option(
        "place", str(record.place)
    ).mode("append").save()
    calls = [event["call"] for event in record.events() if event["call"] in ("writer", "write")]
    assert calls[:2] == ["writer", "write"]
    assert {event["columns"] for event in record.events("writer")} == {"struct<n:bigint,label:string>"}
