"""The bar of `waypost spark`, with a Spark that is made up."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.late import late

if TYPE_CHECKING:
    from py4j import protocol  # type: ignore[import-untyped]

    from waypost.cli.spark import watching
else:
    protocol = late("py4j.protocol")
    watching = late("waypost.cli.spark.watching")

SECONDS = 60


class Bar:
    """Keeps what is drawn."""

    def __init__(self) -> None:
        self.drawn: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def add_task(self, description: str, total: int | None) -> int:
        self.drawn.put({"description": description, "total": total})
        return 0

    def update(self, task: int, **shown: Any) -> None:
        self.drawn.put(shown)

    def next(self) -> dict[str, Any]:
        return self.drawn.get(timeout=SECONDS)


@dataclass
class Session:
    """A session with the stages and queries of a test."""

    stages: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    queries: list[Any] = field(default_factory=list)
    failure: Exception | None = None

    @property
    def sparkContext(self) -> Any:  # noqa: N802, the name is Spark's
        return SimpleNamespace(statusTracker=lambda: self)

    @property
    def streams(self) -> Any:
        return SimpleNamespace(active=self.queries)

    def getActiveStageIds(self) -> list[int]:  # noqa: N802, the name is Spark's
        if self.failure is not None:
            raise self.failure
        return list(self.stages)

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802, the name is Spark's
        found = self.stages[stage]
        return None if found is None else SimpleNamespace(numTasks=found[0], numCompletedTasks=found[1])


def query(rows: int, waiting: int) -> Any:
    latest = {"q": {"lag_messages": waiting, "lag_bytes": 0, "lag_s": 0.0}}
    source = SimpleNamespace(latestOffset=json.dumps(latest), endOffset=json.dumps({"q": {"rows": rows}}))
    return SimpleNamespace(lastProgress=SimpleNamespace(sources=[source], name="archive", id="1"))


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> Bar:
    monkeypatch.setattr("waypost.cli.spark.watching.SECONDS", 0)
    return Bar()


@pytest.mark.parametrize(
    ("session", "shown"),
    [
        (Session(), ("work: Spark is planning", None, 0)),
        (Session({1: None}), ("work: Spark is planning", None, 0)),
        (Session({1: (8, 3), 2: (2, 2), 3: None}), ("work: 5 of 10 tasks", 10, 5)),
        (
            Session({1: (8, 3)}, [query(3000, 500), SimpleNamespace(lastProgress=None)]),
            ("work: 3,000 of 3,500 messages", 3500, 3000),
        ),
    ],
)
def test_the_bar_shows_tasks_or_the_messages_of_streams(
    bar: Bar, session: Session, shown: tuple[str, int | None, int]
) -> None:
    watch = watching.Watch(bar, "work")  # type: ignore[arg-type]
    assert bar.next() == {"description": "work: Spark is starting", "total": None}
    with watch.following(session):  # type: ignore[arg-type]
        assert bar.next() == {"description": "work"}
        assert bar.next() == dict(zip(("description", "total", "completed"), shown, strict=True))


def test_the_bar_stays_as_it_is_if_the_session_ends(bar: Bar) -> None:
    watch = watching.Watch(bar, "work")  # type: ignore[arg-type]
    with watch.following(Session(failure=protocol.Py4JError("gone"))):  # type: ignore[arg-type]
        pass
    bar.next()
    assert bar.next() == {"description": "work"}
    assert bar.drawn.empty()
