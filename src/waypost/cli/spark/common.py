"""Common parts of all verbs of `waypost spark`: their options, the engine, and the output of their reports.

Nothing of Spark is imported here: the help works without it.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from waypost.cli.daemon import Json
from waypost.cli.program import Failure, Output, printable
from waypost.cli.program_options import Target, target_of, warn_of_secret
from waypost.cli.spark.failures import failure_of, not_available
from waypost.cli.tables import write_json, write_table
from waypost.errors import InvalidParameter, WaypostError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waypost.spark.pipelines.reading import Size
    from waypost.spark.pipelines.report import Report

__all__ = [
    "Conf",
    "Engine",
    "Found",
    "Json",
    "Master",
    "Means",
    "Quiet",
    "ReportFolder",
    "Sources",
    "Work",
    "choosing",
    "reading",
    "require",
    "seconds",
    "tell",
    "working",
]

# A century: today's date without a far longer time would be before all dates.
LONGEST: Final = 3_155_760_000

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="URL of the Spark master, such as spark://host:7077. By default, Spark runs on this computer.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Set a Spark property. This option can be repeated.", show_default=False),
]
ReportFolder = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FOLDER",
        help="Write the report into this folder (default: waypost-COMMAND, such as waypost-audit).",
    ),
]
Engine = Annotated[
    Literal["auto", "arrow", "spark"],
    typer.Option(
        help="Engine of the command. The engine `arrow` works in memory and does not need Java. The value `auto` "
        "selects `arrow` for up to 200,000 messages and 512 MiB, otherwise `spark`."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not show progress on standard error.")]

# The help of a verb says what it is: a list would show it in the words of Python.
Sources = Annotated[list[str], typer.Argument(metavar="SOURCE", hidden=True)]


def seconds(text: str) -> Any:
    """An option for a time; `text` is its help."""
    return typer.Option(metavar="SECONDS", min=0, max=LONGEST, help=text)


# Largest number of messages, and of their bytes, that the engine auto works on in memory.
SMALL_MESSAGES: Final = 200_000
SMALL_BYTES: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class Means:
    """The options of a verb for its engine."""

    engine: str
    master: str | None
    conf: Sequence[str] | None
    quiet: bool


@dataclass(frozen=True, slots=True)
class Found:
    """The messages of each source, as DataFrames of Spark or as tables in memory, and the daemon of the command."""

    messages: Sequence[Any]
    target: Target
    is_in_memory: bool


@contextmanager
def reading(context: typer.Context, name: str, means: Means, *wanted: Mapping[str, Any]) -> Iterator[Found]:
    """The messages for the verb `name`, read by the engine that the options or their size choose.

    `wanted` are the fields of waypost.spark.pipelines.reading.Wanted; the server is added to their options.
    """

    def asked() -> list[Any]:
        server = target_of(context).url
        kind = import_module("waypost.spark.pipelines.reading").Wanted
        return [kind(each["sources"], each["columns"], {"server": server, **each["options"]}) for each in wanted]

    def measured(target: Target) -> "Size":
        module = import_module("waypost.spark.pipelines.reading")
        found: Size = sum((module.size_of(each, target.token) for each in asked()), module.Size(0, 0))
        return found

    with choosing(context, name, means, measured) as work:
        module = import_module("waypost.spark.pipelines.reading")
        if work.spark is None:
            found = [module.read_table(each, work.target.token) for each in asked()]
        else:
            found = [each.data_frame(work.spark) for each in asked()]
        yield Found(found, work.target, is_in_memory=work.spark is None)


@contextmanager
def choosing(
    context: typer.Context, name: str, means: Means, measured: Callable[[Target], "Size | None"]
) -> Iterator["Work"]:
    """The means for the verb `name`: a session of Spark, or none if the options or the size choose Arrow.

    `measured` returns the size of the messages, or None if it is unknown, and raises OnlyWithSpark if the work needs
    Spark. Errors become a Failure.
    """
    if means.engine == "arrow":
        for option, value in (("--master", means.master), ("--conf", means.conf)):
            if value:
                raise typer.BadParameter(f"{option} and --engine arrow are mutually exclusive", param_hint=option)
    require()
    if means.engine == "arrow" or (means.engine == "auto" and not means.master and not means.conf):
        target = target_of(context)
        _use_certificate(target)
        with _failures_in_words():
            reason = _reason_for_spark(measured, target, means)
            if reason is None:
                yield Work(None, target)
                return
        _say(means, f"engine: spark, because {reason}")
    with working(context, name, master=means.master, conf=means.conf, quiet=means.quiet) as (spark, target):
        yield Work(spark, target)


@contextmanager
def _failures_in_words() -> Iterator[None]:
    """For work in this process: errors become a Failure."""
    try:
        yield
    except WaypostError as error:
        raise failure_of(error, None) from None
    except OSError as error:
        place = "" if error.filename is None else f" {error.filename}"
        raise Failure(
            f"Cannot read or write{place}: {error.strerror or error}.", "check the permissions and the free space."
        ) from None


def _reason_for_spark(measured: Callable[[Target], "Size | None"], target: Target, means: Means) -> str | None:
    """The reason why the messages are not read into memory; None if they are."""
    only_with_spark = import_module("waypost.spark.pipelines.storage").OnlyWithSpark
    try:
        size = measured(target)
    except only_with_spark as error:
        if means.engine == "arrow":
            raise InvalidParameter(f"--engine arrow is not possible, because {error}; use --engine spark") from None
        return str(error)
    if size is None:
        return None
    told = str(size)
    if means.engine == "auto" and (size.messages > SMALL_MESSAGES or size.bytes > SMALL_BYTES):
        return f"{told}; with --engine arrow, the command reads all of this into memory"
    _say(means, f"engine: arrow, because {told}" if means.engine == "auto" else f"engine: arrow; {told}")
    return None


def _say(means: Means, text: str) -> None:
    if not means.quiet:
        typer.echo(text, err=True)


@dataclass(frozen=True, slots=True)
class Work:
    """The means of a verb: a session of Spark, None for work in this process, and the daemon of the command."""

    spark: "SparkSession | None"
    target: Target


@contextmanager
def working(
    context: typer.Context, name: str, *, master: str | None, conf: Sequence[str] | None, quiet: bool
) -> Iterator[tuple["SparkSession", Target]]:
    """A session of Spark for the verb `name`, with a bar while it works, and the daemon. Errors become a Failure."""
    target = target_of(context)
    settings = _settings(conf or ())
    if target.token is not None:
        settings["spark.msmq.token"] = target.token
    _use_certificate(target)
    require()
    with _log_file() as log, _watching(name, quiet=quiet) as watch:
        try:
            with _session(name, master, settings, log) as spark, watch.following(spark):
                yield spark, target
        except _errors() as error:
            raise failure_of(error, log.keep()) from None


def _use_certificate(target: Target) -> None:
    if target.cacert is not None:
        # OpenSSL reads it, here and in the processes that Spark starts.
        os.environ["SSL_CERT_FILE"] = str(target.cacert.absolute())


def tell(report: "Report", folder: Path | None, work_name: str, *, as_json: bool) -> None:
    """Write the report, and the summary of it to standard output."""
    out = Output()
    place = folder or Path(f"waypost-{work_name}")
    try:
        paths = report.write(place)
    except OSError as error:
        raise Failure(
            f"Cannot write the report to {place}: {error.strerror or error}.", "specify another folder with --report."
        ) from None
    shown = import_module("waypost.spark.pipelines.report_parts").shown
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
            raise typer.BadParameter(f"{each!r} does not have the form NAME=VALUE", param_hint="--conf")
        if name.strip().lower().endswith(("token", "password", "secret")):
            warn_of_secret(
                f"--conf {name.strip()}", "the environment variable WAYPOST_TOKEN, or a file with Spark settings"
            )
        settings[name.strip()] = value
    return settings


def require() -> None:
    """Raise a Failure unless the extra `spark` is installed."""
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
