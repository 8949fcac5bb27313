"""A small interface with its handler, a security package of no worth, and a client that makes its PDUs by hand."""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Any

from waypost.clock import Now
from waypost.errors import AuthenticationFailed
from waypost.guid import parse_guid
from waypost.rpc.authentication import AuthLevel, AuthType, DomainAccount, Parts, SecurityContext
from waypost.rpc.binds import NDR20, Auth3, Bind, BindAck, ContextElement, SyntaxId
from waypost.rpc.calls import Assembly, Fault, FaultStatus, Request, Response, cut
from waypost.rpc.context_handles import HandleKind
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import (
    Empty,
    InPlace,
    Interface,
    Method,
    Parameters,
    SizedBytes,
    Stub,
    decode_reply,
    dword,
    encode_request,
)
from waypost.rpc.pdu import (
    PFC_CONC_MPX,
    PFC_SUPPORT_HEADER_SIGN,
    WHOLE,
    Body,
    Fragment,
    FragmentReader,
    PacketType,
    SecurityTrailer,
    bare_fragment,
    fragment_of,
)
from waypost.rpc.protection import Protection
from waypost.rpc.server import Call, RpcServer, Service
from waypost.rpc.settings import RpcSettings
from waypost.wire.ndr import ContextHandle, NdrSyntax

NOW = Now(1.0, 1_700_000_000.0)
PORT = "2103"
CLIENT_ADDRESS = "10.0.0.9"
CONTEXT_ID = 0x51

ECHO, OPEN, CLOSE, USE, WAIT, FAIL, ALWAYS_OPEN = 0, 2, 3, 4, 5, 6, 7


@dataclass(slots=True)
class Octets(Stub):
    octets: Annotated[bytes, SizedBytes("size", "octets", 0x0080_0000)]


@dataclass(slots=True)
class Handle(Stub):
    context: Annotated[ContextHandle, InPlace("context", ContextHandle)]


@dataclass(slots=True)
class Number(Stub):
    number: Annotated[int, dword("number")]


def _method(opnum: int, request: type[Parameters], reply: type[Parameters]) -> Method:
    return Method(opnum, f"toy_{opnum}", request, reply, "")


METHODS = (
    _method(ECHO, Octets, Octets),
    _method(OPEN, Empty, Handle),
    _method(CLOSE, Handle, Handle),
    _method(USE, Handle, Number),
    _method(WAIT, Number, Number),
    _method(FAIL, Number, Empty),
    _method(ALWAYS_OPEN, Empty, Number),
)
TOY = Interface.of("toy", parse_guid("12345678-1234-1234-1234-123456789abc"), (1, 2), *METHODS)
OTHER = Interface.of("other", parse_guid("87654321-4321-4321-4321-cba987654321"), (1, 0), *METHODS)


class ToyHandler:
    """Remembers what it was told. A WAIT stays open until `answer` or, with `ends_cancelled`, until it is cancelled."""

    def __init__(self, *, ends_cancelled: bool = True) -> None:
        self.waiting: dict[int, Call] = {}
        self.calls: list[Call] = []
        self.events: list[str] = []
        self.ends_cancelled = ends_cancelled
        self.reads = HandleKind[str]("read", self._run_down, 1)
        self.queues = HandleKind[str]("queue", self._run_down, 2)
        self.new_kind = self.queues
        self._next_state = 0

    def call(self, call: Call, request: Any, now: Now) -> None:
        self.calls.append(call)
        match call.opnum:
            case 0:
                call.reply(request)
            case 2:
                self._next_state += 1
                call.reply(Handle(call.handles.new(self.new_kind, f"{self.new_kind.name} {self._next_state}")))
            case 3:
                call.handles.find(request.context, self.queues)
                call.handles.close(request.context)
                call.reply(Handle(ContextHandle()))
            case 4:
                call.reply(Number(int(call.handles.find(request.context, self.queues).split()[1])))
            case 5:
                self.waiting[request.number] = call
            case 6:
                raise RpcFault(request.number)
            case _:
                call.reply(Number(7))

    def cancelled(self, call: Call, now: Now) -> None:
        self.events.append("cancelled" if call.is_deliverable else "gone")
        if call.is_deliverable and self.ends_cancelled:
            call.fault(FaultStatus.CALL_CANCELLED)

    def answer(self, number: int) -> None:
        self.waiting.pop(number).reply(Number(number))

    def _run_down(self, state: str, now: Now) -> None:
        self.events.append(f"rundown {state}")


def only_always_open(method: Method) -> AuthLevel:
    return AuthLevel.NONE if method.opnum == ALWAYS_OPEN else AuthLevel.PRIVACY


@dataclass(slots=True)
class ToyContext:
    """Tokens: `hello NAME`, answered `challenge`, answered `proof NAME`. A legs of 2 is complete with the first."""

    auth_type: AuthType = AuthType.NTLM
    legs: int = 3
    name: str | None = None
    is_complete: bool = False
    is_client: bool = False
    sent: int = 0
    taken: int = 0
    account: DomainAccount | None = None

    @property
    def principal(self) -> str | None:
        return self.name if self.name != "nobody" else None

    def step(self, token: bytes | None) -> bytes | None:
        kind, _, name = (token or b"").partition(b" ")
        if kind == b"hello" and self.name is None:
            self.name = name.decode(errors="replace")
            self.is_complete = self.legs == 2
            return b"" if self.is_complete else b"challenge"
        if kind != b"proof" or name.decode(errors="replace") != self.name or self.name == "mallory":
            raise AuthenticationFailed("the proof is wrong")
        self.is_complete = True
        return None

    def signature_size(self, level: AuthLevel) -> int:
        return 16

    def protect(self, parts: Parts, level: AuthLevel) -> tuple[bytes, bytes]:
        token = self._sign(parts, parts.body, self.sent, is_client=self.is_client)
        self.sent += 1
        return _seal(parts.body, level), token

    def unprotect(self, parts: Parts, auth_value: bytes, level: AuthLevel) -> bytes:
        body = _seal(parts.body, level)
        if auth_value != self._sign(parts, body, self.taken, is_client=not self.is_client):
            raise AuthenticationFailed("the signature is wrong")
        self.taken += 1
        return body

    def _sign(self, parts: Parts, body: bytes, number: int, *, is_client: bool) -> bytes:
        signed = parts.header + body + parts.trailer if parts.sign_header else body
        return blake2b(b"%d %d " % (number, is_client) + signed, digest_size=16).digest()


def _seal(body: bytes, level: AuthLevel) -> bytes:
    return bytes(byte ^ 0x5A for byte in body) if level == AuthLevel.PRIVACY else body


def toy_acceptors(auth_type: AuthType) -> SecurityContext | None:
    """NTLM in three legs, SPNEGO in two; Kerberos is not offered."""
    if auth_type is AuthType.NTLM:
        return ToyContext()
    return ToyContext(AuthType.SPNEGO, 2) if auth_type is AuthType.SPNEGO else None


class Guids:
    """16 bytes that were not there before."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self) -> bytes:
        self._count += 1
        return blake2b(b"%d" % self._count, digest_size=16).digest()


def toy_server(handler: ToyHandler, level: AuthLevel = AuthLevel.NONE) -> RpcServer:
    """TOY on 2103 and, with OTHER, on 2105."""
    service = Service(TOY, handler)
    listeners = {PORT: [service], "2105": [service, Service(OTHER, handler)]}
    return RpcServer(listeners, toy_acceptors, Guids(), RpcSettings(level))


def offer(context_id: int, *transfers: SyntaxId, abstract: SyntaxId = TOY.syntax) -> ContextElement:
    return ContextElement(context_id, abstract, list(transfers or [NDR20]))


@dataclass(slots=True)
class Peer:
    """One connection of a client."""

    server: RpcServer
    number: int = 1
    listener: str = PORT
    address: str = CLIENT_ADDRESS
    fragments: list[Fragment] = field(default_factory=list)
    is_closed: bool = False
    security: Protection | None = None
    reader: FragmentReader = field(default_factory=FragmentReader)
    interface: Interface = TOY

    def __post_init__(self) -> None:
        self.server.connected(self.number, self.listener, self.address, NOW)

    def send(self, data: bytes) -> list[Fragment]:
        """Writes, and returns what the server has answered to this connection since the last time."""
        self.server.received(self.number, data, NOW)
        return self.take()

    def take(self) -> list[Fragment]:
        kept: list[tuple[int, bytes | None]] = []
        fragments: list[Fragment] = []
        for number, data in self.server.take_output():
            if number != self.number:
                kept.append((number, data))
            elif data is None:
                self.is_closed = True
            else:
                assert not self.is_closed
                fragments += self.reader.feed(data)
                self.server.sent(number, len(data))
        self.server._output[:0] = kept
        return fragments

    def send_pdu(self, record: Body, call_id: int = 1, flags: int = WHOLE) -> list[Fragment]:
        return self.send(fragment_of(record, call_id, flags).encode())

    def bind(self, *offers: ContextElement, group: int = 0, flags: int = WHOLE) -> BindAck:
        (answer,) = self.send_pdu(Bind(5840, 5840, group, list(offers or [offer(0)])), 1, flags)
        assert answer.header.ptype == PacketType.BIND_ACK, answer
        return BindAck.decode(answer)

    def log_in(
        self,
        name: str = "CORP\\alice",
        level: AuthLevel = AuthLevel.PRIVACY,
        context: ContextElement | None = None,
        *,
        signs_headers: bool = True,
    ) -> None:
        """A bind in three legs."""
        client = ToyContext(is_client=True)
        flags = WHOLE | (PFC_SUPPORT_HEADER_SIGN if signs_headers else 0)
        bind = fragment_of(Bind(5840, 5840, 0, [context or offer(0)]), 1, flags)
        (answer,) = self.send(bind.authenticate(trailer(level), b"hello " + name.encode()).encode())
        assert answer.header.ptype == PacketType.BIND_ACK
        assert answer.auth_value == b"challenge"
        self.security = Protection(client, level, CONTEXT_ID, signs_headers)
        auth3 = fragment_of(Auth3(), 1).authenticate(trailer(level), b"proof " + name.encode())
        assert self.send(auth3.encode()) == []

    def requests(self, opnum: int, stub: bytes, call_id: int, room: int = 0x1000, context_id: int = 0) -> list[bytes]:
        fragments = cut(Request(0, context_id, opnum, stub), call_id, room)
        encode = Fragment.encode if self.security is None else self.security.protect
        return [encode(fragment) for fragment in fragments]

    def start(
        self,
        opnum: int,
        request: Parameters,
        call_id: int = 2,
        context_id: int = 0,
        syntax: NdrSyntax = NdrSyntax.NDR20,
    ) -> list[Fragment]:
        method = self.interface.methods[opnum]
        return self.send(
            b"".join(self.requests(opnum, encode_request(method, request, syntax), call_id, context_id=context_id))
        )

    def ask(
        self,
        opnum: int,
        request: Parameters,
        call_id: int = 2,
        context_id: int = 0,
        syntax: NdrSyntax = NdrSyntax.NDR20,
    ) -> Any:
        """The reply, or the status of the fault."""
        return self.result(opnum, self.start(opnum, request, call_id, context_id, syntax), syntax)

    def result(self, opnum: int, fragments: list[Fragment], syntax: NdrSyntax = NdrSyntax.NDR20) -> Any:
        if fragments[0].header.ptype == PacketType.FAULT:
            (fault,) = fragments
            return Fault.decode(fault).status
        assembly = Assembly(Response, 0x0100_0000)
        whole = None
        for fragment in fragments:
            clear = fragment if self.security is None else self.security.unprotect(fragment)
            assert whole is None
            whole = assembly.add(clear)
        assert whole is not None
        return decode_reply(self.interface.methods[opnum], whole.stub_data, syntax)

    def tell(self, ptype: PacketType, call_id: int) -> list[Fragment]:
        """co_cancel or orphaned."""
        return self.send(bare_fragment(ptype, call_id).encode())

    def close(self) -> None:
        self.server.closed(self.number, NOW)


def trailer(level: AuthLevel, auth_type: int = AuthType.NTLM, context_id: int = CONTEXT_ID) -> SecurityTrailer:
    return SecurityTrailer(auth_type, level, auth_context_id=context_id)


def bound(handler: ToyHandler | None = None) -> tuple[Peer, ToyHandler]:
    handler = handler or ToyHandler()
    client = Peer(toy_server(handler))
    client.bind(flags=WHOLE | PFC_CONC_MPX)
    return client, handler


def echo_parts(client: Peer, octets: bytes, call_id: int, room: int = 16) -> list[bytes]:
    return client.requests(ECHO, encode_request(TOY.methods[ECHO], Octets(octets), NdrSyntax.NDR20), call_id, room)


def echoes(client: Peer, call_id: int = 99) -> bool:
    """Whether the connection is still of use."""
    return bool(client.ask(ECHO, Octets(b"still here"), call_id) == Octets(b"still here"))
