"""What the loop is watched for in requests: every step of a coroutine, under the name of what was asked for."""

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Final

from waypost.drive.loop_watch import LoopWatch, NoWatch
from waypost.http.requests import Scope

# Parts of a path that are told: a queue's name says nothing of the work.
_PARTS: Final = 3


@coroutine
def watched(
    work: Coroutine[object, object, None], watch: LoopWatch | NoWatch, what: str
) -> Generator[object, object, None]:
    """Do all of `work`, with the watch told of each step."""
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
    """Such as GET /api/queues."""
    path = "/".join(str(scope.get("path", "")).split("/")[:_PARTS])
    return f"{scope.get('method', '')} {path}"
