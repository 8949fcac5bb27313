"""Queue managers for asyncio: what waypost has, with coroutines for everything that may wait.

async with waypost.aio.open("./data") as manager:
    orders = await manager.create_queue("orders")
    await orders.send("42 bolts", label="order")
    async for message in orders.follow(timeout=1):
        print(message.text)
"""

from waypost.client.aio_host import msmq
from waypost.client.aio_lease import Lease
from waypost.client.aio_manager import Manager
from waypost.client.aio_opening import connect, open  # noqa: A004, the name that people look for
from waypost.client.aio_queue import Cursor, Queue
from waypost.client.aio_transaction import Transaction
from waypost.client.backups.aio_restoring import restore
from waypost.client.storage.aio import salvage, verify

__all__ = [
    "Cursor",
    "Lease",
    "Manager",
    "Queue",
    "Transaction",
    "connect",
    "msmq",
    "open",
    "restore",
    "salvage",
    "verify",
]
