"""ConnectionHistory of an outgoing queue, as a program reads it in `Queue.info()`: MS-MQDMPR 3.1.1.3."""

import pytest

from tests.node.hosts import START, Host, Net, Peer
from waypost.node.queue_info import queue_info
from waypost.transfer.settings import TransferSettings
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import EstablishConnection
from waypost.wire.management import ConnectionStatus

P = r"DIRECT=OS:peer\private$\q"
NOWHERE = r"DIRECT=OS:nowhere\private$\q"
PRIVATE = r"PRIVATE=11111111-2222-3333-4444-555555555555\00000009"
PEER = "IP=127.0.0.2"
NO_ERROR = "0x00000000"
UNAVAILABLE = "0xc00e0069"

# status, seconds since 1970, error, addresses
Told = tuple[str, int, str, tuple[str, ...]]


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def peer(net: Net) -> Peer:
    return net.add_peer()


def history(host: Host, name: str) -> list[Told]:
    info = queue_info(host.outgoing(name), FormatName.parse(name), host.guid)
    assert info.connections is not None
    return [(event.status, int(event.time.timestamp()), event.error, event.addresses) for event in info.connections]


def now(net: Net) -> int:
    return int(net.now.wall)


@pytest.mark.spec("MQDMPR-3.1.1.3-06", "MQDMPR-3.1.1.3-07")
def test_the_steps_of_a_connection_that_succeeds_have_no_error(net: Net, peer: Peer) -> None:
    net.advance(7)
    host = net.add("host")
    host.send(P, "m")
    assert now(net) == int(START.wall) + 7
    assert history(host, P) == [
        ("in_progress", now(net), NO_ERROR, (PEER,)),
        ("establish_packet_received", now(net), NO_ERROR, (PEER,)),
        ("ready", now(net), NO_ERROR, (PEER,)),
    ]


@pytest.mark.spec("MQDMPR-3.1.1.3-06", "MQDMPR-3.1.1.3-07")
def test_a_failure_says_when_why_and_what_was_tried(net: Net, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    host = net.add("host")
    host.send(NOWHERE, "m")
    assert history(host, NOWHERE) == [("dns_failure", now(net), "0xc00e004b", ())]
    host.send(PRIVATE, "m")
    assert history(host, PRIVATE) == [("no_routing_data", now(net), "0xc00e0013", ())]
    net.part(host, peer)
    host.send(P, "m")
    assert history(host, P)[-1] == ("connect_socket_failure", now(net), UNAVAILABLE, (PEER,))
    net.join()
    monkeypatch.setattr(peer, "data_received", lambda *_: None)
    net.advance(6)
    net.advance(61)
    assert ("not_ready_failure", "0xc00e0001", (PEER,)) in [
        (status, error, addresses) for status, _, error, addresses in history(host, P)
    ]


@pytest.mark.spec("MQDMPR-3.1.1.3-06", "MQDMPR-3.1.1.3-07")
def test_a_refusal_and_a_ping_without_an_answer_are_told_apart(net: Net, peer: Peer) -> None:
    full = net.add("full", TransferSettings(max_sessions=1))
    full.create("q")
    name = r"DIRECT=OS:full\private$\q"
    net.add("first").send(name, "m")
    second = net.add("second")
    second.send(name, "m")
    assert net.packets(EstablishConnection, "full", "second")[-1].internal.is_refused
    assert history(second, name)[-1] == ("connection_refused", now(net), UNAVAILABLE, (f"IP={full.address}",))
    pinging = net.add("pinging", TransferSettings(ping=True))
    pinging.send(P, "m")
    net.advance(2)
    assert history(pinging, P)[-1][::2] == ("ping_failure", UNAVAILABLE)


def test_every_status_has_the_number_of_the_text() -> None:
    """MS-MQMQ 2.3.12.25, in its order."""
    assert [int(status) for status in ConnectionStatus] == [0, 1, 2, *range(0x8000_0000, 0x8000_000E)]
