"""A cancelled or interrupted operation leaves nothing open, and can be finished."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import waypost
from tests.client.managers import driver_of, handles_of, opened
from waypost import aio
from waypost.drive.driver import Driver
from waypost.drive.threads import Threads
from waypost.store.lmdb import LmdbStore


def interrupt(*_: object) -> Any:
    raise KeyboardInterrupt


def things_open(manager: Any) -> tuple[int, int]:
    """The numbers of handles and cursors of the queue manager."""
    handles = handles_of(driver_of(manager))
    return len(handles), sum(len(each.cursors) for each in handles)


Use = Callable[[aio.Queue], Awaitable[object]]

USES: dict[str, Use] = {
    "receive": lambda queue: queue.receive(),
    "cursor": lambda queue: queue.cursor().peek(),
    "move": lambda queue: queue.move(1, "orders;retry"),
}


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_cancelled_open_leaves_nothing_open(tmp_path: Path, use: Use, turns: int) -> None:
    async def main() -> None:
        async with aio.open(tmp_path) as manager:
            orders = await manager.create_queue("orders")
            reader = manager.queue("orders", exclusive=True)
            await orders.send("x")
            # While something is to be written, answers wait for the end of the turn.
            sending = asyncio.create_task(orders.send("y"))
            using = asyncio.ensure_future(use(reader))
            for _ in range(turns):
                await asyncio.sleep(0)
            using.cancel()
            await asyncio.gather(using, sending, return_exceptions=True)
            await reader.close()
            await orders.close()
            async with asyncio.timeout(60):
                while things_open(manager) != (0, 0):
                    await asyncio.sleep(0.001)

    asyncio.run(main())


def test_what_an_interrupted_send_has_opened_is_closed_with_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To send to another computer makes an outgoing queue, which is opened in the same step."""
    with opened(tmp_path) as manager:
        with monkeypatch.context() as patch:
            patch.setattr(Threads, "_serve", interrupt)
            with pytest.raises(KeyboardInterrupt):
                manager.send(r"other\private$\orders", "x")
        assert things_open(manager) == (1, 0)
        manager.queue(r"other\private$\orders").close()
        assert things_open(manager) == (0, 0)
        assert manager.outgoing_queues()


@pytest.mark.parametrize(("owner", "step"), [(Driver, "stop"), (Driver, "close_store"), (LmdbStore, "_serve")])
def test_an_interrupted_close_can_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, step: str
) -> None:
    manager = opened(tmp_path)
    manager.create_queue("orders").send("kept")
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            manager.close()
    manager.close()
    manager.close()
    with opened(tmp_path) as manager:
        assert manager.queue("orders").receive(0).text == "kept"


@pytest.mark.parametrize(("owner", "step"), [(Driver, "stop"), (Driver, "close_store"), (LmdbStore, "_serve")])
def test_an_interrupted_close_in_a_loop_can_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, step: str
) -> None:
    class Interrupted(BaseException):
        """A loop ends with KeyboardInterrupt."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    async def main() -> None:
        manager = await aio.open(tmp_path)
        await (await manager.create_queue("orders")).send("kept")
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, interrupt)
            with pytest.raises(Interrupted):
                await manager.close()
        await manager.close()
        await manager.close()

    asyncio.run(main())
    with waypost.open(tmp_path) as manager:
        assert manager.queue("orders").receive(0).text == "kept"
