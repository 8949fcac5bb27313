"""The two sides of a connection to a simulated node: the port on which it listens, and the client."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from waypost.sim.local.host import LocalHost
    from waypost.sim.remote.readers import RemoteReaders


class Terminal:
    """Endpoint of waypost.sim.network with a separate life. Facts that do not concern it have no effect."""

    name: str
    address: str

    @property
    def life(self) -> int:
        raise NotImplementedError

    @property
    def is_up(self) -> bool:
        return self.life % 2 == 1

    def note(self, number: int, /, *words: object) -> None: ...

    def accept(self, address: str, /) -> int | None: ...

    def connected(self, connection: int, /) -> None: ...

    def connect_failed(self, connection: int, reason: str, /) -> None: ...

    def data_received(self, connection: int, data: bytes, /) -> None: ...

    def connection_lost(self, connection: int, /) -> None: ...

    def writing_paused(self, connection: int, /) -> None: ...

    def writing_resumed(self, connection: int, /) -> None: ...

    def datagram_received(self, data: bytes, address: str, port: int, /) -> None: ...

    def resolved(self, request: int, addresses: tuple[str, ...], /) -> None: ...


class Port(Terminal):
    """A listener of the node."""

    def __init__(self, remote: "RemoteReaders", host: "LocalHost", number: int) -> None:
        self.number: Final = number
        self.name = self.address = f"{host.name}:{number}"
        self._remote: Final = remote
        self._host: Final = host

    @property
    def life(self) -> int:
        return self._host.life

    def note(self, number: int, /, *words: object) -> None:
        self._host.note(number, *words)

    def accept(self, address: str, /) -> int | None:
        return self._remote.accept(self, address)

    def data_received(self, connection: int, data: bytes, /) -> None:
        self._remote.heard(connection, data)

    def connection_lost(self, connection: int, /) -> None:
        self._remote.lost(connection)

    def writing_paused(self, connection: int, /) -> None:
        self._host.tell_remote(lambda remote, now: remote.writing_paused(connection, now))

    def writing_resumed(self, connection: int, /) -> None:
        self._host.tell_remote(lambda remote, now: remote.writing_resumed(connection, now))
