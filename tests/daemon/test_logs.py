"""The log: one event a line, bounded."""

import json
import logging
from io import StringIO
from typing import Any

import pytest

from waypost.daemon.logs import Forward, Level, Log
from waypost.node.effects import Notice


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Broken(StringIO):
    def write(self, text: str) -> int:
        raise OSError("no space left")


def lines(stream: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_of_json_without_a_terminal() -> None:
    stream = StringIO()
    Log(stream, "auto", Level.INFO).info("session opened", peer="10.0.0.1", sessions=3)
    (line,) = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "event": "session opened", "peer": "10.0.0.1", "sessions": 3}


def test_a_terminal_gets_text() -> None:
    stream = Terminal()
    Log(stream, "auto", Level.INFO).warning("refused", message="No more.", peer="10.0.0.1", reason="too many")
    assert stream.getvalue().split(" ", 1)[1] == 'warning refused No more. peer=10.0.0.1 reason="too many"\n'


def test_less_important_events_are_left_out() -> None:
    stream = StringIO()
    log = Log(stream, "json", Level.WARNING)
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert [line["event"] for line in lines(stream)] == ["c", "d"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_text_of_others_is_cut_and_can_neither_end_a_line_nor_rule_a_terminal(form: Any) -> None:
    stream = StringIO()
    Log(stream, form, Level.INFO).info("name", host="\x1b[2J\nroot logged in" + "x" * 10_000, raw=b"\x00\xff" * 9000)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert len(text) < 1500


def test_an_event_that_comes_too_often_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = StringIO()
    log = Log(stream, "json", Level.INFO)
    for _ in range(1000):
        log.info("refused")
    log.info("other")
    now[0] += 1
    log.info("refused")
    written = lines(stream)
    assert len(written) < 60
    assert [line["event"] for line in written[-2:]] == ["other", "refused"]
    assert written[-1]["left_out"] == 1000 - (len(written) - 2)


def test_a_notice_of_something_bad_is_a_warning() -> None:
    stream = StringIO()
    log = Log(stream, "json", Level.INFO)
    log.notice(Notice("session opened", {"peer": "p", "event": "not this"}))
    log.notice(Notice("session failed", {"peer": "p"}))
    first, second = lines(stream)
    assert (first["level"], first["event"], first["peer"]) == ("info", "session opened", "p")
    assert second["level"] == "warning"


def test_what_libraries_log_becomes_lines() -> None:
    stream = StringIO()
    logger = logging.Logger("library")
    logger.addHandler(Forward(Log(stream, "json", Level.INFO)))
    logger.error("%s is odd", "this")
    try:
        raise ValueError("bad")
    except ValueError:
        logger.exception("caught")
    first, second = lines(stream)
    assert (first["event"], first["level"], first["message"]) == ("library", "error", "this is odd")
    assert "ValueError: bad" in second["traceback"]


def test_an_exception_has_its_traceback_in_text_too() -> None:
    stream = Terminal()
    Log(stream, "auto", Level.INFO).exception("unexpected error", ValueError("bad"), message="In a callback")
    assert stream.getvalue().endswith("\nValueError: bad\n\n")


def test_a_log_that_cannot_be_written_stops_nobody() -> None:
    Log(Broken(), "json", Level.INFO).info("event")
    Log(None, "auto", Level.INFO).info("event")
    closed = StringIO()
    log = Log(closed, "json", Level.INFO)
    closed.close()
    log.info("event")
