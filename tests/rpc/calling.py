"""A ClientConnection on the wire to a server of tests.rpc.serving, and the client's side of its security package."""

from dataclasses import dataclass, field
from typing import Any

from tests.rpc.serving import NOW, PORT, TOY, ToyContext, ToyHandler
from waypost.rpc.authentication import AuthLevel, AuthType
from waypost.rpc.client import ClientConnection
from waypost.rpc.client_binding import ClientSecurity
from waypost.rpc.interface import Interface, Parameters
from waypost.rpc.pdu import Fragment, FragmentReader
from waypost.rpc.server import RpcServer


@dataclass(slots=True)
class ToyInitiator(ToyContext):
    """Says hello, and answers a challenge."""

    is_client: bool = True

    def step(self, token: bytes | None) -> bytes | None:
        name = (self.name or "").encode()
        if token is None:
            self.is_complete = self.legs == 2
            return b"hello " + name
        self.is_complete = True
        return b"proof " + name if token == b"challenge" else None


def toy_security(
    level: AuthLevel = AuthLevel.PRIVACY, auth_type: AuthType = AuthType.NTLM, name: str = "CORP\\alice"
) -> ClientSecurity:
    legs = 3 if auth_type is AuthType.NTLM else 2
    return ClientSecurity(ToyInitiator(auth_type, legs, name), level)


@dataclass(slots=True)
class Wire:
    """One TCP connection. `sent` and `received` keep what went over it."""

    connection: ClientConnection
    server: RpcServer
    number: int = 1
    listener: str = PORT
    address: str = "10.0.0.9"
    sent: list[Fragment] = field(default_factory=list)
    received: list[Fragment] = field(default_factory=list)
    _readers: tuple[FragmentReader, FragmentReader] = field(
        default_factory=lambda: (FragmentReader(), FragmentReader())
    )

    def __post_init__(self) -> None:
        self.server.connected(self.number, self.listener, self.address, NOW)
        self.connection.start()
        self.run()

    def run(self) -> None:
        """Carries bytes to and fro until both sides are silent."""
        while output := self.connection.take_output():
            self.sent += self._readers[0].feed(output)
            self.server.received(self.number, output, NOW)
            self.deliver()

    def deliver(self) -> None:
        for number, data in self.server.take_output():
            assert number == self.number
            if data is None:
                self.connection.closed()
            else:
                self.received += self._readers[1].feed(data)
                self.connection.feed(data)
                self.server.sent(number, len(data))

    def ask(self, opnum: int, request: Parameters, interface: Interface = TOY) -> Any:
        """The result of a call that is answered at once."""
        call_id = self.connection.call(interface, opnum, request)
        self.run()
        ((answered, result),) = self.connection.take_results()
        assert answered == call_id
        return result

    def answer(self, handler: ToyHandler, number: int) -> None:
        """The handler ends a WAIT."""
        handler.answer(number)
        self.deliver()
        self.run()
