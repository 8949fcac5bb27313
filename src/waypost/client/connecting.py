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
    """Connect to the daemon at `url`, such as http://127.0.0.1:8181, and use its queue manager like a local one.

        with waypost.connect("http://127.0.0.1:8181") as manager:
            orders = manager.queue("orders")
            orders.send("42 bolts", label="order")
            print(orders.receive().text)

    The manager has the same methods as that of waypost.open, and every thread can use it. Names of queues are as seen
    from the computer of the daemon. The daemon closes exclusive queues, cursors and transactions that are not used for
    a while.

    `token` is the bearer token that the daemon expects. `timeout` is the number of seconds for a connection, and for an
    answer beyond the time that a read waits for its message; to purge or delete a queue may take an hour, because it
    may have very many messages. `cacert` is a PEM file of the certificates to trust for https (default: those of the
    system).

    Raises CannotConnect if no daemon answers, here and whenever it needs another connection. ConnectionLost means that
    the connection broke before the answer: the daemon may have done the operation or not. A receive outside a
    transaction can lose its message then.
    """
    return Manager(Http(Address.parse(url, token, timeout, cacert)))
