"""Send a message to a queue and receive it again.

    python examples/hello.py [FOLDER]

The default is a temporary folder. If you specify a FOLDER and run the program twice, the second run finds the queue.
"""

import sys
import tempfile

import waypost


def main(folder: str) -> None:
    with waypost.open(folder) as manager:
        print(f"queue manager {manager.name} {manager.guid}")

        try:
            orders = manager.create_queue("orders", label="orders of customers")
        except waypost.errors.QueueExists:
            orders = manager.queue("orders")

        # `send` returns when the message is on disk. The body is text or bytes.
        sent = orders.send("42 bolts", label="order", priority=5)
        print(f"sent {sent.id}")

        print(f"{orders.name} has {orders.info().message_count} message(s):")
        for message in orders.browse():
            print(f"  {message.label}: {message.text}")

        message = orders.receive(timeout=1)
        print(f"received {message.text!r}, sent at {message.sent_time:%H:%M:%S} UTC")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
