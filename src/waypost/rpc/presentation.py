"""The presentation contexts of one connection of a server: C706 12.6.3.1, MS-RPCE 3.3.1.5.3 and 3.3.1.5.6.

A client offers an interface with transfer syntaxes under a number, and a request names that number. Each offer is
answered in its place. Of the transfer syntaxes that one PDU offers for an interface one is accepted, NDR64 if it is
there: a client that offers both, under two numbers, expects one acceptance and one rejection.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from waypost.limits import MAX_RPC_CONTEXTS
from waypost.rpc.binds import (
    KEEP_CONNECTION_ON_ORPHAN,
    NDR20,
    NDR64,
    SECURITY_CONTEXT_MULTIPLEXING,
    BindResult,
    ContextElement,
    ContextResult,
    RejectionReason,
    SyntaxId,
)
from waypost.rpc.server_calls import Service
from waypost.wire.ndr import NdrSyntax

# The first is the preferred one.
SYNTAXES: Final = {NDR64: NdrSyntax.NDR64, NDR20: NdrSyntax.NDR20}

FEATURES: Final = SECURITY_CONTEXT_MULTIPLEXING | KEEP_CONNECTION_ON_ORPHAN


@dataclass(frozen=True, slots=True)
class PresentationContext:
    """A presentation context that both sides agreed on."""

    service: Service
    abstract: SyntaxId
    transfer: SyntaxId

    @property
    def syntax(self) -> NdrSyntax:
        return SYNTAXES[self.transfer]


class PresentationContexts:
    """MS-RPCE 3.3.3.1.1: the table of presentation contexts."""

    __slots__ = ("_by_id", "_services")

    def __init__(self, services: Sequence[Service]) -> None:
        self._services = services
        self._by_id: dict[int, PresentationContext] = {}

    def find(self, context_id: int) -> PresentationContext | None:
        return self._by_id.get(context_id)

    def negotiate(self, offers: list[ContextElement]) -> list[ContextResult]:
        """The answers to what one bind or alter_context offers."""
        offered: dict[SyntaxId, set[SyntaxId]] = {}
        for offer in offers:
            offered.setdefault(offer.abstract, set()).update(offer.transfers)
        chosen = {
            abstract: next((transfer for transfer in SYNTAXES if transfer in transfers), None)
            for abstract, transfers in offered.items()
        }
        return [self._answer(offer, chosen[offer.abstract]) for offer in offers]

    def _answer(self, offer: ContextElement, chosen: SyntaxId | None) -> ContextResult:
        if len(offer.transfers) == 1 and (features := offer.transfers[0].feature_bitmask) is not None:
            return ContextResult(BindResult.NEGOTIATE_ACK, features & FEATURES)
        service = self._service(offer.abstract)
        if service is None:
            return _rejection(RejectionReason.ABSTRACT_SYNTAX_NOT_SUPPORTED)
        if chosen is None or chosen not in offer.transfers:
            return _rejection(RejectionReason.PROPOSED_TRANSFER_SYNTAXES_NOT_SUPPORTED)
        if len(self._by_id) >= MAX_RPC_CONTEXTS and offer.context_id not in self._by_id:
            return _rejection(RejectionReason.LOCAL_LIMIT_EXCEEDED)
        self._by_id[offer.context_id] = PresentationContext(service, offer.abstract, chosen)
        return ContextResult(BindResult.ACCEPTANCE, 0, chosen)

    def _service(self, abstract: SyntaxId) -> Service | None:
        """C706 6.2.2: the major versions are equal, and the server's minor version is not the lower one."""
        for service in self._services:
            major, minor = service.interface.version
            if service.interface.uuid == abstract.uuid and major == abstract.major and minor >= abstract.minor:
                return service
        return None


def _rejection(reason: RejectionReason) -> ContextResult:
    return ContextResult(BindResult.PROVIDER_REJECTION, reason)
