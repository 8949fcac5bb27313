"""A copy of a store under a new identity takes part in nothing that the original has begun."""

from copy import deepcopy

import pytest

from tests.node.hosts import Host, Net, letter
from tests.node.test_restoring import Q, T
from waypost.core.message_values import Acknowledgements
from waypost.node.cloning import Cloned, change_identity
from waypost.store.memory import MemoryStore
from waypost.store.restored import mark_restored
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass

CHANGED = MessageClass.MQMSG_CLASS_NACK_SOURCE_COMPUTER_GUID_CHANGED
NEW = b"\xc1" * 16


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def b(net: Net) -> Host:
    host = net.add("b")
    host.create("q")
    host.create("t", transactional=True)
    return host


def clone_of(host: Host, name: str = "c") -> tuple[Host, Cloned]:
    """Another host on a copy of the store."""
    store = deepcopy(host.memory)
    done = change_identity(store, NEW)
    mark_restored(store)
    clone = host.net.add(name)
    clone.stop()
    assert isinstance(store, MemoryStore)
    clone.memory = clone.engine.store = store
    clone.start()
    host.net.advance(60)
    return clone, done


def test_a_clone_has_the_queues_and_what_is_in_them(net: Net, a: Host) -> None:
    a.create("mine", transactional=True)
    a.send_all(r"DIRECT=OS:a\private$\mine", "m0", "m1")
    clone, done = clone_of(a)
    assert done == Cloned()
    assert clone.guid == NEW
    assert clone.bodies("mine") == ["m0", "m1"]
    assert {message.identifier.queue_manager_guid for message in clone.messages("mine")} == {a.guid}
    clone.send_all(r"DIRECT=OS:c\private$\mine", "m2")
    assert clone.messages("mine")[-1].identifier.queue_manager_guid == NEW
    assert clone.receive("mine").label == "m0"


def test_what_the_original_is_about_to_send_is_set_aside(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    a.send_all(T, "t0", "t1")
    a.send(Q, letter("q0", time_to_be_received=30))
    clone, done = clone_of(a)
    assert done == Cloned(set_aside=3)
    assert (clone.bodies(";deadxact"), clone.bodies(";deadletter")) == (["t0", "t1"], ["q0"])
    assert clone.classes(";deadxact") == [CHANGED, CHANGED]
    net.join()
    net.advance(100)
    assert (b.bodies("t"), b.bodies("q")) == (["t0", "t1"], [])
    assert clone.bodies(";deadletter") == ["q0"]
    # It sends in its own new sequences.
    clone.send_all(T, "c0")
    net.advance(60)
    assert b.bodies("t") == ["t0", "t1", "c0"]
    clone.crash_and_start()
    assert (clone.bodies(";deadxact"), clone.bodies(";deadletter")) == (["t0", "t1"], ["q0"])


def test_what_was_delivered_is_left_to_the_original(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, letter("j0", positive_journaling_requested=True))
    net.advance(60)
    assert a.bodies("awaiting_final_ack$") == ["j0"]
    clone, done = clone_of(a)
    assert done == Cloned(dropped=1)
    b.receive("t")
    net.advance(60)
    assert (a.bodies(";journal"), clone.bodies(";journal")) == (["j0"], [])
    assert clone.bodies("awaiting_final_ack$") == []


def test_acknowledgments_that_wait_are_dropped(net: Net, a: Host, b: Host) -> None:
    a.create("admin")
    wanted = Acknowledgements.ACK_POS_RECEIVE
    name = FormatName.parse(r"DIRECT=OS:a\private$\admin")
    a.send(Q, letter("q0", administration_queue_format_name=name, acknowledgements_requested=wanted))
    net.advance(60)
    net.part(a, b)
    b.receive("q")
    assert sum(len(queue.positions) for queue in b.node.manager.collection.outgoing.values()) == 1
    clone, done = clone_of(b)
    assert done == Cloned(dropped=1)
    assert clone.bodies(";deadletter") == []
    net.join()
    net.advance(60)
    assert len(a.bodies("admin")) == 1
