"""Requests for the watch on the loop: every step of their coroutines, under a name for the request."""

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Final

from waypost.drive.loop_watch import LoopWatch, NoWatch
from waypost.http.requests import Scope

# Parts of a path in the name: the name of a queue says nothing about the work.
_PARTS: Final = 3


@coroutine
def watched(
    work: Coroutine[object, object, None], watch: LoopWatch | NoWatch, what: str
) -> Generator[object, object, None]:
    """Run `work`, and time each step with the watch."""
    value: object = None
    error: BaseException | None = None
    while True:
        began = watch.begin()
        try:
            awaited = work.send(value) if error is None else work.throw(error)
        except StopIteration:
            return
        finally:
            watch.end(began, what)
        value = error = None
        try:
            value = yield awaited
        except GeneratorExit:
            work.close()
            raise
        except BaseException as thrown:  # noqa: BLE001, whatever is thrown is for the work
            error = thrown


def name_of(scope: Scope) -> str:
    """The name of a request, such as GET /api/queues."""
    path = "/".join(str(scope.get("path", "")).split("/")[:_PARTS])
    return f"{scope.get('method', '')} {path}"
