"""C706 appendix O, MS-RPCE 2.2.1.2."""

from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest

from tests.rpc.serving import OTHER, TOY, Guids, Peer, offer, toy_acceptors
from waypost.guid import NULL_GUID
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.binds import NDR20, NDR64, SyntaxId
from waypost.rpc.calls import FaultStatus
from waypost.rpc.endpoint_mapper import Registration, endpoint_mapper
from waypost.rpc.endpoint_mapper_interface import (
    EPMAPPER,
    Endpoint,
    EptLookupHandleFreeReply,
    EptLookupHandleFreeRequest,
    EptLookupReply,
    EptLookupRequest,
    EptMapReply,
    EptMapRequest,
    InquiryType,
    InterfaceId,
    MapperStatus,
    Tower,
    VersionOption,
)
from waypost.rpc.server import RpcServer
from waypost.rpc.settings import RpcSettings
from waypost.wire.ndr import ContextHandle

ADDRESS = IPv4Address("10.0.0.1")
REGISTRATIONS = [
    Registration(TOY, 2103, ADDRESS),
    Registration(OTHER, 2105, ADDRESS),
    Registration(TOY, 2114, ADDRESS),
]
MAP, LOOKUP, FREE = 3, 2, 4


class Client:
    """Asks a mapper that it has bound to without a name."""

    def __init__(self, registrations: list[Registration]) -> None:
        server = RpcServer(
            {"135": [endpoint_mapper(registrations)]}, toy_acceptors, Guids(), RpcSettings(AuthLevel.PRIVACY)
        )
        self._peer = Peer(server, listener="135", interface=EPMAPPER)
        self._peer.bind(offer(0, abstract=EPMAPPER.syntax))
        self._call_id = 1

    def ask(self, opnum: int, request: Any) -> Any:
        self._call_id += 1
        return self._peer.ask(opnum, request, self._call_id)

    def map(self, interface: SyntaxId, transfer: SyntaxId = NDR20, most: int = 4) -> EptMapReply:
        wanted = Tower.of(Endpoint(interface, transfer))
        reply = self.ask(MAP, EptMapRequest(None, wanted, max_towers=most))
        assert isinstance(reply, EptMapReply)
        return reply

    def lookup(self, **asked: Any) -> EptLookupReply:
        reply = self.ask(LOOKUP, EptLookupRequest(**asked))
        assert isinstance(reply, EptLookupReply)
        return reply


@pytest.fixture
def client() -> Client:
    return Client(REGISTRATIONS)


def ports(towers: list[Tower]) -> list[int]:
    endpoints = [tower.endpoint for tower in towers]
    return [endpoint.port for endpoint in endpoints if endpoint is not None]


def lookup_ports(reply: EptLookupReply) -> list[int]:
    return ports([entry.tower for entry in reply.entries])


def test_the_ports_of_an_interface_are_found(client: Client) -> None:
    reply = client.map(OTHER.syntax)
    assert (reply.status, reply.entry_handle) == (MapperStatus.OK, ContextHandle())
    assert [tower.endpoint for tower in reply.towers] == [Endpoint(OTHER.syntax, NDR20, 2105, ADDRESS)]
    assert ports(client.map(TOY.syntax).towers) == [2103, 2114]


@pytest.mark.parametrize("transfer", [NDR20, NDR64])
def test_both_transfer_syntaxes_are_served_at_the_same_port(client: Client, transfer: SyntaxId) -> None:
    (tower,) = client.map(OTHER.syntax, transfer).towers
    assert tower.endpoint == Endpoint(OTHER.syntax, transfer, 2105, ADDRESS)


@pytest.mark.parametrize(
    ("major", "minor", "found"), [(1, 2, [2103, 2114]), (1, 0, [2103, 2114]), (1, 3, []), (2, 0, []), (0, 2, [])]
)
def test_a_compatible_version_is_found(client: Client, major: int, minor: int, found: list[int]) -> None:
    assert ports(client.map(SyntaxId(TOY.uuid, minor << 16 | major)).towers) == found


def test_what_is_not_registered_is_not_found(client: Client) -> None:
    for wanted in (
        Tower.of(Endpoint(SyntaxId(NULL_GUID, 1), NDR20)),
        Tower.of(Endpoint(TOY.syntax, TOY.syntax)),
        Tower([]),
        Tower(Tower.of(Endpoint(TOY.syntax, NDR20)).floors[:-1]),
        None,
    ):
        reply = client.ask(MAP, EptMapRequest(None, wanted))
        assert (reply.towers, reply.status, reply.entry_handle.is_null) == ([], 0x16C9A0D6, True)


def test_an_interface_without_an_object_is_found_for_any_object(client: Client) -> None:
    reply = client.ask(MAP, EptMapRequest(b"o" * 16, Tower.of(Endpoint(OTHER.syntax, NDR20))))
    assert ports(reply.towers) == [2105]


def test_what_does_not_fit_is_fetched_with_the_handle(client: Client) -> None:
    first = client.map(TOY.syntax, most=1)
    assert (ports(first.towers), first.status) == ([2103], MapperStatus.OK)
    assert not first.entry_handle.is_null
    wanted = Tower.of(Endpoint(TOY.syntax, NDR20))
    second = client.ask(MAP, EptMapRequest(None, wanted, first.entry_handle, 1))
    assert (ports(second.towers), second.entry_handle.is_null) == ([2114], True)
    assert client.ask(MAP, EptMapRequest(None, wanted, first.entry_handle, 1)) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH


def test_who_asks_for_no_towers_gets_none(client: Client) -> None:
    reply = client.map(TOY.syntax, most=0)
    assert (reply.towers, reply.status) == ([], MapperStatus.EPT_S_CANT_PERFORM_OP)


def test_the_handle_of_a_lookup_is_none_of_a_map(client: Client) -> None:
    handle = client.lookup(max_ents=1).entry_handle
    wanted = Tower.of(Endpoint(TOY.syntax, NDR20))
    assert client.ask(MAP, EptMapRequest(None, wanted, handle)) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert lookup_ports(client.lookup(entry_handle=handle)) == [2105, 2114]


def test_a_handle_that_is_freed_is_of_no_more_use(client: Client) -> None:
    handle = client.lookup(max_ents=1).entry_handle
    reply = client.ask(FREE, EptLookupHandleFreeRequest(handle))
    assert reply == EptLookupHandleFreeReply(ContextHandle(), MapperStatus.OK)
    assert client.ask(LOOKUP, EptLookupRequest(entry_handle=handle)) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH


def test_a_lookup_returns_everything_page_by_page(client: Client) -> None:
    assert lookup_ports(client.lookup()) == [2103, 2105, 2114]
    first = client.lookup(max_ents=2)
    second = client.lookup(entry_handle=first.entry_handle, max_ents=2)
    assert (lookup_ports(first), lookup_ports(second)) == ([2103, 2105], [2114])
    assert second.entry_handle.is_null


@pytest.mark.parametrize(
    ("option", "version", "found"),
    [
        (VersionOption.RPC_C_VERS_ALL, (9, 9), True),
        (VersionOption.RPC_C_VERS_COMPATIBLE, (1, 1), True),
        (VersionOption.RPC_C_VERS_COMPATIBLE, (1, 3), False),
        (VersionOption.RPC_C_VERS_COMPATIBLE, (2, 0), False),
        (VersionOption.RPC_C_VERS_EXACT, (1, 2), True),
        (VersionOption.RPC_C_VERS_EXACT, (1, 1), False),
        (VersionOption.RPC_C_VERS_MAJOR_ONLY, (1, 9), True),
        (VersionOption.RPC_C_VERS_MAJOR_ONLY, (2, 2), False),
        (VersionOption.RPC_C_VERS_UPTO, (1, 2), True),
        (VersionOption.RPC_C_VERS_UPTO, (2, 0), True),
        (VersionOption.RPC_C_VERS_UPTO, (1, 1), False),
        (77, (1, 2), False),
    ],
)
def test_a_lookup_by_interface_minds_the_version(
    client: Client, option: int, version: tuple[int, int], found: object
) -> None:
    asked = InterfaceId(TOY.uuid, *version)
    reply = client.lookup(inquiry_type=InquiryType.RPC_C_EP_MATCH_BY_IF, if_id=asked, vers_option=option)
    assert lookup_ports(reply) == ([2103, 2114] if found else [])
    assert reply.status == (MapperStatus.OK if found else MapperStatus.EPT_S_NOT_REGISTERED)


@pytest.mark.parametrize(
    ("inquiry", "obj", "found"),
    [
        (InquiryType.RPC_C_EP_ALL_ELTS, b"o" * 16, [2103, 2105, 2114]),
        (InquiryType.RPC_C_EP_MATCH_BY_IF, b"o" * 16, [2103, 2114]),
        (InquiryType.RPC_C_EP_MATCH_BY_OBJ, b"o" * 16, []),
        (InquiryType.RPC_C_EP_MATCH_BY_OBJ, NULL_GUID, [2103, 2105, 2114]),
        (InquiryType.RPC_C_EP_MATCH_BY_BOTH, b"o" * 16, []),
        (InquiryType.RPC_C_EP_MATCH_BY_BOTH, None, [2103, 2114]),
        (4, None, []),
    ],
)
def test_a_lookup_goes_by_interface_object_or_both(
    client: Client, inquiry: int, obj: bytes | None, found: list[int]
) -> None:
    asked = InterfaceId(TOY.uuid, 1, 0)
    assert lookup_ports(client.lookup(inquiry_type=inquiry, object=obj, if_id=asked)) == found


def test_a_lookup_by_interface_needs_one(client: Client) -> None:
    assert client.lookup(inquiry_type=InquiryType.RPC_C_EP_MATCH_BY_IF).entries == []


def test_an_empty_map_has_nothing() -> None:
    assert Client([]).lookup().status == MapperStatus.EPT_S_NOT_REGISTERED
    assert Client([]).map(TOY.syntax).status == MapperStatus.EPT_S_NOT_REGISTERED


def test_an_address_is_left_open_where_none_is_given() -> None:
    (tower,) = Client([replace(REGISTRATIONS[0], address=IPv4Address(0))]).map(TOY.syntax).towers
    assert tower.endpoint == Endpoint(TOY.syntax, NDR20, 2103)


@pytest.mark.parametrize("opnum", [0, 1, 5, 6, 7])
def test_nothing_is_inserted_or_deleted(client: Client, opnum: int) -> None:
    (answer,) = client._peer.send(b"".join(client._peer.requests(opnum, bytes(40), 9)))
    assert client._peer.result(MAP, [answer]) == FaultStatus.NCA_OP_RNG_ERROR
