"""Common parts of all verbs of `waypost spark`: their options, the session, and the output of their reports.

Nothing of Spark is imported here: the help works without it.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from waypost.cli.daemon import Json
from waypost.cli.program import Failure, Output, printable
from waypost.cli.program_options import Target, target_of, warn_of_secret
from waypost.cli.spark.failures import failure_of, not_available
from waypost.cli.tables import write_json, write_table
from waypost.errors import WaypostError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waypost.spark.pipelines.report import Report

__all__ = ["Conf", "Json", "Master", "Quiet", "ReportFolder", "Sources", "Work", "seconds", "tell", "working"]

# A century: today's date without a far longer time would be before all dates.
LONGEST: Final = 3_155_760_000

Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Master of Spark, like spark://host:7077 (default: this computer)."),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Set a setting of Spark; may be repeated.", show_default=False),
]
ReportFolder = Annotated[
    Path | None,
    typer.Option("--report", metavar="FOLDER", help="Write the report into this folder (default: waypost-VERB)."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress on standard error.")]

# The help of a verb says what it is: a list would show it in the words of Python.
Sources = Annotated[list[str], typer.Argument(metavar="SOURCE", hidden=True)]


def seconds(text: str) -> Any:
    """An option for a time; `text` is its help."""
    return typer.Option(metavar="SECONDS", min=0, max=LONGEST, help=text)


@dataclass(frozen=True, slots=True)
class Work:
    """A session at work, and the daemon that the command was given."""

    spark: "SparkSession"
    target: Target

    def read(self, sources: Sequence[str], columns: Sequence[str], **options: str) -> "DataFrame":
        """Messages of the daemon's queues, of archives or of Parquet files. `options` are those of format("msmq")."""
        given = {"server": self.target.url, **options}
        found: DataFrame = import_module("waypost.spark.pipelines.reading").read_messages(
            self.spark, sources, columns, given
        )
        return found


@contextmanager
def working(
    context: typer.Context, name: str, *, master: str | None, conf: Sequence[str] | None, quiet: bool
) -> Iterator[Work]:
    """A session of Spark for the verb `name`, with a bar while it works. Errors become a Failure."""
    target = target_of(context)
    settings = _settings(conf or ())
    if target.token is not None:
        settings["spark.msmq.token"] = target.token
    if target.cacert is not None:
        # OpenSSL reads it, here and in the processes that Spark starts.
        os.environ["SSL_CERT_FILE"] = str(target.cacert.absolute())
    _require()
    with _log_file() as log, _watching(name, quiet=quiet) as watch:
        try:
            with _session(name, master, settings, log) as spark, watch.following(spark):
                yield Work(spark, target)
        except _errors() as error:
            raise failure_of(error, log.keep()) from None


def tell(report: "Report", folder: Path | None, work_name: str, *, as_json: bool) -> None:
    """Write the report, and the summary of it to standard output."""
    out = Output()
    place = folder or Path(f"waypost-{work_name}")
    try:
        paths = report.write(place)
    except OSError as error:
        raise Failure(
            f"Cannot write the report to {place}: {error.strerror or error}.", "name another folder with --report."
        ) from None
    shown = import_module("waypost.spark.pipelines.report_values").shown
    if as_json:
        figures = {figure.name: figure.value for figure in report.figures}
        write_json(out, {"summary": report.summary, "figures": figures, "report": str(paths.html)})
    else:
        out.write(f"{printable(report.summary)}\n\n")
        rows = [(figure.name, shown(figure.value, figure.kind), figure.note) for figure in report.figures]
        write_table(out, ("FIGURE", "VALUE", ""), rows)
        out.write(f"\nreport: {printable(str(paths.html))}\n")
    out.flush()


def _settings(given: Sequence[str]) -> dict[str, str]:
    settings = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not name.strip() or not equals:
            raise typer.BadParameter(f"{each!r} is not NAME=VALUE", param_hint="--conf")
        if name.strip().lower().endswith(("token", "password", "secret")):
            warn_of_secret(f"--conf {name.strip()}", "WAYPOST_TOKEN or a file of settings")
        settings[name.strip()] = value
    return settings


def _require() -> None:
    try:
        import_module("waypost.spark.session").require_packages()
    except WaypostError as error:
        raise not_available(error) from None


def _errors() -> tuple[type[Exception], ...]:
    """The errors of Spark and of Waypost."""
    return (
        WaypostError,
        import_module("pyspark.errors").PySparkException,
        import_module("py4j.protocol").Py4JError,
    )


@dataclass(slots=True)
class _Log:
    """Where Java writes what it would write to standard error. It is deleted unless somebody shall read it."""

    path: Path
    is_kept: bool = False

    def keep(self) -> Path | None:
        self.is_kept = self.path.exists() and self.path.stat().st_size > 0
        return self.path if self.is_kept else None


@contextmanager
def _log_file() -> Iterator[_Log]:
    handle, name = tempfile.mkstemp(prefix="waypost-spark-", suffix=".log")
    os.close(handle)
    log = _Log(Path(name))
    try:
        yield log
    finally:
        if not log.is_kept:
            with suppress(OSError):
                log.path.unlink()


@contextmanager
def _session(name: str, master: str | None, settings: dict[str, str], log: _Log) -> Iterator["SparkSession"]:
    """The session of this process if there is one, which goes on then."""
    is_ours = import_module("pyspark.sql").SparkSession.getActiveSession() is None
    with _standard_error_to(log.path) if is_ours else nullcontext():
        spark = import_module("waypost.spark").session(f"waypost {name}", master=master, conf=settings)
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """For the processes that are started meanwhile, and theirs."""
    try:
        before = os.dup(2)
    except OSError:
        # It is closed: nobody would see anything.
        yield
        return
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(file)


class _Unwatched:
    """Nobody watches."""

    def following(self, _: "SparkSession") -> AbstractContextManager[None]:
        return nullcontext()


def _watching(name: str, *, quiet: bool) -> AbstractContextManager[Any]:
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        return nullcontext(_Unwatched())
    watching: AbstractContextManager[Any] = import_module("waypost.cli.spark.watching").watching(name)
    return watching
