"""`waypost spark`: its help without Spark, its failures in one sentence, and the verbs on files."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner, Result

from waypost.cli import app
from waypost.cli.program import Failure
from waypost.cli.spark import VERBS, common
from waypost.cli.spark.failures import failure_of
from waypost.errors import CannotConnect, InvalidParameter, QueueNotFound
from waypost.spark.java import SparkNotAvailable, command_for
from waypost.spark.pipelines.report import Figure, Kind, Report

TRACEBACK = """
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 1, in main
    process()
waypost.errors.{error}

	at org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:581)
	at java.base/java.lang.Thread.run(Thread.java:840)
"""


def spark(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["spark", *arguments])


def test_the_help_has_every_verb() -> None:
    told = spark("--help").stdout
    assert [name for name in VERBS if f"\n  {name} " in told] == list(VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_the_help_of_every_verb_has_an_example(name: str) -> None:
    result = spark(name, "--help")
    assert result.exit_code == 0, result.stderr
    assert f"  waypost spark {name}" in result.stdout
    assert "--report FOLDER" in result.stdout
    assert "--master URL" in result.stdout
    assert "list[" not in result.stdout


def test_help_waits_for_nothing_of_spark() -> None:
    check = (
        "import sys; from typer.testing import CliRunner; from waypost.cli import app\n"
        "assert CliRunner().invoke(app, ['spark', 'audit', '--help']).exit_code == 0\n"
        "heavy = ('pyspark', 'pyarrow', 'numpy', 'matplotlib', 'rich.')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize("verb", ["audit", "trace", "inventory"])
def test_without_the_extra_one_sentence_says_what_to_install(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The package has the function under the name of its module.
    monkeypatch.setattr(import_module("waypost.spark.session"), "find_spec", lambda _: None)
    result = spark(verb, "orders")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "Pyspark is not installed.",
        f"hint: the command `{command_for('spark')}` installs the requirements of Spark.",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["audit"], "Missing argument 'SOURCE'."),
        (["audit", "admin", "--late", "-1"], "Invalid value for '--late'"),
        (["audit", "admin", "--conf", "spark.x"], "'spark.x' does not have the form NAME=VALUE"),
        (["audits"], "Did you mean 'audit'?"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], sentence: str) -> None:
    result = spark(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_an_error_of_ours_in_a_worker_is_our_sentence_with_our_hint() -> None:
    told = failure_of(Exception(TRACEBACK.format(error="QueueNotFound: the queue orders does not exist")), None)
    assert told.sentence == "The queue orders does not exist."
    assert told.hint.startswith("`waypost queue list`")


def test_an_error_of_ours_keeps_its_exit_code() -> None:
    told = failure_of(Exception(TRACEBACK.format(error="CannotConnect: nothing answers at http://x")), None)
    assert (told.sentence, told.exit_code) == ("Nothing answers at http://x.", 3)
    assert failure_of(CannotConnect("nothing answers"), None).exit_code == 3
    assert failure_of(InvalidParameter("the option mode is wrong"), None).exit_code == 2


def test_an_error_that_is_made_of_parts_is_told_as_well() -> None:
    text = "DecodeError: Signature at offset 4: it is wrong (MS-MQMQ 2.2.19.1)"
    assert failure_of(Exception(TRACEBACK.format(error=text)), None).sentence == (
        "Signature at offset 4: it is wrong (MS-MQMQ 2.2.19.1)."
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03",
            "Spark failed: Path does not exist: file:/x.",
        ),
        (
            "An error occurred while calling o1.count.\n: org.apache.spark.SparkException: Job aborted\n"
            "\tat x.y(Z.java)\n"
            "Caused by: java.io.IOException: No space left on device\n\tat x.y(Z.java)",
            "Spark failed: No space left on device.",
        ),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "Spark cannot start, because Java did not start."),
        ("", "Spark failed: no reason given."),
        ("x" * 1000, f"Spark failed: {'x' * 300}...."[:-1]),
    ],
)
def test_other_errors_are_one_sentence_without_a_trace(text: str, sentence: str) -> None:
    told = failure_of(Exception(text), Path("/tmp/spark.log"))
    assert told.sentence == sentence
    assert told.hint == "/tmp/spark.log contains more output of Spark."


def test_what_spark_lacks_is_told_with_what_to_do() -> None:
    told = failure_of(SparkNotAvailable("Spark requires Java 17; install one"), None)
    assert (told.sentence, told.hint) == ("Spark requires Java 17.", "install one.")


def broken(*_: object) -> NoReturn:
    raise QueueNotFound("the queue orders does not exist")


def test_a_failing_verb_shows_a_sentence_and_leaves_no_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(common, "_session", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = spark("inventory", "orders", "--engine", "spark")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, "The queue orders does not exist.")
    assert list(tmp_path.iterdir()) == []


def test_what_java_writes_goes_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.touch()
    with common._standard_error_to(log):
        os.write(2, b"noise")
    os.write(2, b"talk")
    assert (log.read_text(), capfd.readouterr().err) == ("noise", "talk")


def test_the_summary_goes_to_standard_output_and_the_report_to_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report("t", "All \x1b[31m well.", [Figure("Sent", 1234), Figure("Size", 2048, Kind.BYTES, "of all")])
    common.tell(report, tmp_path / "r", "audit", as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        r"All \x1b[31m well.",
        "",
        "FIGURE  VALUE",
        "Sent    1,234",
        "Size    2.0 KiB  of all",
        "",
        f"report: {tmp_path}/r/report.html",
    ]
    common.tell(report, tmp_path / "r", "audit", as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["figures"], told["report"]) == ({"Sent": 1234, "Size": 2048}, f"{tmp_path}/r/report.html")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match="Cannot write the report to"):
        common.tell(Report("t", "s"), tmp_path / "file", "audit", as_json=False)
