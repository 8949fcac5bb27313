"""One line for each subject and change of its state, whatever others do."""

import json
from io import StringIO
from typing import Any

import pytest

from waypost.daemon.log_subjects import KINDS, Line, News, Subjects
from waypost.daemon.logs import Level, Log
from waypost.limits import MAX_LOG_SUBJECTS
from waypost.node.effects import Notice

HOUR = 3600.0


class Clock:
    """Both clocks, at the command of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr("time.time", lambda: self.now)


class Book:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._stream = StringIO()
        self.log = Log(self._stream, "json", Level.INFO)

    def tell(self, event: str, **facts: object) -> None:
        self.log.notice(Notice(event, facts))

    def lines(self) -> list[dict[str, Any]]:
        """Those since the last time, without times."""
        found = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        self._stream.seek(0)
        self._stream.truncate()
        return [{name: value for name, value in line.items() if name != "time"} for line in found]


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch) -> Book:
    return Book(Clock(monkeypatch))


def fail(book: Book, reason: str = "no answer within 8 s", queue: str = "far") -> None:
    book.tell("connection failed", queue=queue, address="10.0.0.2", reason=reason)


def test_a_destination_that_stays_away_is_one_line_in_a_day(book: Book) -> None:
    for _ in range(20_000):
        fail(book)
        book.clock.now += 4
    (line,) = book.lines()
    assert (line["event"], line["level"], line["reason"]) == ("connection failed", "warning", "no answer within 8 s")


def test_another_reason_is_a_line_that_says_how_often_the_one_before_was_seen(book: Book) -> None:
    for _ in range(30):
        fail(book)
        book.clock.now += 60
    book.lines()
    fail(book, "connection refused")
    (line,) = book.lines()
    assert (line["reason"], line["before"]) == ("connection refused", 30)
    assert line["since"] == "1970-01-12T13:46:40.000Z"


def test_a_destination_that_is_back_is_a_line_too(book: Book) -> None:
    for _ in range(30):
        fail(book)
        book.clock.now += 60
    book.lines()
    book.tell("connection works", queue="far", address="10.0.0.2")
    book.tell("connection works", queue="far", address="10.0.0.2")
    (line,) = book.lines()
    assert (line["event"], line["level"], line["before"]) == ("connection works", "info", 30)
    fail(book)
    assert [line["event"] for line in book.lines()] == ["connection failed"]


def test_one_that_never_failed_works_without_a_word(book: Book) -> None:
    book.tell("connection works", queue="far", address="10.0.0.2")
    assert book.lines() == []


def test_destinations_do_not_hide_each_other(book: Book) -> None:
    for queue in ("far", "farther", "far"):
        fail(book, queue=queue)
    assert [line["queue"] for line in book.lines()] == ["far", "farther"]


def test_one_that_changes_all_the_time_has_few_lines_and_the_last_one_is_right(book: Book) -> None:
    for number in range(1000):
        fail(book, f"reason {number % 2}")
        book.clock.now += 0.1
    book.tell("connection works", queue="far", address="10.0.0.2")
    assert len(book.lines()) < 10
    book.clock.now += 60
    book.log.write_late()
    book.log.write_late()
    (line,) = book.lines()
    assert line["event"] == "connection works"
    assert line["before"] > 300


def test_a_change_that_came_to_nothing_is_not_told_late(book: Book) -> None:
    for _ in range(20):
        fail(book, "one")
        fail(book, "other")
    last = book.lines()[-1]["reason"]
    fail(book, last)
    book.clock.now += 600
    book.log.write_late()
    assert book.lines() == []


def test_what_a_stranger_does_again_and_again_is_one_line_an_hour_with_the_count(book: Book) -> None:
    for _ in range(3 * 3600):
        book.tell("session failed", peer="203.0.113.7", reason="no packet")
        book.clock.now += 1
    lines = book.lines()
    assert 3 <= len(lines) <= 4
    assert lines[-1]["before"] > 7000


def test_all_addresses_of_one_network_are_one_stranger(book: Book) -> None:
    for number in range(100):
        book.tell("session failed", peer=f"2001:db8::{number:x}", reason="no packet")
    assert len(book.lines()) == 1


def test_a_stranger_with_ever_new_reasons_is_bounded_by_its_address(book: Book) -> None:
    for number in range(1000):
        book.tell("session failed", peer="203.0.113.7", reason=f"bad byte at {number}")
    assert len(book.lines()) < 10
    book.tell("session failed", peer="203.0.113.8", reason="another one")
    assert [line["peer"] for line in book.lines()] == ["203.0.113.8"]


def test_refused_messages_are_one_line_for_each_queue_and_reason(book: Book) -> None:
    for number in range(100):
        for queue in ("one", "other"):
            book.tell("message rejected", queue=queue, message=f"{{guid}}\\{number}", peer="10.0.0.1", reason="FULL")
    lines = book.lines()
    assert [(line["queue"], line["message"]) for line in lines] == [("one", "{guid}\\0"), ("other", "{guid}\\0")]


def test_subjects_are_bounded() -> None:
    subjects = Subjects()
    first = Line(Level.INFO, "session failed", {"peer": "10.0.0.1", "reason": "r"})
    assert subjects.news(first, 0.0, 0.0) == News()
    for number in range(MAX_LOG_SUBJECTS):
        line = Line(Level.INFO, "session failed", {"peer": f"peer{number}", "reason": "r"})
        subjects.news(line, 0.0, 0.0)
    assert subjects.news(first, 0.0, 0.0) == News()
    assert subjects.news(first, 0.0, 0.0) is None


def test_an_event_without_its_subject_is_written_as_it_is() -> None:
    subjects = Subjects()
    assert "connection failed" in KINDS
    for _ in range(3):
        assert subjects.news(Line(Level.DEBUG, "connection failed", {"address": "10.0.0.1"}), 0.0, 0.0) == News()
