"""Long work shows its progress on a terminal, and nowhere else."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from waypost.cli import drawing, progress


class Shown(list[str]):
    """The words, and an event when the first come."""

    def __init__(self) -> None:
        super().__init__()
        self.came = Event()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    words = Shown()

    @contextmanager
    def spinner(text: str) -> Iterator[None]:
        words.append(text)
        words.came.set()
        yield
        words.append("over")

    monkeypatch.setattr(drawing, "spinner", spinner)
    monkeypatch.setattr(progress, "_SECONDS", 0)
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    return words


def test_words_are_shown_until_the_work_is_done(shown: Shown) -> None:
    with progress.waiting("deleting \x1b[31m"):
        assert shown.came.wait(60)
    assert shown == ["deleting \\x1b[31m", "over"]


def test_nobody_who_does_not_watch_is_shown_anything(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "is_watched", lambda: False)
    with progress.waiting("deleting"):
        pass
    assert shown == []


def test_quick_work_needs_no_words(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS", 3600)
    with progress.waiting("deleting"):
        pass
    assert shown == []
