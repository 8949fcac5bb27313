"""Facts of the network come into the engine, and effects go out."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from waypost.client.aio_manager import Manager
from waypost.client.transports.embedded import AioEmbedded
from waypost.clock import Now
from waypost.drive.loop import Loop
from waypost.drive.settings import settings
from waypost.errors import OperationCancelled, ServiceNotAvailable, WaypostError
from waypost.node.effects import Effect, Notice


class Outside:
    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.breaks: list[WaypostError] = []

    def carry_out(self, effect: Effect) -> None:
        self.effects.append(effect)

    def broken(self, error: WaypostError) -> None:
        self.breaks.append(error)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def opened(path: Path, outside: Outside) -> Loop:
    return Loop(path / "data", settings("HOST", None), max_size=None, outside=outside)


def test_what_the_facts_of_one_turn_lead_to_is_carried_out_together(tmp_path: Path) -> None:
    async def work() -> None:
        outside = Outside()
        shell = opened(tmp_path, outside)
        node = shell.driver.node
        outside.effects.clear()

        def fact(now: Now) -> int:
            with node.kernel.operation(now):
                node.kernel.emit(Notice("first", {}))
            return 7

        assert shell.tell(fact) == 7
        assert shell.tell(fact) == 7
        assert outside.effects == []
        await asyncio.sleep(0)
        assert outside.effects == [Notice("first", {})] * 2
        await shell.close()

    run(work())


def test_a_fact_that_fails_breaks_the_engine_and_says_so_once(tmp_path: Path) -> None:
    async def work() -> None:
        outside = Outside()
        shell = opened(tmp_path, outside)

        def fact(_: Now) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            shell.tell(fact)
        assert [type(error) for error in outside.breaks] == [ServiceNotAvailable]
        assert shell.tell(lambda _: 7) is None
        with pytest.raises(ServiceNotAvailable):
            shell.look(lambda: None)
        await shell.close()

    run(work())


def test_batches_on_their_way_to_disk_are_counted_and_timed(tmp_path: Path) -> None:
    async def work() -> None:
        shell = opened(tmp_path, Outside())
        times: list[float] = []
        shell.driver.on_durable = times.append
        manager = Manager(AioEmbedded(shell, tmp_path))
        orders = await manager.create_queue("orders")
        sending = asyncio.create_task(orders.send(b"x" * 100_000))
        while shell.driver.unwritten_bytes < 100_000:
            await asyncio.sleep(0)
        await sending
        assert shell.driver.unwritten_bytes == shell.driver.unwritten == 0
        assert len(times) >= 2
        assert all(0 <= seconds < 5 for seconds in times)
        await manager.close()

    run(work())


def test_reads_that_wait_can_be_ended_while_the_rest_goes_on(tmp_path: Path) -> None:
    async def work() -> None:
        shell = opened(tmp_path, Outside())
        manager = Manager(AioEmbedded(shell, tmp_path))
        orders = await manager.create_queue("orders")
        waiting = asyncio.create_task(orders.receive())
        await asyncio.sleep(0.01)
        shell.driver.end_reads()
        with pytest.raises(OperationCancelled):
            await waiting
        await orders.send("42 bolts")
        assert (await orders.receive()).text == "42 bolts"
        await manager.close()
        shell.driver.end_reads()

    run(work())
