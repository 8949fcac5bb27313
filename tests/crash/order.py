"""Whether messages were taken in the order of their queue: by priority, and then as they were sent.

Two sends, or a send and a receive, that overlap in time are in no order. A message counts that was passed over:
it was in the queue, ahead of another, while that one was taken, and was taken itself by somebody who came later.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter


@dataclass(slots=True)
class Passage:
    """A message on its way through a queue. Each of the two steps lies somewhere between its begin and its end."""

    name: str
    priority: int
    send_begun: int
    send_ended: int
    take_begun: int
    take_ended: int


class _Waiting:
    """Messages by when their sends ended: which of those that were sent by a time was taken last."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        ordered = sorted(passages, key=attrgetter("send_ended"))
        self._ends = [passage.send_ended for passage in ordered]
        self._last: list[Passage] = []
        for passage in ordered:
            last = self._last[-1] if self._last else passage
            self._last.append(max(last, passage, key=attrgetter("take_begun")))

    def taken_last(self, sent_before: int) -> Passage | None:
        found = bisect_left(self._ends, sent_before)
        return self._last[found - 1] if found else None


def passed_over(passages: list[Passage]) -> list[tuple[str, str]]:
    """Pairs of a message and one that was taken although the first was ahead of it."""
    alike = {
        priority: _Waiting(passage for passage in passages if passage.priority == priority) for priority in range(8)
    }
    higher = {
        priority: _Waiting(passage for passage in passages if passage.priority > priority) for priority in range(8)
    }
    return [
        (ahead.name, passage.name)
        for passage in passages
        for ahead in (
            alike[passage.priority].taken_last(passage.send_begun),
            higher[passage.priority].taken_last(passage.take_begun),
        )
        if ahead is not None and ahead.take_begun > passage.take_ended
    ]
