"""MS-MQQB 3.1.7.4, 3.1.7.5 and 3.1.5.2.1: from a format name to those who are sent to."""

import pytest

from tests.routing.enterprise import Enterprise, guid
from waypost.guid import NULL_GUID, guid_text
from waypost.routing.routes import Route
from waypost.routing.routing import Hop, NextHop, Routing
from waypost.wire.format_names import Destination, FormatName

ME = guid("x")


@pytest.fixture
def enterprise() -> Enterprise:
    known = Enterprise()
    known.site("A")
    known.machine("x", "A")
    known.machine("y", "A")
    known.queue("q", "y")
    return known


@pytest.fixture
def routing(enterprise: Enterprise) -> Routing:
    return Routing(enterprise, ME)


def name_of(kind: str, identifier: bytes) -> FormatName:
    return FormatName.parse(f"{kind}={guid_text(identifier)}")


def private_name(machine: str) -> FormatName:
    return FormatName.parse(f"PRIVATE={guid_text(guid(machine))}\\5")


@pytest.mark.spec("MQQB-3.1.7.4-02")
@pytest.mark.parametrize("kind", ["PUBLIC", "CONNECTOR"])
def test_the_directory_tells_whose_a_public_or_a_connector_queue_is(routing: Routing, kind: str) -> None:
    assert routing.destination(name_of(kind, guid("q"))) == Destination("y.example.org", guid("y"))
    assert routing.destination(name_of(kind, guid("?"))) is None
    assert Routing(None, ME).destination(name_of(kind, guid("q"))) is None


@pytest.mark.spec("MQQB-3.1.7.4-01", "MQQB-3.1.7.4-03")
def test_direct_and_private_names_need_no_directory(routing: Routing, enterprise: Enterprise) -> None:
    for each in (routing, Routing(None, ME)):
        assert each.destination(FormatName.parse(r"DIRECT=OS:y.far\q")) == Destination("y.far", NULL_GUID)
        assert each.destination(FormatName.parse(r"DIRECT=TCP:fe80::1\q")) == Destination("fe80::1", NULL_GUID)
        assert each.destination(private_name("y")) == Destination("", guid("y"))
    assert enterprise.read == []


@pytest.mark.parametrize(
    "text",
    [
        "DIRECT=HTTP://host/msmq/q",
        "DIRECT=HTTPS://host/msmq/q",
        "MULTICAST=224.0.0.1:8001",
        f"DL={guid_text(ME)}",
        f"MACHINE={guid_text(ME)};JOURNAL",
        r"DIRECT=OS:a\q,DIRECT=OS:b\q",
    ],
)
def test_no_session_leads_to_a_web_server_or_a_group(routing: Routing, text: str) -> None:
    assert routing.destination(FormatName.parse(text)) is None


@pytest.mark.spec("MQQB-3.1.5.2.1-03")
def test_the_host_in_a_direct_name_is_contacted_and_the_others_are_routed(
    routing: Routing, enterprise: Enterprise
) -> None:
    assert routing.next_hops(Destination("y.far", NULL_GUID)) == [Hop(NULL_GUID, "y.far")]
    assert enterprise.read == []
    enterprise.machine("x", "A", out="y")
    enterprise.machine("z", "B")
    assert routing.next_hops(Destination("", guid("z"))) == [Hop(guid("y"), "y.example.org")]


@pytest.mark.spec("MQQB-3.1.7.5-01", "MQMQ-2.1.4-02")
def test_next_hops_are_those_of_the_algorithm_that_the_directory_knows(
    routing: Routing, enterprise: Enterprise
) -> None:
    enterprise.router("r", "A")
    enterprise.router("s", "A")
    enterprise.machine("y", "A", into="r?s")
    destination = routing.destination(private_name("y"))
    assert destination is not None
    assert routing.next_hops(destination) == [Hop(guid("r"), "r.example.org"), Hop(guid("s"), "s.example.org")]
    assert set(enterprise.read) == {ME, *map(guid, "yr?s")}
    enterprise.forget("r")
    assert routing.next_hops(destination) == [Hop(guid("s"), "s.example.org")]
    enterprise.forget("s")
    assert routing.next_hops(destination) == []


def test_without_a_directory_everybody_is_reached_at_once() -> None:
    workgroup = Routing(None, ME)
    assert workgroup.next_hops(Destination("host", NULL_GUID)) == [Hop(NULL_GUID, "host")]
    assert workgroup.next_hops(Destination("", guid("y"))) == [Hop(guid("y"), "")]


def test_a_route_that_is_written_down_comes_first(enterprise: Enterprise) -> None:
    routes = [Route(guid("y"), "elsewhere"), Route(guid("z"), via=guid("y")), Route(guid("w"), via=guid("?"))]
    for directory in (None, enterprise):
        routing = Routing(directory, ME, routes)
        assert routing.next_hops(Destination("", guid("y"))) == [Hop(guid("y"), "elsewhere")]
        assert routing.next_hops(Destination("", guid("z"))) == [Hop(guid("y"), "elsewhere")]
        assert routing.next_hops(Destination("", guid("w"))) == [Hop(guid("?"), "")]
        assert routing.next_hops(Destination("host", NULL_GUID)) == [Hop(NULL_GUID, "host")]


@pytest.mark.spec("MQQB-3.1.1.3.1.3-01")
def test_a_hop_is_a_next_hop_with_each_of_its_addresses() -> None:
    hop = Hop(guid("y"), "y.example.org")
    assert hop.at(["10.0.0.2", "fe80::2"]) == (
        NextHop(guid("y"), "y.example.org", "10.0.0.2"),
        NextHop(guid("y"), "y.example.org", "fe80::2"),
    )
    assert hop.at([]) == ()
