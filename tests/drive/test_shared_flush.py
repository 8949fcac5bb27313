"""Changes that nobody waits for share the flush of what comes next, in an event loop."""

import asyncio
from pathlib import Path

from waypost import aio
from waypost.client.aio_opening import shell_of
from waypost.clock import Now
from waypost.core.queues import Queue
from waypost.wire.message_class import MessageClass


class Host:
    """A manager with two messages in a queue, and ways to look at its store."""

    def __init__(self, manager: aio.Manager) -> None:
        self.manager = manager
        self.shell = shell_of(manager)
        self.node = self.shell.driver.node

    async def fill(self) -> None:
        await (await self.manager.create_queue("orders")).send_many([b"1", b"2"])
        # The speed of the disk is known from here on.
        self.shell.driver._store._flush_seconds = 0.0

    @property
    def queue(self) -> Queue:
        return next(queue for queue in self.node.manager.queues.values() if len(queue.positions))

    @property
    def flushes(self) -> int:
        return int(self.shell.driver._store._env.info()["last_txnid"])

    def delete_first(self) -> None:
        """As transfer does, when somebody else has acknowledged a message."""

        def fact(now: Now) -> None:
            with self.node.kernel.operation(now):
                first = self.queue.positions.first_available(1)[0]
                self.node.manager.positions.deleted(self.queue, first, MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE)

        self.shell.tell(fact)


def test_what_nobody_waits_for_goes_with_the_next_batch(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open(tmp_path, name="HOST") as manager:
            host = Host(manager)
            await host.fill()
            before = host.flushes
            host.delete_first()
            await asyncio.sleep(0)
            assert host.flushes == before
            await manager.send("orders", "3")
            assert host.flushes == before + 1
            assert not host.shell.driver.has_something_to_write

    asyncio.run(main())


def test_what_nobody_waits_for_is_written_soon_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open(tmp_path, name="HOST") as manager:
            host = Host(manager)
            await host.fill()
            before = host.flushes
            host.delete_first()
            async with asyncio.timeout(60):
                while host.flushes == before:
                    await asyncio.sleep(0.001)
            assert host.flushes == before + 1

    asyncio.run(main())


def test_what_nobody_waits_for_is_written_when_the_queue_manager_closes(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open(tmp_path, name="HOST") as manager:
            host = Host(manager)
            await host.fill()
            host.delete_first()
        async with aio.open(tmp_path, name="HOST") as manager:
            assert len(await manager.queue("orders").receive_many(9, 0)) == 1

    asyncio.run(main())
