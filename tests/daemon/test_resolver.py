"""Resolver, addresses, pings and the sockets to listen on."""

import asyncio
import socket
from typing import Any

import pytest

from tests.daemon.recording import Recorder, facts, loops, run, until
from waypost.buckets import Bucket, Rate
from waypost.daemon import resolver as module
from waypost.daemon import udp
from waypost.daemon.addresses import own_addresses
from waypost.daemon.resolver import Resolver
from waypost.daemon.sockets import CannotListen, allow_files, datagram_sockets, endpoint, listen, stream_sockets
from waypost.daemon.udp import Pings
from waypost.node.effects import Resolve, SendDatagram

each_loop = pytest.mark.parametrize("loop", loops(), ids=["asyncio", "uvloop"])


@each_loop
def test_a_name_leads_to_addresses(loop: Any) -> None:
    async def work() -> None:
        recorder = Recorder()
        resolver = Resolver(recorder, facts(recorder), "127.0.0.2", recorder.log)
        resolver.resolve(Resolve(5, "localhost"))
        await until(lambda: recorder.told)
        ((_, request, addresses),) = recorder.told
        assert request == 5
        assert addresses[0] == "127.0.0.1"
        assert len(addresses) == len(set(addresses))

    run(loop, work)


@each_loop
@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 70, "a\0b", "", "..", "\ud800", "*"])
def test_what_is_no_name_of_a_host_leads_nowhere(loop: Any, host: str) -> None:
    async def work() -> None:
        recorder = Recorder()
        resolver = Resolver(recorder, facts(recorder), "", recorder.log)
        resolver.resolve(Resolve(5, host))
        await until(lambda: recorder.told)
        ((_, request, addresses),) = recorder.told
        assert request == 5
        assert addresses == () or host == ""

    run(loop, work)


def test_a_resolver_without_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RESOLVE_SECONDS", 0.01)

    async def work() -> None:
        loop = asyncio.get_running_loop()

        async def never(*_: object, **__: object) -> None:
            await asyncio.sleep(60)

        monkeypatch.setattr(loop, "getaddrinfo", never)
        recorder = Recorder()
        Resolver(recorder, facts(recorder), "", recorder.log).resolve(Resolve(5, "slow"))
        await until(lambda: recorder.told == [("resolved", 5, ())])

    run(asyncio.new_event_loop, work)


def test_the_addresses_of_the_computer_are_known() -> None:
    assert "127.0.0.1" in own_addresses()


def test_other_addresses_are_told_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.01)
    answers = [frozenset({"10.0.0.1"}), frozenset[str](), frozenset({"10.0.0.2"})]
    monkeypatch.setattr(module, "own_addresses", lambda: answers.pop(0) if len(answers) > 1 else answers[0])

    async def work() -> None:
        recorder = Recorder()
        resolver = Resolver(recorder, facts(recorder), "", recorder.log)
        resolver.start(frozenset({"10.0.0.1"}))
        await asyncio.sleep(0.05)
        assert len(answers) == 3
        while not recorder.told:
            resolver.doubt()
            await asyncio.sleep(0.005)
        resolver.close()
        assert recorder.told == [("addresses_changed", frozenset({"10.0.0.2"}))]

    run(asyncio.new_event_loop, work)


def test_a_queue_manager_on_one_address_has_no_others() -> None:
    async def work() -> None:
        recorder = Recorder()
        resolver = Resolver(recorder, facts(recorder), "127.0.0.2", recorder.log)
        resolver.start(frozenset({"127.0.0.2"}))
        assert not resolver._tasks

    run(asyncio.new_event_loop, work)


@each_loop
def test_pings_go_out_from_a_port_of_their_own_and_answers_from_the_ping_port(loop: Any) -> None:
    async def work() -> None:
        recorder = Recorder()
        pings = Pings(recorder, facts(recorder))
        (listening,) = datagram_sockets("127.0.0.1", 0)
        (asking,) = datagram_sockets("127.0.0.1", 0)
        port, own = listening.getsockname()[1], asking.getsockname()[1]
        await pings.start([listening], [asking])
        pings.send(SendDatagram(b"request", "127.0.0.1", port, is_request=True))
        await recorder.hears(("datagram_received", b"request", "127.0.0.1", own))
        pings.send(SendDatagram(b"response", "127.0.0.1", own, is_request=False))
        await recorder.hears(("ping_answered", b"response"))
        pings.send(SendDatagram(b"lost", "::1", own, is_request=False))
        pings.send(SendDatagram(b"lost", "nonsense", own, is_request=False))
        pings.close()
        await asyncio.sleep(0.01)

    run(loop, work)


def test_a_flood_of_pings_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        recorder = Recorder()
        pings = Pings(recorder, facts(recorder))
        monkeypatch.setattr(pings, "allowance", Bucket(Rate(0.001, 3), pings.loop.time()))
        protocol = udp._Requests(pings)
        for _ in range(10):
            protocol.datagram_received(b"flood", ("127.0.0.1", 9))
        assert len(recorder.told) == 3

    run(asyncio.new_event_loop, work)


def test_all_addresses_have_the_same_free_port() -> None:
    bound = stream_sockets("", 0)
    assert len({each.getsockname()[1] for each in bound}) == 1
    assert endpoint(bound[0]).startswith("0.0.0.0:")
    for each in bound:
        each.close()


def test_an_endpoint_of_ipv6_has_brackets() -> None:
    if not socket.has_ipv6 or "::1" not in own_addresses():
        pytest.skip("no IPv6 here")
    (bound,) = stream_sockets("::1", 0)
    assert endpoint(bound) == f"[::1]:{bound.getsockname()[1]}"
    bound.close()


def test_a_port_that_is_taken_is_said_so() -> None:
    (bound,) = stream_sockets("127.0.0.1", 0)
    (other,) = stream_sockets("127.0.0.1", bound.getsockname()[1])
    listen([bound])
    with pytest.raises(CannotListen, match="is taken by another program"):
        stream_sockets("127.0.0.1", bound.getsockname()[1])
    with pytest.raises(CannotListen, match="is taken by another program"):
        listen([other])
    for each in (bound, other):
        each.close()


@pytest.mark.parametrize(("address", "sentence"), [("192.0.2.77", "no address of this"), ("x", "cannot be used")])
def test_an_address_of_another_computer_cannot_be_used(address: str, sentence: str) -> None:
    with pytest.raises(CannotListen, match=sentence):
        stream_sockets(address, 0)


@pytest.mark.parametrize(
    ("limits", "wanted", "others", "connections", "asked"),
    [
        ((512, 4096), 100, 50, 100, 512),
        ((256, 4096), 400, 50, 400, 642),
        ((512, 512), 400, 50, 270, 512),
        ((256, 256), 400, 500, 128, 256),
        ((256, 256), 100, 500, 100, 256),
    ],
)
def test_there_are_never_more_connections_than_files(
    limits: tuple[int, int], wanted: int, others: int, connections: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [limits]
    monkeypatch.setattr("resource.getrlimit", lambda _: now[0])
    monkeypatch.setattr("resource.setrlimit", lambda _, wanted: now.__setitem__(0, wanted))
    assert allow_files(wanted, others) == connections
    assert now[0] == (asked, limits[1])
