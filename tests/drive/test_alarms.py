"""When an event loop wakes the queue manager."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from waypost import aio
from waypost.errors import Timeout


def test_the_loop_is_asked_for_whole_milliseconds_because_uvloop_comes_early_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        start = loop.call_later

        def noted(delay: float, callback: Any, *args: Any) -> asyncio.TimerHandle:
            if callback.__qualname__ == "Loop._tick":
                delays.append(delay)
            return start(delay, callback, *args)

        async with aio.open(tmp_path, name="HOST") as manager:
            queue = await manager.create_queue("orders")
            monkeypatch.setattr(loop, "call_later", noted)
            with pytest.raises(Timeout):
                await queue.receive(timeout=0.0104)

    asyncio.run(main())
    assert delays
    assert [round(delay, 3) for delay in delays] == delays
