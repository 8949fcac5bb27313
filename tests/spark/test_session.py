"""The settings of waypost.spark.session, what it says when something is missing, and that it is quiet."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest

import waypost.spark
from waypost.spark import SparkNotAvailable, session
from waypost.spark.java import archive_of, command_for, find_java
from waypost.spark.session import SETTINGS, local_settings, require_packages

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


# A busy machine takes its time.
SECONDS = 900

SCRIPT = """
from waypost.spark import session

spark = session(master="local[1]")
print(spark.range(10).mapInArrow(lambda batches: batches, "id long").count())
"""


def test_the_settings_are_those_that_messages_need(spark: SparkSession) -> None:
    found = {name: spark.conf.get(name) for name in SETTINGS}
    assert found == {**SETTINGS, "spark.sql.shuffle.partitions": "2"}, "conf counts before ours"


def test_nothing_of_it_listens_beyond_this_computer(spark: SparkSession) -> None:
    settings = spark.sparkContext.getConf()
    assert settings.get("spark.driver.host") == settings.get("spark.driver.bindAddress") == "127.0.0.1"


def test_workers_have_the_interpreter_of_the_driver(spark: SparkSession) -> None:
    assert spark.range(1).rdd.map(lambda _: sys.executable).collect() == [sys.executable]


def test_workers_import_the_installed_pyspark_and_not_its_archive(spark: SparkSession) -> None:
    places = spark.range(1).rdd.map(lambda _: sys.modules["pyspark"].__file__).collect()
    assert places == [sys.modules["pyspark"].__file__]


def test_workers_are_forked_with_what_messages_need(spark: SparkSession) -> None:
    assert spark.range(1).rdd.map(lambda _: "waypost.arrow.decoder" in sys.modules).collect() == [True]


def test_workers_with_another_interpreter_start_as_spark_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert local_settings()["spark.python.daemon.module"] == "waypost.spark.workers"
    monkeypatch.setenv("PYSPARK_PYTHON", "/elsewhere/python3")
    assert "spark.python.daemon.module" not in local_settings()


def test_who_plans_a_read_does_without_pandas() -> None:
    script = "import sys, waypost.spark.source, waypost.spark.origins; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert done.stdout == "False\n"


def test_the_format_is_there_without_more_ado(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"(?s)^(?!.*DATA_SOURCE_NOT_FOUND)"):
        spark.read.format("msmq").load()


def test_a_second_call_gives_the_session_that_there_is_as_it_is(spark: SparkSession) -> None:
    again = session(conf={"spark.waypost.test": "1"})
    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.shuffle.partitions") == "2"
    assert again.conf.get("spark.waypost.test") == "1"


@pytest.mark.usefixtures("spark")
def test_java_home_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/somewhere/else")
    session()
    assert os.environ["JAVA_HOME"] == "/somewhere/else"
    monkeypatch.delenv("JAVA_HOME")
    session()
    assert "JAVA_HOME" not in os.environ
    assert "SPARK_HOME" not in os.environ


def test_a_session_starts_and_says_nothing(class_archive: Path | None, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert (done.stdout, done.stderr) == ("10\n", "")
    assert list(tmp_path.iterdir()) == [], "nor does it leave anything"


def test_an_archive_that_is_damaged_does_not_keep_spark_from_starting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive_of(find_java()).write_bytes(b"no archive" * 1000)
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert (done.stdout, done.stderr) == ("10\n", "")


def test_a_token_is_not_on_the_command_line_of_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the settings of a builder go; those of a session that has started do not."""
    fake = MagicMock()
    fake.SparkSession.getActiveSession.return_value = None
    made = fake.SparkSession.builder.appName.return_value.master.return_value.config
    module = sys.modules["waypost.spark.session"]
    monkeypatch.setattr(module, "import_module", lambda _: fake)
    session(master="local[1]", conf={"spark.msmq.token": "secret", "spark.app.id": "x"})
    assert "secret" not in str(made.call_args)
    assert made.call_args.kwargs["map"]["spark.app.id"] == "x"
    made.return_value.getOrCreate.return_value.conf.set.assert_called_once_with("spark.msmq.token", "secret")


def test_a_missing_package_is_one_sentence_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["waypost.spark.session"], "PACKAGES", ("os", "no_such_pyspark"))
    command = re.escape(command_for("spark"))
    sentence = f"^no_such_pyspark is not installed; the command `{command}` installs the requirements of Spark$"
    with pytest.raises(SparkNotAvailable, match=sentence):
        require_packages()
    with pytest.raises(SparkNotAvailable, match=sentence):
        session()
    with pytest.raises(SparkNotAvailable, match=sentence):
        _ = waypost.spark.register


def test_the_package_is_light_until_something_is_asked_of_it() -> None:
    script = "import sys, waypost.spark; print(sorted({'pyspark', 'pyarrow', 'numpy', 'pandas'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_the_package_lists_what_it_has() -> None:
    assert dir(waypost.spark) == sorted(waypost.spark.__all__)
    for name in waypost.spark.__all__:
        assert getattr(waypost.spark, name) is not None
    with pytest.raises(AttributeError):
        _ = waypost.spark.nothing  # type: ignore[attr-defined]
