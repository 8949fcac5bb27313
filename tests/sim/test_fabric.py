"""The faulty network of the simulator, between hosts that only listen."""

from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from random import Random

import pytest

from waypost.node.effects import Close, Connect, Resolve, SendDatagram, Write
from waypost.sim.fabric import NOWHERE, Fabric
from waypost.sim.faults import Faults
from waypost.sim.swarm import draw_network
from waypost.sim.violation import Violation
from waypost.sim.wires import CONNECT_TIMEOUT

PERFECT = Faults()


class Host:
    """A host that writes down what it hears. `refuses`: it accepts no connections."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.life = 1
        self.is_up = True
        self.refuses = False
        self.heard: list[tuple[object, ...]] = []
        self.bytes: dict[int, bytes] = {}
        self.last_number = 100

    def note(self, number: int, *words: object) -> None:
        self.noted = words

    def accept(self, address: str) -> int | None:
        self.heard.append(("accept", address))
        self.last_number += 1
        return None if self.refuses else self.last_number

    def connected(self, connection: int) -> None:
        self.heard.append(("connected", connection))

    def connect_failed(self, connection: int, reason: str) -> None:
        self.heard.append(("connect_failed", connection, reason))

    def data_received(self, connection: int, data: bytes) -> None:
        assert data
        assert ("connected", connection) in self.heard or connection > 100
        assert ("connection_lost", connection) not in self.heard
        self.heard.append(("data", connection, len(data)))
        self.bytes[connection] = self.bytes.get(connection, b"") + data

    def connection_lost(self, connection: int) -> None:
        self.heard.append(("connection_lost", connection))

    def writing_paused(self, connection: int) -> None:
        self.heard.append(("paused", connection))

    def writing_resumed(self, connection: int) -> None:
        self.heard.append(("resumed", connection))

    def datagram_received(self, data: bytes, address: str, port: int) -> None:
        self.heard.append(("datagram", data, address, port))

    def resolved(self, request: int, addresses: tuple[str, ...]) -> None:
        self.heard.append(("resolved", request, addresses))

    def took(self) -> list[tuple[object, ...]]:
        """The facts since the last call."""
        heard, self.heard = self.heard, []
        return heard


class Place:
    """The time and the chance of a simulation, with two hosts on the network."""

    def __init__(self, faults: Faults = PERFECT, seed: int = 0) -> None:
        self.rng = Random(seed)
        self.time = 0.0
        self.is_healing = False
        self._events: list[tuple[float, int, Host, int, Callable[[], None]]] = []
        self._scheduled = 0
        self.a, self.b = Host("a", "10.0.0.1"), Host("b", "10.0.0.2")
        self.fabric: Fabric[Host] = Fabric(self, faults)
        self.fabric.add(self.a, "a", "a.example.org")
        self.fabric.add(self.b, "b", "b.example.org")

    def strikes(self, rate: float) -> bool:
        return rate > 0.0 and not self.is_healing and self.rng.random() < rate

    def schedule(self, delay: float, action: Callable[[], None], host: Host) -> None:
        self._scheduled += 1
        heappush(self._events, (self.time + delay, self._scheduled, host, host.life, action))

    def step(self) -> None:
        self.time, _, host, life, action = heappop(self._events)
        if host.is_up and host.life == life:
            action()

    def settle(self) -> None:
        while self._events:
            self.step()

    def open(self) -> None:
        """Connect 1 of a with 101 of b."""
        self.fabric.carry(self.a, Connect(1, self.b.address, 1801))
        self.settle()
        assert self.b.took() == [("accept", "10.0.0.1")]
        assert self.a.heard == [("connected", 1)]

    def write(self, host: Host, connection: int, data: bytes) -> None:
        self.fabric.carry(host, Write(connection, data))

    def crash(self, host: Host) -> None:
        host.is_up = False
        host.life += 1
        self.fabric.went_down(host)

    def restart(self, host: Host) -> None:
        host.is_up = True
        host.life += 1


@pytest.fixture
def place() -> Place:
    return Place()


def lost(host: Host, connection: int) -> bool:
    return ("connection_lost", connection) in host.heard


def test_bytes_go_both_ways_in_order(place: Place) -> None:
    place.open()
    for word in (b"one", b"two", b"three"):
        place.write(place.a, 1, word)
        place.write(place.b, 101, word.upper())
    place.settle()
    assert (place.b.bytes[101], place.a.bytes[1]) == (b"onetwothree", b"ONETWOTHREE")


@pytest.mark.parametrize("seed", range(5))
def test_bytes_are_cut_and_merged(seed: int) -> None:
    place = Place(Faults(segment=7), seed)
    place.open()
    for _ in range(10):
        place.write(place.a, 1, b"0123456789")
    place.settle()
    assert place.b.bytes[101] == b"0123456789" * 10
    sizes = {heard[2] for heard in place.b.heard if heard[0] == "data"}
    assert len(sizes) > 2
    assert sizes <= set(range(1, 8))


def test_what_is_written_before_a_close_arrives_and_then_the_end(place: Place) -> None:
    place.open()
    place.write(place.a, 1, b"farewell")
    place.fabric.carry(place.a, Close(1))
    place.settle()
    assert place.b.heard == [("data", 101, 8), ("connection_lost", 101)]
    assert place.a.heard == [("connected", 1)]
    assert len(place.fabric.wires) == 0


def test_who_has_closed_hears_nothing_more(place: Place) -> None:
    place.open()
    place.write(place.b, 101, b"too late")
    place.fabric.carry(place.a, Close(1))
    place.settle()
    assert place.a.took() == [("connected", 1)]
    place.write(place.a, 1, b"nor does it say anything")
    place.fabric.carry(place.a, Close(1))
    place.settle()
    assert 101 not in place.b.bytes
    assert place.a.took() == []


def test_a_connection_that_is_closed_while_it_comes_about_ends_at_the_other_side(place: Place) -> None:
    place.fabric.carry(place.a, Connect(1, place.b.address, 1801))
    place.fabric.carry(place.a, Close(1))
    place.settle()
    assert (place.a.heard, place.b.heard) == ([], [])
    place.fabric.carry(place.a, Connect(2, place.b.address, 1801))
    place.step()
    place.fabric.carry(place.a, Close(2))
    place.settle()
    assert place.a.heard == []
    assert place.b.heard == [("accept", "10.0.0.1"), ("connection_lost", 101)]


def test_nobody_answers_at_an_unknown_address(place: Place) -> None:
    place.fabric.carry(place.a, Connect(1, NOWHERE, 1801))
    place.settle()
    assert place.a.heard == [("connect_failed", 1, "the connection timed out")]
    assert place.time >= CONNECT_TIMEOUT


def test_a_host_that_is_down_refuses(place: Place) -> None:
    place.crash(place.b)
    place.fabric.carry(place.a, Connect(1, place.b.address, 1801))
    place.settle()
    assert place.a.took() == [("connect_failed", 1, "the connection was refused")]
    place.restart(place.b)
    place.fabric.carry(place.a, Connect(2, place.b.address, 1801))
    place.settle()
    assert place.a.took() == [("connected", 2)]


def test_a_connection_that_is_not_accepted_ends_at_once(place: Place) -> None:
    place.b.refuses = True
    place.fabric.carry(place.a, Connect(1, place.b.address, 1801))
    place.settle()
    assert place.a.heard == [("connected", 1), ("connection_lost", 1)]
    assert len(place.fabric.wires) == 0


def test_connections_are_refused_now_and_then() -> None:
    place = Place(Faults(refuse=0.5))
    for number in range(1, 40):
        place.fabric.carry(place.a, Connect(number, place.b.address, 1801))
    place.settle()
    assert {heard[0] for heard in place.a.heard} == {"connected", "connect_failed"}


def test_a_reset_ends_both_sides_and_loses_what_was_on_its_way() -> None:
    place = Place()
    place.open()
    place.fabric.wires._faults = replace(PERFECT, reset=1.0)  # type: ignore[misc]
    place.write(place.a, 1, b"gone")
    place.settle()
    assert lost(place.a, 1)
    assert lost(place.b, 101)
    assert place.b.bytes == {}
    assert len(place.fabric.wires) == 0


def test_in_silence_nobody_hears_anything_and_writing_stops_some_day() -> None:
    place = Place(Faults(buffer=10))
    place.open()
    place.fabric.wires._faults = Faults(silence=1.0, buffer=10)  # type: ignore[misc]
    for _ in range(5):
        place.write(place.a, 1, b"hello")
        place.settle()
    place.fabric.carry(place.b, Close(101))
    place.settle()
    assert place.b.took() == []
    assert place.a.took() == [("connected", 1), ("paused", 1)]


def test_a_slow_connection_pauses_the_writer_and_lets_it_go_on() -> None:
    place = Place(Faults(segment=4, buffer=20))
    place.open()
    place.write(place.a, 1, bytes(15))
    place.write(place.a, 1, bytes(15))
    place.write(place.a, 1, bytes(15))
    place.settle()
    assert [heard[0] for heard in place.a.heard] == ["connected", "paused", "resumed"]
    assert len(place.b.bytes[101]) == 45


def test_the_death_of_a_host_is_heard_of(place: Place) -> None:
    place.open()
    place.write(place.b, 101, b"lost")
    place.crash(place.b)
    place.settle()
    assert place.a.heard == [("connected", 1), ("connection_lost", 1)]
    assert len(place.fabric.wires) == 0


def test_a_silent_death_is_heard_of_when_somebody_writes_to_the_next_life() -> None:
    place = Place(Faults(silent_death=1.0))
    place.open()
    place.write(place.a, 1, b"on its way")
    place.crash(place.b)
    place.settle()
    place.write(place.a, 1, b"into the void")
    place.settle()
    assert place.a.heard == [("connected", 1)]
    place.restart(place.b)
    place.settle()
    assert place.a.heard == [("connected", 1)]
    place.write(place.a, 1, b"is anybody there?")
    place.settle()
    assert place.a.heard == [("connected", 1), ("connection_lost", 1)]
    assert place.b.bytes == {}


def test_who_dies_while_it_connects_leaves_nothing_behind(place: Place) -> None:
    place.fabric.carry(place.a, Connect(1, place.b.address, 1801))
    place.step()
    place.crash(place.a)
    place.restart(place.a)
    place.settle()
    assert place.a.heard == []
    assert lost(place.b, 101)
    assert len(place.fabric.wires) == 0


def test_who_dies_right_after_it_accepted_fails_the_connection_or_loses_it() -> None:
    for seed in range(8):
        place = Place(seed=seed)
        place.fabric.carry(place.a, Connect(1, place.b.address, 1801))
        place.step()
        place.crash(place.b)
        place.settle()
        failed = [("connect_failed", 1, "the connection was reset")]
        assert place.a.heard in (failed, [("connected", 1), ("connection_lost", 1)])


def test_a_partition_holds_bytes_back_and_lets_no_new_connection_through(place: Place) -> None:
    place.open()
    place.fabric.cut(place.a, place.b, 10.0)
    place.write(place.a, 1, b"later")
    place.fabric.carry(place.a, Connect(2, place.b.address, 1801))
    place.settle()
    assert ("connect_failed", 2, "the connection timed out") in place.a.heard
    assert place.b.heard == [("data", 101, 5)]
    assert place.time >= 10.0


def test_the_death_of_a_host_is_not_heard_of_through_a_partition(place: Place) -> None:
    place.open()
    place.fabric.cut(place.a, place.b, 10.0)
    place.crash(place.b)
    place.settle()
    assert place.a.heard == [("connected", 1)]


def test_healing_ends_partitions_and_faults() -> None:
    place = Place(Faults(refuse=1.0, unknown_host=1.0, datagram_loss=1.0, reset=1.0, silence=1.0, partition=1.0))
    place.fabric.strike()
    place.is_healing = True
    place.open()
    place.write(place.a, 1, b"well")
    place.settle()
    assert place.b.bytes[101] == b"well"
    assert place.time < 0.1


def test_partitions_come_by_chance() -> None:
    place = Place(Faults(partition=1.0))
    place.fabric.strike()
    place.fabric.carry(place.a, Connect(1, place.b.address, 1801))
    place.settle()
    assert place.a.heard == [("connect_failed", 1, "the connection timed out")]


def test_hosts_are_found_by_their_names(place: Place) -> None:
    place.fabric.carry(place.a, Resolve(5, "B.example.ORG"))
    place.fabric.carry(place.a, Resolve(6, "c"))
    place.settle()
    assert sorted(place.a.heard, key=str) == [("resolved", 5, ("10.0.0.2",)), ("resolved", 6, ())]


def test_names_are_sometimes_not_found_or_with_an_old_address() -> None:
    place = Place(Faults(unknown_host=0.3, stale_address=0.3))
    for request in range(60):
        place.fabric.carry(place.a, Resolve(request, "b"))
    place.settle()
    assert {heard[2] for heard in place.a.heard} == {(), ("10.0.0.2",), (NOWHERE, "10.0.0.2")}


def test_a_ping_comes_from_a_port_of_its_own_and_is_answered_there(place: Place) -> None:
    place.fabric.carry(place.a, SendDatagram(b"ping", place.b.address, 3527, is_request=True))
    place.fabric.carry(place.a, SendDatagram(b"ping", place.b.address, 3527, is_request=True))
    place.settle()
    (_, _, address, port), (_, _, _, other_port) = place.b.took()
    assert (address, port != other_port) == ("10.0.0.1", True)
    place.fabric.carry(place.b, SendDatagram(b"pong", "10.0.0.1", 49153, is_request=False))
    place.settle()
    assert place.a.heard == [("datagram", b"pong", "10.0.0.2", 3527)]


def test_datagrams_are_lost_and_doubled() -> None:
    place = Place(Faults(datagram_loss=0.4, datagram_copy=0.4))
    for number in range(100):
        place.fabric.carry(place.a, SendDatagram(bytes([number]), place.b.address, 3527, is_request=True))
    place.settle()
    came = [heard[1] for heard in place.b.took()]
    assert 0 < len(set(came)) < 100
    assert len(came) > len(set(came))
    place.fabric.carry(place.a, SendDatagram(b"", NOWHERE, 3527, is_request=True))
    place.fabric.cut(place.a, place.b, 1.0)
    place.fabric.carry(place.a, SendDatagram(b"", place.b.address, 3527, is_request=True))
    place.settle()
    assert place.b.heard == []


def test_other_effects_are_not_for_the_network(place: Place) -> None:
    with pytest.raises(Violation, match="but the simulated network does not support this effect"):
        place.fabric.carry(place.a, "a parcel")


@pytest.mark.parametrize("seed", range(40))
def test_on_any_network_what_arrives_is_the_beginning_of_what_was_sent(seed: int) -> None:
    """And the same seed hears the same."""
    stories = []
    for _ in range(2):
        place = Place(draw_network(Random(seed)), seed)
        for number in range(1, 6):
            place.fabric.carry(place.a, Connect(number, place.b.address, 1801))
        for number in range(30):
            place.write(place.a, number % 5 + 1, bytes([number]) * 50)
            place.fabric.strike()
            for _ in range(place.rng.randint(0, 20)):
                if place._events:
                    place.step()
            if number == 20:
                place.crash(place.b)
                place.restart(place.b)
        place.settle()
        sent = {each: b"".join(bytes([n]) * 50 for n in range(30) if n % 5 + 1 == each) for each in range(1, 6)}
        assert all(any(whole.startswith(data) for whole in sent.values()) for data in place.b.bytes.values())
        stories.append((place.time, place.a.heard, place.b.heard))
    assert stories[0] == stories[1]


def test_every_fault_is_drawn_by_some_seed_and_missing_in_another() -> None:
    drawn = [draw_network(Random(seed)) for seed in range(100)]
    for name in Faults.__slots__:
        assert len({getattr(each, name) for each in drawn}) > 1


def test_each_end_knows_the_other() -> None:
    place = Place()
    place.open()
    assert place.fabric.wires.peer(place.a, 1) == (place.b, 101)
    assert place.fabric.wires.peer(place.b, 101) == (place.a, 1)


def test_whoever_looks_for_dead_connections_finds_them() -> None:
    place = Place(replace(PERFECT, silent_death=1.0))
    place.open()
    place.a.life += 1
    place.fabric.went_down(place.a)
    place.settle()
    assert place.b.took() == []
    place.fabric.wires.find_dead()
    place.settle()
    assert place.b.took() == [("connection_lost", 101)]


def test_a_connection_that_lives_is_not_taken_for_dead() -> None:
    place = Place()
    place.open()
    place.fabric.wires.find_dead()
    place.settle()
    assert place.b.took() == []


def test_a_host_with_two_addresses_is_reached_at_both(place: Place) -> None:
    c = Host("c", "10.0.0.3")
    place.fabric.add(c, "c", addresses=("10.0.0.3", "10.1.0.3"))
    place.fabric.carry(place.a, Resolve(1, "C"))
    for number, address in enumerate(("10.0.0.3", "10.1.0.3")):
        place.fabric.carry(place.a, Connect(number, address, 1801))
    place.settle()
    assert ("resolved", 1, ("10.0.0.3", "10.1.0.3")) in place.a.heard
    assert c.took() == [("accept", "10.0.0.1")] * 2


def test_a_host_that_moves_is_found_at_its_new_address_alone(place: Place) -> None:
    place.open()
    place.fabric.move(place.b, "10.0.0.2", "10.2.0.1")
    place.fabric.carry(place.a, Resolve(7, "b"))
    place.settle()
    assert lost(place.a, 1)
    assert lost(place.b, 101)
    assert ("resolved", 7, ("10.2.0.1",)) in place.a.heard
    place.fabric.carry(place.a, Connect(2, "10.0.0.2", 1801))
    place.fabric.carry(place.a, Connect(3, "10.2.0.1", 1801))
    place.settle()
    assert ("connect_failed", 2, "the connection timed out") in place.a.heard
    assert ("connected", 3) in place.a.heard
    assert place.fabric.is_known("10.0.0.2")


def test_a_host_without_names_can_connect_and_is_known_to_nobody(place: Place) -> None:
    stranger = Host("x", "10.66.0.1")
    place.fabric.lodge(stranger)
    place.fabric.carry(stranger, Connect(1, "10.0.0.2", 1801))
    place.settle()
    assert place.b.took() == [("accept", "10.66.0.1")]
    assert not place.fabric.is_known("10.66.0.1")
