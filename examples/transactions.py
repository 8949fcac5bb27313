"""Receive an order and send its invoice in one transaction: both or neither.

python examples/transactions.py [FOLDER]
"""

import sys
import tempfile
from contextlib import suppress

import waypost


class OutOfPaper(Exception):
    """The printer has no paper."""


def queue(manager: waypost.Manager, name: str) -> waypost.Queue:
    """Return a transactional queue. Programs send its messages in transactions, exactly once and in order."""
    with suppress(waypost.errors.QueueExists):
        manager.create_queue(name, transactional=True)
    return manager.queue(name)


def book(manager: waypost.Manager, sheets: int) -> None:
    """Take an order and write an invoice, or do neither."""
    orders, invoices = manager.queue("orders"), manager.queue("invoices")
    with manager.transaction() as transaction:
        order = orders.receive(timeout=0, transaction=transaction)
        invoices.send(f"invoice for {order.text}", transaction=transaction)
        if not sheets:
            raise OutOfPaper


def main(folder: str) -> None:
    with waypost.open(folder) as manager:
        orders, invoices = queue(manager, "orders"), queue(manager, "invoices")

        with manager.transaction() as transaction:
            orders.send_many(["42 bolts", "7 nuts"], transaction=transaction)
        print("two orders were sent together")

        try:
            book(manager, sheets=0)
        except OutOfPaper:
            first = orders.peek(timeout=0)
            print(
                f"no paper: {first.text!r} is back in its place (abort count {first.abort_count}), and no invoice was "
                "sent"
            )

        book(manager, sheets=1)
        book(manager, sheets=1)
        print(f"orders left: {orders.info().message_count}")
        for invoice in invoices.follow(timeout=0):
            print(invoice.text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
