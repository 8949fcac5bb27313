"""`open`, in a separate module: a program that only connects to a daemon needs no engine and no store."""

from pathlib import Path

from waypost.client.manager import Manager
from waypost.client.transports.embedded import Embedded
from waypost.drive.settings import check_store, settings
from waypost.drive.threads import Threads


def open(  # noqa: A001, the name that people look for
    path: str | Path, *, name: str | None = None, quota_kb: int | None = None, max_size: int | None = None
) -> Manager:
    """Open or create the queue manager in the folder `path`, and start it in this process.

        with waypost.open("./data") as manager:
            orders = manager.create_queue("orders")
            orders.send("42 bolts", label="order")
            print(orders.receive().text)

    Only one process at a time can open the folder. The manager is thread-safe.

    `name` is the name of this computer in format names and paths (default: the host name). `quota_kb` is the quota of
    all queues together, in kilobytes. By default, a new queue manager gets a quota of 1 GiB, and an existing queue
    manager keeps its quota. `max_size` is the maximum size of the store file, in bytes.

    Raises StoreInUse if another process has the folder open, and StoreReadOnly if the folder is read-only. Raises
    StoreDamaged if the store is damaged, StoreTooNew if a newer version of Waypost wrote the store, and NotAStore if
    the folder contains other files.
    """
    check_store(path, max_size)
    return Manager(Embedded(Threads(path, settings(name, quota_kb), max_size=max_size), Path(path)))
