"""TCP connections, over real sockets with a queue manager that writes down what it is told."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.daemon.recording import Recorder, facts, loops, run, soon, until
from waypost.daemon import tcp as module
from waypost.daemon.connection_guard import ConnectionGuard
from waypost.daemon.pump import Pump
from waypost.daemon.sockets import stream_sockets
from waypost.daemon.tcp import TcpConnections, TcpSettings
from waypost.limits import MAX_KEPT_BYTES, MAX_KEPT_PIECE, MAX_TURN_BYTES, MAX_TURN_PACKETS, MAX_UNWRITTEN_BYTES
from waypost.node.effects import Close, Connect, DialReason, HoldReading, Write

pytestmark = pytest.mark.parametrize("loop", loops(), ids=["asyncio", "uvloop"])


class Peer:
    """The other end of a connection that comes in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.socket = socket.socket()
        self.socket.setblocking(False)

    async def connect(self, port: int) -> None:
        await soon(self._loop.sock_connect(self.socket, ("127.0.0.1", port)))

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    async def read(self, size: int) -> bytes:
        """As many bytes, or those until the end."""
        data = bytearray()
        while len(data) < size and (more := await soon(self._loop.sock_recv(self.socket, 0x10_0000))):
            data += more
        return bytes(data)

    async def is_cut_off(self) -> bool:
        try:
            return await self.read(1) == b""
        except ConnectionError:
            return True


@dataclass
class Disk:
    unwritten_bytes: int = 0


@dataclass
class Rig:
    recorder: Recorder
    tcp: TcpConnections
    pump: Pump
    port: int
    disk: Disk
    peers: list[Peer]

    async def peer(self) -> Peer:
        peer = Peer()
        self.peers.append(peer)
        await peer.connect(self.port)
        return peer


@asynccontextmanager
async def rig(*, per_peer: int = 9, refusals: int = 60, source: str = "", timeout: float = 5) -> AsyncIterator[Rig]:
    recorder = Recorder()
    disk = Disk()
    told = facts(recorder)
    pump = Pump(disk)
    tcp = TcpConnections(
        recorder,
        told,
        TcpSettings(source, timeout),
        guard=ConnectionGuard(99, per_peer, refusals),
        log=recorder.log,
        pump=pump,
    )
    (bound,) = stream_sockets("127.0.0.1", 0)
    server = await asyncio.get_running_loop().create_server(partial(tcp.accepting, told), sock=bound)
    try:
        here = Rig(recorder, tcp, pump, bound.getsockname()[1], disk, [])
        yield here
    finally:
        for peer in here.peers:
            peer.socket.close()
        server.close()
        tcp.abort()
        await asyncio.sleep(0.01)


def test_bytes_go_both_ways_and_the_end_of_the_other_side_is_told(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            peer = await here.peer()
            await here.recorder.hears(("accept", "127.0.0.1"))
            await peer.send(b"hello")
            await until(lambda: here.recorder.data.get(101) == bytearray(b"hello"))
            here.tcp.write(Write(101, b"wel"))
            here.tcp.write(Write(101, b"come"))
            assert await peer.read(7) == b"welcome"
            peer.socket.close()
            await here.recorder.hears(("connection_lost", 101))
            here.tcp.write(Write(101, b"too late"))
            here.tcp.close(Close(101))

    run(loop, work)


def test_a_close_sends_what_was_written_and_is_the_last_that_is_heard(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            peer = await here.peer()
            await here.recorder.hears(("accept", "127.0.0.1"))
            here.tcp.write(Write(101, b"x" * 300_000))
            here.tcp.close(Close(101))
            assert len(await peer.read(300_001)) == 300_000
            await here.tcp.drain()
            assert here.recorder.told == [("accept", "127.0.0.1")]

    run(loop, work)


def test_a_connection_that_is_not_accepted_is_closed_at_once(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            here.recorder.accepts = False
            peer = await here.peer()
            assert await peer.is_cut_off()
            assert here.recorder.told == [("accept", "127.0.0.1")]
            assert here.recorder.data == {}

    run(loop, work)


def test_one_connection_too_many_is_closed_and_the_others_stay(loop: Any) -> None:
    async def work() -> None:
        async with rig(per_peer=2) as here:
            peers = [await here.peer() for _ in range(2)]
            await until(lambda: len(here.recorder.told) == 2)
            assert await (await here.peer()).is_cut_off()
            assert len(here.recorder.told) == 2
            assert "connection refused" in here.recorder.stream.getvalue()
            for number, peer in enumerate(peers, 101):
                here.tcp.write(Write(number, b"still"))
                assert await peer.read(5) == b"still"
            peers[0].socket.close()
            await until(lambda: ("connection_lost", 101) in here.recorder.told)
            await here.peer()
            await until(lambda: here.recorder.told.count(("accept", "127.0.0.1")) == 3)

    run(loop, work)


def test_a_peer_whose_connections_are_refused_again_and_again_has_to_wait(loop: Any) -> None:
    async def work() -> None:
        async with rig(refusals=3) as here:
            for number in range(101, 104):
                peer = await here.peer()
                await until(lambda: number in here.tcp._by_number)  # noqa: B023, called at once
                here.tcp.close(Close(number))
                assert await peer.is_cut_off()
            assert await (await here.peer()).is_cut_off()
            assert here.recorder.last == 103
            assert "caused too many errors" in here.recorder.stream.getvalue()

    run(loop, work)


def test_a_connection_goes_out_from_the_address_that_was_given(loop: Any) -> None:
    async def work() -> None:
        peers: list[str] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peers.append(writer.get_extra_info("peername")[0])
            writer.write(await reader.readexactly(4))
            writer.close()

        async with rig(source="127.0.0.9") as here:
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            here.tcp.connect(Connect(7, "127.0.0.1", server.sockets[0].getsockname()[1]))
            await here.recorder.hears(("connected", 7))
            here.tcp.write(Write(7, b"ping"))
            await here.recorder.hears(("connection_lost", 7))
            assert here.recorder.data[7] == b"ping"
            assert peers == ["127.0.0.9"]
            server.close()

    run(loop, work)


def test_a_connection_that_fails_is_told_with_the_reason(loop: Any) -> None:
    async def work() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        async with rig() as here:
            failures: list[bool] = []
            here.tcp.on_failure = lambda: failures.append(True)
            here.tcp.connect(Connect(7, "127.0.0.1", port))
            await here.recorder.hears(("connect_failed", 7, "Connection refused"))
            here.tcp.connect(Connect(8, "no address", port))
            await until(lambda: here.recorder.told[-1][:2] == ("connect_failed", 8))
            assert failures == [True, True]

    run(loop, work)


def test_a_connection_that_does_not_come_about_is_given_up(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async def never(*_: object, **__: object) -> None:
            await asyncio.sleep(600)

        async with rig(timeout=0.05) as here:
            here.tcp._loop = Endless(asyncio.get_running_loop(), never)  # type: ignore[misc, assignment]
            here.tcp.connect(Connect(7, "127.0.0.1", 1))
            await here.recorder.hears(("connect_failed", 7, "no answer within 0.05 s"))
            here.tcp.connect(Connect(8, "127.0.0.1", 1))
            here.tcp.close(Close(8))
            await asyncio.sleep(0.1)
            assert [fact for fact in here.recorder.told if fact[1] == 8] == []

    run(loop, work)


def test_only_so_many_connections_are_made_at_a_time(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTING", 2)

    async def work() -> None:
        begun: list[int] = []

        async def never(*place: Any, **_: Any) -> None:
            begun.append(place[2])
            await asyncio.sleep(600)

        async with rig(timeout=600) as here:
            monkeypatch.setattr(here.tcp, "_loop", Endless(asyncio.get_running_loop(), never))
            for number in (1, 2, 3):
                here.tcp.connect(Connect(number, "127.0.0.1", number))
            await until(lambda: len(begun) == 2)
            here.tcp.close(Close(1))
            await until(lambda: begun == [1, 2, 3])
            here.tcp.abort()

    run(loop, work)


def test_hosts_that_others_name_and_that_do_not_answer_keep_no_connection_of_ours_waiting(
    loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("MAX_CONNECTING", 5), ("MAX_CONNECTING_OWED", 2), ("MAX_CONNECTING_NAMED", 2)):
        monkeypatch.setattr(module, name, most)

    async def work() -> None:
        begun: list[int] = []

        async def never(*place: Any, **_: Any) -> None:
            begun.append(place[2])
            await asyncio.sleep(600)

        async with rig(timeout=600) as here:
            monkeypatch.setattr(here.tcp, "_loop", Endless(asyncio.get_running_loop(), never))
            for number in range(1, 11):
                here.tcp.connect(Connect(number, "127.0.0.1", number, DialReason.NAMED))
            for number in range(11, 21):
                here.tcp.connect(Connect(number, "127.0.0.1", number, DialReason.OWED))
            here.tcp.connect(Connect(21, "127.0.0.1", 21))
            await until(lambda: begun == [1, 2, 11, 12, 21])
            here.tcp.close(Close(1))
            await until(lambda: begun == [1, 2, 11, 12, 21, 3])
            here.tcp.abort()

    run(loop, work)


class Endless:
    """A loop with connections that never end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, create_connection: Callable[..., Any]) -> None:
        self.create_connection = create_connection
        self.create_task = loop.create_task
        self.call_exception_handler = loop.call_exception_handler


def test_a_peer_that_reads_slowly_is_waited_for(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            peer = await here.peer()
            await here.recorder.hears(("accept", "127.0.0.1"))
            sent = 0
            while ("writing_paused", 101) not in here.recorder.told:
                here.tcp.write(Write(101, b"x" * 0x10_0000))
                sent += 0x10_0000
                await asyncio.sleep(0)
                assert sent < 0x1000_0000
            assert ("writing_resumed", 101) not in here.recorder.told
            assert len(await peer.read(sent)) == sent
            await here.recorder.hears(("writing_resumed", 101))

    run(loop, work)


def test_a_peer_that_takes_nothing_is_cut_off(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STALL_SECONDS", 0.05)

    async def work() -> None:
        async with rig() as here:
            with socket.create_connection(("127.0.0.1", here.port)):
                await here.recorder.hears(("accept", "127.0.0.1"))
                here.tcp.write(Write(101, b"x" * 0x200_0000))
                await here.recorder.hears(("writing_paused", 101))
                await here.recorder.hears(("connection_lost", 101))
                assert "connection stalled" in here.recorder.stream.getvalue()

    run(loop, work)


def test_a_closed_connection_does_not_wait_long_for_a_peer_that_takes_nothing(
    loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LINGER_SECONDS", 0.05)

    async def work() -> None:
        async with rig(per_peer=1) as here:
            with socket.create_connection(("127.0.0.1", here.port)):
                await here.recorder.hears(("accept", "127.0.0.1"))
                here.tcp.write(Write(101, b"x" * 0x200_0000))
                here.tcp.close(Close(101))
                await until(lambda: not here.tcp._all)

    run(loop, work)


def test_while_much_waits_for_the_disk_nothing_more_is_read(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            peer = await here.peer()
            await here.recorder.hears(("accept", "127.0.0.1"))
            here.disk.unwritten_bytes = MAX_UNWRITTEN_BYTES + 1
            total = 0x200_0000
            sending = asyncio.create_task(peer.send(b"x" * total))
            await until(lambda: 101 in here.recorder.paused)
            assert 101 not in here.recorder.data
            here.disk.unwritten_bytes = 0
            here.pump.written()
            await soon(sending)
            await until(lambda: len(here.recorder.data[101]) == total)

    run(loop, work)


def test_packets_do_not_wait_for_more(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            await here.peer()
            await here.recorder.hears(("accept", "127.0.0.1"))
            transport = here.tcp._by_number[101]._transport
            with socket.fromfd(transport.get_extra_info("socket").fileno(), socket.AF_INET, socket.SOCK_STREAM) as own:
                assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0

    run(loop, work)


def test_connections_take_turns_and_nobody_gets_a_second_one_first(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            here.disk.unwritten_bytes = MAX_UNWRITTEN_BYTES + 1
            flood = [await here.peer() for _ in range(3)]
            for peer in flood:
                await peer.send(b"x" * 1000)
            honest = await here.peer()
            await honest.send(b"one more")
            await until(lambda: len(here.recorder.paused) == 4)
            assert here.recorder.turns == []
            here.disk.unwritten_bytes = 0
            here.pump.written()
            await until(lambda: here.recorder.data.get(104) == bytearray(b"one more"))
            before = here.recorder.turns[: here.recorder.turns.index((104, 8))]
            # One budget of each of the others.
            assert sorted(before) == [(101, 64), (102, 64), (103, 64)]
            await until(lambda: sum(map(len, here.recorder.data.values())) == 3008)
            assert here.pump.kept == 0
            await until(lambda: not here.recorder.paused)

    run(loop, work)


def test_a_connection_that_waits_alone_has_the_whole_turn(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            peer = await here.peer()
            await peer.send(b"x" * 1000)
            await until(lambda: here.recorder.turns == [(101, 1000)])

    run(loop, work)


def test_what_is_held_has_no_turn_until_it_may_go_on(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            held, other = await here.peer(), await here.peer()
            await until(lambda: here.recorder.last == 102)
            here.recorder.held.add(101)
            await held.send(b"x" * 10)
            await until(lambda: (101, 0) in here.recorder.turns)
            here.tcp.hold(HoldReading(101, is_held=True))
            await held.send(b"y" * 10)
            await other.send(b"z" * 10)
            await until(lambda: here.recorder.data.get(102) == bytearray(b"z" * 10))
            assert [turn for turn in here.recorder.turns if turn[0] == 101] == [(101, 0)]
            here.recorder.held.clear()
            here.tcp.hold(HoldReading(101, is_held=False))
            await until(lambda: here.recorder.data.get(101) == bytearray(b"x" * 10 + b"y" * 10))

    run(loop, work)


def test_what_came_before_the_end_is_told_before_the_end(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            peer = await here.peer()
            await here.recorder.hears(("accept", "127.0.0.1"))
            here.disk.unwritten_bytes = MAX_UNWRITTEN_BYTES + 1
            await peer.send(b"x" * 100)
            await until(lambda: 101 in here.recorder.paused)
            here.tcp._by_number[101]._transport.abort()
            await until(lambda: not here.tcp._all)
            assert ("connection_lost", 101) not in here.recorder.told
            here.disk.unwritten_bytes = 0
            here.pump.written()
            await here.recorder.hears(("connection_lost", 101))
            assert here.recorder.data[101] == b"x" * 100

    run(loop, work)


def test_calls_of_a_client_whose_connection_broke_are_not_worked_on(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            here.recorder.needs_answers = True
            peer = await here.peer()
            await here.recorder.hears(("accept", "127.0.0.1"))
            here.disk.unwritten_bytes = MAX_UNWRITTEN_BYTES + 1
            await peer.send(b"x" * 100)
            await until(lambda: 101 in here.recorder.paused)
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.socket.close()

            def is_lost() -> bool:
                # Nothing is read, so that only an answer finds out.
                here.tcp.write(Write(101, b"an answer"))
                return ("connection_lost", 101) in here.recorder.told

            await until(is_lost)
            assert (here.recorder.data, here.pump.kept) == ({}, 0)

    run(loop, work)


def test_a_packet_that_costs_more_takes_more_of_a_turn(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            here.recorder.packet_cost = 4
            peers = [await here.peer() for _ in range(2)]
            await until(lambda: here.recorder.last == 102)
            here.disk.unwritten_bytes = MAX_UNWRITTEN_BYTES + 1
            for peer in peers:
                await peer.send(b"x" * MAX_TURN_PACKETS)
            await until(lambda: here.recorder.paused == {101, 102})
            here.disk.unwritten_bytes = 0
            here.pump.written()
            await until(lambda: here.recorder.data == {101: b"x" * MAX_TURN_PACKETS, 102: b"x" * MAX_TURN_PACKETS})
            assert here.recorder.turns[0] == (101, MAX_TURN_PACKETS // 4)

    run(loop, work)


def test_little_is_read_at_a_time_while_much_waits(loop: Any) -> None:
    async def work() -> None:
        async with rig() as here:
            await here.peer()
            await here.recorder.hears(("accept", "127.0.0.1"))
            connection = here.tcp._by_number[101]
            assert len(connection.get_buffer(-1)) == MAX_TURN_BYTES
            here.pump.kept = MAX_KEPT_BYTES
            assert len(connection.get_buffer(-1)) == MAX_KEPT_PIECE
            here.pump.kept = 0

    run(loop, work)
