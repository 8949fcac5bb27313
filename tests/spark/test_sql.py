"""SQL alone reads and writes queues, as far as Spark passes options to a source in Python."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

import pytest

import waypost.spark
from tests.crash.daemons import ROOT, Daemon
from tests.late import late

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import errors
    from pyspark.sql import SparkSession
else:
    errors = late("pyspark.errors")


@pytest.fixture
def queue(daemon: Daemon) -> Iterator[str]:
    with daemon.connect() as manager:
        yield manager.create_queue("sql", transactional=True).format_name
        manager.delete_queue("sql")


@pytest.fixture
def table(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE TABLE sql_table USING msmq OPTIONS (queue 'sql', decodeBody 'true')")
    yield
    spark.sql("DROP TABLE sql_table")


def refusal(spark: SparkSession, statement: str) -> str:
    with pytest.raises(errors.PySparkException) as error:
        spark.sql(statement).collect()
    return str(error.value)


def test_a_view_is_read_and_written(spark: SparkSession, daemon: Daemon, queue: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING msmq OPTIONS (server '{daemon.url}', queue 'sql')")
    spark.sql("INSERT INTO v (label, body) VALUES ('left out', X'01')")
    spark.sql("INSERT INTO v BY NAME SELECT 'null' AS label, X'02' AS body, CAST(NULL AS BIGINT) AS seq")
    with daemon.connect() as manager:
        assert [(each.label, each.body) for each in manager.queue("sql").browse()] == [
            ("left out", b"\1"),
            ("null", b"\2"),
        ]
    assert spark.sql("SELECT label FROM v").count() == 2
    assert "the column `seq` has a value" in refusal(spark, "INSERT INTO v (body, seq) VALUES (X'03', 7)")
    assert "INSERT INTO instead of INSERT OVERWRITE" in refusal(spark, "INSERT OVERWRITE v (body) VALUES (X'03')")
    assert spark.read.format("msmq").option("server", daemon.url).load("sql").count() == 2


@pytest.mark.usefixtures("table")
def test_a_table_works_with_the_options_of_a_query(spark: SparkSession, daemon: Daemon, queue: str) -> None:
    where = f"WITH (server = '{daemon.url}', queue = 'sql')"
    spark.sql(f"INSERT INTO sql_table {where} (label, body) VALUES ('one', X'7B7D')")
    assert spark.sql(f"SELECT label, body_text FROM sql_table {where}").collect() == [("one", "{}")]
    for statement in (
        "SELECT * FROM sql_table",
        f"INSERT INTO sql_table (body, dest_queue) VALUES (X'00', '{queue}')",
        f"CREATE TABLE sql_made USING msmq OPTIONS (queue 'sql') AS SELECT X'00' AS body, '{queue}' AS dest_queue",
    ):
        assert "SELECT * FROM t WITH (queue = 'orders')" in refusal(spark, statement)
    with daemon.connect() as manager:
        assert manager.queue("sql").info().message_count == 1
    assert not spark.catalog.tableExists("sql_made")


def test_the_columns_of_a_table_are_those_of_its_definition(spark: SparkSession, daemon: Daemon, queue: str) -> None:
    where = f"server = '{daemon.url}', queue = 'sql'"
    with daemon.connect() as manager, manager.transaction() as transaction:
        manager.queue("sql").send(b"x", label="one", transaction=transaction)
    spark.sql("CREATE TABLE sql_every USING msmq")
    spark.sql("CREATE TABLE sql_some (seq BIGINT, label STRING) USING msmq")
    try:
        chosen = refusal(spark, f"SELECT * FROM sql_every WITH ({where}, columns = 'seq,label')")
        assert "CREATE TABLE t (seq BIGINT, label STRING) USING msmq" in chosen
        for option, column in (
            ("includeHeaders", "headers"),
            ("includePacket", "packet"),
            ("decodeBody", "body_text"),
        ):
            added = refusal(spark, f"SELECT seq FROM sql_every WITH ({where}, {option} = 'true')")
            assert f"the option `{option}` has no effect, because the schema has no column `{column}`" in added
            assert f"CREATE TABLE t (seq BIGINT, label STRING, {column} " in added
        (row,) = spark.sql(f"SELECT * FROM sql_some WITH ({where})").collect()
        assert (len(row), row.label) == (2, "one")
        assert spark.sql(f"SELECT * FROM sql_some WITH ({where}, columns = 'seq,label')").count() == 1
    finally:
        spark.sql("DROP TABLE sql_every")
        spark.sql("DROP TABLE sql_some")


@pytest.mark.parametrize(
    "text", ["garbage", "", "{00000000-0000-0000-0000-000000000000}", "{0}\\\\1", "no\\\\number", "x\\\\1\\\\2"]
)
def test_a_text_that_is_not_a_message_id_has_no_bytes(spark: SparkSession, text: str) -> None:
    waypost.spark.register(spark)
    assert spark.sql(f"SELECT msmq_message_id_bytes('{text}') AS found").collect() == [(None,)]


def test_functions_on_message_ids_and_classes_are_those_of_messages(
    spark: SparkSession, daemon: Daemon, queue: str
) -> None:
    waypost.spark.register(spark)
    with daemon.connect() as manager, manager.transaction() as transaction:
        manager.queue("sql").send(b"x", transaction=transaction)
    with daemon.connect() as manager:
        message = next(iter(manager.queue("sql").browse()))
    frame = spark.read.format("msmq").option("server", daemon.url).load("sql")
    (row,) = frame.selectExpr(
        "msmq_message_id(message_id) AS id",
        "msmq_message_id_bytes(msmq_message_id(message_id)) = message_id AS same",
        "msmq_class_name(message_class) AS name",
        "msmq_class_meaning(message_class) AS meaning",
        "msmq_is_negative(32768) AS negative",
        "msmq_class_name(5) AS own",
    ).collect()
    assert row.id == str(message.id)
    assert (row.same, row.name, row.meaning) == (True, message.class_name, message.class_meaning)
    assert (row.negative, row.own) == (True, None)


def test_the_example_does_everything_in_sql(
    spark: SparkSession, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAYPOST_URL", daemon.url)
    monkeypatch.setattr(waypost.spark, "session", lambda _: spark)
    runpy.run_path(str(ROOT / "examples/spark_sql.py"))
    said = capsys.readouterr().out
    for words in (
        "|normal|8     |MQMSG_CLASS_NORMAL|",
        "|2     |",
        "|normal|bolt|shop  |",
        "|10      |true     |",
        "|11      |",
    ):
        assert words in said, said
