"""The seconds in which messages are moved between queues, for readers that remove exactly the messages they have read.

A moved message keeps its number, so it may enter a range that a reader has planned before. LastMoveTime (MS-MQRR
2.2.5.3) shows such messages, even after a restart: a message was there at the time of a plan if it was moved in
an earlier second than that of the plan, or is one of those that had been moved in the same second. So these seconds
never go back while the process lives, even if the clock does, and a restart begins in the next second.
"""

from collections.abc import Sequence


class Moves:
    """The current second, and the messages that were moved in it: by queue, their numbers."""

    __slots__ = ("_is_planned", "_moved", "_second")

    def __init__(self) -> None:
        self._second = 0
        self._moved: dict[int, set[int]] = {}
        # A reader knows the messages that were moved in this second, before its plan.
        self._is_planned = False

    def begin_again(self, wall: float) -> None:
        """Begin after the seconds of an earlier process, which may have moved messages in the present one."""
        self._go_on(int(wall) + 1)

    def moved(self, queue: int, number: int, wall: float) -> int:
        """Note a message that enters the queue. Returns its LastMoveTime."""
        self._go_on(int(wall))
        if self._is_planned and number in self._moved.get(queue, ()):
            # It was there, and went away and came back after the plan.
            self._go_on(self._second + 1)
        self._moved.setdefault(queue, set()).add(number)
        return self._second

    def planned(self, wall: float) -> int:
        """The second of a plan. Messages that are moved later have this LastMoveTime, or a later one."""
        self._go_on(int(wall))
        self._is_planned = True
        return self._second

    def fresh(self, queue: int) -> Sequence[int]:
        """The numbers of messages that entered the queue in the current second, ascending. Some may have left it."""
        return sorted(self._moved.get(queue, ()))

    def _go_on(self, second: int) -> None:
        if second > self._second:
            self._second = second
            self._moved.clear()
            self._is_planned = False
