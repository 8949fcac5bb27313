"""Binding, the begin of a connection of an RPC server: C706 12.6.4.1 to 12.6.4.5, MS-RPCE 3.3.1.5.2 to 3.3.1.5.8.

A bind joins the connection to an association and offers presentation contexts; alter_context offers more. Both may
carry a token that builds a security context, and so does rpc_auth_3, which has no answer.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from waypost.clock import Now
from waypost.errors import AuthenticationFailed, DecodeError
from waypost.rpc.associations import Association, Associations
from waypost.rpc.authentication import Acceptors, AuthLevel
from waypost.rpc.binds import AlterContext, AlterContextResponse, Bind, BindAck, BindNak, RejectReason
from waypost.rpc.interface import Method
from waypost.rpc.pdu import PFC_CONC_MPX, PFC_SUPPORT_HEADER_SIGN, WHOLE, Fragment, SecurityTrailer, fragment_of
from waypost.rpc.presentation import PresentationContexts
from waypost.rpc.server_calls import Service
from waypost.rpc.server_security import SecurityContexts, UnknownAuthType
from waypost.rpc.settings import MUST_RECV_FRAG_SIZE, RpcSettings
from waypost.rpc.statistics import RpcStatistics


class Holder(Protocol):
    """A connection of a client."""

    @property
    def peer(self) -> str:
        """Its address, or the /64 network of it."""

    def give_up(self) -> None:
        """Refuse the request that is coming in."""


@dataclass(slots=True)
class Unfinished:
    """Bytes of stub data of requests whose last fragment has not come, of all connections together.

    `unsent` are the bytes of answers that clients have not taken, and `calls` how many are open, by their addresses.
    """

    size: int = 0
    unsent: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    _held: dict[Holder, int] = field(default_factory=dict)

    def add(self, holder: Holder, size: int) -> None:
        self.size += size
        self._held[holder] = self._held.get(holder, 0) + size

    def remove(self, holder: Holder) -> None:
        self.size -= self._held.pop(holder, 0)

    def largest(self) -> Holder:
        """Of the address that holds the most, the connection that does."""
        held: Counter[str] = Counter()
        for holder, size in self._held.items():
            held[holder.peer] += size
        most = max(held, key=lambda peer: held[peer])
        return max((holder for holder in self._held if holder.peer == most), key=self._held.__getitem__)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener, shared by its connections. `name` is the port in decimal, which a bind_ack repeats."""

    name: str
    services: Sequence[Service]
    acceptors: Acceptors
    associations: Associations
    settings: RpcSettings
    unfinished: Unfinished
    statistics: RpcStatistics

    def min_level(self, service: Service, method: Method) -> AuthLevel:
        return self.settings.level if service.min_level is None else service.min_level(method)


class ServerBinding:
    """The agreements of one connection with its client. `association` is missing before the bind."""

    __slots__ = (
        "_address",
        "_endpoint",
        "_has_failed",
        "_max_recv_frag",
        "_number",
        "association",
        "max_xmit_frag",
        "presentation",
        "security",
    )

    def __init__(self, endpoint: Endpoint, number: int, address: str) -> None:
        self._endpoint: Final = endpoint
        self._number: Final = number
        self._address: Final = address
        self._has_failed = False
        self._max_recv_frag = MUST_RECV_FRAG_SIZE
        self.max_xmit_frag = MUST_RECV_FRAG_SIZE
        self.association: Association | None = None
        self.presentation: Final = PresentationContexts(endpoint.services)
        self.security: Final = SecurityContexts(endpoint.acceptors, address)

    def bind(self, fragment: Fragment) -> Fragment:
        """The answer to a bind: a bind_ack or a bind_nak."""
        reason = RejectReason.REASON_NOT_SPECIFIED
        try:
            bind = Bind.decode(fragment)
            association = self._join(bind)
            if association is not None:
                return self._accept(fragment, self._begin(bind, association))
        except UnknownAuthType:
            reason = RejectReason.AUTHENTICATION_TYPE_NOT_RECOGNIZED
        except AuthenticationFailed:
            reason = RejectReason.INVALID_CHECKSUM
        except DecodeError:
            # MS-RPCE 2.2.2.5: this number is also that of a protocol error in a bind.
            reason = RejectReason.PROTOCOL_VERSION_NOT_SUPPORTED
        self._endpoint.statistics.binds_refused += 1
        return fragment_of(BindNak(reason), fragment.header.call_id)

    def alter_context(self, fragment: Fragment, association: Association) -> Fragment:
        """The answer to an alter_context; AuthenticationFailed if its token is wrong, or one before it was."""
        if self._has_failed:
            raise AuthenticationFailed("an earlier authentication of this client failed")
        results = self.presentation.negotiate(AlterContext.decode(fragment).contexts)
        response = AlterContextResponse(self.max_xmit_frag, self._max_recv_frag, association.group_id, b"", results)
        return self._accept(fragment, response)

    def auth3(self, fragment: Fragment) -> None:
        if fragment.trailer is None:
            raise DecodeError("MS-RPCE 2.2.2.10", "auth_length", 10, "an rpc_auth_3 must have a token")
        try:
            with self._endpoint.statistics.authenticating():
                self.security.step_on(fragment.trailer, fragment.auth_value)
        except AuthenticationFailed:
            # MS-RPCE 3.3.1.5.2.1: this has no answer, but the first request finds no security context. A
            # second try needs another connection.
            self._has_failed = True

    def leave(self, now: Now) -> None:
        if self.association is not None:
            endpoint = self._endpoint
            endpoint.statistics.rundowns += endpoint.associations.leave(self.association, self._number, now)

    def _join(self, bind: Bind) -> Association | None:
        """The association that the bind asks for, unless the connection has one."""
        if self.association is not None:
            return None
        endpoint = self._endpoint
        self.association = endpoint.associations.join(bind.assoc_group_id, self._number, endpoint.name, self._address)
        return self.association

    def _begin(self, bind: Bind, association: Association) -> BindAck:
        self.max_xmit_frag = self._agree(bind.max_recv_frag)
        self._max_recv_frag = self._agree(bind.max_xmit_frag)
        # MS-RPCE 3.3.1.5.5: the secondary address is the primary one.
        sec_addr = self._endpoint.name.encode() + b"\0"
        results = self.presentation.negotiate(bind.contexts)
        return BindAck(self.max_xmit_frag, self._max_recv_frag, association.group_id, sec_addr, results)

    def _agree(self, size: int) -> int:
        return min(max(size, MUST_RECV_FRAG_SIZE), self._endpoint.settings.max_fragment)

    def _accept(self, fragment: Fragment, ack: BindAck) -> Fragment:
        """The answer, with the token that follows the one of the client if it has sent one."""
        flags, trailer = fragment.header.pfc_flags, fragment.trailer
        if trailer is None:
            return fragment_of(ack, fragment.header.call_id, WHOLE | flags & PFC_CONC_MPX)
        # MS-RPCE 3.3.1.5.2.2: a client that offers to sign headers is told that it is done.
        signing = flags & PFC_SUPPORT_HEADER_SIGN
        self.security.signs_headers |= signing != 0
        with self._endpoint.statistics.authenticating():
            token = self.security.step(trailer, fragment.auth_value)
        answer = fragment_of(ack, fragment.header.call_id, WHOLE | flags & PFC_CONC_MPX | signing)
        if not token:
            return answer
        echo = SecurityTrailer(trailer.auth_type, trailer.auth_level, auth_context_id=trailer.auth_context_id)
        return answer.authenticate(echo, token)
