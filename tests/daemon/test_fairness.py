"""Strangers that flood a daemon over real sockets, and those who are beside them."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.daemon.recording import loops, run, until
from tests.daemon.running import Running, loopback, running
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.serialization import packet_of
from waypost.daemon import seats, tcp
from waypost.guid import NULL_GUID
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.packets import Splitter, decode_packet

UVLOOP = loops()[-1]


class Stranger:
    """A queue manager that knows no window."""

    def __init__(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address = address
        self.reader = reader
        self.writer = writer
        self._guid = os.urandom(16)
        self._number = 0
        self._splitter = Splitter()

    async def shake_hands(self) -> None:
        self.writer.write(EstablishConnection.request(self._guid, NULL_GUID, 1, 0).encode())
        await self.reader.read(0x1_0000)
        self.writer.write(ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20_000).encode())
        await self.reader.read(0x1_0000)

    def flood(self, count: int, size: int = 1) -> None:
        packets = []
        for _ in range(count):
            self._number += 1
            packets.append(
                packet_of(
                    Message(
                        identifier=MessageIdentifier(self._guid, self._number),
                        delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
                        destination_queue_format_name=FormatName.parse(f"DIRECT=TCP:{self._address}\\private$\\q"),
                        sent_time=int(time.time()),
                        body=bytes(size),
                    )
                )
            )
        self.writer.write(b"".join(packets))

    async def acknowledged(self, count: int) -> None:
        """Until so many messages were acknowledged by their number."""
        async with asyncio.timeout(60):
            while data := await self.reader.read(0x1_0000):
                for packet in map(decode_packet, self._splitter.feed(data)):
                    if isinstance(packet, SessionAck) and packet.session.ack_sequence_number >= count:
                        return
        raise AssertionError("the session was closed")

    async def is_cut_off(self) -> bool:
        async with asyncio.timeout(60):
            try:
                while await self.reader.read(0x1_0000):
                    pass
            except ConnectionError:
                pass
            return True


@asynccontextmanager
async def stranger(alpha: Running, source: str) -> AsyncIterator[Stranger]:
    address, _, port = alpha.ready["transfer"].partition(":")
    reader, writer = await asyncio.open_connection(address, int(port), local_addr=(source, 0))
    try:
        yield Stranger(address, reader, writer)
    finally:
        writer.close()


def test_messages_beyond_the_window_are_all_taken_and_the_session_stays(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2)) as alpha:
            queue = await alpha.manager.create_queue("q")
            async with stranger(alpha, loopback(9)) as one, stranger(alpha, loopback(8)) as other:
                for each in (one, other):
                    await each.shake_hands()
                one.flood(2000)
                other.flood(500)
                await asyncio.gather(one.acknowledged(2000), other.acknowledged(500))
                assert (await queue.info()).message_count == 2500
                assert "session closed" not in alpha.stream.getvalue()

    run(UVLOOP, work)


def test_one_address_gets_its_share_of_the_quota_and_the_log_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        settings = ("quotas.machine_kb=200", "quotas.source_share=0.5")
        async with running(tmp_path / "alpha", loopback(2), *settings) as alpha:
            queue = await alpha.manager.create_queue("q")
            async with stranger(alpha, loopback(9)) as greedy:
                await greedy.shake_hands()
                greedy.flood(40, size=4096)
                assert await greedy.is_cut_off()
            await until(lambda: "quotas.source_share" in alpha.stream.getvalue())
            taken = (await queue.info()).message_count
            assert 0 < taken < 25
            # Others find room, and so do programs here.
            async with stranger(alpha, loopback(8)) as other:
                await other.shake_hands()
                other.flood(2, size=4096)
                await other.acknowledged(2)
            await queue.send(bytes(4096), recoverable=True)
            assert (await queue.info()).message_count == taken + 3

    run(UVLOOP, work)


def test_an_idle_stranger_gives_its_connection_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "_IDLE_SECONDS", 0.0)

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2), "transfer.max_connections=2") as alpha:
            await alpha.manager.create_queue("q")
            async with stranger(alpha, loopback(8)) as other, stranger(alpha, loopback(9)) as idle:
                # One that has said something stays, though it came first.
                await other.shake_hands()
                async with stranger(alpha, loopback(7)) as late:
                    await late.shake_hands()
                    late.flood(3)
                    await late.acknowledged(3)
                    assert await idle.is_cut_off()
                assert "a new connection replaced it" in alpha.stream.getvalue()

    run(UVLOOP, work)


def test_connections_are_reserved_for_peers_with_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Any data gives a history: a loop may show the same time twice.
    monkeypatch.setattr(tcp, "_HISTORY_SECONDS", -1.0)

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2), "transfer.max_connections=4") as alpha:
            await alpha.manager.create_queue("q")
            async with stranger(alpha, loopback(9)) as known:
                await known.shake_hands()
                known.flood(1)
                await known.acknowledged(1)
            await until(lambda: "session closed" in alpha.stream.getvalue())
            monkeypatch.setattr(tcp, "_HISTORY_SECONDS", 1000.0)
            async with AsyncExitStack() as stack:
                for _ in range(3):
                    await (await stack.enter_async_context(stranger(alpha, loopback(8)))).shake_hands()
                async with stranger(alpha, loopback(7)) as late:
                    assert await late.is_cut_off()
                async with stranger(alpha, loopback(9)) as again:
                    await again.shake_hands()
                    again.flood(1)
                    await again.acknowledged(1)

    run(UVLOOP, work)
