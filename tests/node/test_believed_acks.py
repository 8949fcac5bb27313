"""Acknowledgments that a queue manager believes, keeps and refuses: ADR 22, on MS-MQQB 3.1.5.6 and 3.1.5.7."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.node.hosts import TRANSFER, Host, Net, Peer, letter
from waypost.api.operations import AdmitAddress
from waypost.api.sequences import Admitted
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements
from waypost.guid import guid_text
from waypost.limits import MAX_KEPT_ACKS_OF_MESSAGE
from waypost.node.explain import explain_message, explain_queue
from waypost.routing.routes import Relays, Route
from waypost.store import keys
from waypost.store.port import Batch, Table
from waypost.transfer.session import Role
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.internal_packets import EstablishConnection, SessionAck
from waypost.wire.transactional_acks import (
    FinalAck,
    FinalAckBody,
    OrderAck,
    OrderAckBody,
    final_ack,
    local_order_queue,
    order_ack,
)
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

P = r"DIRECT=OS:peer\private$\t"
NAT = "10.9.9.9"
RECEIVED, PURGED, HOPS = 0x4000, 0xC001, 0x8005


def journaled(label: str) -> Message:
    return letter(label, positive_journaling_requested=True, negative_journaling_requested=True)


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


@pytest.fixture
def stranger(net: Net, peer: Peer) -> Peer:
    """It shows the GUID of the destination, which everybody can learn."""
    stranger = net.add_peer("stranger")
    stranger.guid = peer.guid
    return stranger


def of(packet: UserMessage, source: bytes, message_class: int | None = RECEIVED) -> OrderAck | FinalAck:
    """The acknowledgment of this message: an OrderAck without a class."""
    header, user = packet.transaction, packet.user
    assert header is not None
    place = header.tx_sequence_id, header.tx_sequence_number, header.tx_sequence_number - 1
    ack = UserHeader(source_queue_manager=source, message_id=77)
    if message_class is None:
        return order_ack(ack, local_order_queue(), OrderAckBody(*place))
    body = FinalAckBody(*place, user.source_queue_manager, user.message_id)
    return final_ack(ack, local_order_queue(), message_class, body)


def unsent(host: Host, name: str) -> UserMessage:
    """The first message that waits for this name."""
    return UserMessage.decode(host.messages(name)[0].packet)


def delivered(a: Host, peer: Peer, *labels: str) -> list[UserMessage]:
    """Messages that were sent, acknowledged by the session and by an OrderAck: they wait for their FinalAcks."""
    a.send_all(P, *map(journaled, labels))
    peer.acknowledge()
    sent = peer.of(UserMessage)[-len(labels) :]
    peer.send(of(sent[-1], peer.guid, None))
    assert a.bodies("awaiting_final_ack$")[-len(labels) :] == list(labels)
    return sent


def come_from(address: str, who: Peer, host: Host, *acks: OrderAck | FinalAck) -> None:
    """Connect from this address, and bring acknowledgments."""
    home, who.address = who.address, address
    who.connect(host)
    who.address = home
    who.send(*acks)


def admit(host: Host, guid: bytes, address: str) -> object:
    call = host._call()
    host.handlers.start(call, AdmitAddress(guid=guid_text(guid), address=address))
    host.net.settle()
    answer = host.answers[call.request]
    assert isinstance(answer, Admitted)
    return answer.believed


def refused(host: Host) -> int:
    return host.network.statistics.transactional_acks_refused


def told(host: Host, event: str) -> list[dict[str, object]]:
    return [notice.facts for notice in host.notices if notice.event == event]


def kept(host: Host) -> int:
    return len(host.node.kept_acks)


@pytest.mark.parametrize("message_class", [None, RECEIVED, PURGED])
def test_what_was_never_sent_stays_whatever_is_acknowledged(
    net: Net, a: Host, peer: Peer, stranger: Peer, message_class: int | None
) -> None:
    net.part(a, peer)
    a.send_all(P, journaled("m"))
    message = unsent(a, P)
    stranger.connect(a)
    stranger.send(of(message, peer.guid, message_class))
    # Not even the destination is believed.
    net.join()
    peer.connect(a)
    peer.send(of(message, peer.guid, message_class))
    assert a.bodies(P) == ["m"]
    assert (a.bodies(";journal"), a.bodies(";deadxact")) == ([], [])
    assert (refused(a), kept(a)) == (2, 0)
    assert "never sent" in str(told(a, "acknowledgment refused")[0]["reason"])
    # Nothing was believed after a start either, before the destination was dialled.
    net.part(a, peer)
    a.crash_and_start()
    stranger.connect(a)
    stranger.send(of(message, peer.guid, message_class))
    net.advance(30)
    assert a.bodies(P) == ["m"]
    net.join()
    net.advance(30)
    assert (a.bodies(P), peer.bodies) == (["m"], ["m"])
    peer.acknowledge()
    peer.send(of(message, peer.guid, None))
    assert (a.bodies(P), a.bodies("awaiting_final_ack$")) == ([], ["m"])


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stranger_with_the_guid_of_the_destination_and_the_right_sequence_changes_nothing(
    net: Net, a: Host, peer: Peer, stranger: Peer, *, restarts: bool
) -> None:
    (waiting,) = delivered(a, peer, "waits for its FinalAck")
    a.send_all(P, journaled("waits for its OrderAck"))
    peer.acknowledge()
    sent = peer.of(UserMessage)[-1]
    if restarts:
        net.part(a, peer)
        a.crash_and_start()
    stranger.connect(a)
    stranger.send(of(waiting, peer.guid, PURGED), of(sent, peer.guid, None), of(sent, peer.guid, PURGED))
    assert (a.bodies(P), a.bodies("awaiting_final_ack$")) == (["waits for its OrderAck"], ["waits for its FinalAck"])
    assert (a.bodies(";deadxact"), kept(a)) == ([], 3)
    a.crash_and_start()
    # An OrderAck comes again, so it is not written down.
    assert kept(a) == 2
    # The destination is believed, and what was kept of its messages goes.
    net.join()
    net.advance(60)
    peer.acknowledge()
    peer.send(of(sent, peer.guid, None), of(sent, peer.guid), of(waiting, peer.guid))
    assert (a.bodies(P), a.bodies("awaiting_final_ack$")) == ([], [])
    assert (a.bodies(";journal"), a.bodies(";deadxact"), kept(a)) == (
        ["waits for its OrderAck", "waits for its FinalAck"],
        [],
        0,
    )
    a.crash_and_start()
    assert kept(a) == 0


def test_guesses_take_nothing_away(net: Net, a: Host, peer: Peer, stranger: Peer) -> None:
    net.part(a, peer)
    a.send_all(P, *map(journaled, "123"))
    message = unsent(a, P)
    stranger.connect(a)
    guesses = []
    for ordinal in range(1, 200):
        guess = of(message, peer.guid, PURGED)
        assert isinstance(guess, FinalAck)
        guesses += [
            replace(guess, body=replace(guess.body, message_id=ordinal, tx_sequence_number=n)) for n in (1, 2, 3)
        ]
    stranger.send(*guesses)
    assert a.bodies(P) == ["1", "2", "3"]
    assert a.bodies(";deadxact") == []
    assert (refused(a), a.network.statistics.transactional_acks_unmatched) == (3, 3 * 199 - 3)


@pytest.mark.parametrize("message_class", [None, RECEIVED])
def test_what_another_queue_manager_says_is_refused(net: Net, a: Host, peer: Peer, message_class: int | None) -> None:
    other = net.add_peer("other")
    a.send_all(P, journaled("m"))
    peer.acknowledge()
    (sent,) = peer.of(UserMessage)
    other.connect(a)
    other.send(of(sent, other.guid, message_class), of(sent, peer.guid, message_class))
    peer.connect(a)
    peer.send(of(sent, other.guid, message_class))
    assert (a.bodies(P), refused(a), kept(a)) == (["m"], 3, 0)


def test_a_destination_acknowledges_from_each_of_its_addresses(net: Net, a: Host, peer: Peer) -> None:
    """Its name has two, and messages go to the first one that answers."""
    net.hosts["127.0.0.77"] = peer
    sent = delivered(a, peer, "1", "2")
    peer.hang_up()
    come_from("127.0.0.77", peer, a, of(sent[0], peer.guid))
    assert a.bodies(";journal") == ["1"]
    # After a start nothing is resolved yet: it is asked for then.
    a.crash_and_start()
    come_from("127.0.0.77", peer, a, of(sent[1], peer.guid))
    assert (a.bodies(";journal"), kept(a)) == (["1", "2"], 0)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_destination_behind_nat_is_believed_when_its_address_is_admitted(
    net: Net, a: Host, peer: Peer, *, restarts: bool
) -> None:
    sent = delivered(a, peer, "1", "2", "3")
    a.send_all(P, "4")
    peer.acknowledge()
    last = peer.of(UserMessage)[-1]
    come_from(NAT, peer, a, of(sent[0], peer.guid), of(sent[1], peer.guid, PURGED), of(last, peer.guid, None))
    assert (a.bodies(P), a.bodies("awaiting_final_ack$"), kept(a)) == (["4"], ["1", "2", "3"], 3)
    (hint,) = {notice["hint"] for notice in told(a, "acknowledgment kept")}
    assert hint == f"waypost sequence admit {guid_text(peer.guid)} {NAT}"
    if restarts:
        a.crash_and_start()
        net.advance(20)
        peer.acknowledge()
    assert admit(a, peer.guid, NAT) == (2 if restarts else 3)
    assert (a.bodies(";journal"), a.bodies(";deadxact"), a.bodies("awaiting_final_ack$")) == (["1"], ["2"], ["3"])
    assert kept(a) == 0
    # For good.
    a.crash_and_start()
    net.advance(20)
    peer.acknowledge()
    come_from(NAT, peer, a, of(sent[2], peer.guid), of(last, peer.guid, None))
    assert (a.bodies(";journal"), a.bodies(P)) == (["1", "3"], [])
    # Another queue manager at the same address was not admitted.
    assert admit(a, bytes(15) + b"\1", NAT) == 0


def test_the_setting_admits_addresses_too(net: Net, a: Host, peer: Peer) -> None:
    sent = delivered(a, peer, "1", "2")
    come_from(NAT, peer, a, of(sent[0], peer.guid))
    assert a.bodies(";journal") == []
    a.restart(transfer=replace(TRANSFER, ack_addresses=frozenset({(peer.guid, NAT)})))
    assert (a.bodies(";journal"), kept(a)) == (["1"], 0)
    a.restart(transfer=replace(TRANSFER, ack_addresses=frozenset({(bytes(16), NAT)})))
    come_from(NAT, peer, a, of(sent[1], peer.guid))
    assert a.bodies(";journal") == ["1", "2"]


def test_a_destination_that_moved_is_found_by_its_name(net: Net, a: Host, peer: Peer) -> None:
    sent = delivered(a, peer, "1")
    net.advance(2000)
    assert a.network.open_sessions == []
    del net.hosts[peer.address]
    peer.address = "127.0.0.88"
    net.hosts[peer.address] = peer
    peer.connect(a)
    peer.send(of(sent[0], peer.guid))
    assert (a.bodies(";journal"), kept(a)) == (["1"], 0)


def test_a_destination_that_moved_is_believed_when_it_is_dialled(net: Net, a: Host, peer: Peer) -> None:
    """Its new address is not in the DNS before."""
    sent = delivered(a, peer, "1")
    net.advance(2000)
    peer.name = "moving"
    home, peer.address = peer.address, "127.0.0.88"
    net.hosts[peer.address] = net.hosts.pop(home)
    peer.connect(a)
    peer.send(of(sent[0], peer.guid))
    assert (a.bodies(";journal"), kept(a)) == ([], 1)
    peer.name = "peer"
    peer.hang_up()
    a.send_all(P, "2")
    net.advance(10)
    assert (a.bodies(";journal"), kept(a)) == (["1"], 0)


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_received_after_the_outgoing_queue_is_gone_is_believed(
    net: Net, a: Host, peer: Peer, *, restarts: bool
) -> None:
    (sent,) = delivered(a, peer, "m")
    net.advance(2000)
    if restarts:
        a.crash_and_start()
    assert FormatName.parse(P) not in a.node.manager.collection.outgoing
    # No name server has to be asked.
    peer.name = "nowhere"
    peer.connect(a)
    peer.send(of(sent, peer.guid))
    assert (a.bodies(";journal"), kept(a)) == (["m"], 0)
    assert list(a.node.destinations) == []


def test_what_is_known_of_a_destination_goes_with_its_last_message(net: Net, a: Host, peer: Peer) -> None:
    a.send_all(P, "m")
    assert list(a.node.destinations) == [FormatName.parse(P)]
    peer.acknowledge()
    peer.order_ack(1)
    net.advance(2000)
    assert list(a.node.destinations) == []
    a.crash_and_start()
    assert a.engine.store.keys(Table.COUNTERS, *keys.destination_range()) == []


def _as_of_before(a: Host) -> None:
    """Start on a folder that knows nothing of destinations."""
    a.stop()
    batch = Batch()
    batch.delete_range(Table.COUNTERS, *keys.destination_range())
    a.memory.commit(batch, 1)
    a.engine.restart()
    a.start()


def test_on_an_old_folder_acknowledgments_are_kept_until_the_destination_was_dialled(
    net: Net, a: Host, peer: Peer
) -> None:
    sent = delivered(a, peer, "1", "2")
    # The name server does not know it for a while.
    peer.name = "nowhere"
    _as_of_before(a)
    peer.connect(a)
    peer.send(of(sent[0], peer.guid))
    other = net.add_peer("other")
    other.connect(a)
    other.send(of(sent[1], other.guid, PURGED))
    assert (a.bodies("awaiting_final_ack$"), kept(a)) == (["1", "2"], 2)
    peer.name = "peer"
    a.send_all(P, "3")
    net.advance(10)
    assert (a.bodies(";journal"), a.bodies("awaiting_final_ack$"), a.bodies(";deadxact")) == (["1"], ["2"], [])
    assert (kept(a), refused(a)) == (0, 1)


def test_on_an_old_folder_the_destination_is_dialled_to_learn_who_it_is(net: Net, a: Host, peer: Peer) -> None:
    """Nothing is left to send to it."""
    sent = delivered(a, peer, "1", "2")
    net.advance(2000)
    _as_of_before(a)
    peer.connect(a)
    home = len(peer.of(EstablishConnection))
    peer.send(of(sent[0], peer.guid), on=home)
    net.advance(1)
    assert (a.bodies(";journal"), kept(a)) == (["1"], 0)
    # Once is enough, and the session is closed again.
    peer.send(of(sent[1], peer.guid), on=home)
    assert a.bodies(";journal") == ["1", "2"]
    assert [each.role for each in a.network.sessions] == [Role.ACCEPTOR]


def test_on_an_old_folder_a_destination_that_is_down_is_dialled_seldom(net: Net, a: Host, peer: Peer) -> None:
    sent = delivered(a, peer, *"12345")
    net.advance(2000)
    stranger = net.add_peer("stranger")
    stranger.guid = peer.guid
    net.part(a, peer)
    _as_of_before(a)
    failed = a.network.statistics.connections_failed
    for each in sent:
        come_from(NAT, stranger, a, of(each, peer.guid, PURGED))
        net.advance(60)
    assert a.network.statistics.connections_failed == failed + 1
    assert (len(a.bodies("awaiting_final_ack$")), kept(a)) == (5, 5)


def test_on_an_old_folder_an_admitted_queue_manager_is_believed(net: Net, a: Host, peer: Peer) -> None:
    sent = delivered(a, peer, "1")
    net.part(a, peer)
    _as_of_before(a)
    come_from(NAT, peer, a, of(sent[0], peer.guid))
    assert a.bodies(";journal") == []
    assert admit(a, peer.guid, NAT) == 1
    assert a.bodies(";journal") == ["1"]


def test_a_final_ack_of_what_may_have_been_sent_waits_until_it_is_sent_again(net: Net, a: Host, peer: Peer) -> None:
    """The process died before it could write down how far it had sent."""
    a.send_all(P, journaled("1"))
    (sent,) = peer.of(UserMessage)
    net.part(a, peer)
    _as_of_before(a)
    net.join()
    peer.connect(a)
    peer.send(of(sent, peer.guid), of(sent, peer.guid, None))
    assert (a.bodies(P), kept(a)) == (["1"], 2)
    net.advance(10)
    assert (a.bodies(P), a.bodies(";journal"), kept(a)) == ([], ["1"], 0)


@pytest.mark.parametrize("written", range(3))
def test_what_was_sent_before_a_crash_is_acknowledged_after_it(net: Net, a: Host, peer: Peer, written: int) -> None:
    """With any durable part of it, the destination is believed, at once or when the message was sent again."""
    a.send_all(P, "0")
    a.batches_to_live = written
    a.send_all(P, journaled("1"))
    if a.is_up:
        a.crash()
    a.start()
    net.advance(20)
    peer.acknowledge()
    sent = [packet for packet in peer.of(UserMessage) if packet.properties.label == "1"]
    if sent:
        peer.send(of(sent[-1], peer.guid))
        assert a.bodies(";journal") == ["1"]
    assert refused(a) == 0


def test_what_expires_after_it_arrived_does_not_keep_those_before_it(net: Net, a: Host, peer: Peer) -> None:
    """It is not sent again after a crash, but its destination acknowledges it."""
    a.send_all(P, "0")
    a.send_all(P, "1")
    a.send_all(P, letter("2", time_to_reach_queue=5))
    assert peer.bodies == ["0", "1", "2"]
    net.part(a, peer)
    a.crash_and_start()
    net.advance(6)
    net.join()
    net.advance(20)
    assert peer.bodies[3:] == ["0", "1"]
    peer.acknowledge()
    peer.order_ack(3)
    assert (a.bodies(P), refused(a), kept(a)) == ([], 0, 0)


def test_what_was_not_sent_again_stays_when_a_later_message_is_acknowledged(net: Net, a: Host, peer: Peer) -> None:
    a.send_all(P, "0")
    a.send_all(P, "1", "2", "3")
    peer.window = 2
    a.crash_and_start()
    net.advance(10)
    assert peer.bodies[4:] == ["0", "1"]
    peer.order_ack(4)
    peer.window = 64
    peer.acknowledge()
    assert peer.bodies[4:] == ["0", "1", "2", "3"]
    assert a.bodies(P) == ["2", "3"]
    peer.acknowledge()
    peer.order_ack(4)
    assert (a.bodies(P), kept(a)) == ([], 0)


def test_what_the_window_had_no_room_for_was_not_sent_before_and_after_a_crash(
    net: Net, a: Host, peer: Peer
) -> None:  # fmt: skip
    peer.window = 1
    a.send_all(P, journaled("1"), journaled("2"))
    assert peer.bodies == ["1"]
    two = UserMessage.decode(a.messages(P)[1].packet)
    peer.send(of(two, peer.guid), of(two, peer.guid, None))
    assert (a.bodies(P), refused(a), kept(a)) == (["1", "2"], 2, 0)
    # The process that follows does not know whether it was sent, and cannot send it yet.
    peer.name = "nowhere"
    a.crash_and_start()
    peer.connect(a)
    peer.send(of(two, peer.guid, PURGED))
    assert (a.bodies(P), kept(a)) == (["1", "2"], 1)
    peer.name = "peer"
    peer.window = 64
    net.advance(20)
    assert peer.bodies[1:] == ["1", "2"]
    assert (a.bodies(";deadxact"), a.bodies(P), kept(a)) == (["2"], ["1"], 0)


def test_a_final_ack_is_kept_on_disk_before_the_session_acknowledges_it(net: Net, a: Host, peer: Peer) -> None:
    (sent,) = delivered(a, peer, "m")
    net.advance(1)
    a.hold_disk()
    acknowledged = len(peer.of(SessionAck))
    come_from(NAT, peer, a, of(sent, peer.guid))
    net.advance(5)
    assert (kept(a), len(peer.of(SessionAck))) == (1, acknowledged)
    a.crash_and_start()
    assert kept(a) == 0
    # So it is brought again.
    come_from(NAT, peer, a, of(sent, peer.guid))
    net.advance(5)
    assert len(peer.of(SessionAck)) > acknowledged
    a.crash_and_start()
    assert kept(a) == 1


@pytest.mark.parametrize("message_class", [None, RECEIVED])
def test_of_a_message_four_addresses_are_kept(
    net: Net, a: Host, peer: Peer, stranger: Peer, message_class: int | None
) -> None:
    (sent,) = delivered(a, peer, "m")
    if message_class is None:
        a.send_all(P, "2")
        sent = peer.of(UserMessage)[-1]
    for number in range(MAX_KEPT_ACKS_OF_MESSAGE):
        for _ in range(2):
            come_from(f"10.0.1.{number}", stranger, a, of(sent, peer.guid, message_class))
    net.advance(1)
    sessions = len(a.network.sessions)
    before = len(stranger.of(SessionAck))
    come_from("10.0.1.9", stranger, a, of(sent, peer.guid, message_class))
    net.advance(1)
    assert (kept(a), refused(a)) == (MAX_KEPT_ACKS_OF_MESSAGE, 1)
    if message_class is None:
        # It comes again with the message.
        assert len(a.network.sessions) == sessions + 1
    else:
        # It was not acknowledged to whoever brought it, who brings it again.
        assert len(a.network.sessions) == sessions
        assert len(stranger.of(SessionAck)) == before
        assert any("the limit of kept acknowledgments" in str(notice["reason"]) for notice in told(a, "session closed"))
    # A believed bringer needs no place.
    peer.send(of(sent, peer.guid, message_class))
    assert kept(a) == 0


@pytest.mark.parametrize(
    ("limit", "addresses"),
    [("MAX_KEPT_ACKS_OF_ADDRESS", ["2001:db8::1", "2001:db8::2"]), ("MAX_KEPT_ACKS", [NAT, "10.9.9.8"])],
)
def test_what_is_kept_is_bounded_for_an_address_and_in_total(
    a: Host, peer: Peer, stranger: Peer, monkeypatch: pytest.MonkeyPatch, limit: str, addresses: list[str]
) -> None:
    monkeypatch.setattr(f"waypost.node.kept_acks.{limit}", 3)
    sent = delivered(a, peer, *"1234")
    come_from(addresses[0], stranger, a, of(sent[0], peer.guid), of(sent[1], peer.guid))
    come_from(addresses[1], stranger, a, of(sent[2], peer.guid), of(sent[3], peer.guid))
    assert (kept(a), refused(a)) == (3, 1)
    # Acknowledgments by the destination itself make room.
    peer.send(of(sent[0], peer.guid))
    come_from(addresses[1], stranger, a, of(sent[3], peer.guid))
    assert kept(a) == 3


def test_what_is_kept_is_explained(net: Net, a: Host, peer: Peer) -> None:
    (sent,) = delivered(a, peer, "m")
    a.send_all(P, "2")
    come_from(NAT, peer, a, of(sent, peer.guid))
    come_from(NAT, peer, a, of(peer.of(UserMessage)[-1], peer.guid, None))
    admit_command = (
        f"If the address belongs to that queue manager, run: waypost sequence admit {guid_text(peer.guid)} {NAT}"
    )
    found = explain_message(a.node, MessageIdentifier(a.guid, sent.user.message_id), net.now)
    assert admit_command in found.sentences
    places: Any = found.facts["places"]
    (ack,) = places[0]["kept_acknowledgments"]
    assert (ack["class"], ack["address"], ack["guid"]) == ("0x4000", NAT, guid_text(peer.guid))
    found = explain_queue(a.node, FormatName.parse(P), net.now)
    assert admit_command in found.sentences
    assert any("MQMSG_CLASS_ORDER_ACK" in sentence for sentence in found.sentences)


class Relayed:
    """From `a` by way of `r` to `b`, which is a Peer, as is another relay `s`."""

    def __init__(self, net: Net, relays: Callable[[Peer], Relays] = lambda _: Relays()) -> None:
        self.net = net
        self.a, self.r = net.add("a"), net.add_peer("r")
        self.b, self.s = net.add_peer("b"), net.add_peer("s")
        routes = (Route(self.b.guid, via=self.r.guid), Route(self.r.guid, "r"))
        self.a.restart(routes=routes, relays=relays(self.s))
        self.name = f"PRIVATE={guid_text(self.b.guid)}\\00000009"
        self.a.send_all(self.name, journaled("1"), journaled("2"))
        self.r.acknowledge()
        self.sent = self.r.of(UserMessage)

    def acknowledge(self, who: Peer) -> tuple[list[str], int]:
        """The journal, and the number of kept ones, when this one has brought all acknowledgments."""
        who.connect(self.a)
        who.send(of(self.sent[-1], self.b.guid, None), *(of(each, self.b.guid) for each in self.sent))
        return self.a.bodies(";journal"), kept(self.a)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_relay_brings_the_acknowledgments_of_the_destination(net: Net, *, restarts: bool) -> None:
    way = Relayed(net)
    if restarts:
        net.part(way.a, way.r)
        way.a.crash_and_start()
        net.join()
    assert way.acknowledge(way.r) == (["1", "2"], 0)


def test_what_another_relay_brings_is_kept_until_it_is_named(net: Net) -> None:
    way = Relayed(net)
    assert way.acknowledge(way.s) == ([], 3)
    assert "routing.relays" in str(told(way.a, "acknowledgment kept")[0]["reason"])
    way.a.restart(relays=Relays(addresses=frozenset({way.s.address})))
    assert (way.a.bodies(";journal"), kept(way.a)) == (["1", "2"], 0)


def test_a_relay_that_is_named_by_its_address_is_believed(net: Net) -> None:
    way = Relayed(net, lambda s: Relays(addresses=frozenset({s.address})))
    assert way.acknowledge(way.s) == (["1", "2"], 0)


def test_a_relay_that_is_named_by_its_guid_is_believed_at_an_address_of_its_own(net: Net) -> None:
    way = Relayed(net, lambda s: Relays(guids=frozenset({s.guid})))
    assert way.acknowledge(way.s) == ([], 3)
    assert admit(way.a, way.s.guid, way.s.address) == 3
    assert way.a.bodies(";journal") == ["1", "2"]


@pytest.mark.parametrize("host", ["s", "127.0.0.5"])
def test_a_relay_that_is_named_by_its_guid_is_believed_where_its_route_leads(net: Net, host: str) -> None:
    way = Relayed(net, lambda s: Relays(guids=frozenset({s.guid})))
    assert way.acknowledge(way.s) == ([], 3)
    way.a.restart(routes=(*way.a.settings.routes, Route(way.s.guid, host)))
    assert way.s.address == "127.0.0.5"
    assert (way.a.bodies(";journal"), kept(way.a)) == (["1", "2"], 0)


@pytest.mark.parametrize("by_guid", [False, True])
def test_a_stranger_that_has_itself_dialled_is_not_the_destination(net: Net, *, by_guid: bool) -> None:
    """It names its queue for acknowledgments, and answers there with the GUID of the destination."""
    a, b = net.add("a"), net.add_peer("b")
    a.create("q")
    stranger = net.add_peer("stranger")
    if by_guid:
        a.restart(routes=(Route(b.guid, "b"),))
    name = f"PRIVATE={guid_text(b.guid)}\\00000009" if by_guid else r"DIRECT=OS:b\private$\t"
    a.send_all(name, journaled("1"), journaled("2"))
    b.acknowledge()
    sent = b.of(UserMessage)
    b.send(of(sent[-1], b.guid, None))
    b.hang_up()
    stranger.guid = b.guid
    admin = FormatName.parse(r"DIRECT=OS:stranger\private$\admin")
    message = stranger.message(
        r"DIRECT=OS:a\private$\q",
        administration_queue_format_name=admin,
        acknowledgements_requested=Acknowledgements.ACK_FULL_REACH_QUEUE,
    )
    stranger.connect(a)
    stranger.send(message)
    (session,) = [each for each in a.network.open_sessions if each.role is Role.INITIATOR]
    assert (session.remote_qm_guid, session.remote_qm_address) == (b.guid, stranger.address)
    stranger.send(of(sent[0], b.guid, PURGED))
    assert (a.bodies("awaiting_final_ack$"), a.bodies(";deadxact"), kept(a)) == (["1", "2"], [], 1)
    # Nor do messages for the destination go there.
    a.send_all(name, "3")
    net.advance(10)
    assert (b.bodies[-1], stranger.of(UserMessage)[0].properties.message_class) == ("3", 0x0002)
    assert len(stranger.of(UserMessage)) == 1
    stranger.send(of(sent[1], b.guid, PURGED))
    assert (a.bodies("awaiting_final_ack$"), a.bodies(";deadxact"), kept(a)) == (["1", "2"], [], 2)


def test_relays_bring_nothing_of_what_goes_to_its_destination_at_once(net: Net, a: Host, peer: Peer) -> None:
    relay = net.add_peer("relay")
    a.restart(relays=Relays(frozenset({relay.guid}), frozenset({relay.address})))
    a.send_all(P, journaled("m"))
    (sent,) = peer.of(UserMessage)
    relay.connect(a)
    relay.send(of(sent, peer.guid))
    assert (a.bodies(P), refused(a)) == (["m"], 1)


@pytest.mark.parametrize("by", ["address", "guid"])
def test_a_relay_of_an_earlier_route_brings_acknowledgments_if_it_is_named(net: Net, by: str) -> None:
    way = Relayed(net)
    way.r.send(of(way.sent[-1], way.b.guid, None))
    assert way.a.bodies("awaiting_final_ack$") == ["1", "2"]
    r = way.r
    relays = Relays(addresses=frozenset({r.address})) if by == "address" else Relays(frozenset({r.guid}))
    way.a.restart(routes=(Route(way.b.guid, "b"), Route(r.guid, "r")), relays=relays)
    r.connect(way.a)
    r.send(*(of(each, way.b.guid) for each in way.sent))
    net.advance(10)
    assert (way.a.bodies(";journal"), kept(way.a), refused(way.a)) == (["1", "2"], 0, 0)


def test_what_a_relay_brings_that_is_not_named_any_more_is_kept_while_others_are_named(net: Net) -> None:
    way = Relayed(net)
    way.r.send(of(way.sent[-1], way.b.guid, None))
    routes = (Route(way.b.guid, "b"),)
    way.a.restart(routes=routes, relays=Relays(addresses=frozenset({way.s.address})))
    way.r.connect(way.a)
    way.r.send(*(of(each, way.b.guid) for each in way.sent))
    assert (way.a.bodies("awaiting_final_ack$"), kept(way.a)) == (["1", "2"], 2)
    way.a.restart(relays=Relays(addresses=frozenset({way.r.address})))
    assert (way.a.bodies(";journal"), kept(way.a)) == (["1", "2"], 0)


def test_what_comes_straight_from_a_destination_that_is_reached_by_way_of_others_is_kept_and_admitted(net: Net) -> None:
    way = Relayed(net)
    assert way.acknowledge(way.b) == ([], 3)
    assert admit(way.a, way.b.guid, way.b.address) == 3
    assert way.a.bodies(";journal") == ["1", "2"]


def test_a_relay_can_refuse_a_message_and_not_receive_it(net: Net) -> None:
    way = Relayed(net)
    way.r.connect(way.a)
    way.r.send(of(way.sent[0], way.r.guid), of(way.sent[1], way.r.guid, HOPS))
    assert (way.a.bodies(";journal"), way.a.bodies(";deadxact")) == ([], ["2"])
    assert (way.a.bodies(way.name), refused(way.a)) == (["1"], 1)


def test_between_whole_queue_managers_everything_is_believed(net: Net, a: Host) -> None:
    """By direct name, over a relay, after restarts of both, and when sessions are gone."""
    b, r = net.add("b"), net.add("r")
    a.restart(routes=(Route(b.guid, via=r.guid), Route(r.guid, "r")))
    r.restart(routes=(Route(a.guid, "a"), Route(b.guid, "b")))
    b.restart(routes=(Route(a.guid, via=r.guid), Route(r.guid, "r")))
    b.create("t", transactional=True)
    for name in (r"DIRECT=OS:b\private$\t", rf"DIRECT=TCP:{b.address}\private$\t", b.name_of("t")):
        for end in (a.crash_and_start, b.crash_and_start, r.crash_and_start, lambda: net.advance(2000)):
            a.send_all(name, journaled("m"))
            end()
            net.advance(100)
            assert a.bodies("awaiting_final_ack$") == ["m"]
            b.receive("t")
            net.advance(100)
            assert a.bodies("awaiting_final_ack$") == []
    assert (refused(a), kept(a), len(a.bodies(";journal"))) == (0, 0, 12)


def test_a_session_that_was_opened_here_is_the_destination(net: Net, a: Host, peer: Peer) -> None:
    """Acknowledgments that come on it need no address of another kind."""
    sent = delivered(a, peer, "m")
    peer.send(of(sent[0], peer.guid))
    assert a.bodies(";journal") == ["m"]
    assert len(net.packets(EstablishConnection)) == 2


def test_an_order_ack_that_is_kept_goes_with_the_last_message_of_its_sequence(a: Host, peer: Peer) -> None:
    a.send_all(P, journaled("m"))
    peer.acknowledge()
    (sent,) = peer.of(UserMessage)
    dialled = peer.got
    come_from(NAT, peer, a, of(sent, peer.guid, None))
    assert (len(dialled), kept(a)) == (1, 1)
    # Its FinalAck is the first that is believed.
    peer.send(of(sent, peer.guid), on=1)
    assert (a.bodies(P), a.bodies(";journal"), kept(a)) == ([], ["m"], 0)


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_host_that_answers_with_the_guid_of_another_gets_no_messages_of_that(
    net: Net, *, is_transactional: bool
) -> None:
    """A program here sends to it, because it was asked to answer there. The other one is where our routes say."""
    b = net.add("honest")
    b.create("q", transactional=is_transactional)
    a = net.add("sender", TRANSFER, [Route(b.guid, "honest")])
    thief = net.add_peer("thief")
    thief.guid = b.guid
    a.send(rf"DIRECT=TCP:{thief.address}\private$\answers", "answer")
    assert thief.bodies == ["answer"]
    if is_transactional:
        a.send_all(b.name_of("q"), "m")
    else:
        a.send(b.name_of("q"), "m")
    assert (thief.bodies, b.bodies("q")) == (["answer"], ["m"])
