"""The RPC server of a queue manager: all its listeners and connections, without I/O. C706 and MS-RPCE 3.3.3.

Bytes go in by `received` and come out by `take_output`, in order. Calls that wait cost an entry in a table. What the
handlers do happens inside `received` and `closed`, or whenever they answer a call later.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from waypost.clock import Now
from waypost.limits import MAX_TURN_PACKETS
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
        self.statistics: Final = RpcStatistics()
        self._endpoints: Final = {
            port: Endpoint(port, services, acceptors, associations, settings, unfinished, self.statistics)
            for port, services in listeners.items()
        }
        self._connections: dict[int, ServerConnection] = {}
        self._output: list[tuple[int, bytes | None]] = []
        self._asks_who: Final = settings.min_auth_level > AuthLevel.NONE
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

        At most so many fragments are looked at. How many were, and how many wait for a call without data.
        """
        served = self._connections.get(connection)
        if served is None:
            return 0, 0
        done = served.received(data, now, most)
        self._look_at(connection, served, now)
        return done, 0 if served.is_ended else served.flow.waits

    def go_on(self, now: Now) -> None:
        """Look again at connections of which not everything was looked at, or which have ended by themselves."""
        touched, self._touched = self._touched, {}
        for connection, served in touched.items():
            served.go_on(now, MAX_TURN_PACKETS)
            if served.flow.can_go_on:
                self._touched[connection] = served
            self._look_at(connection, served, now)

    @property
    def can_go_on(self) -> bool:
        return any(served.flow.can_go_on or served.is_ended for served in self._touched.values())

    def is_known(self, connection: int) -> bool:
        """Whether the client has got through a bind, and has shown who it is if that is asked for."""
        served = self._connections.get(connection)
        return served is not None and served.is_bound and (served.is_authenticated or not self._asks_who)

    def pause(self, connection: int) -> None:
        """The client takes no more bytes for now."""
        if connection in self._connections:
            self._connections[connection].flow.pause()

    def resume(self, connection: int) -> None:
        served = self._connections.get(connection)
        if served is not None:
            served.flow.resume()
            self._touched[connection] = served

    def sent(self, connection: int, size: int) -> None:
        """So many bytes of what `take_output` gave are with the transport."""
        served = self._connections.get(connection)
        if served is not None:
            served.flow.sent(size)
            if served.flow.waits or served.is_ended:
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
        """What to write on which connection, in order; None is to close it."""
        output, self._output = self._output, []
        return output
