"""Binding of a client to a server: C706 12.6.4.3 to 12.6.4.5; MS-RPCE 3.3.1.5.2, .3 and .6.

A bind offers each interface with each transfer syntax under a separate number, and at its end features of MS-RPCE.
With security the bind carries the first token; the others follow in alter_contexts, and the last one of a package whose
legs are odd in an rpc_auth_3. The binding ends after a few legs or fails, with any answers of the server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from waypost.errors import AuthenticationFailed, DecodeError
from waypost.rpc.authentication import AuthLevel, SecurityContext
from waypost.rpc.binds import (
    BIND_ACK,
    KEEP_CONNECTION_ON_ORPHAN,
    NDR20,
    NDR64,
    AlterContext,
    AlterContextResponse,
    Auth3,
    Bind,
    BindAck,
    BindNak,
    BindResult,
    ContextElement,
    ContextResult,
    RejectionReason,
    SyntaxId,
    bind_time_features,
)
from waypost.rpc.calls import Fault
from waypost.rpc.client_errors import BindRefused, InterfaceNotSupported, InterfaceRefused
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Interface
from waypost.rpc.pdu import (
    PFC_CONC_MPX,
    PFC_SUPPORT_HEADER_SIGN,
    WHOLE,
    Fragment,
    PacketType,
    SecurityTrailer,
    fragment_of,
)
from waypost.rpc.protection import Protection
from waypost.rpc.settings import MUST_RECV_FRAG_SIZE
from waypost.wire.ndr import NdrSyntax

SYNTAXES: Final = {NDR20: NdrSyntax.NDR20, NDR64: NdrSyntax.NDR64}

# The features that Windows offers.
MAX_FRAGMENT: Final = 5840

# Unique on the connection, which has no other security context.
AUTH_CONTEXT_ID: Final = 1

# Of tokens that a server sends. Packages need two or three.
MAX_LEGS: Final = 8


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """A security context of the client's side that nobody has used, and the level for all calls of the connection."""

    context: SecurityContext
    level: AuthLevel

    @property
    def signs_headers(self) -> bool:
        """MS-RPCE 3.3.1.5.2.2: whether the bind offers it; the server may not want it."""
        return self.level >= AuthLevel.INTEGRITY


@dataclass(frozen=True, slots=True)
class Offer:
    """One presentation context of the bind."""

    context_id: int
    interface: Interface
    transfer: SyntaxId


class ClientBinding:
    """One bind, from its first PDU until calls can be made. `protection` is there when it is complete."""

    __slots__ = (
        "_agreed",
        "_call_id",
        "_legs",
        "_offers",
        "_security",
        "assoc_group_id",
        "is_complete",
        "is_multiplexed",
        "keeps_connection_on_orphan",
        "max_fragment",
        "protection",
    )

    def __init__(
        self, interfaces: Sequence[Interface], security: ClientSecurity | None, assoc_group_id: int, call_id: int
    ) -> None:
        self.assoc_group_id = assoc_group_id
        self.is_complete = False
        self.is_multiplexed = False
        self.keeps_connection_on_orphan = False
        self.max_fragment = MUST_RECV_FRAG_SIZE
        self.protection: Protection | None = None
        self._call_id: Final = call_id
        self._security: Final = security
        self._legs = 0
        proposals = [(interface, transfer) for interface in interfaces for transfer in SYNTAXES]
        self._offers: Final = [Offer(number, *proposal) for number, proposal in enumerate(proposals)]
        # The accepted context of each interface, or the reason of its refusal.
        self._agreed: Final[dict[bytes, Offer | InterfaceRefused]] = {}

    def first(self) -> bytes:
        """The bind."""
        flags = WHOLE | PFC_CONC_MPX
        token = None
        if self._security is not None:
            token = self._security.context.step(None)
            if self._security.signs_headers:
                flags |= PFC_SUPPORT_HEADER_SIGN
        return self._encoded(fragment_of(self._offering(Bind), self._call_id, flags), token)

    def answered(self, fragment: Fragment) -> bytes | None:
        """Takes the answer of the server; what goes back, if anything does.

        Raises ConnectionFailed, AuthenticationFailed, RpcFault or DecodeError if no calls can be made.
        """
        header = fragment.header
        if header.call_id != self._call_id:
            raise DecodeError(
                BIND_ACK,
                "call_id",
                12,
                f"must be {self._call_id}, which is the call_id of the bind PDU, not {header.call_id}",
            )
        match header.ptype:
            case PacketType.BIND_ACK if not self._legs:
                self._acknowledged(fragment)
            case PacketType.ALTER_CONTEXT_RESP if self._legs:
                AlterContextResponse.decode(fragment)
            case PacketType.BIND_NAK:
                raise BindRefused(BindNak.decode(fragment).provider_reject_reason)
            case PacketType.FAULT:
                raise RpcFault(Fault.decode(fragment).status)
            case _:
                raise DecodeError(BIND_ACK, "PTYPE", 2, f"{PacketType(header.ptype).name} is not an answer to a bind")
        self._legs += 1
        return self._next_leg(fragment)

    def agreed(self, interface: Interface) -> Offer:
        """Under which number and in which syntax an interface is called. Raises InterfaceRefused."""
        agreed = self._agreed[interface.uuid]
        if isinstance(agreed, InterfaceRefused):
            raise agreed.with_traceback(None)
        return agreed

    def _offering(self, record: type[Bind]) -> Bind:
        elements = [
            ContextElement(offer.context_id, offer.interface.syntax, [offer.transfer]) for offer in self._offers
        ]
        features = bind_time_features(KEEP_CONNECTION_ON_ORPHAN)
        elements.append(ContextElement(len(elements), elements[-1].abstract, [features]))
        return record(MAX_FRAGMENT, MAX_FRAGMENT, self.assoc_group_id, elements)

    def _acknowledged(self, fragment: Fragment) -> None:
        ack = BindAck.decode(fragment)
        if len(ack.results) != len(self._offers) + 1:
            reason = f"the answer has {len(ack.results)} results for {len(self._offers) + 1} contexts"
            raise DecodeError(BIND_ACK, "n_results", 0, reason)
        for offer, result in zip(self._offers, ack.results, strict=False):
            self._take(offer, result)
        features = ack.results[-1]
        if features.result == BindResult.NEGOTIATE_ACK:
            self.keeps_connection_on_orphan = features.reason & KEEP_CONNECTION_ON_ORPHAN != 0
        if all(isinstance(agreed, InterfaceRefused) for agreed in self._agreed.values()):
            # 3.3.1.5.6: with nothing accepted there is nothing to call.
            self.agreed(self._offers[0].interface)
        self.assoc_group_id = ack.assoc_group_id
        self.is_multiplexed = fragment.header.pfc_flags & PFC_CONC_MPX != 0
        self.max_fragment = max(min(MAX_FRAGMENT, ack.max_recv_frag), MUST_RECV_FRAG_SIZE)
        if self._security is not None:
            is_signing_agreed = fragment.header.pfc_flags & PFC_SUPPORT_HEADER_SIGN != 0
            sign_header = self._security.signs_headers and is_signing_agreed
            self.protection = Protection(self._security.context, self._security.level, AUTH_CONTEXT_ID, sign_header)

    def _take(self, offer: Offer, result: ContextResult) -> None:
        uuid = offer.interface.uuid
        if result.result == BindResult.ACCEPTANCE:
            if result.transfer != offer.transfer:
                raise DecodeError(BIND_ACK, "transfer_syntax", 0, "must be the transfer syntax that was offered")
            if not isinstance(self._agreed.get(uuid), Offer):
                self._agreed[uuid] = offer
        elif uuid not in self._agreed:
            self._agreed[uuid] = _refusal(offer.interface, result)

    def _next_leg(self, fragment: Fragment) -> bytes | None:
        """3.3.1.5.2.1: the token that answers the server's."""
        if self._security is None:
            self.is_complete = True
            return None
        context = self._security.context
        token = self._token_for(fragment, context)
        self.is_complete = context.is_complete and (token is None or context.auth_type.has_odd_legs)
        if token is None:
            return None
        if self.is_complete:
            return self._encoded(fragment_of(Auth3(), self._call_id), token)
        return self._encoded(fragment_of(self._offering(AlterContext), self._call_id), token)

    def _token_for(self, fragment: Fragment, context: SecurityContext) -> bytes | None:
        if self._legs > MAX_LEGS:
            raise AuthenticationFailed(f"the authentication is not complete after {MAX_LEGS} tokens")
        if context.is_complete and not fragment.auth_value:
            return None
        if fragment.trailer is None:
            raise AuthenticationFailed("the server answered without a token before the authentication was complete")
        token = context.step(fragment.auth_value)
        if token is None and not context.is_complete:
            raise AuthenticationFailed("the security package neither completes nor continues the authentication")
        return token

    def _encoded(self, fragment: Fragment, token: bytes | None) -> bytes:
        if token is None or self._security is None:
            return fragment.encode()
        trailer = SecurityTrailer(
            self._security.context.auth_type, self._security.level, auth_context_id=AUTH_CONTEXT_ID
        )
        return fragment.authenticate(trailer, token).encode()


def _refusal(interface: Interface, result: ContextResult) -> InterfaceRefused:
    is_unknown = (
        result.result == BindResult.PROVIDER_REJECTION
        and result.reason == RejectionReason.ABSTRACT_SYNTAX_NOT_SUPPORTED
    )
    return InterfaceNotSupported(interface.name) if is_unknown else InterfaceRefused(interface.name, result.reason)
