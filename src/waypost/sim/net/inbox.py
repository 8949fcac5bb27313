"""Bytes that came to a simulated host and wait for their turn, as in the shell of the daemon; and their fairness."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.node.turns import Budget, Turns
from waypost.sim.marks import Marks
from waypost.sim.violation import Violation

if TYPE_CHECKING:
    from waypost.sim.net.host import NetworkHost


class Inbox:
    """The inbox of one life of a host. A turn has `packets` packets, and twice as many if no other connection waits."""

    def __init__(self, host: "NetworkHost", packets: int, marks: Marks) -> None:
        self._host: Final = host
        self._packets: Final = packets
        self._marks: Final = marks
        self._turns: Final[Turns[int]] = Turns(Budget(packets, 0), Budget(2 * packets, 0))
        self._is_due = False
        self._data: Final[dict[int, bytes]] = {}
        # Connections with packets that the node has not processed, those that it holds, and those that are lost.
        self._left: Final[set[int]] = set()
        self._held: Final[set[int]] = set()
        self._lost: Final[set[int]] = set()
        # The number of packets of every other connection that were processed while this one waited.
        self._since: Final[dict[int, dict[int, int]]] = {}

    def came(self, connection: int, data: bytes) -> None:
        self._data[connection] = self._data.get(connection, b"") + data
        self._wait(connection)

    def lost(self, connection: int) -> None:
        """Report a lost connection when the node has processed all that came before, unless that waits for answers."""
        self._lost.add(connection)
        self._end_if_heard(connection)

    def hold(self, connection: int, *, is_held: bool) -> None:
        """Stop or resume the processing of a connection."""
        if is_held:
            self._marks.sometimes("a peer that exceeds the window")
            self._held.add(connection)
            self._stop(connection)
            self._host.later(0.0, lambda: self._end_if_heard(connection))
        else:
            self._held.discard(connection)
            self._wait(connection)

    def forget(self, connection: int) -> None:
        """Drop a connection that the node has closed."""
        self._data.pop(connection, None)
        for kind in (self._left, self._held, self._lost):
            kind.discard(connection)
        self._stop(connection)

    def _has(self, connection: int) -> bool:
        return connection in self._data or connection in self._left

    def _wait(self, connection: int) -> None:
        if connection in self._held or not self._has(connection):
            return
        self._turns.wait(connection)
        self._since.setdefault(connection, {})
        self._go_on_later()

    def _go_on_later(self) -> None:
        if len(self._turns) and not self._is_due:
            self._is_due = True
            self._host.later(self._host.simulation.hostility.pace, self._go_on)

    def _stop(self, connection: int) -> None:
        self._turns.leave(connection)
        self._since.pop(connection, None)

    def _go_on(self) -> None:
        self._is_due = False
        turn = self._turns.take()
        if turn is None:
            return
        connection, budget = turn
        if len(self._turns):
            self._marks.sometimes("connections that take turns")
        self._since.pop(connection, None)
        self._host.tell(self._work(connection, budget.packets))
        self._end_if_heard(connection)
        self._go_on_later()

    def _work(self, connection: int, most: int) -> Callable[[Now], None]:
        def look_at(now: Now) -> None:
            data = b"" if connection in self._left else self._data.pop(connection, b"")
            work = self._host.take(connection, data, now, most)
            (self._left.add if work.left else self._left.discard)(connection)
            self._count(connection, work.done)
            # A connection that was held is resumed.
            if work.done or not work.left:
                self._wait(connection)

        return look_at

    def _end_if_heard(self, connection: int) -> None:
        if connection in self._lost and (connection in self._held or not self._has(connection)):
            self.forget(connection)
            self._host.tell(lambda now: self._host.network.connection_lost(connection, now))

    def _count(self, connection: int, done: int) -> None:
        for other, worked in self._since.items():
            worked[connection] = worked.get(connection, 0) + done
            if worked[connection] > self._packets:
                raise Violation(
                    f"connection {connection} processed {worked[connection]} packets while connection {other} waited, "
                    f"but the limit is {self._packets} packets"
                )
