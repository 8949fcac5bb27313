"""The RPC server of a queue manager: all its listeners and connections, without I/O. C706 and MS-RPCE 3.3.3.

Bytes go in by `received` and come out by `take_output`, in order. Calls that wait cost an entry in a table. Handlers
act inside `received` and `closed`, or when they answer a call later.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from waypost.clock import Now
from waypost.limits import MAX_RPC_UNSENT_OF_ALL, MAX_TURN_PACKETS
from waypost.rpc.associations import Associations
from waypost.rpc.authentication import Acceptors, AuthLevel
from waypost.rpc.server_binding import Endpoint, Unfinished
from waypost.rpc.server_calls import Call, Handler, Service
from waypost.rpc.server_connection import ServerConnection
from waypost.rpc.settings import RpcSettings
from waypost.rpc.statistics import RpcStatistics

__all__ = ["Call", "Handler", "RpcServer", "Service"]


# More fragments than any data have.
ALL: Final = 1 << 62


class RpcServer:
    """`listeners` maps the port of each listener, in decimal, to what it serves. `statistics` is what they count."""

    def __init__(
        self,
        listeners: Mapping[str, Sequence[Service]],
        acceptors: Acceptors,
        new_guid: Callable[[], bytes],
        settings: RpcSettings,
    ) -> None:
        associations, unfinished = Associations(new_guid), Unfinished()
        self._unfinished: Final = unfinished
        # Clients that had to go because of the answers that they did not take, and how many bytes of them. The owner
        # clears it.
        self.cut_off: Final[list[tuple[int, int]]] = []
        self.statistics: Final = RpcStatistics()
        self._endpoints: Final = {
            port: Endpoint(port, services, acceptors, associations, settings, unfinished, self.statistics)
            for port, services in listeners.items()
        }
        self._connections: dict[int, ServerConnection] = {}
        self._output: list[tuple[int, bytes | None]] = []
        self._settings: Final = settings
        self._holds: list[tuple[int, bool]] = []
        self._held: set[int] = set()
        # Those that `go_on` has to look at.
        self._touched: dict[int, ServerConnection] = {}

    def connected(self, connection: int, listener: str, address: str, now: Now) -> None:  # noqa: ARG002, facts have a time
        """A client at this address has connected to a listener; `connection` is any number that is not in use."""

        def write(data: bytes) -> None:
            self._output.append((connection, data))

        self.statistics.connections += 1
        self.statistics.connections_accepted += 1
        self._connections[connection] = ServerConnection(self._endpoints[listener], connection, address, write)

    def received(self, connection: int, data: bytes, now: Now, most: int = ALL) -> tuple[int, int]:
        """Bytes of a connection. Those that come after its end are ignored.

        Handles at most this number of fragments. Returns the number handled, and the number that waits.
        """
        served = self._connections.get(connection)
        if served is None:
            return 0, 0
        done = served.received(data, now, most)
        self._look_at(connection, served, now)
        return done, 0 if served.is_ended else served.flow.waits

    def go_on(self, now: Now) -> None:
        """Look again at a connection that had to wait for its client, or has ended by itself. The others come next."""
        for connection, served in self._touched.items():
            del self._touched[connection]
            served.go_on(now, MAX_TURN_PACKETS)
            if served.flow.can_go_on:
                self._touched[connection] = served
            self._look_at(connection, served, now)
            return

    @property
    def can_go_on(self) -> bool:
        return any(served.flow.can_go_on or served.is_ended for served in self._touched.values())

    def is_known(self, connection: int) -> bool:
        """Whether the client has got through a bind, and has shown who it is if that is asked for."""
        served = self._connections.get(connection)
        return (
            served is not None
            and served.is_bound
            and (served.is_authenticated or self._settings.level is AuthLevel.NONE)
        )

    def pause(self, connection: int) -> None:
        """The client takes no more bytes for now."""
        if connection in self._connections:
            self._connections[connection].flow.pause()

    def resume(self, connection: int) -> None:
        served = self._connections.get(connection)
        if served is not None:
            served.flow.resume()
            self._touch(connection, served)

    def sent(self, connection: int, size: int) -> None:
        """So many bytes of what `take_output` gave are with the transport."""
        served = self._connections.get(connection)
        if served is not None:
            served.flow.sent(size)
            self._touch(connection, served)

    def _touch(self, connection: int, served: ServerConnection) -> None:
        """Count only fragments that wait for the client, not those that wait for their turn."""
        if served.is_ended or (connection in self._held and served.flow.can_go_on):
            self._touched[connection] = served

    def take_holds(self) -> list[tuple[int, bool]]:
        """Connections of which nothing more is to be read, or which are to be read again."""
        holds, self._holds = self._holds, []
        return holds

    def _look_at(self, connection: int, served: ServerConnection, now: Now) -> None:
        if served.is_ended:
            self._output.append((connection, None))
            self.closed(connection, now)
        elif served.flow.is_blocked != (connection in self._held):
            (self._held.add if served.flow.is_blocked else self._held.discard)(connection)
            self._holds.append((connection, served.flow.is_blocked))

    def closed(self, connection: int, now: Now) -> None:
        """The connection has gone. The server knows it already of those that it has closed itself."""
        self._touched.pop(connection, None)
        self._held.discard(connection)
        served = self._connections.pop(connection, None)
        if served is not None:
            self.statistics.connections -= 1
            served.lost(now)

    def take_output(self) -> list[tuple[int, bytes | None]]:
        """The bytes to write on each connection, in order; None means to close it."""
        if self._unfinished.unsent > MAX_RPC_UNSENT_OF_ALL:
            self._cut_off_the_slowest()
        output, self._output = self._output, []
        return output

    def _cut_off_the_slowest(self) -> None:
        """Of all clients, the one with the most answers that it does not take. It ends with the next tick."""
        if any(served.is_ended for served in self._touched.values()):
            return
        connection, served = max(self._connections.items(), key=lambda each: each[1].flow.unsent)
        served.is_ended = True
        self._touched[connection] = served
        self.cut_off.append((connection, served.flow.unsent))
