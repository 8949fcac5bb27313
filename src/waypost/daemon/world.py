"""The outside of the queue manager: each effect goes to the part of the daemon that carries it out."""

from collections.abc import Callable
from typing import Any, Final

from waypost.daemon.logs import Log
from waypost.daemon.names import Names
from waypost.daemon.tcp import TcpConnections
from waypost.daemon.udp import Pings
from waypost.errors import WaypostError
from waypost.node.effects import Close, Connect, Effect, HoldReading, Notice, Resolve, SendDatagram, Write


class World:
    """waypost.drive.outside.Outside. The queue manager starts before the sockets do: its first effects wait."""

    def __init__(self, log: Log, broken: Callable[[WaypostError], None]) -> None:
        self._broken: Final = broken
        self._handlers: dict[type[Effect], Callable[[Any], None]] = {Notice: log.notice}
        self._waiting: list[Effect] | None = []

    def begin(self, tcp: TcpConnections, rpc: TcpConnections, names: Names, pings: Pings) -> None:
        def kind(effect: Write | Close | HoldReading) -> TcpConnections:
            """Those of remote readers have numbers below zero."""
            return tcp if effect.connection > 0 else rpc

        self._handlers |= {
            Connect: tcp.connect,
            Write: lambda effect: kind(effect).write(effect),
            Close: lambda effect: kind(effect).close(effect),
            HoldReading: lambda effect: kind(effect).hold(effect),
            Resolve: names.resolve,
            SendDatagram: pings.send,
        }
        waiting, self._waiting = self._waiting or [], None
        for effect in waiting:
            self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        if self._waiting is not None:
            self._waiting.append(effect)
            return
        # Effects without a handler are for a coordinator or a directory, which this daemon does not have.
        handler = self._handlers.get(type(effect))
        if handler is not None:
            handler(effect)

    def broken(self, error: WaypostError) -> None:
        self._broken(error)
