"""A bar on standard error while Spark works. The library is loaded only to draw the bar."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from waypost.spark.lag import Lag

SECONDS: Final = 0.25


class Watch:
    """The bar. Spark reports how many tasks its stages have and how many of them are done."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._name = name
        self._task = progress.add_task(f"{name}: Spark is starting", total=None)

    @contextmanager
    def following(self, spark: "SparkSession") -> Iterator[None]:
        """Until the work on this session is done."""
        self._progress.update(self._task, description=self._name)
        is_done = Event()
        thread = Thread(target=self._follow, args=(spark, is_done), daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_done.set()
            thread.join()

    def _follow(self, spark: "SparkSession", is_done: Event) -> None:
        tracker = spark.sparkContext.statusTracker()
        while not is_done.wait(SECONDS):
            try:
                found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                queues = [lag for query in spark.streams.active for lag in _lags(query)]
            except (Py4JError, OSError):
                # The session has ended under our hands; who works on it hears why.
                return
            stages = [stage for stage in found if stage is not None]
            total = sum(stage.numTasks for stage in stages)
            done = sum(stage.numCompletedTasks for stage in stages)
            words = f"{self._name}: {done} of {total} tasks" if total else f"{self._name}: Spark is planning"
            if queues:
                # A stream knows how many messages it has read, and how many wait.
                done = sum(lag.rows for lag in queues)
                total = done + sum(lag.messages for lag in queues)
                words = f"{self._name}: {done:,} of {total:,} messages"
            self._progress.update(self._task, description=words, total=total or None, completed=done)


def _lags(query: "StreamingQuery") -> list["Lag"]:
    progress = query.lastProgress
    return [] if progress is None else list(import_module("waypost.spark.lag").lags(progress))


@contextmanager
def watching(name: str) -> Iterator[Watch]:
    # Standard error itself goes elsewhere while Java starts.
    with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace") as terminal:
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(file=terminal, force_terminal=True), transient=True) as progress:
            yield Watch(progress, name)
