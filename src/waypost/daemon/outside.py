"""The outside of the queue manager: each effect goes to the part of the daemon that carries it out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

from waypost.daemon.logs import Log
from waypost.daemon.resolver import Resolver
from waypost.daemon.tcp import TcpConnections
from waypost.daemon.udp import Pings
from waypost.directory.effects import FindDirectoryServers, SendChangeNotification
from waypost.errors import WaypostError
from waypost.node.effects import (
    Close,
    Connect,
    HoldReading,
    Notice,
    OutsideEffect,
    Resolve,
    SendDatagram,
    ToCoordinator,
    Write,
)


@dataclass(frozen=True, slots=True)
class _Parts:
    """`tcp` has the connections of queue managers, and `rpc` those of remote readers."""

    tcp: TcpConnections
    rpc: TcpConnections
    resolver: Resolver
    pings: Pings


class DaemonOutside:
    """waypost.drive.outside.Outside. The queue manager starts before the sockets do: its first effects wait."""

    def __init__(self, log: Log, broken: Callable[[WaypostError], None]) -> None:
        self._log: Final = log
        self._broken: Final = broken
        self._parts: _Parts | None = None
        self._waiting: list[OutsideEffect] = []

    def begin(self, tcp: TcpConnections, rpc: TcpConnections, resolver: Resolver, pings: Pings) -> None:
        self._parts = _Parts(tcp, rpc, resolver, pings)
        waiting, self._waiting = self._waiting, []
        for effect in waiting:
            self.carry_out(effect)

    def carry_out(self, effect: OutsideEffect) -> None:
        parts = self._parts
        if parts is None:
            self._waiting.append(effect)
            return
        match effect:
            # Connections of remote readers have numbers below zero.
            case Write(connection=number):
                (parts.tcp if number > 0 else parts.rpc).write(effect)
            case HoldReading(connection=number):
                (parts.tcp if number > 0 else parts.rpc).hold(effect)
            case Close(connection=number):
                (parts.tcp if number > 0 else parts.rpc).close(effect)
            case Connect():
                parts.tcp.connect(effect)
            case Notice():
                self._log.notice(effect)
            case Resolve():
                parts.resolver.resolve(effect)
            case SendDatagram():
                parts.pings.send(effect)
            case ToCoordinator() | SendChangeNotification() | FindDirectoryServers():
                # For a coordinator, or a directory of others, which this daemon does not have.
                pass
            case _:
                assert_never(effect)

    def broken(self, error: WaypostError) -> None:
        self._broken(error)
