"""Clients that ask for more than they take."""

import pytest

from tests.rpc.serving import ECHO, NOW, WAIT, Number, Octets, Peer, ToyHandler, bound, echo_parts, toy_server
from waypost.rpc import flow, server


def answers(client: Peer, data: bytes = b"") -> list[int]:
    """The calls that were answered since the last time."""
    fragments = client.send(data) if data else client.take()
    return [fragment.header.call_id for fragment in fragments if fragment.header.is_last]


def go_on(client: Peer) -> list[int]:
    client.server.go_on(NOW)
    return answers(client)


def can_go_on(client: Peer) -> bool:
    return client.server.can_go_on


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "MAX_RPC_ANSWERED_AT_ONCE", 2000)
    monkeypatch.setattr(flow, "MAX_RPC_UNSENT", 10_000)
    monkeypatch.setattr(flow, "MAX_RPC_UNREAD", 50_000)


def many(client: Peer, calls: range) -> bytes:
    return b"".join(part for call_id in calls for part in echo_parts(client, bytes(1000), call_id, 0x1000))


@pytest.mark.usefixtures("narrow")
def test_requests_wait_while_many_answers_are_being_sent() -> None:
    client, _ = bound()
    assert answers(client, many(client, range(2, 9))) == [2, 3]
    assert can_go_on(client)
    assert go_on(client) == [4, 5]
    assert go_on(client) == [6, 7]
    assert go_on(client) == [8]
    assert not can_go_on(client)
    assert answers(client, many(client, range(9, 10))) == [9]


@pytest.mark.usefixtures("narrow")
def test_requests_of_a_client_that_takes_nothing_wait_until_it_does() -> None:
    client, _ = bound()
    client.server.pause(client.number)
    assert answers(client, many(client, range(2, 9))) == [2, 3]
    assert not can_go_on(client)
    assert go_on(client) == []
    assert answers(client, many(client, range(9, 10))) == []
    client.server.resume(client.number)
    assert go_on(client) == [4, 5]
    assert go_on(client) == [6, 7]
    assert go_on(client) == [8, 9]
    assert not client.is_closed


@pytest.mark.usefixtures("narrow")
def test_a_client_that_takes_nothing_and_goes_on_asking_is_cut_off() -> None:
    client, _ = bound()
    client.server.pause(client.number)
    for first in range(2, 62, 6):
        answers(client, many(client, range(first, first + 6)))
    assert client.is_closed


@pytest.mark.usefixtures("narrow")
def test_other_clients_do_not_wait() -> None:
    client, handler = bound()
    client.server.pause(client.number)
    answers(client, many(client, range(2, 9)))
    other = Peer(client.server, 2)
    other.bind()
    assert other.ask(ECHO, Octets(b"hello")) == Octets(b"hello")
    assert handler.events == []


@pytest.mark.usefixtures("narrow")
def test_the_calls_of_a_client_that_is_cut_off_are_dropped() -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler))
    client.bind()
    for number in range(600):
        client.start(WAIT, Number(number), number + 2)
    client.server.pause(client.number)
    for number in range(500):
        handler.answer(number)
    last = handler.waiting[599]
    assert not last.is_deliverable
    client.take()
    assert can_go_on(client)
    client.server.go_on(NOW)
    client.take()
    assert client.is_closed
    assert handler.events.count("gone") > 100


@pytest.mark.usefixtures("narrow")
def test_nothing_more_is_read_from_a_client_whose_requests_wait() -> None:
    client, _ = bound()
    assert client.server.take_holds() == []
    answers(client, many(client, range(2, 9)))
    assert client.server.take_holds() == [(client.number, True)]
    assert go_on(client) == [4, 5]
    assert client.server.take_holds() == []
    go_on(client)
    go_on(client)
    assert client.server.take_holds() == [(client.number, False)]


@pytest.mark.usefixtures("narrow")
def test_answers_that_wait_for_the_disk_count() -> None:
    client, _ = bound()
    client.server.received(client.number, many(client, range(2, 9)), NOW)
    held = client.server.take_output()
    assert len(held) == 2
    client.server.go_on(NOW)
    assert client.server.take_output() == []
    for number, data in held:
        assert data is not None
        client.server.sent(number, len(data))
    assert go_on(client) == [4, 5]


@pytest.mark.usefixtures("narrow")
def test_small_fragments_that_wait_are_counted_as_they_are() -> None:
    """A client that is slow and does not stop is not cut off for what it has sent in all."""
    client, _ = bound()
    client.server.pause(client.number)
    for call_id in range(2, 200):
        client.server.resume(client.number)
        go_on(client)
        client.server.pause(client.number)
        answers(client, many(client, range(call_id, call_id + 1)))
    assert not client.is_closed


@pytest.mark.usefixtures("narrow")
def test_of_all_clients_the_one_that_takes_least_is_cut_off_when_too_much_is_unsent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_RPC_UNSENT_OF_ALL", 3000)
    first, _ = bound()
    clients = [first, Peer(first.server, 2), Peer(first.server, 3)]
    for client in clients[1:]:
        client.bind()
    for client, calls in zip(clients, (range(2, 3), range(2, 4), range(2, 3)), strict=True):
        client.server.pause(client.number)
        answers(client, many(client, calls))
    assert [connection for connection, _ in first.server.cut_off] == [2]
    assert can_go_on(first)
    go_on(first)
    for client in clients:
        client.take()
    assert [client.is_closed for client in clients] == [False, True, False]
    # Its earlier state does not count any more.
    assert not can_go_on(first)
    first.server.resume(first.number)
    assert answers(first, many(first, range(20, 21))) == [20]


def test_not_more_fragments_are_looked_at_than_a_turn_has() -> None:
    client, _ = bound()
    assert client.server.received(client.number, many(client, range(2, 9)), NOW, 3) == (3, 4)
    assert answers(client) == [2, 3, 4]
    # It waits for its turn and not for its client: nobody holds it.
    assert client.server.take_holds() == []
    assert not can_go_on(client)
    assert client.server.received(client.number, b"", NOW, 3) == (3, 1)
    assert client.server.received(client.number, b"", NOW, 3) == (1, 0)
    assert answers(client) == [5, 6, 7, 8]
