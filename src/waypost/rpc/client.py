"""One connection of an RPC client: C706 11.1 and 12.6, MS-RPCE 3.3.1.5 and 3.3.2.

Bytes go in and out, and calls come to results. Calls that are made before the server has accepted the connection wait
for that; several are open at a time if the server can do that, else they go one after the other. Each call has exactly
one result: the reply, RpcFault, or another WaypostError. A break of the protocol ends the connection and all its
calls; a malformed answer ends its call alone, with a DecodeError.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from waypost.clock import Now
from waypost.errors import AuthenticationFailed, DecodeError, EncodeError, ProtocolError, WaypostError
from waypost.limits import MAX_RPC_ANSWER, MAX_RPC_UNFINISHED_ANSWERS
from waypost.rpc.calls import STUB_STEP, Assembly, Fault, FaultStatus, Request, Response, StubTooLong, cut
from waypost.rpc.client_binding import SYNTAXES, ClientBinding, ClientSecurity, Offer
from waypost.rpc.client_errors import CallTimedOut, ConnectionFailed, InterfaceRefused
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Interface, Method, Parameters, decode_reply, encode_request
from waypost.rpc.pdu import HEADER, Fragment, FragmentReader, Header, PacketType, bare_fragment
from waypost.rpc.protection import stub_room
from waypost.rpc.verification import CallFacts, append_trailer
from waypost.wire.ndr import NdrSyntax

_LAST_CALL_ID: Final = 0xFFFF_FFFF


@dataclass(slots=True, eq=False)
class _Call:
    """`syntax` is None until the request is sent; `held` counts the bytes of its answer that have come."""

    call_id: int
    interface: Interface
    method: Method
    request: Parameters
    deadline: float | None
    syntax: NdrSyntax | None = None
    assembly: Assembly[Response] = field(default_factory=lambda: Assembly(Response, MAX_RPC_ANSWER))
    held: int = 0

    @property
    def is_sent(self) -> bool:
        return self.syntax is not None


class ClientConnection:
    """A connection that `start` begins. With the `assoc_group_id` of another one it shares the context handles of that.

    When `is_closed` is true, the output that is left is the last and the transport is to be closed.
    """

    def __init__(
        self, interfaces: Sequence[Interface], security: ClientSecurity | None = None, assoc_group_id: int = 0
    ) -> None:
        self._call_id = 1
        self._security: Final = security
        self._binding: Final = ClientBinding(interfaces, security, assoc_group_id, self._call_id)
        self._reader: Final = FragmentReader()
        self._calls: Final[dict[int, _Call]] = {}
        self._waiting: Final[deque[_Call]] = deque()
        self._verified: Final[set[int]] = set()
        self._held = 0
        self._output: list[bytes] = []
        self._results: list[tuple[int, Any]] = []
        self._error: WaypostError | None = None
        self._is_shutting_down = False

    @property
    def assoc_group_id(self) -> int:
        return self._binding.assoc_group_id

    @property
    def is_bound(self) -> bool:
        """Whether the server has accepted the connection."""
        return self._binding.is_complete

    @property
    def is_closed(self) -> bool:
        return self._error is not None

    @property
    def is_open_for_calls(self) -> bool:
        """Whether a new call has a chance: not when the server asked to let the connection go (C706 12.6.4.11)."""
        return not self.is_closed and not self._is_shutting_down

    @property
    def open_calls(self) -> int:
        return len(self._calls)

    @property
    def next_deadline(self) -> float | None:
        """When `expire` is due, on the monotonic clock."""
        return min((call.deadline for call in self._calls.values() if call.deadline is not None), default=None)

    def take_output(self) -> bytes:
        output = b"".join(self._output)
        self._output.clear()
        return output

    def take_results(self) -> list[tuple[int, Any]]:
        """Calls that have ended, each with its reply or a WaypostError."""
        results, self._results = self._results, []
        return results

    # --- Events of the transport

    def start(self) -> None:
        """The transport is connected. Raises AuthenticationFailed without credentials to begin with."""
        self._output.append(self._binding.first())

    def feed(self, data: bytes) -> None:
        """Bytes from the server."""
        try:
            for fragment in self._reader.feed(data):
                if not self.is_closed:
                    self._take(fragment)
            if self._reader.error is not None:
                raise self._reader.error
        except DecodeError as error:
            self._close(ConnectionFailed(f"the server violates the protocol: {error}"))
        except ProtocolError as error:
            self._close(error)

    def closed(self) -> None:
        """The transport has gone."""
        self._close(ConnectionFailed("the connection was closed"))

    def expire(self, now: Now) -> None:
        """MS-RPCE 3.3.2.6.1: cancels the calls whose time is over, and does not wait for what comes of it."""
        for call in list(self._calls.values()):
            if call.deadline is not None and call.deadline <= now.monotonic and not self.is_closed:
                if call.is_sent:
                    self._output.append(bare_fragment(PacketType.CO_CANCEL, call.call_id).encode())
                self._abandon(call, CallTimedOut(f"{call.method.name} did not get an answer in time"))

    # --- Calls

    def call(self, interface: Interface, opnum: int, request: Parameters, deadline: float | None = None) -> int:
        """Begins a call of an interface of the connection; the number under which its result comes."""
        self._call_id = self._call_id % _LAST_CALL_ID + 1
        call = _Call(self._call_id, interface, interface.methods[opnum], request, deadline)
        self._calls[call.call_id] = call
        if not self.is_open_for_calls:
            self._end(call, self._error or ConnectionFailed("the server closed the connection"))
            return call.call_id
        self._waiting.append(call)
        self._send_waiting()
        return call.call_id

    def cancel(self, call_id: int) -> None:
        """C706 12.6.4.6: asks the server to end a call, which goes on until its result comes."""
        call = self._calls.get(call_id)
        if call is None:
            return
        if call.is_sent:
            self._output.append(bare_fragment(PacketType.CO_CANCEL, call_id).encode())
        else:
            self._end(call, RpcFault(FaultStatus.NCA_FAULT_CANCEL))

    def orphan(self, call_id: int) -> None:
        """C706 12.6.4.8: nobody waits for the answer of a call any more. Its result is that it was cancelled."""
        call = self._calls.get(call_id)
        if call is not None:
            self._abandon(call, RpcFault(FaultStatus.NCA_FAULT_CANCEL))

    def _abandon(self, call: _Call, result: WaypostError) -> None:
        if call.is_sent:
            self._output.append(bare_fragment(PacketType.ORPHANED, call.call_id).encode())
        self._end(call, result)
        # MS-RPCE 3.3.1.5.10: only a server that has said so keeps the connection after an orphaned.
        if call.is_sent and not self._binding.keeps_connection_on_orphan:
            self._close(ConnectionFailed("the connection was closed because a call was abandoned"))

    def _send_waiting(self) -> None:
        """MS-RPCE 3.3.1.5.8: without multiplexing, one call at a time."""
        while self._waiting and self.is_bound and not self.is_closed:
            if not self._binding.is_multiplexed and len(self._waiting) < len(self._calls):
                return
            call = self._waiting.popleft()
            try:
                self._send(call, self._binding.agreed(call.interface))
            except (EncodeError, InterfaceRefused) as error:
                self._finish(call, error)
            except AuthenticationFailed as error:
                self._close(error)

    def _send(self, call: _Call, offer: Offer) -> None:
        syntax = SYNTAXES[offer.transfer]
        stub = encode_request(call.method, call.request, syntax)
        header = Header(ptype=PacketType.REQUEST)
        protection = self._binding.protection
        if protection is None:
            room = stub_room(self._binding.max_fragment, header)
        else:
            room = protection.room(self._binding.max_fragment, header)
            if protection.is_protecting:
                stub = self._verifiable(stub, call, offer)
        request = Request(0, offer.context_id, call.method.opnum, stub)
        for fragment in cut(request, call.call_id, room // STUB_STEP * STUB_STEP):
            self._output.append(fragment.encode() if protection is None else protection.protect(fragment))
        call.syntax = syntax

    def _verifiable(self, stub: bytes, call: _Call, offer: Offer) -> bytes:
        """MS-RPCE note 43: the first request of a presentation context repeats what was said without protection."""
        if offer.context_id in self._verified:
            return stub
        self._verified.add(offer.context_id)
        signs_headers = self._security is not None and self._security.signs_headers
        abstract, opnum = call.interface.syntax, call.method.opnum
        facts = CallFacts(call.call_id, offer.context_id, opnum, abstract, offer.transfer, signs_headers)
        return append_trailer(stub, facts)

    # --- Answers

    def _take(self, fragment: Fragment) -> None:
        if not self.is_bound:
            answer = self._binding.answered(fragment)
            if answer is not None:
                self._output.append(answer)
            self._send_waiting()
            return
        match fragment.header.ptype:
            case PacketType.RESPONSE:
                self._response(self._in_clear(fragment))
            case PacketType.FAULT:
                self._fault(self._in_clear(fragment) if fragment.trailer is not None else fragment)
            case PacketType.SHUTDOWN:
                self._is_shutting_down = True
                self._close_if_unused()
            case ptype:
                reason = f"a client does not accept packets of the type {PacketType(ptype).name}"
                raise DecodeError(HEADER, "PTYPE", 2, reason)

    def _in_clear(self, fragment: Fragment) -> Fragment:
        """Also what belongs to no call is looked at: the security packages count fragments."""
        protection = self._binding.protection
        return fragment if protection is None else protection.unprotect(fragment)

    def _response(self, fragment: Fragment) -> None:
        call = self._calls.get(fragment.header.call_id)
        if call is None or call.syntax is None:
            # A call that was given up.
            return
        try:
            whole = call.assembly.add(fragment)
        except StubTooLong as error:
            self._end(call, error)
            return
        if whole is not None:
            self._end(call, _reply(call.method, whole, call.syntax))
            return
        call.held += len(fragment.body)
        self._held += len(fragment.body)
        if self._held > MAX_RPC_UNFINISHED_ANSWERS:
            raise ConnectionFailed(
                f"the unfinished answers have {self._held} bytes; the limit is {MAX_RPC_UNFINISHED_ANSWERS}"
            )

    def _fault(self, fragment: Fragment) -> None:
        fault = Fault.decode(fragment)
        call = self._calls.get(fragment.header.call_id)
        if call is not None and call.is_sent:
            self._end(call, RpcFault(fault.status))

    # --- Ends

    def _end(self, call: _Call, result: Any) -> None:
        self._finish(call, result)
        self._send_waiting()
        self._close_if_unused()

    def _finish(self, call: _Call, result: Any) -> None:
        del self._calls[call.call_id]
        if not call.is_sent and call in self._waiting:
            self._waiting.remove(call)
        self._held -= call.held
        self._results.append((call.call_id, result))

    def _close_if_unused(self) -> None:
        """C706 12.6.4.11: a server asks for it when it wants to end."""
        if self._is_shutting_down and not self._calls and not self.is_closed:
            self._close(ConnectionFailed("the server closed the connection"))

    def _close(self, error: WaypostError) -> None:
        if self.is_closed:
            return
        self._error = error
        self._waiting.clear()
        for call in list(self._calls.values()):
            self._finish(call, error)


def _reply(method: Method, response: Response, syntax: NdrSyntax) -> Any:
    try:
        return decode_reply(method, response.stub_data, syntax)
    except DecodeError as error:
        return error
