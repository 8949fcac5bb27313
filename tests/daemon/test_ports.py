"""The ports of sessions and pings, with whole daemons and real sockets: MS-MQQB 1.9 and 2.1."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.client.managers import driver_of
from tests.daemon.recording import loops, run, soon, until
from tests.daemon.running import loopback, running
from waypost.guid import NULL_GUID
from waypost.wire.internal_packets import ESTABLISH_SIZE, SE, EstablishConnection
from waypost.wire.ping import RC, RF, Ping

UVLOOP = loops()[-1]
GUID = bytes(range(16))


class Datagrams(asyncio.DatagramProtocol):
    """Datagrams at a socket: (data, (address, port))."""

    def __init__(self) -> None:
        self.got: list[tuple[bytes, tuple[str, int]]] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.got.append((data, addr))


async def datagrams(address: str, port: int = 0) -> Datagrams:
    _, protocol = await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, local_addr=(address, port))
    return protocol


def orders_at(address: str) -> str:
    return rf"DIRECT=TCP:{address}\private$\orders"


@pytest.mark.spec("MQQB-1.9-01", "MQQB-2.1.1-02", "MQQB-2.1.1-03")
def test_a_session_is_opened_from_any_port_to_port_1801(tmp_path: Path) -> None:
    async def work() -> None:
        here, there = loopback(2), loopback(3)
        callers: list[tuple[str, int]] = []
        first: list[bytes] = []

        async def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            callers.append(writer.get_extra_info("peername"))
            first.append(await reader.readexactly(ESTABLISH_SIZE))
            writer.close()

        server = await asyncio.start_server(called, there, 0x0709)
        async with running(tmp_path / "alpha", here) as alpha:
            await alpha.manager.send(orders_at(there), b"m")
            await until(lambda: len(first) >= 2)
            assert EstablishConnection.decode(first[0]).client_guid != NULL_GUID
            assert {address for address, _ in callers} == {here}
            assert len({port for _, port in callers[:2]}) == 2
            # The other way round.
            for source in (0, 20000 + int(here.split(".")[2])):
                reader, writer = await asyncio.open_connection(here, 1801, local_addr=(there, source))
                writer.write(EstablishConnection.request(GUID, NULL_GUID, 0, SE).encode())
                answer = EstablishConnection.decode(await soon(reader.readexactly(ESTABLISH_SIZE)))
                assert not answer.internal.is_refused
                writer.close()
        server.close()

    run(UVLOOP, work)


@pytest.mark.spec("MQQB-2.1.2-02")
@pytest.mark.parametrize(("settings", "port"), [((), 3527), (("transfer.peer_ping_port=13527",), 13527)])
def test_a_ping_goes_to_its_port_and_the_answer_comes_to_where_it_was_sent_from(
    tmp_path: Path, settings: tuple[str, ...], port: int
) -> None:
    async def work() -> None:
        here, there = loopback(2), loopback(3)
        asked = await datagrams(there, port)
        connections: list[object] = []

        def called(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(writer)
            writer.close()

        server = await asyncio.start_server(called, there, 1801)
        async with running(tmp_path / "alpha", here, "transfer.ping=true", *settings) as alpha:
            await alpha.manager.send(orders_at(there), b"m")
            await until(lambda: asked.got)
            (data, (address, source)) = asked.got[0]
            ping = Ping.decode(data)
            assert (address, ping.flags & RC) == (here, 0)
            assert source not in (1801, 3527)
            assert not connections
            # An answer to the port that pings of others come to is none.
            asked.transport.sendto(ping.accepted(GUID).encode(), (here, 3527))
            await until(lambda: len(asked.got) > 1)
            assert not connections
            asked.transport.sendto(ping.accepted(GUID).encode(), (here, source))
            await until(lambda: connections)
        asked.transport.close()
        server.close()

    run(UVLOOP, work)


@pytest.mark.spec("MQQB-2.1.2-03", "MQQB-2.1.2-04")
@pytest.mark.parametrize(("settings", "port"), [((), 3527), (("transfer.ping_port=13527",), 13527)])
def test_the_answer_to_a_ping_goes_to_exactly_where_it_came_from(
    tmp_path: Path, settings: tuple[str, ...], port: int
) -> None:
    async def work() -> None:
        here, there = loopback(2), loopback(3)
        one, two = await datagrams(there), await datagrams(there)
        async with running(tmp_path / "alpha", here, "transfer.ping=true", *settings):
            one.transport.sendto(Ping(flags=0, cookie=5, qm_guid=GUID).encode(), (here, port))
            await until(lambda: one.got)
            await asyncio.sleep(0.05)
            assert two.got == []
            ((data, source),) = one.got
            answer = Ping.decode(data)
            assert (answer.cookie, answer.flags & RF, source) == (5, 0, (here, port))
        one.transport.close()
        two.transport.close()

    run(UVLOOP, work)


@pytest.mark.spec("MQQB-2.1.2-03")
def test_without_the_ping_service_nothing_answers_and_sessions_work(tmp_path: Path) -> None:
    async def work() -> None:
        here, there = loopback(2), loopback(3)
        async with running(tmp_path / "alpha", here) as alpha, running(tmp_path / "beta", there) as beta:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.settimeout(0.2)
                asking.connect((there, 3527))
                asking.send(Ping(flags=0, cookie=5, qm_guid=GUID).encode())
                with pytest.raises(OSError, match=r"timed out|refused"):
                    asking.recv(100)
            orders = await beta.manager.create_queue("orders")
            await alpha.manager.send(orders_at(there), b"m")
            assert (await soon(orders.receive(timeout=60))).body == b"m"

    run(UVLOOP, work)


def test_two_daemons_that_ping_exchange_messages_and_fall_silent(tmp_path: Path) -> None:
    async def work() -> None:
        here, there = loopback(2), loopback(3)
        async with (
            running(tmp_path / "alpha", here, "transfer.ping=true") as alpha,
            running(tmp_path / "beta", there, "transfer.ping=true") as beta,
        ):
            orders = await beta.manager.create_queue("orders")
            await alpha.manager.send(orders_at(there), b"m")
            assert (await soon(orders.receive(timeout=60))).body == b"m"
            await asyncio.sleep(0.1)
            network = driver_of(beta.manager).node.network
            assert network is not None
            assert network.statistics.pings_received == 1

    run(UVLOOP, work)
