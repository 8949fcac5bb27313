"""`open`, apart from what it gives: whoever only connects to a daemon needs no engine and no store."""

from pathlib import Path

from waypost.client.manager import Manager
from waypost.client.transports.embedded import Embedded
from waypost.drive.settings import check_store, settings
from waypost.drive.threads import Threads


def open(  # noqa: A001, the name that people look for
    path: str | Path, *, name: str | None = None, quota_kb: int | None = None, max_size: int | None = None
) -> Manager:
    """Open the queue manager in the folder `path`, or create one there, and start it in this process.

        with waypost.open("./data") as manager:
            orders = manager.create_queue("orders")
            orders.send("42 bolts", label="order")
            print(orders.receive().text)

    The folder belongs to one process at a time, and every thread of the process can use the manager.

    `name` is the name of this computer in format names and path names (default: the host name). `quota_kb` limits all
    queues together, in kilobytes (default: 1 GiB for a new queue manager, unchanged for an existing one). `max_size`
    limits the file of the store, in bytes.

    Raises StoreInUse if another process has the folder open, StoreReadOnly, StoreDamaged, StoreTooNew if a newer
    Waypost has written it, and NotAStore if the folder has other content.
    """
    check_store(path, max_size)
    return Manager(Embedded(Threads(path, settings(name, quota_kb), max_size=max_size), Path(path)))
