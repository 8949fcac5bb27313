"""The log: one event a line on standard error, as JSON or as text for people.

Texts of others are cut and escaped. An event that says of its subject what the log has said already is silent
(waypost.daemon.log_subjects), and one that comes too often is counted instead of written, so that nobody can flood the
log: the next line of its kind says how many were left out. What cannot be written is lost.
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
# What else would be "event ... level=..." twice.
_OWN: Final = frozenset({"time", "level", "event"})
# A traceback is ours, and is worth more room.
_MAX_TRACEBACK: Final = 20_000


class Level(IntEnum):
    DEBUG = logging.DEBUG
    INFO = logging.INFO
    WARNING = logging.WARNING
    ERROR = logging.ERROR


# Words at the end of an event's name that somebody should know of.
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
    """Made once, by whoever runs the daemon."""

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
        """What the queue manager tells. How important it is can be seen from the name of the event."""
        level = Level.WARNING if notice.event.endswith(_WARNINGS) else Level.INFO
        self.write(level, notice.event, notice.facts)

    def exception(self, event: str, error: BaseException, **facts: object) -> None:
        """Something that should never happen, with its traceback."""
        lines = "".join(traceback.format_exception(error))
        self.write(Level.ERROR, event, facts | {"error": repr(error)}, _utf8(lines[-_MAX_TRACEBACK:]))

    def write(self, level: Level, event: str, facts: dict[str, object], lines: str = "") -> None:
        """`lines` is the traceback of an exception."""
        if level < self._level or self._stream is None:
            return
        now = time.monotonic()
        news = self._subjects.news(Line(level, event, facts), now, time.time())
        if news is not None:
            self._write(level, event, facts, news, lines)

    def write_late(self) -> None:
        """Write what has changed and could not be written at once, so that the last line of a subject is right.

        To be called now and then.
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
        # Whoever reads the log may be gone, and a disk that it goes to may be full: the queue manager goes on.
        with suppress(OSError, ValueError):
            self._stream.write(line)
            self._stream.flush()


class Forward(logging.Handler):
    """What libraries say through `logging` becomes lines of the log."""

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
    """A value as JSON has it, and of bounded length."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in list(value)[:20]]
    text = value.hex() if isinstance(value, bytes) else _utf8(str(value))
    return text if len(text) <= MAX_LOGGED_TEXT else f"{text[:MAX_LOGGED_TEXT]}..."


def _utf8(text: str) -> str:
    """With halves of surrogate pairs, which names of others can have, as escapes."""
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
    """On standard error, which may be closed."""
    return Log(sys.stderr, form, Level[level.upper()])
