"""The calls of one connection of an RPC server: C706 11.1 and 12.6, MS-RPCE 3.3.3.

Requests are joined from their fragments one at a time (MS-RPCE 3.3.1.5.8), while any number of calls that are whole
wait for their answers. A break of the protocol or the authentication is answered once and ends the connection; a
fault in one call ends that call alone. A client that asks for more than it takes has to wait, and one
whose answers pile up all the same, because they were waited for, is cut off.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from waypost.clock import Now
from waypost.errors import AuthenticationFailed, DecodeError
from waypost.limits import (
    MAX_RPC_OPEN_CALLS,
    MAX_RPC_OPEN_CALLS_OF_ALL,
    MAX_RPC_OPEN_CALLS_OF_PEER,
    MAX_RPC_REQUEST,
    MAX_RPC_UNFINISHED_REQUESTS,
)
from waypost.peers import peer_of
from waypost.rpc.associations import Association
from waypost.rpc.authentication import Caller
from waypost.rpc.binds import BindNak, RejectReason
from waypost.rpc.calls import STUB_STEP, Assembly, Fault, FaultStatus, Request, Response, StubTooLong, cut
from waypost.rpc.faults import RpcFault
from waypost.rpc.flow import Flow
from waypost.rpc.interface import Method, decode_request
from waypost.rpc.pdu import (
    HEADER,
    PFC_DID_NOT_EXECUTE,
    PFC_PENDING_CANCEL,
    WHOLE,
    Fragment,
    FragmentReader,
    Header,
    PacketType,
    UnsupportedHeader,
    fragment_of,
)
from waypost.rpc.presentation import PresentationContext
from waypost.rpc.protection import Protection, stub_room
from waypost.rpc.server_binding import Endpoint, ServerBinding
from waypost.rpc.server_calls import Call
from waypost.rpc.verification import CallFacts, VerificationFailed, strip_trailer

# MS-RPCE 3.3.3.5.6: a fragment of a call that is less than this much older is what is left of a call that has ended.
OLD_CALLS: Final = 150


@dataclass(slots=True)
class _Incoming:
    """The request whose fragments are coming in."""

    call_id: int
    context_id: int
    context: PresentationContext
    method: Method
    caller: Caller
    protection: Protection | None
    object_uuid: bytes
    is_cancelled: bool = False


@dataclass(slots=True)
class _Ready:
    """A request that is whole, with the record that its method takes."""

    call: Call
    record: Any
    is_cancelled: bool


@dataclass(slots=True)
class _Outlet:
    """Format of the answer to a call on the wire."""

    connection: "ServerConnection"
    call_id: int
    context_id: int
    protection: Protection | None

    def reply(self, stub: bytes) -> None:
        self.connection.send_response(self, Response(0, self.context_id, stub))

    def fault(self, status: int) -> None:
        self.connection.send_fault(self, status)


class ServerConnection:
    """`write` takes the bytes to send. When `is_ended` is true they are the last, and nothing more is taken."""

    def __init__(self, endpoint: Endpoint, number: int, address: str, write: Callable[[bytes], None]) -> None:
        self._endpoint: Final = endpoint
        self.peer: Final = peer_of(address)
        self._write: Final = write
        self.flow: Final = Flow(endpoint.unfinished)
        self._reader: Final = FragmentReader()
        self._binding: Final = ServerBinding(endpoint, number, address)
        self._assembly = Assembly(Request, MAX_RPC_REQUEST)
        self._incoming: _Incoming | None = None
        self._last_call_id = 0
        self._calls: dict[int, Call] = {}
        self.is_ended = False

    def received(self, data: bytes, now: Now, most: int) -> int:
        """Take bytes. Handles at most `most` fragments, and returns their number."""
        if data and self._reader.error is None:
            try:
                self.flow.came(self._reader.feed(data))
            except DecodeError as error:
                # Earlier requests are answered first.
                if not self.flow.waits:
                    self._break_off(error)
                    return 0
        return self.go_on(now, most)

    def go_on(self, now: Now, most: int) -> int:
        """Look at what has come, as far as there is room for the answers."""
        done = 0
        while done < most and not self.is_ended and (fragment := self.flow.next()) is not None:
            done += 1
            self._take(fragment, now)
        if self._reader.error is not None and not self.flow.waits and not self.is_ended:
            self._break_off(self._reader.error)
        if self.flow.is_too_much:
            self.is_ended = True
        return done

    @property
    def is_bound(self) -> bool:
        return self._binding.association is not None

    @property
    def is_authenticated(self) -> bool:
        return self._binding.security.is_built

    def lost(self, now: Now) -> None:
        """The connection has gone: no call on it is deliverable, and the association may end with it."""
        self.is_ended = True
        self.flow.end()
        self._forget_incoming()
        calls = [self._closed(call_id) for call_id in tuple(self._calls)]
        for call in calls:
            call.drop()
        for call in calls:
            call.service.handler.cancelled(call, now)
        self._binding.leave(now)

    def _send(self, data: bytes) -> None:
        self.flow.made(len(data))
        self._write(data)
        if self.flow.is_too_much:
            self.is_ended = True
            for call in self._calls.values():
                call.drop()

    def _take(self, fragment: Fragment, now: Now) -> None:
        header = fragment.header
        if header.ptype == PacketType.BIND:
            self._bind(fragment)
            return
        try:
            ready = self._prepare(fragment, self._association())
        except AuthenticationFailed:
            self._end(Fault(FaultStatus.ACCESS_DENIED), header.call_id)
            return
        except DecodeError:
            # MS-RPCE 3.3.3.5.7.
            self._end(Fault(FaultStatus.NCA_PROTO_ERROR), header.call_id)
            return
        # An exception of a handler is not a mistake of the client.
        if ready is not None:
            self._dispatch(ready, header.call_id, now)
        elif header.ptype == PacketType.CO_CANCEL:
            self._cancel(header.call_id, now)
        elif header.ptype == PacketType.ORPHANED:
            self._orphan(header.call_id, now)

    def _prepare(self, fragment: Fragment, association: Association) -> _Ready | None:
        """Everything that a PDU asks for but what handlers do."""
        match fragment.header.ptype:
            case PacketType.REQUEST:
                return self._request(fragment, association)
            case PacketType.ALTER_CONTEXT:
                self._send(self._binding.alter_context(fragment, association).encode())
            case PacketType.AUTH3:
                self._binding.auth3(fragment)
            case PacketType.CO_CANCEL | PacketType.ORPHANED:
                pass
            case ptype:
                raise DecodeError(
                    HEADER, "PTYPE", 2, f"a server does not accept packets of the type {PacketType(ptype).name}"
                )
        return None

    def _association(self) -> Association:
        if self._binding.association is None:
            raise DecodeError(HEADER, "PTYPE", 2, "the first packet of a connection must be a bind")
        return self._binding.association

    def _bind(self, fragment: Fragment) -> None:
        answer = self._binding.bind(fragment)
        self._send(answer.encode())
        self.is_ended = answer.header.ptype == PacketType.BIND_NAK

    def _request(self, fragment: Fragment, association: Association) -> _Ready | None:
        """The request that this fragment makes whole, if it does and the request is right."""
        header = fragment.header
        protection = self._binding.security.protection(fragment.trailer)
        with self._endpoint.statistics.authenticating():
            clear = fragment if protection is None else protection.unprotect(fragment)
        if self._assembly.is_empty and not header.is_first:
            self._pass_over(header)
            return None
        part = Request.decode(clear)
        try:
            whole = self._assembly.join(part, header)
            if header.is_first:
                self._incoming = self._admit(part, header.call_id, protection)
            incoming = self._continue(header, protection)
            if whole is None:
                self._hold(len(part.stub_data))
                return None
            ready = self._ready(incoming, whole, association)
        except StubTooLong:
            # MS-RPCE 3.3.3.5.4.
            self._refuse(part.context_id, header.call_id, FaultStatus.ACCESS_DENIED)
        except RpcFault as fault:
            # MS-RPCE 3.3.3.5.8: the answer does not wait for the last fragment.
            self._refuse(part.context_id, header.call_id, fault.status)
        else:
            self._forget_incoming()
            return ready
        return None

    def _pass_over(self, header: Header) -> None:
        if not 0 <= self._last_call_id - header.call_id < OLD_CALLS:
            raise DecodeError(HEADER, "call_id", 12, f"the call {header.call_id} has no first fragment")

    def _admit(self, first: Request, call_id: int, protection: Protection | None) -> _Incoming:
        """The call that the first fragment of a request asks for, if it is allowed."""
        if call_id in self._calls:
            raise DecodeError(HEADER, "call_id", 12, f"call {call_id} is already in progress")
        self._last_call_id = max(self._last_call_id, call_id)
        context = self._binding.presentation.find(first.context_id)
        if context is None:
            raise RpcFault(FaultStatus.NCA_UNK_IF)
        method = context.service.interface.methods.get(first.opnum)
        if method is None:
            raise RpcFault(FaultStatus.NCA_OP_RNG_ERROR)
        caller = self._binding.security.caller(protection)
        if caller.level < self._endpoint.min_level(context.service, method):
            raise RpcFault(FaultStatus.ACCESS_DENIED)
        if not self._may_call():
            raise RpcFault(FaultStatus.NCA_SERVER_TOO_BUSY)
        return _Incoming(call_id, first.context_id, context, method, caller, protection, first.object)

    def _may_call(self) -> bool:
        """Whether one more call may be open: of this connection, of its address, and of all together."""
        of_peer = self._endpoint.unfinished.calls[self.peer]
        if len(self._calls) >= MAX_RPC_OPEN_CALLS or of_peer >= MAX_RPC_OPEN_CALLS_OF_PEER:
            return False
        return of_peer < MAX_RPC_OPEN_CALLS or self._endpoint.statistics.open_calls < MAX_RPC_OPEN_CALLS_OF_ALL

    def _continue(self, header: Header, protection: Protection | None) -> _Incoming:
        incoming = self._incoming
        assert incoming is not None
        if protection is not incoming.protection:
            raise AuthenticationFailed("the fragments of a request have different security contexts")
        incoming.is_cancelled |= header.pfc_flags & PFC_PENDING_CANCEL != 0
        return incoming

    def _hold(self, size: int) -> None:
        unfinished = self._endpoint.unfinished
        unfinished.add(self, size)
        if unfinished.size <= MAX_RPC_UNFINISHED_REQUESTS:
            return
        largest = unfinished.largest()
        if largest is self:
            raise RpcFault(FaultStatus.NCA_SERVER_TOO_BUSY)
        largest.give_up()

    def give_up(self) -> None:
        """The request that is coming in takes the room of others."""
        incoming = self._incoming
        assert incoming is not None
        self._refuse(incoming.context_id, incoming.call_id, FaultStatus.NCA_SERVER_TOO_BUSY)

    def _ready(self, incoming: _Incoming, request: Request, association: Association) -> _Ready:
        record = self._decode(incoming, request)
        service = incoming.context.service
        call = Call(
            service,
            incoming.method,
            incoming.caller,
            association.handles(service.interface.uuid, incoming.caller.name),
            incoming.context.syntax,
            _Outlet(self, incoming.call_id, request.context_id, incoming.protection),
            incoming.object_uuid,
        )
        return _Ready(call, record, incoming.is_cancelled)

    def _decode(self, incoming: _Incoming, request: Request) -> Any:
        """The record of the method, or the fault that the stub data calls for."""
        context = incoming.context
        facts = CallFacts(
            incoming.call_id, request.context_id, request.opnum, context.abstract, context.transfer,
            self._binding.security.signs_headers,
        )  # fmt: skip
        try:
            # Clients send a verification trailer at the level NONE too, where it proves nothing.
            return decode_request(incoming.method, strip_trailer(request.stub_data, facts), context.syntax)
        except VerificationFailed:
            raise RpcFault(FaultStatus.ACCESS_DENIED) from None
        except DecodeError:
            # MS-RPCE 3.1.3.5.2.
            raise RpcFault(FaultStatus.BAD_STUB_DATA) from None

    def _dispatch(self, ready: _Ready, call_id: int, now: Now) -> None:
        call = ready.call
        handler = call.service.handler
        self._calls[call_id] = call
        self._endpoint.statistics.open_calls += 1
        self._endpoint.unfinished.calls[self.peer] += 1
        try:
            handler.call(call, ready.record, now)
        except RpcFault as fault:
            call.fault(fault.status)
        if ready.is_cancelled and call.is_open:
            handler.cancelled(call, now)

    def _cancel(self, call_id: int, now: Now) -> None:
        call = self._calls.get(call_id)
        if call is not None:
            call.service.handler.cancelled(call, now)
        elif self._incoming is not None and self._incoming.call_id == call_id:
            self._incoming.is_cancelled = True

    def _orphan(self, call_id: int, now: Now) -> None:
        """MS-RPCE 3.3.1.5.10: the client forgets the call and stays."""
        if call_id in self._calls:
            call = self._closed(call_id)
            call.drop()
            call.service.handler.cancelled(call, now)
        elif self._incoming is not None and self._incoming.call_id == call_id:
            self._forget_incoming()

    def _closed(self, call_id: int) -> Call:
        """The call with this number, which is open no longer."""
        call = self._calls.pop(call_id)
        calls = self._endpoint.unfinished.calls
        calls[self.peer] -= 1
        if not calls[self.peer]:
            del calls[self.peer]
        self._endpoint.statistics.ended(call.interface.name, call.method.name, call.result)
        return call

    def send_response(self, outlet: _Outlet, response: Response) -> None:
        self._closed(outlet.call_id)
        protection, header = outlet.protection, Header(ptype=PacketType.RESPONSE)
        measure = stub_room if protection is None else protection.room
        room = measure(self._binding.max_xmit_frag, header) // STUB_STEP * STUB_STEP
        encode = Fragment.encode if protection is None else protection.protect
        self._send(b"".join(map(encode, cut(response, outlet.call_id, room))))

    def send_fault(self, outlet: _Outlet, status: int) -> None:
        self._closed(outlet.call_id)
        self._send_fault(Fault(status, outlet.context_id), outlet.call_id)

    def _refuse(self, context_id: int, call_id: int, status: int) -> None:
        """Answers a request that did not reach its method; what is left of it is passed over."""
        self._forget_incoming()
        self._send_fault(Fault(status, context_id), call_id, WHOLE | PFC_DID_NOT_EXECUTE)

    def _send_fault(self, fault: Fault, call_id: int, flags: int = WHOLE) -> None:
        self._endpoint.statistics.faults[fault.status] += 1
        self._send(fragment_of(fault, call_id, flags).encode())

    def _forget_incoming(self) -> None:
        if self._incoming is not None:
            self._endpoint.unfinished.remove(self)
        self._incoming = None
        self._assembly = Assembly(Request, MAX_RPC_REQUEST)

    def _break_off(self, error: DecodeError) -> None:
        """End a connection: not PDUs, or another version or data representation (MS-RPCE 3.3.1.5.1)."""
        header = error.header if isinstance(error, UnsupportedHeader) else Header()
        if header.ptype == PacketType.BIND:
            self._end(BindNak(RejectReason.PROTOCOL_VERSION_NOT_SUPPORTED), header.call_id)
        else:
            self._end(Fault(FaultStatus.NCA_PROTO_ERROR), header.call_id)

    def _end(self, last: BindNak | Fault, call_id: int) -> None:
        if isinstance(last, Fault):
            self._send_fault(last, call_id)
        else:
            self._endpoint.statistics.binds_refused += 1
            self._send(fragment_of(last, call_id).encode())
        self.is_ended = True
