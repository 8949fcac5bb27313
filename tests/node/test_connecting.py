"""Outgoing queues get sessions, and lose them: MS-MQQB 3.1.5.2 to 3.1.5.4, 3.1.5.9 and 3.1.6.1."""

import pytest

from tests.node.hosts import Host, Net, Peer, express
from waypost.core.management import DirectoryState, queue_snapshot
from waypost.core.queues import OutgoingQueue, OutgoingQueueState
from waypost.daemon.config import Config
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.node.effects import Close, Connect, Notice, Resolve
from waypost.routing.routes import Route
from waypost.transfer import session as session_module
from waypost.transfer.session import SessionState
from waypost.transfer.settings import TransferSettings
from waypost.wire.internal_packets import CS, EstablishConnection
from waypost.wire.management import ConnectionStatus
from waypost.wire.ping import LAYOUT, RC, RF, Ping
from waypost.wire.user_message import UserMessage

Q = r"DIRECT=OS:b\private$\q"
P = r"DIRECT=OS:peer\private$\q"
NOWHERE = r"DIRECT=OS:nowhere\private$\q"
DEAD = r"DIRECT=TCP:127.0.0.99\private$\q"
PINGING = TransferSettings(ping=True)

State = OutgoingQueueState
Status = ConnectionStatus


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def b(net: Net, a: Host) -> Host:
    """The destination, which is not the first host."""
    assert a.is_up
    host = net.add("b")
    host.create("q")
    return host


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


def history(queue: OutgoingQueue) -> list[ConnectionStatus]:
    return [event.status for event in queue.connection_history]


def requests(net: Net) -> list[EstablishConnection]:
    """The EstablishConnection Packets that ask for a session. The answers have no separate connection."""
    return net.packets(EstablishConnection)[::2]


def told(host: Host, event: str) -> list[Notice]:
    return [notice for notice in host.notices if notice.event == event]


def silence(peer: Peer) -> None:
    """It accepts connections, and answers to nothing."""
    peer.data_received = lambda *_: None  # type: ignore[method-assign]


def effects_of(host: Host, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The effects of the host from now on, in order."""
    effects: list[object] = []
    carry = host.net.carry

    def note(who: Host | Peer, effect: object) -> None:
        if who is host:
            effects.append(effect)
        carry(who, effect)

    monkeypatch.setattr(host.net, "carry", note)
    return effects


@pytest.mark.spec("MQQB-3.1.5.2-01", "MQQB-3.1.5.2.3-03", "MQQB-3.1.5.3.2-05", "MQQB-3.1.5.4.2-02")
def test_a_session_is_established_step_by_step(net: Net, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    host = net.add("pinging", PINGING)
    effects = effects_of(host, monkeypatch)
    answers: list[tuple[bytes, str, int]] = []
    monkeypatch.setattr(peer, "datagram_received", lambda *fact: answers.append(fact[:3]))
    sent: list[bytes] = []
    monkeypatch.setattr(peer, "data_received", lambda _number, data, _now: sent.append(data))
    host.send(P, "m")
    queue = host.outgoing(P)
    assert [type(effect).__name__ for effect in effects] == ["Resolve", "SendDatagram"]
    assert (queue.state, history(queue)) == (State.WAITING, [])

    ping = Ping.decode(answers[0][0])
    host.network.ping_answered(ping.accepted(peer.guid).encode(), net.now)
    net.settle()
    assert [type(effect).__name__ for effect in effects[2:]] == ["Connect", "Write"]
    (session,) = host.network.sessions

    def step() -> tuple[SessionState, OutgoingQueueState, list[ConnectionStatus]]:
        return session.state, queue.state, history(queue)

    assert step() == (SessionState.WAITING_ECR_MSG, State.WAITING, [Status.IN_PROGRESS])

    request = EstablishConnection.decode(sent.pop())
    (number,) = host.connections
    host.network.data_received(number, request.accepted(peer.guid).encode(), net.now)
    net.settle()
    events = [Status.IN_PROGRESS, Status.ESTABLISH_PACKET_RECEIVED]
    assert step() == (SessionState.WAITING_CPR_MSG, State.WAITING, events)

    host.network.data_received(number, sent.pop(), net.now)
    net.settle()
    assert step() == (SessionState.OPEN, State.CONNECTED, [*events, Status.READY])
    assert queue.next_hops == (f"IP={peer.address}",)
    assert {event.error for event in queue.connection_history} == {0}
    assert {event.time for event in queue.connection_history} == {int(net.now.wall)}
    assert {event.addresses for event in queue.connection_history} == {(f"IP={peer.address}",)}


@pytest.mark.spec("MQQB-3.1.5.2.3-03", "MQQB-3.1.5.4.2-02")
def test_a_queue_that_is_paused_meanwhile_stays_on_hold(net: Net, a: Host, peer: Peer) -> None:
    net.cut.add(frozenset((a.address, peer.address)))
    a.send(P, "m")
    a.pause(P)
    queue = a.outgoing(P)
    # It connects for another queue, and the attempts for this one end.
    net.join()
    a.send(P + "2", "m")
    net.advance(30)
    assert (queue.state, history(queue)) == (State.ON_HOLD, [Status.CONNECT_SOCKET_FAILURE])
    a.resume(P)
    a.pause(P)
    assert (queue.state, a.outgoing(P + "2").state) == (State.ON_HOLD, State.CONNECTED)


@pytest.mark.spec("MQQB-3.1.5.2-02")
def test_every_failure_is_in_the_history(net: Net, a: Host, peer: Peer) -> None:
    def only(name: str) -> tuple[ConnectionStatus, int, int, tuple[str, ...]]:
        *_, event = a.outgoing(name).connection_history
        return event.status, event.time, event.error & 0xFFFF_FFFF, event.addresses

    now = int(net.now.wall)
    a.send(NOWHERE, "m")
    assert only(NOWHERE) == (Status.DNS_FAILURE, now, HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE, ())
    unreachable = HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE
    a.send(DEAD, "m")
    assert only(DEAD) == (Status.CONNECT_SOCKET_FAILURE, now, unreachable, ("IP=127.0.0.99",))
    full = net.add("full", TransferSettings(max_sessions=0))
    q = r"DIRECT=OS:full\private$\q"
    a.send(q, "m")
    assert only(q) == (Status.CONNECTION_REFUSED, now, unreachable, (f"IP={full.address}",))
    silence(peer)
    a.send(P, "m")
    net.advance(60)
    assert only(P) == (Status.NOT_READY_FAILURE, now + 60, HResult.MQ_ERROR, (f"IP={peer.address}",))


@pytest.mark.spec("MQQB-3.1.5.2.1-01", "MQQB-3.1.5.2.1-05")
def test_the_addresses_of_a_host_are_tried_in_their_order(net: Net, a: Host, b: Host) -> None:
    """The first one is dead."""
    net.hosts["127.0.0.50"] = net.hosts["127.0.0.51"] = b
    net.cut.add(frozenset((a.address, b.address)))
    a.send(Q, "m")
    queue = a.outgoing(Q)
    assert list(queue.next_hops) == [f"IP={b.address}", "IP=127.0.0.50", "IP=127.0.0.51"]
    assert [(hop.host_name, hop.qm_guid, hop.address) for hop in queue.link.next_hops] == [
        ("b", bytes(16), address) for address in (b.address, "127.0.0.50", "127.0.0.51")
    ]
    assert queue.link.queue is queue
    assert (queue.state, b.bodies("q")) == (State.DISCONNECTED, [])
    net.advance(6)
    (session,) = a.network.sessions
    assert (session.remote_qm_address, b.bodies("q")) == ("127.0.0.50", ["m"])
    assert queue.next_hops == ("IP=127.0.0.50",)


@pytest.mark.spec("MQQB-3.1.6.1-01", "MQQB-3.1.2.3-01")
def test_after_the_last_address_the_host_is_resolved_again(
    net: Net, a: Host, b: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    net.hosts["127.0.0.50"] = b
    cut = frozenset((a.address, b.address)), frozenset((a.address, "127.0.0.50"))
    net.cut.update(cut)
    effects = effects_of(a, monkeypatch)

    def steps() -> list[str]:
        taken = [
            effect.address if isinstance(effect, Connect) else "resolve"
            for effect in effects
            if isinstance(effect, Connect | Resolve)
        ]
        effects.clear()
        return taken

    a.send(Q, "m")
    assert steps() == ["resolve", b.address]
    net.advance(4.9)
    assert steps() == []
    net.advance(0.2)
    assert steps() == ["127.0.0.50"]
    net.advance(5)
    assert steps() == ["resolve", b.address]
    net.join()
    net.advance(5)
    assert (steps(), b.bodies("q")) == (["127.0.0.50"], ["m"])


@pytest.mark.spec("MQQB-3.1.5.2.1-04")
def test_the_next_hops_of_a_queue_are_what_its_host_was_resolved_to(net: Net, a: Host, b: Host) -> None:
    a.send(Q, "m")
    queue = a.outgoing(Q)
    assert list(queue.next_hops) == [f"IP={b.address}"]
    net.part(a, b)
    del net.hosts[b.address]
    net.hosts.update({"fe80::7": b, "127.0.0.70": b})
    net.cut.update({frozenset((a.address, "fe80::7")), frozenset((a.address, "127.0.0.70"))})
    a.send(Q, "m")
    net.advance(6)
    assert list(queue.next_hops) == ["IPv6=fe80::7", "IP=127.0.0.70"]


def test_a_connected_queue_tells_its_next_hop(net: Net, a: Host, b: Host) -> None:
    a.send(Q, "m")
    snapshot = queue_snapshot(a.outgoing(Q), DirectoryState())
    assert [str(hop) for hop in snapshot.possible_hops or ()] == [b.address]


@pytest.mark.spec("MQQB-3.1.5.2.1-02")
def test_without_an_address_a_queue_needs_validation_and_the_host_is_looked_for_again(net: Net, a: Host) -> None:
    later = r"DIRECT=OS:later\private$\q"
    unknown = f"PRIVATE={guid_text(bytes(range(16)))}\\00000009"
    for name in (later, unknown):
        a.send(name, "m")
        assert a.outgoing(name).state is State.NEED_VALIDATION
        assert a.outgoing(name).next_hops == ()
        assert len(history(a.outgoing(name))) == 1
        assert a.outgoing(name).link.next_retry == net.now.monotonic + 5
    b = net.add("later")
    b.create("q")
    net.advance(6)
    assert b.bodies("q") == ["m"]
    assert a.outgoing(later).state is State.CONNECTED
    assert history(a.outgoing(unknown)) == [Status.NO_ROUTING_DATA] * 2
    a.pause(unknown)
    assert a.outgoing(unknown).state is State.ON_HOLD
    net.advance(30)
    assert history(a.outgoing(unknown)) == [Status.NO_ROUTING_DATA] * 2


def test_an_attempt_for_an_empty_queue_is_the_last_one(net: Net, a: Host) -> None:
    a.hold(NOWHERE)
    a.send(NOWHERE, express("m", time_to_reach_queue=2))
    assert a.outgoing(NOWHERE).link.next_retry is not None
    net.advance(60)
    assert history(a.outgoing(NOWHERE)) == [Status.DNS_FAILURE]


@pytest.mark.spec("MQQB-3.1.6.1-03", "MQQB-3.1.1.1.1.1-02")
def test_the_retry_timer_of_an_empty_queue_connects_nobody(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    a.send(Q, "m")
    assert a.outgoing(Q).link.next_retry is not None
    a.purge(Q)
    net.join()
    net.advance(60)
    assert net.packets(EstablishConnection) == []
    a.send(Q, "n")
    assert b.bodies("q") == ["n"]


@pytest.mark.spec("MQQB-3.1.5.9-02", "MQQB-3.1.7.3-01")
def test_a_queue_is_disconnecting_until_the_connection_is_closed(
    net: Net, a: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    a.send(P, "m")
    a.send(P + "2", "m")
    a.pause(P + "2")
    queue, paused = a.outgoing(P), a.outgoing(P + "2")
    states: list[tuple[State, State]] = []
    emit = a.node.kernel.emit

    class Kernel(type(a.node.kernel)):  # type: ignore[misc]
        __slots__ = ()

        def emit(self, effect: object) -> None:
            if isinstance(effect, Close):
                states.append((queue.state, paused.state))
            emit(effect)  # type: ignore[arg-type]

    monkeypatch.setattr(a.node.kernel, "__class__", Kernel)
    (session,) = a.network.sessions
    net.part(a, peer)
    assert states == [(State.DISCONNECTING, State.ON_HOLD)]
    assert (queue.state, paused.state) == (State.DISCONNECTED, State.ON_HOLD)
    assert (session.state, session.error) == (SessionState.CLOSED, "the connection is lost")


@pytest.mark.spec("MQQB-3.1.5.9-03", "MQQB-3.1.1.1.1.1-02")
def test_who_has_messages_left_connects_again_after_a_while(net: Net, a: Host, peer: Peer) -> None:
    for name in (P, P + "2", P + "3"):
        a.send(name, "m")
    a.pause(P + "2")
    for _ in range(3):
        peer.acknowledge()
    assert a.bodies(P) == []
    a.send(P + "3", "n")
    peer.hang_up()
    queue = a.outgoing(P + "3")
    assert (queue.state, queue.link.state.name) == (State.DISCONNECTED, "WAITING_RECONNECT")
    assert queue.link.next_retry == net.now.monotonic + 5
    # Nothing is left of the first one, and the second may not.
    assert a.outgoing(P + "2").link.next_retry is None
    with pytest.raises(KeyError):
        a.outgoing(P)
    net.advance(4.9)
    assert len(requests(net)) == 1
    net.advance(0.2)
    assert len(requests(net)) == 2
    assert [packet.properties.label for packet in peer.got if isinstance(packet, UserMessage)] == ["n"]


@pytest.mark.spec("MQQB-6-09", "MQQB-3.1.2.3-01")
def test_the_time_to_the_next_attempt_is_configured(net: Net, b: Host) -> None:
    host = net.add("slow", TransferSettings(retry_connect_s=20, round_trip_delay_ms=3000))
    net.part(host, b)
    host.send(Q, "m")
    assert host.outgoing(Q).link.next_retry == net.now.monotonic + 23
    defaults = TransferSettings()
    assert (defaults.window_size, defaults.session_init_timeout_s, defaults.ack_wait_timeout_ms) == (64, 60, 20_000)
    assert (defaults.idle_timeout_s, defaults.retry_connect_s, defaults.round_trip_delay_ms) == (300, 5, 0)
    router = TransferSettings(is_routing_server=True).for_its_role()
    assert router.idle_timeout_s == 120
    net.join()
    net.advance(22.9)
    assert b.bodies("q") == []
    net.advance(0.2)
    assert b.bodies("q") == ["m"]
    (session,) = host.network.sessions
    assert session.ack_wait_timeout_ms == 23_000


@pytest.mark.spec("MQQB-6-09")
def test_the_times_of_a_session_are_configured(net: Net, b: Host, peer: Peer) -> None:
    settings = TransferSettings(
        session_init_timeout_s=10,
        round_trip_delay_ms=1000,
        idle_timeout_s=30,
        window_size=7,
        ack_wait_timeout_ms=60_000,
    )
    host = net.add("other", settings)
    silence(peer)
    host.send(P, "m")
    net.advance(11.9)
    assert history(host.outgoing(P)) == [Status.IN_PROGRESS]
    net.advance(0.2)
    assert history(host.outgoing(P)) == [Status.IN_PROGRESS, Status.NOT_READY_FAILURE]
    host.send(Q, "m")
    (session,) = (each for each in host.network.sessions if each.remote_qm_address == b.address)
    assert (session.window_size, session.ack_wait_timeout_ms) == (7, 61_000)
    net.advance(61)
    assert session.error == "the session was idle"


@pytest.mark.spec("MQQB-2.1.2-01", "MQQB-3.1.5.2.2-01", "MQQB-3.1.5.2.2-02", "MQQB-2.1.2-03")
def test_a_ping_goes_before_a_first_attempt_only(net: Net, a: Host, b: Host) -> None:
    a.send(Q, "without")
    assert (b.bodies("q"), net.datagrams) == (["without"], [])
    host = net.add("pinging", PINGING)
    host.send(Q, "with")
    assert b.bodies("q") == ["without", "with"]
    assert [(source, target, port) for source, target, port, _ in net.datagrams] == [
        (host.address, b.address, 3527),
        (b.address, host.address, 4057),
    ]
    net.part(host, b)
    host.send(Q, "again")
    assert len(net.datagrams) == 2
    net.join()
    net.advance(6)
    # By the timer, and without a ping.
    assert (b.bodies("q"), len(net.datagrams)) == (["without", "with", "again"], 2)


def asked(net: Net, host: Host) -> list[bytes]:
    """The Ping Requests of a host."""
    return [data for source, _, port, data in net.datagrams if (source, port) == (host.address, 3527)]


@pytest.mark.spec("MQQB-3.1.7.6-01")
def test_every_ping_request_has_the_next_cookie_and_the_identifier_of_its_sender(net: Net, b: Host) -> None:
    host = net.add("pinging", PINGING)
    peers = [net.add_peer(f"peer{number}") for number in range(2)]
    host.send(Q, "m")
    for peer in peers:
        host.send(rf"DIRECT=OS:{peer.name}\private$\q", "m")
    net.advance(2)
    assert b.bodies("q") == ["m"]
    # MS-MQQB 2.2.7: flags, of which 0x0002 is RF, then Signature, Cookie and QMGuid.
    requests = [LAYOUT.unpack(data) for data in asked(net, host)]
    assert [(flags & RF, *others) for flags, *others in requests] == [
        (0, 0x5548, cookie, host.guid) for cookie in (1, 2, 3)
    ]


@pytest.mark.spec("MQQB-3.1.7.7-01")
@pytest.mark.parametrize("flags", [0, RC, 0x7D00 | RC])
def test_a_ping_request_is_answered_with_its_cookie_and_whether_a_session_would_be_accepted(
    net: Net, peer: Peer, flags: int
) -> None:
    host = net.add("full", TransferSettings(max_sessions=1))

    def answer(request: bytes) -> bytes | None:
        count = len(net.datagrams)
        host.network.datagram_received(request, peer.address, 4057, net.now)
        net.settle()
        found = net.datagrams[count:]
        assert {each[:3] for each in found} <= {(host.address, peer.address, 4057)}
        return found[0][3] if found else None

    request = LAYOUT.pack(flags, 0x5548, 0xFFFF_FFFF, peer.guid)

    def is_refused() -> bool:
        data = answer(request)
        assert data is not None
        found, *others = LAYOUT.unpack(data)
        assert (found & ~RF, others) == (flags & RC, [0x5548, 0xFFFF_FFFF, host.guid])
        return bool(found & RF)

    assert not is_refused()
    peer.connect(host)
    assert is_refused()
    peer.hang_up()
    assert not is_refused()
    # Other datagrams are not requests.
    for wrong in (request[:-1], request + b"\0", LAYOUT.pack(flags, 0x5549, 1, peer.guid)):
        assert answer(wrong) is None


@pytest.mark.spec("MQQB-3.1.7.8-01")
def test_a_ping_response_that_answers_no_waiting_request_is_ignored(net: Net, peer: Peer) -> None:
    host = net.add("pinging", PINGING)

    def respond(signature: int, cookie: int, flags: int = 0) -> int:
        """The number of sessions that have begun."""
        host.network.ping_answered(LAYOUT.pack(flags, signature, cookie, peer.guid), net.now)
        net.settle()
        return len(requests(net))

    assert respond(0x5548, 0) == respond(0x5548, 1) == 0
    host.send(P, "m")
    assert len(asked(net, host)) == 1
    # Neither begins a session nor ends the wait for the response, even if it refuses one.
    for flags in (0, RF):
        assert respond(0x5549, 1, flags) == respond(0x5548, 0, flags) == respond(0x5548, 2, flags) == 0
    assert history(host.outgoing(P)) == []
    assert respond(0x5548, 1) == 1
    assert peer.bodies == ["m"]
    for flags in (0, RF):
        assert respond(0x5548, 1, flags) == 1
    assert host.network.open_sessions != []


@pytest.mark.spec("MQQB-3.1.5.2.2-03")
def test_a_ping_without_a_good_answer_is_a_failure(net: Net, peer: Peer) -> None:
    host = net.add("pinging", PINGING)
    host.send(P, "m")
    queue = host.outgoing(P)
    assert history(queue) == []
    net.advance(1.1)
    (event,) = queue.connection_history
    assert (event.status, event.addresses) == (Status.PING_FAILURE, (f"IP={peer.address}",))
    assert event.error & 0xFFFF_FFFF == HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE
    assert (queue.state, peer.received) == (State.DISCONNECTED, [])
    assert queue.link.next_retry is not None
    net.advance(5)
    assert peer.bodies == ["m"]


@pytest.mark.spec("MQQB-3.1.5.2.2-03")
def test_a_ping_for_what_has_expired_meanwhile_starts_no_timer(net: Net, peer: Peer) -> None:
    host = net.add("pinging", PINGING)
    host.hold(P)
    host.send(P, express("m"))
    host.purge(P)
    net.advance(2)
    assert history(host.outgoing(P)) == [Status.PING_FAILURE]
    assert host.outgoing(P).link.next_retry is None
    net.advance(60)
    assert peer.received == []


@pytest.mark.spec("MQQB-2.2.1-07", "MQQB-3.1.5.3.1-02")
def test_more_sessions_than_there_may_be_are_refused(net: Net, a: Host) -> None:
    assert TransferSettings().max_sessions == Config().transfer.max_sessions == 0xFFFF_FFFF
    full = net.add("full", TransferSettings(max_sessions=1))
    full.create("q")
    q = r"DIRECT=OS:full\private$\q"
    a.send(q, "one")
    other = net.add("other")
    other.send(q, "two")
    answer = net.packets(EstablishConnection, "full", "other")[-1]
    assert answer.internal.flags & CS
    assert (full.bodies("q"), len(full.network.sessions)) == (["one"], 1)
    assert other.network.sessions == []
    # The session of the first one ends, and there is room.
    net.part(a, full)
    net.advance(6)
    assert full.bodies("q") == ["one", "two"]


def test_sessions_that_are_granted_and_not_open_yet_count_too(net: Net, a: Host) -> None:
    full = net.add("full", TransferSettings(max_sessions=2))
    request = EstablishConnection.request(bytes(range(16)), bytes(16), 0, 0).encode()
    for _ in range(4):
        number = full.network.accept(a.address, net.now)
        assert number is not None
        full.network.data_received(number, request, net.now)
    assert [session.state for session in full.network.sessions] == [SessionState.WAITING_CP_MSG] * 2


def test_a_peer_with_our_identifier_is_refused(net: Net, a: Host, peer: Peer) -> None:
    peer.guid = a.guid
    peer.connect(a)
    (answer,) = peer.of(EstablishConnection)
    assert answer.internal.is_refused
    assert a.network.sessions == []
    (notice,) = told(a, "identifier conflict")
    assert notice.facts["peer"] == peer.address


@pytest.mark.parametrize("flags", [0, CS])
def test_a_peer_that_answers_with_our_identifier_gets_nothing(net: Net, a: Host, peer: Peer, flags: int) -> None:
    def answer(number: int, data: bytes, _now: object) -> None:
        response = EstablishConnection.decode(data).accepted(a.guid)
        response.internal.flags |= flags
        peer._output.append((number, response.encode()))

    peer.data_received = answer  # type: ignore[method-assign]
    a.send(P, "m")
    assert a.network.sessions == []
    assert history(a.outgoing(P)) == [Status.IN_PROGRESS, Status.CONNECTION_REFUSED]
    (notice,) = told(a, "identifier conflict")
    assert notice.facts["peer"] == peer.address
    assert a.bodies(P) == ["m"]


def test_another_queue_manager_than_the_expected_one_gets_nothing(net: Net, a: Host, b: Host) -> None:
    host = net.add("routed", TransferSettings(), (Route(bytes(range(16)), "b"),))
    name = f"PRIVATE={guid_text(bytes(range(16)))}\\00000009"
    host.send(name, "m")
    assert history(host.outgoing(name)) == [Status.IN_PROGRESS, Status.CONNECTION_REFUSED]
    # A host that ignores the GUID that it is asked for is found out by its answer.
    peer = net.add_peer("c")
    other = net.add("misled", TransferSettings(), (Route(bytes(range(16)), "c"),))
    other.send(name, "m")
    assert history(other.outgoing(name)) == [Status.IN_PROGRESS, Status.CONNECTION_REFUSED]
    (failure,) = told(other, "connection failed")
    assert "answers instead of" in str(failure.facts["reason"])
    assert peer.bodies == []


def test_a_host_that_is_known_later_is_found(net: Net, a: Host) -> None:
    later = r"DIRECT=OS:later\private$\q"
    a.send(later, "m")
    b = net.add("later")
    b.create("q")
    assert b.bodies("q") == []
    net.advance(6)
    assert (b.bodies("q"), history(a.outgoing(later))[0]) == (["m"], Status.DNS_FAILURE)
    assert a.outgoing(later).link.last_error == ""


def test_a_session_for_a_queue_that_was_deleted_meanwhile_is_closed(net: Net, a: Host, peer: Peer) -> None:
    held: list[int] = []
    peer.data_received = lambda number, *_: held.append(number)  # type: ignore[method-assign]
    a.send(P, "m")
    (request,) = net.packets(EstablishConnection)
    a.purge(P)
    a.node.manager.collection.remove(a.outgoing(P))
    with a.node.kernel.operation(net.now):
        pass
    del peer.data_received
    peer.data_received(held[0], request.encode(), net.now)
    net.settle()
    assert (a.network.sessions, peer.connections) == ([], {})
    # It is another queue that comes later under the same name.
    a.send(P, "n")
    assert peer.bodies == ["n"]


def test_an_unused_queue_goes_with_its_idle_session(net: Net, a: Host, b: Host) -> None:
    a.send(Q, "m")
    kept = Q + "2"
    b.create("q2")
    a.hold(kept)
    a.send(kept, "m")
    (session,) = a.network.sessions
    net.advance(299)
    assert a.outgoing(Q).state is State.CONNECTED
    net.advance(600)
    assert session.error == "the session was idle"
    with pytest.raises(KeyError):
        a.outgoing(Q)
    assert a.outgoing(kept).state is State.DISCONNECTED
    a.send(Q, "n")
    assert b.bodies("q") == ["m", "n"]
    assert len(requests(net)) == 2


def test_a_session_whose_numbers_are_used_up_is_followed_by_another_at_once(
    net: Net, a: Host, b: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "LAST_NUMBER", 32)
    labels = [str(number) for number in range(100)]
    for label in labels:
        a.send(Q, express(label))
    began = net.now.monotonic
    net.advance(0.1)
    assert b.bodies("q") == labels
    assert len(requests(net)) == 4
    assert net.now.monotonic - began < 1
    assert len(a.network.sessions) == 1
