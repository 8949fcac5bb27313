"""Strangers on the network, and hosts whose addresses and ways change: each kind happens, with the right bytes."""

from random import Random

import pytest

from waypost.guid import guid_text
from waypost.sim.marks import FAULT_MARKS, Marks
from waypost.sim.net import hostility
from waypost.sim.net.forgeries import forged_final_ack, forged_order_ack, hello, message
from waypost.sim.net.hostility import ATTACKS, CHANGES, SWITCHED_ON, Fault, Hostility
from waypost.sim.net.simulation import NetworkSimulation
from waypost.sim.run import run_seed
from waypost.sim.swarm import draw_several
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import EstablishConnection
from waypost.wire.packet_names import admin_format_name, destination_format_name
from waypost.wire.packets import decode_packet
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

NODES = 3
SOURCE, LIAR = bytes(range(16)), bytes(range(16, 32))


def switch_on(monkeypatch: pytest.MonkeyPatch, *faults: Fault) -> None:
    for fault in Fault:
        monkeypatch.setitem(SWITCHED_ON, fault, fault in faults)


@pytest.mark.parametrize("fault", [*ATTACKS, *CHANGES], ids=lambda fault: fault.name)
def test_every_kind_of_fault_happens(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any outcome is fine: faults that the engine does not withstand are switched off otherwise."""
    switch_on(monkeypatch, fault)
    marks = Marks(NODES)
    for seed in range(100):
        if fault in NetworkSimulation(seed, marks, NODES).hostility.faults:
            run_seed(seed, marks, nodes=NODES)
        if all(marks.counts[mark] for mark in FAULT_MARKS[fault]):
            return
    pytest.fail(f"{marks.missing} never happened")


def test_ways_change_between_two_relays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    switch_on(monkeypatch, Fault.REROUTES)
    marks = Marks(4)
    assert [run_seed(seed, marks, nodes=4).violation for seed in range(8)] == [None] * 8
    assert marks.counts["a route that has changed"]


def test_a_simulation_without_strangers_is_as_if_there_were_none(monkeypatch: pytest.MonkeyPatch) -> None:
    switch_on(monkeypatch)
    simulations = [NetworkSimulation(seed, Marks(NODES), NODES) for seed in range(20)]
    assert not any(simulation.crowd.strangers or simulation.hostility.patches() for simulation in simulations)


def test_strangers_leave_simulations_alone_in_which_they_would_take_all_room(monkeypatch: pytest.MonkeyPatch) -> None:
    switch_on(monkeypatch, *Fault)
    for seed in range(100):
        swarm = draw_several(Random(seed), NODES)
        if hostility.draw(Random(seed), swarm) != Hostility():
            assert swarm.limits.quota > 1000


def test_nobody_is_a_minute_ahead_where_addresses_change(monkeypatch: pytest.MonkeyPatch) -> None:
    switch_on(monkeypatch, *Fault)
    drawn = [hostility.draw(Random(seed), draw_several(Random(seed), NODES)) for seed in range(200)]
    near = [each for each in drawn if Fault.NEAR_SEQUENCES in each.faults]
    assert near
    assert not any(fault in each.faults for each in near for fault in CHANGES)


def test_a_stranger_asks_for_a_session_under_any_identifier() -> None:
    packet = decode_packet(hello(LIAR))
    assert isinstance(packet, EstablishConnection)
    assert packet.client_guid == LIAR


def test_forged_acknowledgments_are_acknowledgments() -> None:
    order = decode_packet(forged_order_ack(UserHeader(source_queue_manager=LIAR), 7 << 32 | 1, 3))
    assert isinstance(order, OrderAck)
    assert (order.body.tx_sequence_id, order.body.tx_sequence_number) == (7 << 32 | 1, 3)
    final = decode_packet(forged_final_ack(UserHeader(source_queue_manager=LIAR), SOURCE, (7 << 32 | 1, 3, 9), 0x4000))
    assert isinstance(final, FinalAck)
    assert final.message.user.source_queue_manager == LIAR
    assert (final.body.source_guid, final.body.message_id, final.message_class) == (SOURCE, 9, 0x4000)


@pytest.mark.parametrize("name", ["DIRECT=OS:b\\PRIVATE$\\t", f"PRIVATE={guid_text(SOURCE)}\\00000006"])
def test_a_message_of_a_stranger_names_any_queue_and_any_sequence(name: str) -> None:
    user = UserHeader(source_queue_manager=LIAR, message_id=5)
    packet = decode_packet(
        message(user, FormatName.parse(name), "text", sequence=(1 << 32, 1), administration="OS:c\\private$\\x")
    )
    assert isinstance(packet, UserMessage)
    assert str(destination_format_name(packet.user)).casefold() == name.casefold()
    assert str(admin_format_name(packet.user)).casefold() == "direct=os:c\\private$\\x"
    assert packet.transaction is not None
    assert packet.transaction.tx_sequence_id == 1 << 32
