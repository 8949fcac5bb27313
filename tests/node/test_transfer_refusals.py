"""What a whole queue manager does not take: MS-MQQB 3.1.5.8.2, 3.1.5.8.3 and 3.1.5.8.8."""

from dataclasses import replace
from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer
from waypost.core.message_values import Acknowledgements, DeliveryGuarantee
from waypost.directory import objects
from waypost.directory.queries import Query, by_identifier
from waypost.errors import StoreFull
from waypost.guid import guid_text
from waypost.node.directory import DirectoryMode
from waypost.routing.routes import Route
from waypost.store.port import PLENTY, Room
from waypost.transfer.session import Session
from waypost.transfer.settings import TransferSettings
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import SessionAck
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    ACCESS_DENIED_ACE_TYPE,
    AccessAce,
    Acl,
    SecurityDescriptor,
)
from waypost.wire.security_header import SENDER_QUEUE_MANAGER, SENDER_SID, SecurityHeader
from waypost.wire.sid import ANONYMOUS, EVERYONE, Sid
from waypost.wire.transactional_acks import FinalAck
from waypost.wire.user_message import UserMessage

Q = r"DIRECT=OS:a\private$\q"
T = r"DIRECT=OS:a\private$\t"
NOWHERE = r"DIRECT=OS:a\private$\nowhere"
ALICE = Sid(5, (21, 1, 2, 3, 1104))
WRITE = 0x0000_0004
INSECURE = TransferSettings(send_insecure_nacks=True)
ADMIN: dict[str, Any] = {
    "administration_queue_format_name": FormatName.parse(r"DIRECT=OS:a\private$\admin"),
    "acknowledgements_requested": Acknowledgements.ACK_NEG_ARRIVAL,
}
TX = (5, 1, 0)


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return add(net, INSECURE)


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    return connected(net, a)


def add(net: Net, settings: TransferSettings, **others: object) -> Host:
    host = net.add("a", settings, **others)
    host.create("q")
    host.create("t", transactional=True)
    host.create("admin")
    return host


def connected(net: Net, host: Host) -> Peer:
    peer = net.add_peer()
    peer.connect(host)
    return peer


def session(host: Host) -> Session:
    (only,) = host.network.sessions
    return only


def classes(peer: Peer) -> list[int]:
    return [ack.message_class for ack in peer.of(FinalAck)]


def rights(*aces: tuple[int, Sid]) -> bytes:
    return SecurityDescriptor(dacl=Acl(aces=tuple(AccessAce(kind, 0, WRITE, sid) for kind, sid in aces))).encode()


def allowing(*sids: Sid) -> bytes:
    return rights(*((ACCESS_ALLOWED_ACE_TYPE, sid) for sid in sids))


def signed(packet: UserMessage, sender_type: int, security_id: bytes) -> UserMessage:
    packet.security = SecurityHeader(flags=sender_type, security_id=security_id)
    return packet


# MS-MQQB 3.1.5.8.2


@pytest.mark.spec("MQQB-3.1.5.8.2-02")
def test_every_message_is_counted_makes_the_session_active_and_starts_the_ack_timer(
    net: Net, a: Host, peer: Peer
) -> None:  # fmt: skip
    one = session(a)
    assert (one.counts.message_received_count, one.session_active) == (0, False)
    message = peer.message(Q, "m", delivery_guarantee=DeliveryGuarantee.EXPRESS)
    for number, packet in enumerate((message, message, peer.message(NOWHERE, "m")), 1):
        peer.send(packet)
        assert one.counts.message_received_count == number
        assert one.counts.unacked_received_msg_count == number
    assert one.session_active


@pytest.mark.spec("MQQB-3.1.5.8.2-02")
def test_an_express_message_is_acknowledged_after_half_the_ack_wait_time_out(net: Net, a: Host, peer: Peer) -> None:
    peer.send(peer.message(Q, "1", delivery_guarantee=DeliveryGuarantee.EXPRESS))
    net.advance(4)
    peer.send(peer.message(Q, "2", delivery_guarantee=DeliveryGuarantee.EXPRESS))
    net.advance(5.9)
    assert peer.of(SessionAck) == []
    net.advance(0.1)
    (ack,) = peer.of(SessionAck)
    assert ack.session.ack_sequence_number == 2


@pytest.mark.spec("MQQB-3.1.5.8.2-03")
def test_a_direct_name_makes_the_session_a_direct_one(net: Net, a: Host, peer: Peer) -> None:
    peer.send(peer.message(a.name_of("q"), "m"))
    assert not session(a).is_direct
    peer.send(peer.message(Q, "m"))
    assert session(a).is_direct


@pytest.mark.spec("MQQB-3.1.5.8.2-04")
def test_the_history_of_identifiers_is_bounded_and_the_oldest_goes_first(net: Net) -> None:
    a = add(net, TransferSettings(duplicate_history_size=2))
    assert a.next_deadline() is None
    peer = connected(net, a)
    messages = [peer.message(Q, str(number)) for number in (1, 2, 3)]
    for message in messages:
        peer.send(message)
        net.advance(1)
    peer.send(messages[1], messages[2])
    assert a.bodies("q") == ["1", "2", "3"]
    peer.send(messages[0])
    assert a.bodies("q") == ["1", "2", "3", "1"]
    peer.hang_up()
    deadline = a.next_deadline()
    assert deadline is not None
    assert deadline <= net.now.monotonic + 1800


@pytest.mark.spec("MQQB-3.1.5.8.2-05", "MQQB-3.1.5.8.2-06")
@pytest.mark.parametrize("name", ["own identifier", "zero"])
def test_a_message_for_a_queue_that_does_not_exist_is_dropped(net: Net, a: Host, peer: Peer, name: str) -> None:
    target = NOWHERE if name == "zero" else f"PRIVATE={guid_text(a.guid)}\\00000777"
    peer.send(peer.message(target, "quiet"))
    assert a.bodies("admin") == []
    peer.send(peer.message(target, "asks", **ADMIN))
    assert a.classes("admin") == [0x8000]
    assert sum(len(queue.positions) for queue in a.node.manager.collection.by_number.values()) == 1


@pytest.mark.spec("MQQB-3.1.5.8.2-07")
def test_a_queue_that_does_not_exist_is_told_by_a_final_ack(net: Net, a: Host, peer: Peer) -> None:
    peer.send(peer.message(NOWHERE, "m"))
    assert classes(peer) == []
    peer.send(peer.message(NOWHERE, "m", tx=TX))
    assert classes(peer) == [0x8000]


@pytest.mark.spec("MQQB-3.1.5.8.2-08", "MQQB-3.1.5.8.2-09")
def test_a_message_of_a_transaction_for_a_queue_without_is_dropped(net: Net, a: Host, peer: Peer) -> None:
    peer.send(peer.message(Q, "quiet", tx=TX))
    assert (a.bodies("q"), a.bodies("admin"), classes(peer)) == ([], [], [0x8009])
    peer.send(peer.message(Q, "asks", tx=TX, **ADMIN))
    assert (a.bodies("q"), a.classes("admin"), classes(peer)) == ([], [0x8009], [0x8009, 0x8009])


@pytest.mark.spec("MQQB-3.1.5.8.2-10")
def test_a_message_without_a_transaction_for_a_transactional_queue_is_dropped(net: Net, a: Host, peer: Peer) -> None:
    peer.send(peer.message(T, "quiet"))
    assert (a.bodies("t"), a.bodies("admin")) == ([], [])
    peer.send(peer.message(T, "asks", **ADMIN))
    net.advance(2)
    assert (a.bodies("t"), a.classes("admin"), classes(peer)) == ([], [0x800A], [])


@pytest.mark.spec("MQQB-5.1-02")
def test_insecure_nacks_are_off_unless_they_are_switched_on(net: Net) -> None:
    a = add(net, TransferSettings())
    a.create("closed", security=allowing())
    peer = net.add_peer()

    def told() -> list[int]:
        peer.connect(a)
        for name in (NOWHERE, r"DIRECT=OS:a\private$\closed"):
            peer.send(peer.message(name, "m", **ADMIN))
        return a.classes("admin")

    assert told() == []
    a.restart(transfer=INSECURE)
    assert told() == [0x8000, 0x8004]
    a.restart()
    assert told() == [0x8000, 0x8004] * 2
    a.restart(transfer=TransferSettings())
    assert told() == [0x8000, 0x8004] * 2


# MS-MQQB 3.1.5.8.3


@pytest.mark.parametrize(
    ("descriptor", "is_taken"),
    [
        (allowing(ALICE), False),
        (allowing(ALICE, ANONYMOUS), True),
        (allowing(EVERYONE), True),
        (allowing(Sid(5, (21, 1, 2, 3, 1105))), False),
        (allowing(), False),
        (rights((ACCESS_DENIED_ACE_TYPE, ALICE), (ACCESS_ALLOWED_ACE_TYPE, EVERYONE)), False),
        (SecurityDescriptor(dacl=Acl(aces=(AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, 0x3B, EVERYONE),))).encode(), False),
    ],
)
def test_a_sid_that_is_only_claimed_is_granted_nothing_and_denied_what_it_is_denied(
    net: Net, a: Host, peer: Peer, descriptor: bytes, *, is_taken: bool
) -> None:  # fmt: skip
    a.create("guarded", security=descriptor)
    peer.send(signed(peer.message(r"DIRECT=OS:a\private$\guarded", "m"), SENDER_SID, ALICE.encode()))
    assert a.bodies("guarded") == (["m"] if is_taken else [])


@pytest.mark.spec("MQQB-3.1.5.8.3-19")
def test_a_queue_manager_as_sender_is_checked_as_everyone(net: Net, a: Host, peer: Peer) -> None:
    for name, sid in (("everyone", EVERYONE), ("anonymous", ANONYMOUS), ("alice", ALICE)):
        a.create(name, security=allowing(sid))
        packet = peer.message(f"DIRECT=OS:a\\private$\\{name}", "m")
        peer.send(signed(packet, SENDER_QUEUE_MANAGER, peer.guid))
        assert a.bodies(name) == (["m"] if name == "everyone" else [])


def test_a_sender_that_cannot_be_understood_is_denied(net: Net, a: Host, peer: Peer) -> None:
    for security_id in (b"\x01\x05\x00\x00", ALICE.encode() + bytes(4)):
        peer.send(signed(peer.message(Q, "m", **ADMIN), SENDER_SID, security_id))
    assert (a.bodies("q"), set(a.classes("admin"))) == ([], {0x8004})


@pytest.mark.spec("MQQB-3.1.5.8.3-22")
def test_access_that_is_denied_is_told_as_far_as_it_may_be(net: Net, a: Host, peer: Peer) -> None:
    a.create("closed", security=allowing())
    a.create("closed-too", security=allowing(), transactional=True)
    peer.send(peer.message(r"DIRECT=OS:a\private$\closed", "quiet"))
    assert (a.bodies("closed"), a.bodies("admin"), classes(peer)) == ([], [], [])
    peer.send(peer.message(r"DIRECT=OS:a\private$\closed", "asks", **ADMIN))
    assert (a.bodies("closed"), a.classes("admin"), classes(peer)) == ([], [0x8004], [])
    peer.send(peer.message(r"DIRECT=OS:a\private$\closed-too", "m", tx=TX))
    assert (a.bodies("closed-too"), classes(peer)) == ([], [0x8004])


@pytest.mark.spec("MQQB-3.1.5.8.3-22")
def test_denied_access_is_not_told_by_default(net: Net) -> None:
    a = add(net, TransferSettings())
    a.create("closed", security=allowing(), transactional=True)
    peer = connected(net, a)
    peer.send(peer.message(r"DIRECT=OS:a\private$\closed", "m", tx=TX, **ADMIN))
    assert (a.bodies("admin"), classes(peer)) == ([], [0x8004])


@pytest.mark.spec("MQQB-3.1.5.8.3-20")
def test_the_directory_knows_the_security_of_a_public_queue(net: Net) -> None:
    a = add(net, INSECURE, directory=DirectoryMode.EMBEDDED)
    queue = a.publish("ads")
    peer = connected(net, a)
    name = f"PUBLIC={guid_text(queue.identifier)}"

    def send(body: str) -> list[str]:
        peer.send(peer.message(name, body, destination_queue_manager_identifier=a.guid))
        return [message.label for message in a.messages(queue)]

    assert send("before") == ["before"]
    with a.node.kernel.operation(net.now):
        events = a.node.directory.events
        item = events.read_directory(Query(objects.Queue, by_identifier(queue.identifier)), net.now).value
        assert item is not None
        closed = replace(item, security=SecurityDescriptor.decode(allowing()))
        events.write_directory(closed, net.now, attribute_list=("security",))
    assert send("after") == ["before"]


# MS-MQQB 3.1.5.8.8


@pytest.mark.spec("MQQB-3.1.5.8.8-02", "MQQB-3.1.5.8.8-03")
def test_a_message_that_its_queue_has_no_room_for_is_dropped(net: Net, a: Host, peer: Peer) -> None:
    a.create("small", quota=1)
    name = r"DIRECT=OS:a\private$\small"
    peer.send(peer.message(name, "quiet", body=bytes(2000)))
    assert (a.bodies("small"), a.bodies("admin"), a.bodies(";deadletter")) == ([], [], [])
    peer.send(peer.message(name, "asks", body=bytes(2000), **ADMIN))
    assert (a.bodies("small"), a.classes("admin"), a.bodies(";deadletter")) == ([], [0x8003], [])
    peer.send(peer.message(name, "kept", body=bytes(2000), negative_journaling_requested=True))
    assert (a.bodies("small"), a.bodies(";deadletter")) == ([], ["kept"])


@pytest.mark.parametrize("is_transactional", [False, True])
def test_of_messages_that_come_together_a_queue_takes_those_it_has_room_for(
    a: Host, peer: Peer, *, is_transactional: bool
) -> None:
    a.create("small", quota=4, transactional=is_transactional)
    for _ in range(2):
        places = [(1, number, number - 1) if is_transactional else None for number in range(1, 21)]
        name = r"DIRECT=OS:a\private$\small"
        peer.send(*(peer.message(name, str(at), tx=tx, body=bytes(600)) for at, tx in enumerate(places)))
        size = len(a.messages("small")[0].packet)
        assert a.bodies("small") == [str(at) for at in range(4096 // size)]


@pytest.mark.spec("MQQB-3.1.5.8.8-03", "MQQB-3.1.5.8.8-04")
def test_a_message_of_a_transaction_that_its_queue_has_no_room_for_gets_a_final_ack(
    net: Net, a: Host, peer: Peer
) -> None:  # fmt: skip
    a.create("small", quota=1, transactional=True)
    name = r"DIRECT=OS:a\private$\small"
    peer.send(peer.message(name, "m", tx=TX, body=bytes(2000), negative_journaling_requested=True))
    assert (a.bodies("small"), classes(peer)) == ([], [0x8003])
    assert a.bodies(";deadletter") == a.bodies(";deadxact") == []


@pytest.mark.spec("MQQB-3.1.5.8.8-05")
@pytest.mark.parametrize("tx", [None, TX])
def test_a_queue_manager_without_room_closes_the_session_and_takes_the_message_later(
    net: Net, a: Host, peer: Peer, tx: tuple[int, int, int] | None
) -> None:  # fmt: skip
    name, queue = (Q, "q") if tx is None else (T, "t")
    message = peer.message(name, "m", tx=tx, negative_journaling_requested=True, **ADMIN)
    a.node.manager.writing.begin_flow_control()
    peer.send(message)
    net.advance(20)
    assert (a.network.sessions, peer.connections) == ([], {})
    assert (peer.of(SessionAck), classes(peer), a.bodies("admin"), a.bodies(";deadletter")) == ([], [], [], [])
    a.node.manager.writing.end_flow_control()
    peer.connect(a)
    peer.send(message)
    assert a.bodies(queue) == ["m"]


def test_a_sender_tries_again_until_there_is_room(net: Net, a: Host) -> None:
    sender = net.add("sender")
    a.node.manager.writing.begin_flow_control()
    sender.send(Q, "m")
    sender.send_all(T, "t")
    net.advance(30)
    assert (sender.bodies(Q), sender.bodies(T)) == (["m"], ["t"])
    a.node.manager.writing.end_flow_control()
    net.advance(10)
    assert (a.bodies("q"), a.bodies("t"), sender.bodies(Q), sender.bodies(T)) == (["m"], ["t"], [], [])


@pytest.mark.spec("MQQB-3.1.5.8.2-01")
def test_a_message_that_cannot_be_stored_is_not_taken_and_not_acknowledged(net: Net, a: Host, peer: Peer) -> None:
    a.restart(routes=(Route(peer.guid, "peer"),))
    target = f"PRIVATE={guid_text(peer.guid)}\\00000009"
    sender = net.add_peer("sender")
    sender.connect(a)
    message = sender.message(target, "m")
    a.node.kernel.trouble = StoreFull("the disk is full")
    sender.send(message)
    net.advance(20)
    assert (sender.of(SessionAck), peer.bodies) == ([], [])
    a.node.kernel.trouble = None
    sender.connect(a)
    sender.send(message)
    net.advance(20)
    assert peer.bodies == ["m"]
    assert sender.of(SessionAck) != []


@pytest.mark.parametrize("tx", [None, TX])
def test_a_disk_that_is_nearly_full_leaves_messages_with_their_sender_and_takes_express_ones(
    net: Net, a: Host, peer: Peer, tx: tuple[int, int, int] | None
) -> None:  # fmt: skip
    name, queue = (Q, "q") if tx is None else (T, "t")
    message = peer.message(name, "m", tx=tx)
    a.node.kernel.room = Room("the disk", 0, 0, 0, is_low=True)
    peer.send(peer.message(Q, "express", delivery_guarantee=DeliveryGuarantee.EXPRESS))
    assert a.bodies("q") == ["express"]
    peer.send(message)
    net.advance(20)
    assert (a.network.sessions, peer.connections, peer.of(SessionAck)) == ([], {}, [])
    a.node.kernel.room = PLENTY
    peer.connect(a)
    peer.send(message)
    assert a.bodies(queue)[-1] == "m"


def test_what_acknowledges_our_own_messages_is_taken_with_what_is_refused(net: Net, a: Host) -> None:
    b = net.add("b")
    b.create("t", transactional=True)
    to_b = r"DIRECT=OS:b\private$\t"
    a.send_all(to_b, "from a")
    assert a.bodies(to_b) == ["from a"]
    a.node.kernel.room = Room("the disk", 0, 0, 0, is_low=True)
    b.send_all(T, "from b")
    net.advance(60)
    assert (b.bodies("t"), a.bodies(to_b), a.bodies("t"), b.bodies(T)) == (["from a"], [], [], ["from b"])
    a.node.kernel.room = PLENTY
    net.advance(60)
    assert (a.bodies("t"), b.bodies(T)) == (["from b"], [])


def test_messages_for_the_queues_of_the_system_are_refused(net: Net, a: Host, peer: Peer) -> None:
    for name in ("order_queue$", "awaiting_final_ack$", "notify_queue$"):
        peer.send(peer.message(f"DIRECT=OS:a\\private$\\{name}", "m"))
        assert a.bodies(name) == []
