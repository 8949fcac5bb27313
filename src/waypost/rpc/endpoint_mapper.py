"""The endpoint mapper: C706 2.2.4 and appendix O, MS-RPCE 2.2.1.2 and 3.1.3.5.3.

It says on which port of this computer an interface is served. Registrations are fixed when the server starts;
nobody inserts or deletes any over the network. It answers everybody, since nobody can authenticate before knowing
where.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final, TypeVar

from waypost.clock import Now
from waypost.guid import NULL_GUID
from waypost.rpc.binds import NDR20, NDR64, SyntaxId
from waypost.rpc.context_handles import HandleKind
from waypost.rpc.endpoint_mapper_interface import (
    ANY_ADDRESS,
    EPMAPPER,
    Endpoint,
    EndpointEntry,
    EptLookupHandleFreeReply,
    EptLookupReply,
    EptLookupRequest,
    EptMapReply,
    EptMapRequest,
    InquiryType,
    MapperStatus,
    Tower,
    VersionOption,
)
from waypost.rpc.interface import NULL_HANDLE, Interface
from waypost.rpc.server_calls import Call, Service, any_level
from waypost.wire.ndr import ContextHandle

Found = TypeVar("Found", Tower, EndpointEntry)


def _forget(_found: Sequence[object], _now: Now) -> None:
    """Do nothing: a search holds nothing open."""


# Entries that a search found and has not returned yet.
MAPPING: Final[HandleKind[list[Tower]]] = HandleKind("ept_map", _forget)
LOOKUP: Final[HandleKind[list[EndpointEntry]]] = HandleKind("ept_lookup", _forget)

ANNOTATION: Final = b"Message Queuing"


@dataclass(frozen=True, slots=True)
class Registration:
    """An interface and the TCP port where it is served; an address of 0.0.0.0 is the one that the client called."""

    interface: Interface
    port: int
    address: IPv4Address = ANY_ADDRESS

    def tower(self, transfer: SyntaxId) -> Tower:
        return Tower.of(Endpoint(self.interface.syntax, transfer, self.port, self.address))


def endpoint_mapper(registrations: Sequence[Registration]) -> Service:
    """The service of the listener at port 135."""
    return Service(EPMAPPER, EndpointMapper(registrations), any_level)


class EndpointMapper:
    """The methods of the interface."""

    def __init__(self, registrations: Sequence[Registration]) -> None:
        self._registrations = registrations

    def call(self, call: Call, request: Any, now: Now) -> None:  # noqa: ARG002, nothing here depends on time
        if isinstance(request, EptMapRequest):
            call.reply(self._map(call, request))
        elif isinstance(request, EptLookupRequest):
            call.reply(self._lookup(call, request))
        else:
            call.handles.close(request.entry_handle)
            call.reply(EptLookupHandleFreeReply())

    def cancelled(self, call: Call, now: Now) -> None:
        """No call waits."""

    def _map(self, call: Call, request: EptMapRequest) -> EptMapReply:
        left = _left(call, request.entry_handle, MAPPING)
        if left is None:
            left = self._towers(request)
        towers, rest = left[: request.max_towers], left[request.max_towers :]
        return EptMapReply(_keep(call, MAPPING, rest), towers, request.max_towers, _status(towers, rest))

    def _towers(self, request: EptMapRequest) -> list[Tower]:
        wanted = request.map_tower.endpoint if request.map_tower is not None else None
        if wanted is None or wanted.transfer not in (NDR20, NDR64):
            return []
        return [entry.tower(wanted.transfer) for entry in self._registrations if _serves(entry, wanted.interface)]

    def _lookup(self, call: Call, request: EptLookupRequest) -> EptLookupReply:
        left = _left(call, request.entry_handle, LOOKUP)
        if left is None:
            asked_for = [entry for entry in self._registrations if _is_asked_for(entry, request)]
            left = [EndpointEntry(NULL_GUID, entry.tower(NDR20), ANNOTATION) for entry in asked_for]
        entries, rest = left[: request.max_ents], left[request.max_ents :]
        return EptLookupReply(_keep(call, LOOKUP, rest), entries, request.max_ents, _status(entries, rest))


def _left(call: Call, handle: ContextHandle, kind: HandleKind[list[Found]]) -> list[Found] | None:
    """The rest of an earlier call, or None for a new search. The handle is good for one call."""
    if handle.is_null:
        return None
    left = call.handles.find(handle, kind)
    call.handles.close(handle)
    return left


def _keep(call: Call, kind: HandleKind[list[Found]], rest: list[Found]) -> ContextHandle:
    return call.handles.new(kind, rest) if rest else NULL_HANDLE


def _status(part: Sequence[object], rest: Sequence[object]) -> MapperStatus:
    if part:
        return MapperStatus.OK
    return MapperStatus.EPT_S_CANT_PERFORM_OP if rest else MapperStatus.EPT_S_NOT_REGISTERED


def _serves(entry: Registration, wanted: SyntaxId) -> bool:
    """C706 6.2.2: the major versions are equal, and the minor version asked for is not the higher one."""
    major, minor = entry.interface.version
    return entry.interface.uuid == wanted.uuid and major == wanted.major and minor >= wanted.minor


def _is_asked_for(entry: Registration, request: EptLookupRequest) -> bool:
    by_interface = _has_version(entry, request)
    # Nothing is registered for an object.
    by_object = request.object in (None, NULL_GUID)
    match request.inquiry_type:
        case InquiryType.RPC_C_EP_ALL_ELTS:
            return True
        case InquiryType.RPC_C_EP_MATCH_BY_IF:
            return by_interface
        case InquiryType.RPC_C_EP_MATCH_BY_OBJ:
            return by_object
        case InquiryType.RPC_C_EP_MATCH_BY_BOTH:
            return by_interface and by_object
    return False


def _has_version(entry: Registration, request: EptLookupRequest) -> bool:
    """MS-RPCE 2.2.1.2.4 vers_option."""
    wanted = request.if_id
    if wanted is None or wanted.uuid != entry.interface.uuid:
        return False
    version, asked = entry.interface.version, (wanted.vers_major, wanted.vers_minor)
    match request.vers_option:
        case VersionOption.RPC_C_VERS_ALL:
            return True
        case VersionOption.RPC_C_VERS_COMPATIBLE:
            return version[0] == asked[0] and version[1] >= asked[1]
        case VersionOption.RPC_C_VERS_EXACT:
            return version == asked
        case VersionOption.RPC_C_VERS_MAJOR_ONLY:
            return version[0] == asked[0]
        case VersionOption.RPC_C_VERS_UPTO:
            return version <= asked
    return False
