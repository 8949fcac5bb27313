"""The directory of a node as its routing reads it."""

import pytest

from tests.directory.rig import ME, Rig, guid
from waypost.directory import objects, topology
from waypost.directory.core_directory import CoreDirectory
from waypost.directory.results import DirectoryOperationResult, DirectoryResult
from waypost.guid import NULL_GUID
from waypost.node.routing_directory import NodeRoutingDirectory
from waypost.routing.routing import Hop, Routing
from waypost.routing.topology import Machine, RoutingLink, Site
from waypost.wire.format_names import Destination, PublicFormatName

HERE, THERE = guid(1), guid(2)
GATE, FAR_GATE, FAR = guid(0x11), guid(0x12), guid(0x13)


@pytest.fixture
def rig() -> Rig:
    """This queue manager and a gate in one site, a gate and another queue manager in a second one."""
    rig = Rig()
    rig.put(topology.Site(identifier=HERE, name="here"))
    rig.put(topology.Site(identifier=THERE, name="there"))
    for identifier, name, site in ((ME, "host", HERE), (GATE, "gate", HERE), (FAR_GATE, "far-gate", THERE)):
        rig.put(
            objects.QueueManager(
                identifier=identifier,
                computer_name=name,
                qualified_computer_name=f"{name}.example.org",
                site_identifier_list=(site,),
                routing_server=identifier != ME,
            )
        )
    rig.put(objects.QueueManager(identifier=FAR, computer_name="far", site_identifier_list=(THERE,)))
    rig.put(
        topology.RoutingLink(
            site1_identifier=HERE,
            site2_identifier=THERE,
            actual_cost=7,
            site_gate_identifier_list=(GATE, FAR_GATE, FAR, guid(0x99)),
        )
    )
    return rig


@pytest.fixture
def directory(rig: Rig) -> NodeRoutingDirectory:
    return NodeRoutingDirectory(CoreDirectory(rig.events, lambda: rig.now), is_routing_server=False)


def test_queue_managers_are_read_with_what_routing_needs(directory: NodeRoutingDirectory) -> None:
    gate = Machine(GATE, "gate.example.org", (HERE,), routing_server=True)
    assert directory.queue_manager(GATE) == gate
    assert directory.queue_manager(guid(0x99)) is None
    assert [each.identifier for each in directory.queue_managers()] == [GATE, FAR_GATE, FAR, ME]
    assert gate in directory.queue_managers()


def test_in_and_out_routing_servers_are_read(rig: Rig, directory: NodeRoutingDirectory) -> None:
    rig.put(
        objects.QueueManager(
            identifier=guid(0x14),
            computer_name="shy",
            in_routing_server_identifier_list=(GATE,),
            out_routing_server_identifier_list=(FAR_GATE, GATE),
        )
    )
    shy = directory.queue_manager(guid(0x14))
    assert shy is not None
    assert shy.in_routing_server_identifier_list == (GATE,)
    assert shy.out_routing_server_identifier_list == (FAR_GATE, GATE)


def test_one_that_is_configured_as_a_routing_server_is_one_and_nobody_else(rig: Rig) -> None:
    core = CoreDirectory(rig.events, lambda: rig.now)
    directory = NodeRoutingDirectory(core, is_routing_server=True)
    assert [each.identifier for each in directory.queue_managers() if each.routing_server] == [GATE, FAR_GATE, ME]
    assert Routing(directory, ME).next_hops(Destination("", FAR)) == [Hop(GATE, "gate.example.org")]


def test_one_without_a_qualified_name_goes_by_its_name(directory: NodeRoutingDirectory) -> None:
    far = directory.queue_manager(FAR)
    assert far is not None
    assert far.qualified_computer_name == "far"


def test_the_gates_of_a_site_are_the_routing_servers_of_its_links_that_belong_to_it(
    directory: NodeRoutingDirectory,
) -> None:
    assert directory.sites() == [Site(HERE, (GATE,)), Site(THERE, (FAR_GATE,))]
    assert directory.routing_links() == [RoutingLink(HERE, THERE, 7)]


def test_a_public_queue_is_where_its_queue_manager_is(rig: Rig, directory: NodeRoutingDirectory) -> None:
    known = rig.put(objects.Queue(pathname="gate\\q"))
    orphan = rig.put(objects.Queue(pathname="nobody\\q"))
    assert directory.destination_of_queue(known) == Destination("gate.example.org", GATE)
    assert directory.destination_of_queue(orphan) is None
    assert directory.destination_of_queue(NULL_GUID) is None


@pytest.mark.spec("MQQB-3.1.7.4-02", "MQQB-3.1.7.5-01")
def test_a_message_for_another_site_goes_from_gate_to_gate(rig: Rig, directory: NodeRoutingDirectory) -> None:
    queue = PublicFormatName(rig.put(objects.Queue(pathname="far\\q")))
    expected = {
        ME: Hop(GATE, "gate.example.org"),
        GATE: Hop(FAR_GATE, "far-gate.example.org"),
        FAR_GATE: Hop(FAR, "far"),
    }
    for at, hop in expected.items():
        routing = Routing(directory, at)
        destination = routing.destination(queue)
        assert destination == Destination("far", FAR)
        assert routing.next_hops(destination) == [hop]


def test_a_directory_that_cannot_be_reached_knows_nothing(rig: Rig, directory: NodeRoutingDirectory) -> None:
    rig.line.is_cut = True
    assert directory.queue_managers() == []
    assert directory.sites() == []
    assert directory.queue_manager(GATE) is None
    assert Routing(directory, ME).next_hops(Destination("", GATE)) == []


def test_what_cannot_be_read_to_the_end_is_not_there(
    directory: NodeRoutingDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: DirectoryResult[objects.DirectoryObject] = DirectoryResult(DirectoryOperationResult.GENERIC_ERROR)
    monkeypatch.setattr("waypost.directory.events.DirectoryEvents.read_directory_next", lambda *_: failed)
    assert directory.queue_managers() == []
