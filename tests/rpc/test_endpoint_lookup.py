"""From an interface to its port: C706 appendix O."""

from ipaddress import IPv4Address

import pytest

from tests.rpc.calling import Wire
from tests.rpc.serving import OTHER, TOY, Guids, toy_acceptors
from waypost.rpc.binds import NDR20
from waypost.rpc.client import ClientConnection
from waypost.rpc.endpoint_lookup import EPT_MAP, EPT_S_NOT_REGISTERED, map_request, mapped_port
from waypost.rpc.endpoint_mapper import Registration, endpoint_mapper
from waypost.rpc.endpoint_mapper_interface import EPMAPPER, Endpoint, EptMapReply, Floor, MapperStatus, Tower
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Interface
from waypost.rpc.server import RpcServer
from waypost.rpc.settings import RpcSettings
from waypost.wire.ndr import ContextHandle


def reply(*towers: Tower, status: int = MapperStatus.OK) -> EptMapReply:
    return EptMapReply(ContextHandle(), list(towers), 4, status)


def tower(port: int, address: str = "10.0.0.1") -> Tower:
    return Tower.of(Endpoint(TOY.syntax, NDR20, port, IPv4Address(address)))


def status_of(answer: EptMapReply) -> int:
    with pytest.raises(RpcFault) as caught:
        mapped_port(TOY, answer)
    return caught.value.status


def test_the_question_is_a_tower_with_the_interface_and_tcp() -> None:
    asked = map_request(TOY)
    assert asked.map_tower is not None
    assert asked.map_tower.endpoint == Endpoint(TOY.syntax, NDR20)
    assert asked.entry_handle.is_null


def test_the_first_tower_that_can_be_used_gives_the_port_whatever_its_address() -> None:
    pipe = Tower([*tower(1).floors[:3], Floor(b"\x0f", b"\\pipe\\x\0"), Floor(b"\x11", b"host\0")])
    other = Tower.of(Endpoint(OTHER.syntax, NDR20, 9999))
    assert mapped_port(TOY, reply(pipe, other, tower(0), tower(2103, "6.6.6.6"), tower(2114))) == 2103


def test_what_the_mapper_does_not_have_is_not_registered() -> None:
    assert EPT_S_NOT_REGISTERED == 0x6D9
    assert status_of(reply(status=MapperStatus.EPT_S_NOT_REGISTERED)) == 0x6D9
    assert status_of(reply(status=0x6D9)) == 0x6D9
    assert status_of(reply()) == 0x6D9
    assert status_of(reply(tower(0))) == 0x6D9


def test_another_failure_of_the_mapper_keeps_its_status() -> None:
    assert status_of(reply(status=MapperStatus.EPT_S_CANT_PERFORM_OP)) == MapperStatus.EPT_S_CANT_PERFORM_OP


def test_a_mapper_of_this_project_is_asked_and_understood() -> None:
    mapper = endpoint_mapper([Registration(TOY, 2103)])
    wire = Wire(
        ClientConnection([EPMAPPER]),
        RpcServer({"135": [mapper]}, toy_acceptors, Guids(), RpcSettings()),
        listener="135",
    )

    def port_of(interface: Interface) -> int:
        return mapped_port(interface, wire.ask(EPT_MAP, map_request(interface), EPMAPPER))

    assert port_of(TOY) == 2103
    with pytest.raises(RpcFault) as caught:
        port_of(OTHER)
    assert caught.value.status == EPT_S_NOT_REGISTERED
