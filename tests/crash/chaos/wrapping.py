"""Put fail points into the Spark connector from outside, in every process that loads it (hook/sitecustomize.py).

The methods are found by Spark's names for them, in whatever class of waypost.spark has them.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

from tests.crash.chaos.points import Plot, Point, Victim, plot_here

_CONNECTOR: Final = "waypost.spark."
_CLIENT: Final = "waypost.client.bulk.client"

Method = Callable[..., Any]


def install() -> None:
    plot = plot_here()
    assert plot is not None
    sys.meta_path.insert(0, _Finder(plot))


class _Finder(MetaPathFinder):
    def __init__(self, plot: Plot) -> None:
        self._plot: Final = plot

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_CONNECTOR) and fullname != _CLIENT:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_wrap(module: ModuleType) -> None:
            load(module)
            wrap(module, self._plot)

        spec.loader.exec_module = load_and_wrap  # type: ignore[method-assign]
        return spec


def wrap(module: ModuleType, plot: Plot) -> None:
    """Wrap what the module itself defines."""
    for kind in vars(module).values():
        if not isinstance(kind, type) or kind.__module__ != module.__name__:
            continue
        if module.__name__ == _CLIENT:
            _change(kind, "call", _call, plot)
        elif hasattr(kind, "abort"):
            _change(kind, "write", _write, plot)
            _change(kind, "commit", _commit, plot)
        elif hasattr(kind, "partitions"):
            _change(kind, "latestOffset", _latest_offset, plot)
            _change(kind, "read", _read, plot)
            if hasattr(kind, "latestOffset"):
                _change(kind, "partitions", _partitions, plot)


def _change(kind: type, name: str, change: Callable[[Method, Plot], Method], plot: Plot) -> None:
    method = vars(kind).get(name)
    if callable(method):
        setattr(kind, name, wraps(method)(change(method, plot)))


def _latest_offset(method: Method, plot: Plot) -> Method:
    def latest_offset(self: Any, start: Any, limit: Any) -> Any:
        # Spark asks with the same start until there are messages.
        if vars(self).setdefault("chaos_start", start) != start:
            plot.reach(Point.SETTLE)
            vars(self)["chaos_start"] = start
        end = method(self, start, limit)
        if end != start:
            plot.reach(Point.OFFSET)
        return end

    return latest_offset


def _partitions(method: Method, plot: Plot) -> Method:
    def partitions(self: Any, start: Any, end: Any) -> Any:
        plot.reach(Point.OFFSET_LOG)
        return method(self, start, end)

    return partitions


def _read(method: Method, plot: Plot) -> Method:
    def read(self: Any, partition: Any) -> Iterator[Any]:
        for batch in method(self, partition):
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            plot.reach(Point.READ)
            yield batch.slice(half)

    return read


def _write(method: Method, plot: Plot) -> Method:
    def write(self: Any, iterator: Any) -> Any:
        written = method(self, iterator)
        plot.reach(Point.PREPARE)
        return written

    return write


def _commit(method: Method, plot: Plot) -> Method:
    def commit(self: Any, *arguments: Any, **named: Any) -> None:
        plot.reach(Point.SINK_COMMIT)
        method(self, *arguments, **named)
        plot.reach(Point.COMMIT_LOG)

    return commit


_BEFORE: Final = {"Stage": Point.STAGE}
_AFTER: Final = {"Stage": Point.STAGE_ANSWER, "CommitStages": Point.COMMIT_ANSWER}


def _call(method: Method, plot: Plot) -> Method:
    def call(self: Any, operation: Any, /) -> Any:
        name = type(operation).__name__
        if name in _BEFORE:
            plot.reach(_BEFORE[name])
        answer = method(self, operation)
        if name in _AFTER and plot.reach(_AFTER[name]) is Victim.DAEMON:
            # The answer is lost, so the client repeats its request.
            return method(self, operation)
        return answer

    return call
