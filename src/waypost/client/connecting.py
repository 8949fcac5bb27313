"""`connect`, apart from what it gives."""

from waypost.client.manager import Manager
from waypost.client.transports.http.address import DEFAULT_TIMEOUT, Address
from waypost.client.transports.http.blocking import Http


def connect(url: str, *, token: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> Manager:
    """Connect to the daemon at `url`, such as http://127.0.0.1:8181, and use its queue manager like one of one's own.

        with waypost.connect("http://127.0.0.1:8181") as manager:
            orders = manager.queue("orders")
            orders.send("42 bolts", label="order")
            print(orders.receive().text)

    What it gives has the interface of waypost.open, and every thread can use it. Queues are named as seen from the
    computer where the daemon runs. What is open there under an exclusive queue, a cursor or a transaction ends by
    itself when it is not used for a while.

    `token` is the one that the daemon was told to expect. `timeout` is how many seconds a connection may take, and an
    answer beyond the time that a read waits for its message; to purge or delete a queue may take an hour, as it does
    with very many messages.

    Raises CannotConnect if no daemon answers, here and whenever another connection is needed. ConnectionLost means
    that the connection broke while the daemon worked: whether it has done what was asked is not known. A receive
    outside a transaction can lose its message then.
    """
    return Manager(Http(Address.parse(url, token, timeout)))
