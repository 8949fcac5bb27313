"""`connect`, apart from what it gives."""

from waypost.client.manager import Manager
from waypost.client.transports.http.address import DEFAULT_TIMEOUT, Address
from waypost.client.transports.http.blocking import Http


def connect(url: str, *, token: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> Manager:
    """Connect to the daemon at `url`, such as http://127.0.0.1:8181.

        with waypost.connect("http://127.0.0.1:8181") as manager:
            orders = manager.queue("orders")
            orders.send("42 bolts", label="order")
            print(orders.receive().text)

    The result has the interface of `waypost.open`, and every thread can use it. Queues are named as on the computer of
    the daemon. An exclusive queue, a cursor or a transaction is closed when it is not used for a while.

    `token` is the token that the daemon demands. `timeout` limits a connection and an answer, in seconds; the time that
    a read waits for its message comes on top. Purging or deleting a queue may take up to an hour.

    Raises CannotConnect if no daemon answers, now or when another connection is needed. ConnectionLost means that the
    connection broke while the daemon worked, so the result is unknown. A receive outside a transaction may then lose
    its message.
    """
    return Manager(Http(Address.parse(url, token, timeout)))
