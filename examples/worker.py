"""Several workers share the jobs of one queue. A failed job is tried again, and is set aside after three attempts.

    python examples/worker.py [FOLDER]

A worker peeks at the first message, and then receives the message in a transaction. If the work or the whole process
fails, the message returns to its place, and its abort count increases. After three failures, the worker moves the
message to a subqueue.
"""

import sys
import tempfile
from contextlib import suppress
from threading import Thread

import waypost
from waypost.errors import MessageAlreadyReceived, MessageLocked, MessageNotFound, QueueExists, Timeout

ATTEMPTS = 3


def do(job: waypost.Message) -> None:
    """Do one job."""
    if "bad" in job.text:
        raise ValueError(f"cannot do {job.text}")


def work(name: str, manager: waypost.Manager) -> None:
    jobs = manager.queue("jobs")
    while True:
        try:
            job = jobs.peek(timeout=0.5)
            if job.abort_count >= ATTEMPTS:
                jobs.move(job, "jobs;poison")
                continue
            with manager.transaction() as transaction:
                job = jobs.receive(lookup_id=job.lookup_id, transaction=transaction)
                do(job)
        except Timeout:
            return
        except (MessageNotFound, MessageAlreadyReceived, MessageLocked):
            continue  # another worker was faster
        except ValueError as error:
            print(f"{name}: {error} (attempt {job.abort_count + 1})")
        else:
            print(f"{name}: did {job.text}")


def main(folder: str) -> None:
    with waypost.open(folder) as manager:
        with suppress(QueueExists):
            manager.create_queue("jobs", transactional=True)
        jobs = manager.queue("jobs")
        with manager.transaction() as transaction:
            jobs.send_many([f"job {number}" for number in range(6)], transaction=transaction)
            jobs.send("a bad job", transaction=transaction)

        workers = [Thread(target=work, args=(f"worker {number}", manager)) for number in (1, 2, 3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

        print(f"jobs left: {jobs.info().message_count}")
        for message in jobs.subqueue("poison").follow(timeout=0):
            print(f"set aside: {message.text}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
