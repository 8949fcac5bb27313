"""The TCP connections of a simulated network: in order, in pieces of any size, until they break.

A connection has two ends. Bytes wait at the end that wrote them and move in events of the other end's endpoint, so
bytes on their way to an endpoint that goes down are lost. A closed end gets no more facts; the end of an endpoint that
died is closed and dead, and the other end learns that, or does not until it writes to an endpoint that is up again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from waypost.sim.faults import Faults
from waypost.sim.network import Endpoint, Surroundings

# Seconds for which a connection is tried if nothing comes back.
CONNECT_TIMEOUT: Final = 3.0

E = TypeVar("E", bound=Endpoint)


@dataclass(slots=True, eq=False)
class End(Generic[E]):
    """One end of a connection. `sending` has the bytes that have not arrived. Without a peer it is still connecting."""

    endpoint: E
    number: int
    peer: "End[E] | None" = None
    sending: bytearray = field(default_factory=bytearray)
    is_connected: bool = False
    is_flowing: bool = False
    is_paused: bool = False
    is_held: bool = False
    is_silent: bool = False
    is_closed: bool = False
    is_dead: bool = False


class Wires(Generic[E]):
    """All connections. `held_until` gives the time until which nothing passes between two endpoints."""

    def __init__(
        self,
        simulation: Surroundings[E],
        faults: Faults,
        find: Callable[[str], E | None],
        held_until: Callable[[E, E], float],
    ) -> None:
        self._simulation: Final = simulation
        self._faults: Final = faults
        self._find: Final = find
        self._held_until: Final = held_until
        self._ends: Final[dict[tuple[str, int], End[E]]] = {}

    def __len__(self) -> int:
        """The number of open ends."""
        return len(self._ends)

    def connect(self, endpoint: E, number: int, address: str) -> None:
        near = self._end(endpoint, number)
        self._later(endpoint, lambda: self._arrive(near, address))

    def write(self, endpoint: E, number: int, data: bytes) -> None:
        end = self._ends.get((endpoint.name, number))
        if end is None:
            return
        end.sending += data
        if not end.is_paused and len(end.sending) > self._faults.buffer:
            end.is_paused = True
            self._tell(end, lambda: endpoint.writing_paused(number))
        self._flow_later(end)

    def close(self, endpoint: E, number: int) -> None:
        """Close an end. Bytes written before still arrive."""
        end = self._ends.get((endpoint.name, number))
        if end is not None:
            self._shut(end)
            self._flow_later(end)

    def hold(self, endpoint: E, number: int, *, is_held: bool) -> None:
        """Hold or resume reading at this end: bytes for it wait at the other end."""
        end = self._ends.get((endpoint.name, number))
        if end is not None:
            end.is_held = is_held
            if not is_held and end.peer is not None:
                self._flow_later(end.peer)

    def peer(self, endpoint: E, number: int) -> tuple[E, int]:
        """The endpoint and the number at the other end of a connection that is open here."""
        peer = self._ends[endpoint.name, number].peer
        assert peer is not None
        return peer.endpoint, peer.number

    def find_dead(self) -> None:
        """Report every connection with a dead peer, or that has fallen silent, to its endpoint."""
        for end in list(self._ends.values()):
            if end.peer is not None and (end.peer.is_dead or end.is_silent):
                self._lose(end)

    def went_down(self, endpoint: E) -> None:
        """Note that the process of the endpoint has ended. The other ends learn that soon, or not before they write."""
        for end in [end for end in self._ends.values() if end.endpoint is endpoint]:
            self._shut(end)
            end.is_dead = True
            peer = end.peer
            if peer is None:
                continue
            # Bytes on their way to the endpoint stop.
            peer.is_flowing = False
            is_silent = self._is_held(endpoint, peer.endpoint) or self._simulation.strikes(self._faults.silent_death)
            if not is_silent:
                self._lose(peer)

    def break_all(self, endpoint: E) -> None:
        """Break every connection of the endpoint; both ends learn that."""
        for end in [end for end in self._ends.values() if end.endpoint is endpoint and end.peer is not None]:
            assert end.peer is not None
            self._lose(end)
            self._lose(end.peer)

    def _end(self, endpoint: E, number: int) -> End[E]:
        end = self._ends[endpoint.name, number] = End(endpoint, number)
        return end

    def _shut(self, end: End[E]) -> None:
        end.is_closed = True
        del self._ends[end.endpoint.name, end.number]

    def _delay(self) -> float:
        return self._simulation.rng.random() * 2 * self._faults.latency

    def _later(self, endpoint: E, action: Callable[[], None]) -> None:
        self._simulation.schedule(self._delay(), action, endpoint)

    def _tell(self, end: End[E], fact: Callable[[], None], delay: float = 0.0) -> None:
        """Report a fact to the endpoint as soon as it has time, unless it has closed the connection by then."""

        def tell() -> None:
            if not end.is_closed:
                fact()

        self._simulation.schedule(delay, tell, end.endpoint)

    # Connecting.

    def _arrive(self, near: End[E], address: str) -> None:
        """A connection request arrives at its address, or nowhere."""
        if near.is_closed:
            return
        simulation, endpoint = self._simulation, near.endpoint
        target = self._find(address)
        if target is None or self._is_held(endpoint, target) or simulation.strikes(self._faults.silence):
            self._fail(near, "the connection timed out", CONNECT_TIMEOUT)
            return
        if not target.is_up or simulation.strikes(self._faults.refuse):
            self._fail(near, "the connection was refused", self._delay())
            return
        number = target.accept(endpoint.address)
        # The process of the target may have ended right then.
        far = End(target, 0, is_closed=True) if number is None or not target.is_up else self._end(target, number)
        far.peer, near.peer = near, far
        far.is_connected = True
        self._later(endpoint, lambda: self._connected(near))

    def _connected(self, near: End[E]) -> None:
        assert near.peer is not None
        if near.is_closed:
            return
        near.is_connected = True
        near.endpoint.note(near.number, near.endpoint.name, "is connected to", near.peer.endpoint.name)
        near.endpoint.connected(near.number)
        self._flow_later(near.peer)

    def _fail(self, near: End[E], reason: str, delay: float) -> None:
        def fail() -> None:
            self._shut(near)
            near.endpoint.note(near.number, near.endpoint.name, "cannot connect:", reason)
            near.endpoint.connect_failed(near.number, reason)

        self._tell(near, fail, delay)

    # Transport of bytes.

    def _flow_later(self, end: End[E]) -> None:
        """Plan the next transport from here, if there are bytes and none is planned."""
        peer = end.peer
        if peer is None or not peer.is_connected or end.is_flowing or end.is_silent or end.is_dead:
            return
        if peer.is_dead:
            # An endpoint that is down does not answer; one that is up again does not know the connection.
            if end.sending and peer.endpoint.is_up:
                self._lose(end)
            return
        if (end.sending and not peer.is_held) or end.is_closed:
            end.is_flowing = True
            held = max(0.0, self._held_until(end.endpoint, peer.endpoint) - self._simulation.time)
            self._simulation.schedule(held + self._delay(), lambda: self._flow(end, peer), peer.endpoint)

    def _flow(self, end: End[E], peer: End[E]) -> None:
        simulation, faults = self._simulation, self._faults
        end.is_flowing = False
        if end.is_silent or end.is_dead:
            return
        if self._is_held(end.endpoint, peer.endpoint):
            self._flow_later(end)
        elif simulation.strikes(faults.reset):
            end.endpoint.note(end.number, "a reset between", end.endpoint.name, "and", peer.endpoint.name)
            self._lose(end)
            self._lose(peer)
        elif simulation.strikes(faults.silence):
            end.endpoint.note(end.number, "silence between", end.endpoint.name, "and", peer.endpoint.name)
            end.is_silent = peer.is_silent = True
        elif peer.is_closed:
            # The bytes have no receiver.
            self._lose(end)
        elif not end.sending:
            self._lost(peer)
        elif not peer.is_held:
            self._move(end, peer)
            self._flow_later(end)

    def _move(self, end: End[E], peer: End[E]) -> None:
        size = min(len(end.sending), self._simulation.rng.randint(1, self._faults.segment))
        data = bytes(end.sending[:size])
        del end.sending[:size]
        if end.is_paused and len(end.sending) <= self._faults.buffer // 2:
            end.is_paused = False
            self._tell(end, lambda: end.endpoint.writing_resumed(end.number))
        peer.endpoint.note(size, size, "bytes from", end.endpoint.name, "to", peer.endpoint.name)
        peer.endpoint.data_received(peer.number, data)

    # Closing.

    def _lose(self, end: End[E]) -> None:
        """Report the loss of the connection to the end after a while. Bytes that it has written do not arrive."""
        end.is_silent = True
        self._tell(end, lambda: self._lost(end), self._delay())

    def _lost(self, end: End[E]) -> None:
        if end.is_closed:
            return
        self._shut(end)
        end.endpoint.note(end.number, end.endpoint.name, "loses a connection")
        if end.is_connected:
            end.endpoint.connection_lost(end.number)
        else:
            end.endpoint.connect_failed(end.number, "the connection was reset")

    def _is_held(self, one: E, other: E) -> bool:
        return self._held_until(one, other) > self._simulation.time
