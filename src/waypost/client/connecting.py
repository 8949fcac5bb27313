"""`connect`, in a separate module: a program that opens a folder needs no HTTP client."""

import os

from waypost.client.manager import Manager
from waypost.client.transports.http.address import DEFAULT_TIMEOUT, Address
from waypost.client.transports.http.blocking import Http


def connect(
    url: str,
    *,
    token: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    cacert: str | os.PathLike[str] | None = None,
) -> Manager:
    """Connect to the queue manager of the daemon at `url`, such as http://127.0.0.1:8181.

        with waypost.connect("http://127.0.0.1:8181") as manager:
            orders = manager.queue("orders")
            orders.send("42 bolts", label="order")
            print(orders.receive().text)

    The manager has the same methods as the manager that waypost.open returns. The manager is thread-safe. Short queue
    names refer to queues on the computer of the daemon. The daemon closes exclusive queues, cursors and transactions
    that are unused for a while.

    `token` is the bearer token that the daemon expects. `timeout` is the maximum time to connect, and the maximum time
    for an answer, in seconds. `timeout` does not include the time for which a read waits for a message. For purging or
    deleting a queue, and for resetting sequences, the maximum time is one hour longer. `cacert` is a PEM file with
    trusted CA certificates for https (default: the CA certificates of the system).

    Raises CannotConnect if no daemon answers. Every method of the manager can also raise CannotConnect. ConnectionLost
    means that the connection was lost before the answer arrived. After ConnectionLost, it is unknown whether the daemon
    executed the operation, and a receive outside a transaction might have lost its message.
    """
    return Manager(Http(Address.parse(url, token, timeout, cacert)))
