"""`open`, apart from what it gives: whoever only connects to a daemon needs no engine and no store."""

from pathlib import Path

from waypost.client.manager import Manager
from waypost.client.transports.embedded import Embedded
from waypost.drive.settings import check_store, settings
from waypost.drive.threads import Threads


def open(  # noqa: A001, the name that people look for
    path: str | Path, *, name: str | None = None, quota_kb: int | None = None, max_size: int | None = None
) -> Manager:
    """Open the queue manager in the folder `path`, or make a new one there, and start it in this process.

        with waypost.open("./data") as manager:
            orders = manager.create_queue("orders")
            orders.send("42 bolts", label="order")
            print(orders.receive().text)

    The folder belongs to one process at a time. Every thread of it can use the manager.

    `name` is the name of this computer in format names and paths, that of the host unless given. `quota_kb` bounds
    what all queues may hold together, in kilobytes; a new queue manager has a quota of 1 GiB, and an old one keeps what
    it had. `max_size` bounds the file of the store, in bytes.

    Raises StoreInUse if another process has the folder open, StoreReadOnly, StoreDamaged, StoreTooNew if a newer
    Waypost has written it, and NotAStore if it holds something else.
    """
    check_store(path, max_size)
    return Manager(Embedded(Threads(path, settings(name, quota_kb), max_size=max_size), Path(path)))
