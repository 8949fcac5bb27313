"""The log: one event per line on standard error, as JSON or as text for people.

Texts of others are cut and escaped. An event that only repeats the known state of its subject is silent
(waypost.daemon.log_subjects). An event that comes too often is counted instead of written, so that nobody can flood the
log: the next line of its kind says how many were left out. Lines that fail to be written are lost.
"""

import logging
import sys
import time
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final, Literal, TextIO

from msgspec import json

from waypost.api.excerpt import printable
from waypost.api.times import iso_8601
from waypost.buckets import Bucket, Rate
from waypost.daemon.log_subjects import Facts, Line, News, Subjects
from waypost.limits import MAX_LOGGED_TEXT
from waypost.node.effects import Notice

_RATE: Final = Rate(per_second=2, burst=50)
# Facts with these names would repeat a name in a line.
_OWN: Final = frozenset({"time", "level", "event"})
# A traceback is our own text, and may be longer.
_MAX_TRACEBACK: Final = 20_000


class Level(IntEnum):
    DEBUG = logging.DEBUG
    INFO = logging.INFO
    WARNING = logging.WARNING
    ERROR = logging.ERROR


# Words at the end of the name of an event that make it a warning.
_WARNINGS: Final = (
    "refused",
    "failed",
    "malformed",
    "error",
    "rejected",
    "lost",
    "violation",
    "conflict",
    "duplicate",
    "damaged",
)


class Log:
    """The log of a process. `write` and its shorthands add events."""

    __slots__ = ("_buckets", "_is_json", "_left_out", "_level", "_stream", "_subjects")

    def __init__(self, stream: TextIO | None, form: Literal["auto", "text", "json"], level: Level) -> None:
        self._stream: Final = stream
        self._is_json: Final = form == "json" or (form == "auto" and not (stream is not None and stream.isatty()))
        self._level: Final = level
        self._buckets: dict[str, Bucket] = {}
        self._left_out: dict[str, int] = {}
        self._subjects: Final = Subjects()

    def debug(self, event: str, **facts: object) -> None:
        self.write(Level.DEBUG, event, facts)

    def info(self, event: str, **facts: object) -> None:
        self.write(Level.INFO, event, facts)

    def warning(self, event: str, **facts: object) -> None:
        self.write(Level.WARNING, event, facts)

    def error(self, event: str, **facts: object) -> None:
        self.write(Level.ERROR, event, facts)

    def notice(self, notice: Notice) -> None:
        """Write an event of the queue manager. The name of the event decides its level."""
        level = Level.WARNING if notice.event.endswith(_WARNINGS) else Level.INFO
        self.write(level, notice.event, notice.facts)

    def exception(self, event: str, error: BaseException, **facts: object) -> None:
        """Write an unexpected error with its traceback."""
        lines = "".join(traceback.format_exception(error))
        self.write(Level.ERROR, event, facts | {"error": repr(error)}, _utf8(lines[-_MAX_TRACEBACK:]))

    def write(self, level: Level, event: str, facts: dict[str, object], lines: str = "") -> None:
        """Write an event. `lines` is the traceback of an exception."""
        if level < self._level or self._stream is None:
            return
        now = time.monotonic()
        news = self._subjects.news(Line(level, event, facts), now, time.time())
        if news is not None:
            self._write(level, event, facts, news, lines)

    def write_late(self) -> None:
        """Write changes that were held back, so that the last line of a subject is right.

        Call it periodically.
        """
        for line, news in self._subjects.late(time.monotonic(), time.time()):
            self._write(Level(line.level), line.event, line.facts, news)

    def _write(self, level: Level, event: str, facts: Facts, news: News, lines: str = "") -> None:
        assert self._stream is not None
        now = time.monotonic()
        bucket = self._buckets.get(event)
        if bucket is None:
            bucket = self._buckets[event] = Bucket(_RATE, now)
        if not bucket.take(now):
            self._left_out[event] = self._left_out.get(event, 0) + 1
            return
        told: dict[str, object] = {name: _plain(value) for name, value in facts.items() if name not in _OWN}
        if news.count:
            told |= {"before": news.count, "since": _moment(news.since)}
        if lines:
            told["traceback"] = lines
        if left_out := self._left_out.pop(event, 0):
            told["left_out"] = left_out
        moment = _moment(time.time())
        line = _json_line(moment, level, event, told) if self._is_json else _text_line(moment, level, event, told)
        # The reader of the log may be gone, or its disk full: the queue manager goes on.
        with suppress(OSError, ValueError):
            self._stream.write(line)
            self._stream.flush()


class Forward(logging.Handler):
    """Handler that writes the records of `logging`, from libraries, to the log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, object] = {"message": record.getMessage()}
        if record.exc_info is not None and record.exc_info[1] is not None:
            self._log.exception(record.name, record.exc_info[1], **facts)
        else:
            level = max(each for each in Level if each <= max(record.levelno, Level.DEBUG))
            self._log.write(level, record.name, facts)


def _moment(wall: float) -> str:
    return iso_8601(datetime.fromtimestamp(wall, UTC), timespec="milliseconds")


def _plain(value: object) -> object:
    """A value for JSON, of bounded length."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in list(value)[:20]]
    text = value.hex() if isinstance(value, bytes) else _utf8(str(value))
    return text if len(text) <= MAX_LOGGED_TEXT else f"{text[:MAX_LOGGED_TEXT]}..."


def _utf8(text: str) -> str:
    """The text with lone surrogates as escapes: names from others may contain them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _json_line(moment: str, level: Level, event: str, facts: dict[str, object]) -> str:
    record = {"time": moment, "level": level.name.lower(), "event": event} | facts
    return json.encode(record).decode() + "\n"


def _text_line(moment: str, level: Level, event: str, facts: dict[str, object]) -> str:
    message = facts.pop("message", None)
    lines = facts.pop("traceback", None)
    words = [f"{name}={_word(value)}" for name, value in facts.items()]
    head = " ".join([moment, f"{level.name.lower():7}", event, *([] if message is None else [printable(str(message))])])
    text = " ".join([head, *words])
    return f"{text}\n" if lines is None else f"{text}\n{printable(str(lines), keep=chr(10))}\n"


def _word(value: object) -> str:
    text = printable(str(value))
    return f'"{text}"' if " " in text or not text else text


def standard_log(form: Literal["auto", "text", "json"], level: str) -> Log:
    """The log on standard error, which may be closed."""
    return Log(sys.stderr, form, Level[level.upper()])
