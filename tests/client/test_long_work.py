"""Work in parts beside others: one part between two turns of the loop, whatever the others ask for."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import waypost
from tests.client.managers import opened
from waypost import aio
from waypost.core import queue_manager
from waypost.core.position_events import PositionEvents
from waypost.core.writing import Writing
from waypost.node import purging

PART = 5
MANY = 20 * PART
SECONDS = 60


class Parts:
    """Counts the calls of a method that does one part, in each turn of the loop."""

    def __init__(self, patches: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.since = self.most = self.all = 0
        original = getattr(owner, name)

        def counted(*args: Any) -> Any:
            self.since += 1
            self.all += 1
            self.most = max(self.most, self.since)
            return original(*args)

        patches.setattr(owner, name, counted)

    def watch(self) -> None:
        """From now on, with every turn of the loop."""
        self.since = 0
        asyncio.get_running_loop().call_soon(self.watch)


def test_a_purge_does_one_part_between_two_turns_however_much_others_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "PURGE_PART", PART)
    parts = Parts(monkeypatch, Writing, "continue_purge")

    async def main() -> None:
        async with aio.open(tmp_path, name="HOST") as manager:
            orders, other = await manager.create_queue("orders"), await manager.create_queue("other")
            await orders.send_many([b"x"] * MANY)
            await other.send("a")
            parts.watch()
            purge = asyncio.ensure_future(orders.purge())
            async with asyncio.timeout(SECONDS):
                while not purge.done():
                    for _ in range(10):
                        await orders.info()
                    await manager.queues()
                    await asyncio.gather(*(other.peek(0) for _ in range(10)))
            assert (await orders.info()).message_count == 0

    asyncio.run(main())
    assert parts.all >= MANY // PART
    assert parts.most == 1


def test_expired_messages_go_one_part_between_two_turns_and_nobody_gets_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_manager, "EXPIRY_PART", PART)
    parts = Parts(monkeypatch, PositionEvents, "take_late")

    async def main() -> None:
        async with aio.open(tmp_path, name="HOST") as manager:
            orders, other = await manager.create_queue("orders"), await manager.create_queue("other")
            await other.send("a")
            await orders.send_many([b"x"] * MANY, time_to_be_received=1, dead_letter=True)
            dead = manager.queue("system$;deadletter")
            parts.watch()
            async with asyncio.timeout(SECONDS):
                # Until the first part of them is taken away.
                while (await orders.info()).message_count == MANY:
                    await asyncio.sleep(0)
                while (await orders.info()).message_count:
                    for _ in range(10):
                        await orders.info()
                    read = [*(orders.receive(0) for _ in range(5)), *(other.peek(0) for _ in range(5))]
                    for found in (await asyncio.gather(*read, return_exceptions=True))[:5]:
                        assert isinstance(found, waypost.errors.Timeout)
            assert (await dead.info()).message_count == MANY

    asyncio.run(main())
    # The tick that finds them may be somebody's who looks, and the next one comes in the same turn.
    assert parts.most <= 2


MOVER = """
import sys, waypost
with waypost.open(sys.argv[1], name="HOST") as manager:
    orders = manager.queue("orders")
    orders.move_all("orders;retry", progress=lambda count: print(count, flush=True))
    print("all", flush=True)
    sys.stdin.read()
"""


def test_a_move_that_is_killed_leaves_each_message_in_one_place(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        orders = manager.create_queue("orders")
        everything = sorted(message.id for message in orders.send_many([b"x"] * 5000))
    with subprocess.Popen(
        [sys.executable, "-c", MOVER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as mover:  # fmt: skip
        assert mover.stdout is not None
        assert int(mover.stdout.readline()) > 0
        mover.send_signal(signal.SIGKILL)
    with opened(tmp_path) as manager:
        left = [message.id for message in manager.queue("orders").browse()]
        moved = [message.id for message in manager.queue("orders;retry").browse()]
        assert moved
        assert sorted(left + moved) == everything
        assert manager.queue("orders").move_all("orders;retry") == len(left)
        assert sorted(message.id for message in manager.queue("orders;retry").browse()) == everything
        assert manager.queue("orders;retry").move_all(manager.queue("orders")) == len(everything)
