"""TCP connections with other queue managers, both ways, and those of remote readers.

The queue manager gives each connection a number. Bytes wait for the turn of their connection (waypost.daemon.pump), and
the bytes of one turn of the loop become one batch. Three things are bounded here: data for a slow peer, because the
queue manager learns of it and a peer that reads nothing is cut off; data that waits for its turn, because the
connection reads no more then; and the number of connection attempts, because messages may name any number of hosts.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from waypost.clock import Now
from waypost.daemon.connection_guard import ConnectionGuard
from waypost.daemon.logs import Log
from waypost.daemon.pump import Pump
from waypost.daemon.seats import Seats
from waypost.daemon.socket_facts import ConnectionFacts, Facts, Shell
from waypost.daemon.sockets import keep_alive, reason
from waypost.limits import MAX_CONNECTING, MAX_CONNECTING_NAMED, MAX_CONNECTING_OWED, MAX_TURN_BYTES
from waypost.node.effects import Close, Connect, DialReason, HoldReading, Write
from waypost.node.turns import Budget

# Unsent bytes of a connection above which the queue manager stops writing, and below which it goes on.
_HIGH_WATER: Final = 0x10_0000
_LOW_WATER: Final = 0x4_0000
# Longest time for a closed connection to send its last bytes.
_LINGER_SECONDS: Final = 5.0
# Longest time that a peer may read nothing while data waits for it.
_STALL_SECONDS: Final = 60.0
# An incoming connection that the queue manager closes sooner counts as refused.
_SOON_SECONDS: Final = 10.0
# An incoming connection with data after this time gives its peer a history.
_HISTORY_SECONDS: Final = 60.0
# A connection that has brought data counts as idle this much later than one that has not.
_USED_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class TcpSettings:
    """Settings of TCP connections. `source` is the address to connect from; "" lets the system choose.

    `keep_alive_s`: seconds of silence until the system checks whether an incoming peer is still there; 0 for no check.
    `keeps_users`: a connection that has brought data is in use as long as it lasts, because its client may wait for an
    answer.
    """

    source: str = ""
    connect_timeout_s: float = 8.0
    keep_alive_s: int = 0
    keeps_users: bool = False


class TcpConnections:
    """All connections of one kind. `pump` gives them their turns; without `facts` all are incoming."""

    def __init__(
        self, shell: Shell, facts: Facts | None, settings: TcpSettings, *, guard: ConnectionGuard, log: Log, pump: Pump
    ) -> None:
        self.shell: Final = shell
        self.facts: Final = facts
        self.guard: Final = guard
        self.seats: Final = Seats(guard)
        self.log: Final = log
        self.pump: Final = pump
        # The read buffer of all connections, one at a time.
        self.buffer: Final = memoryview(bytearray(MAX_TURN_BYTES))
        self.on_failure: Callable[[], None] = lambda: None
        self._settings: Final = settings
        self.keep_alive_s: Final = settings.keep_alive_s
        self.keeps_users: Final = settings.keeps_users
        self._loop: Final = asyncio.get_running_loop()
        self._by_number: dict[int, Connection] = {}
        self._attempts: dict[int, asyncio.Task[None]] = {}
        self._connecting: Final = asyncio.Semaphore(MAX_CONNECTING)
        self._parts: Final[dict[DialReason, AbstractAsyncContextManager[None]]] = {
            DialReason.OWN: nullcontext(),
            DialReason.OWED: asyncio.Semaphore(MAX_CONNECTING_OWED),
            DialReason.NAMED: asyncio.Semaphore(MAX_CONNECTING_NAMED),
        }
        self._all: set[Connection] = set()

    def accepting(self, facts: ConnectionFacts) -> "Connection":
        """The protocol of an incoming connection."""
        return Connection(self, facts, None)

    def connect(self, effect: Connect) -> None:
        attempt = self._loop.create_task(self._connect(effect))
        self._attempts[effect.connection] = attempt
        attempt.add_done_callback(partial(self._attempted, effect.connection))

    def write(self, effect: Write) -> None:
        connection = self._by_number.get(effect.connection)
        # It may be lost; the queue manager learns that soon.
        if connection is not None:
            connection.write(effect.data)

    def close(self, effect: Close) -> None:
        attempt = self._attempts.pop(effect.connection, None)
        if attempt is not None:
            attempt.cancel()
        connection = self._by_number.get(effect.connection)
        if connection is not None:
            connection.close()

    def hold(self, effect: HoldReading) -> None:
        connection = self._by_number.get(effect.connection)
        if connection is not None:
            connection.hold(is_held=effect.is_held)

    async def drain(self) -> None:
        """Wait until closed connections have sent their last bytes, for some seconds."""
        deadline = self._loop.time() + _LINGER_SECONDS
        while self._all and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        self.abort()

    def abort(self) -> None:
        for attempt in self._attempts.values():
            attempt.cancel()
        for connection in tuple(self._all):
            connection.abort()

    def opened(self, connection: "Connection", number: int) -> None:
        self._by_number[number] = connection
        self._all.add(connection)

    def forget(self, number: int) -> None:
        self._by_number.pop(number, None)

    def ended(self, connection: "Connection") -> None:
        self._all.discard(connection)

    async def _connect(self, effect: Connect) -> None:
        facts, source = self.facts, self._settings.source
        assert facts is not None
        # An address of one family does not connect to the other.
        local = (source, 0) if source and (":" in source) == (":" in effect.address) else None
        try:
            part, timeout = self._parts[effect.reason], self._settings.connect_timeout_s
            async with part, self._connecting, asyncio.timeout(timeout):
                await self._loop.create_connection(
                    partial(Connection, self, facts, effect.connection, partial(facts.connected, effect.connection)),
                    effect.address,
                    effect.port,
                    local_addr=local,
                )
        except TimeoutError:
            self._failed(effect, f"no answer within {self._settings.connect_timeout_s:g} s")
        except (OSError, ValueError) as error:
            self._failed(effect, reason(error))

    def _failed(self, effect: Connect, why: str) -> None:
        assert self.facts is not None
        self.log.debug("connection failed", address=effect.address, port=effect.port, reason=why)
        self.shell.tell(partial(self.facts.connect_failed, effect.connection, why))
        self.on_failure()

    def _attempted(self, number: int, attempt: "asyncio.Task[None]") -> None:
        if self._attempts.get(number) is attempt:
            del self._attempts[number]
        if not attempt.cancelled() and (error := attempt.exception()) is not None:
            self._loop.call_exception_handler({"message": "a connection", "exception": error, "task": attempt})


class Connection(asyncio.BufferedProtocol):
    """A TCP connection. Without a number it is incoming, and gets one if it is admitted.

    Bytes that were read wait in `_backlog` from `_at` on, and `_left` packets wait in the queue manager. The queue
    manager learns that the connection is lost after all data, unless the data needs an answer and the connection broke.
    """

    def __init__(
        self, connections: TcpConnections, facts: ConnectionFacts, number: int | None,
        connected: Callable[[Now], None] | None = None,
    ) -> None:  # fmt: skip
        self._all: Final = connections
        self._facts: Final = facts
        self._connected: Final = connected
        self._number = number
        self._is_incoming: Final = number is None
        self._address = ""
        self._began = 0.0
        self._used = 0.0
        self._has_history = False
        self._written = 0
        self._is_held = False
        self._is_paused = False
        self._is_told = False
        self._is_lost = False
        self._backlog = b""
        self._at = 0
        self._left = 0
        self._watch: asyncio.TimerHandle | None = None
        self._loop: Final = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop has other transports, with the same methods.
        self._transport = cast("asyncio.Transport", transport)
        self._began = self._loop.time()
        everything = self._all
        self._transport.set_write_buffer_limits(_HIGH_WATER, _LOW_WATER)
        if self._number is not None and self._connected is not None:
            everything.opened(self, self._number)
            # The daemon has connected to it.
            everything.guard.remember((transport.get_extra_info("peername") or ("",))[0])
            everything.shell.tell(self._connected)
            return
        # The system has no name of a peer that is already gone.
        self._address = (transport.get_extra_info("peername") or ("",))[0]
        refusal: str | None = "the peer closed the connection"
        if self._address:
            # Before it can take the seat of another program of the same address.
            refusal = everything.guard.refuses(transport.get_extra_info("socket")) or everything.seats.take(
                self, self._address, self._began
            )
        if refusal is not None:
            everything.log.warning("connection refused", address=self._address, reason=refusal)
            self._transport.abort()
            return
        if everything.keep_alive_s:
            keep_alive(transport.get_extra_info("socket"), everything.keep_alive_s)
        number = everything.shell.tell(partial(self._facts.accept, self._address))
        if number is None:
            everything.guard.refused(self._address, self._began)
            self._transport.abort()
            return
        self._number = number
        everything.opened(self, number)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002, what is read waits here and is bounded here
        return self._all.buffer[: self._all.pump.piece]

    def buffer_updated(self, nbytes: int) -> None:
        if self._number is None:
            return
        data = bytes(self._all.buffer[:nbytes])
        # Data is left if the connection read again before the end of its turn.
        self._backlog = self._backlog[self._at :] + data if self._backlog else data
        self._at = 0
        self._all.pump.kept += nbytes
        if not self._is_held:
            self._all.pump.arrived(self)

    def work(self, budget: Budget) -> tuple[int, int, bool]:
        """Do a turn: see waypost.daemon.pump.Worker."""
        if self._number is None:
            return 0, 0, False
        everything = self._all
        # Packets that wait come first, without new data.
        piece = b"" if self._left else self._take(budget.size)
        cost = self._facts.packet_cost
        fact = partial(self._facts.data_received, self._number, piece, most=budget.packets // cost)
        try:
            done, self._left = everything.shell.tell(fact) or (0, 0)
        except BaseException:
            # The daemon ends, and no answer follows.
            self.abort()
            raise
        if self._left and not done:
            # The queue manager holds the connection, and says when it goes on.
            return 0, len(piece), False
        self._note_use(done)
        done *= cost
        if self._backlog or self._left:
            return done, len(piece), True
        if self._is_lost:
            self._tell_lost()
        elif self._is_paused:
            self.resume_reading()
        return done, len(piece), False

    def _take(self, size: int) -> bytes:
        backlog, at = self._backlog, self._at
        piece = backlog if not at and len(backlog) <= size else backlog[at : at + size]
        self._at += len(piece)
        self._all.pump.kept -= len(piece)
        if self._at == len(backlog):
            self._backlog, self._at = b"", 0
        return piece

    def _note_use(self, done: int) -> None:
        if done and self._is_incoming:
            self._used = now = self._loop.time()
            if not self._has_history and now - self._began > _HISTORY_SECONDS:
                self._has_history = True
                self._all.guard.remember(self._address)

    @property
    def idle_since(self) -> float | None:
        """Time since when the connection is idle, or None: see waypost.daemon.seats.Guest."""
        if self._backlog or self._left or self._is_held or (self._used and self._all.keeps_users):
            return None
        return self._used + _USED_SECONDS if self._used else self._began

    def give_way(self) -> None:
        self._all.log.warning(
            "connection closed",
            address=self._address,
            reason="the connection was idle, and a new connection replaced it",
        )
        self._transport.abort()

    def pause(self) -> None:
        """Stop reading while others have their turns, and tell the queue manager, which may wait for an answer."""
        self.pause_reading()
        if not self._is_told and self._number is not None and self._facts.reading_paused is not None:
            self._is_told = True
            self._all.shell.tell(partial(self._facts.reading_paused, self._number))

    def connection_lost(self, exc: Exception | None) -> None:
        everything = self._all
        self._is_lost = True
        if self._watch is not None:
            self._watch.cancel()
        everything.seats.leave(self)
        everything.ended(self)
        # Data that waits for an acknowledgment to leave is useless: it comes again on another connection.
        is_useless = self._is_held or (exc is not None and self._facts.needs_answers)
        if self._number is not None and (is_useless or not (self._backlog or self._left)):
            self._tell_lost()

    def _tell_lost(self) -> None:
        number = self._forget()
        self._all.shell.tell(partial(self._facts.connection_lost, number))

    def pause_writing(self) -> None:
        if self._number is not None:
            self._all.shell.tell(partial(self._facts.writing_paused, self._number))
            self._watch_progress()

    def resume_writing(self) -> None:
        if self._number is None:
            # It is closed and only sends its last bytes.
            return
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._all.shell.tell(partial(self._facts.writing_resumed, self._number))

    def write(self, data: bytes) -> None:
        if not self._is_lost:
            self._written += len(data)
            self._transport.write(data)

    def close(self) -> None:
        """Close for the queue manager. Written data still goes out, for some seconds."""
        self._forget()
        now = self._loop.time()
        if self._is_incoming and now - self._began < _SOON_SECONDS:
            self._all.guard.refused(self._address, now)
        if self._watch is not None:
            self._watch.cancel()
        self.pause_reading()
        self._transport.close()
        self._watch = self._loop.call_later(_LINGER_SECONDS, self._transport.abort)

    def abort(self) -> None:
        self._transport.abort()

    def hold(self, *, is_held: bool) -> None:
        """Stop reading for the queue manager, or go on."""
        self._is_held = is_held
        if is_held:
            self._all.pump.leave(self)
            self.pause_reading()
            if self._is_lost:
                self._tell_lost()
        elif self._backlog or self._left:
            self._all.pump.wait(self)
        else:
            self.resume_reading()

    def pause_reading(self) -> None:
        if not self._transport.is_closing() and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._number is not None and not self._is_held and not self._transport.is_closing() and self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
            if self._is_told and self._facts.reading_resumed is not None:
                self._is_told = False
                self._all.shell.tell(partial(self._facts.reading_resumed, self._number))

    def _forget(self) -> int:
        """Remove the connection from those that the queue manager knows."""
        assert self._number is not None
        number, self._number = self._number, None
        self._all.forget(number)
        self._all.pump.leave(self)
        self._all.pump.kept -= len(self._backlog) - self._at
        self._backlog, self._at, self._left = b"", 0, 0
        return number

    def _watch_progress(self) -> None:
        self._watch = self._loop.call_later(_STALL_SECONDS, self._look_for_progress, self._sent)

    def _look_for_progress(self, sent: int) -> None:
        if self._sent > sent:
            self._watch_progress()
            return
        self._all.log.warning("connection stalled", address=self._address, seconds=_STALL_SECONDS)
        self._transport.abort()

    @property
    def _sent(self) -> int:
        return self._written - self._transport.get_write_buffer_size()
