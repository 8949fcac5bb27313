"""MS-MQBR 3.1.5: the next hops from one queue manager to another."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.routing.enterprise import Enterprise, guid
from waypost.routing.next_hops import get_next_hops, routing_table
from waypost.routing.topology import RoutingLink, Site

SITES = "ABCDEF"


@pytest.fixture
def world() -> Enterprise:
    """The four sites of MS-MQBR 4, each with a gate of its name in small letters, and ordinary queue managers x, y."""
    enterprise = Enterprise()
    for name in "ABCD":
        enterprise.site(name, name.lower())
        enterprise.router(name.lower(), name)
    enterprise.machine("x", "A")
    enterprise.machine("y", "C")
    return enterprise


def hops(enterprise: Enterprise, source: str, destination: str) -> str:
    found = get_next_hops(guid(source), guid(destination), enterprise)
    return "".join(each.decode().strip("-") for each in found)


def test_in_one_site_the_destination_itself_is_next(world: Enterprise) -> None:
    world.machine("z", "BA")
    assert hops(world, "x", "z") == "z"
    assert hops(world, "a", "x") == "x"


def test_an_enterprise_without_sites_is_one_site() -> None:
    enterprise = Enterprise()
    enterprise.machine("x")
    enterprise.machine("y")
    enterprise.router("r")
    enterprise.machine("z", "A")
    assert hops(enterprise, "x", "y") == "y"
    assert hops(enterprise, "r", "y") == "y"
    assert hops(enterprise, "z", "y") == ""


def test_out_routing_servers_take_everything_that_leaves(world: Enterprise) -> None:
    world.machine("z", "A", out="br")
    for destination in "xya":
        assert hops(world, "z", destination) == "br"


def test_a_routing_server_has_no_out_routing_servers(world: Enterprise) -> None:
    world.router("z", "A", out="b")
    assert hops(world, "z", "x") == "x"


def test_in_routing_servers_take_everything_that_comes(world: Enterprise) -> None:
    world.router("r", "A")
    world.router("s", "A")
    world.machine("z", "A", into="rs")
    assert hops(world, "x", "z") == "rs"
    assert hops(world, "a", "z") == "rs"
    assert hops(world, "r", "z") == "z"


def test_an_in_routing_server_hands_over_even_from_another_site(world: Enterprise) -> None:
    world.router("r", "B")
    world.machine("z", "A", into="rb")
    assert hops(world, "r", "z") == "z"
    assert hops(world, "b", "z") == "z"


def test_to_another_site_it_goes_by_the_routing_servers_of_the_own_one(world: Enterprise) -> None:
    world.router("q", "A")
    world.router("r", "D")
    assert hops(world, "x", "y") == "aq"


def test_a_routing_server_that_is_no_gate_sends_to_the_gates_of_its_site(world: Enterprise) -> None:
    world.router("r", "A")
    world.site("A", "ga")
    world.link("A", "C")
    assert hops(world, "r", "y") == "ga"


def test_the_gates_of_another_site_are_no_gates_here(world: Enterprise) -> None:
    world.site("A", "g")
    world.link("A", "B")
    assert hops(world, "a", "y") == "g"


def test_a_gate_that_is_no_routing_server_routes_like_everybody(world: Enterprise) -> None:
    world.machine("a", "A")
    world.router("r", "A")
    world.link("A", "C")
    assert hops(world, "a", "y") == "r"


def test_gates_follow_the_cheapest_links(world: Enterprise) -> None:
    """The two examples of MS-MQBR 4."""
    for a, b, cost in (("A", "B", 3), ("B", "C", 1), ("B", "D", 1), ("C", "D", 1)):
        world.link(a, b, cost)
    assert (hops(world, "a", "y"), hops(world, "b", "y"), hops(world, "c", "x")) == ("b", "c", "b")


def test_a_longer_way_that_costs_less_is_taken(world: Enterprise) -> None:
    for a, b, cost in (("A", "B", 3), ("B", "C", 3), ("C", "D", 1), ("B", "D", 1)):
        world.link(a, b, cost)
    assert (hops(world, "a", "y"), hops(world, "b", "y"), hops(world, "d", "y")) == ("b", "d", "c")


def test_a_site_can_have_several_gates(world: Enterprise) -> None:
    world.site("C", "cg")
    world.link("A", "C")
    assert hops(world, "a", "y") == "cg"


def test_a_destination_in_several_sites_is_sent_to_the_nearest(world: Enterprise) -> None:
    world.machine("z", "BD")
    world.link("A", "B", 5)
    world.link("A", "D", 2)
    assert hops(world, "a", "z") == "d"


def test_a_gate_in_two_sites_starts_from_both(world: Enterprise) -> None:
    world.router("a", "AB")
    world.link("A", "B", 1)
    world.link("A", "C", 9)
    world.link("B", "D", 1)
    world.link("D", "C", 1)
    assert hops(world, "a", "y") == "d"


def test_where_no_path_leads_there_is_no_next_hop(world: Enterprise) -> None:
    assert hops(world, "a", "y") == ""
    world.link("A", "B")
    assert hops(world, "a", "y") == ""
    world.site("A")
    assert hops(world, "a", "y") == ""


def test_without_a_routing_server_there_is_no_way_out(world: Enterprise) -> None:
    world.forget("a")
    assert hops(world, "x", "y") == ""


def test_the_directory_has_to_know_both_ends(world: Enterprise) -> None:
    assert hops(world, "x", "nobody") == ""
    assert hops(world, "nobody", "x") == ""


def test_nobody_is_a_next_hop_of_itself(world: Enterprise) -> None:
    world.machine("z", "A", into="xz")
    assert hops(world, "x", "z") == "z"
    assert hops(world, "x", "x") == ""


def test_of_two_ways_with_the_same_cost_it_is_always_the_same() -> None:
    sites = [Site(guid(name)) for name in "ABCD"]
    links = [RoutingLink(guid(a), guid(b), 1) for a, b in ("AB", "AC", "CD", "BD")]
    for each in (links, links[::-1]):
        assert routing_table([guid("A")], sites, each)[guid("D")].next_hop_site_id == guid("B")


def test_a_link_to_a_site_that_is_not_there_leads_nowhere() -> None:
    links = [RoutingLink(guid("A"), guid("?"), 1), RoutingLink(guid("?"), guid("B"), 1)]
    assert routing_table([guid("A")], [Site(guid("A")), Site(guid("B"))], links) == {}


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SITES), st.sampled_from(SITES), st.integers(1, 9)), max_size=14))
def test_following_the_tables_costs_what_the_cheapest_path_costs(edges: list[tuple[str, str, int]]) -> None:
    """Every site has its own table, and a message that each hands on arrives after the cheapest way there is."""
    sites = [Site(guid(name)) for name in SITES]
    links = [RoutingLink(guid(a), guid(b), cost) for a, b, cost in edges]
    costs = {(a, b): 0 if a == b else 10_000 for a in SITES for b in SITES}
    for a, b, cost in edges:
        costs[a, b] = costs[b, a] = min(cost, costs[a, b])
    for middle in SITES:
        for a in SITES:
            for b in SITES:
                costs[a, b] = min(costs[a, b], costs[a, middle] + costs[middle, b])
    for a in SITES:
        table = routing_table([guid(a)], sites, links)
        for b in SITES:
            row = table.get(guid(b))
            assert (row is not None) == (0 < costs[a, b] < 10_000)
            if row is not None:
                step = chr(row.next_hop_site_id[0])
                direct = min(cost for one, other, cost in edges if {one, other} == {a, step})
                assert row.cost == costs[a, b] == direct + costs[step, b]
