"""The program whose writes are recorded: the threads of tests/crash/load.py, for a number of operations.

    python -m tests.power.embedded_load FOLDER ROUND SEED OPERATIONS END [MUTANT]

One more thread sends to another computer, which is not there, so that its messages wait in their outgoing queue with
the numbers of their sequence; and one creates and deletes queues. END is `stop`, or `kill` to leave without closing.
A MUTANT is a store that breaks its promises.
"""

import os
import random
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final
from unittest.mock import patch

import lmdb

import waypost
from tests.crash.load import PLAIN, Role, create_queues, tell
from waypost.errors import QueueExists, QueueNotFound
from waypost.store import folder
from waypost.store import lmdb as engine

FAR: Final = r"DIRECT=OS:far\private$\orders"
MADE: Final = "made-"
# So small that the map grows in the middle of the load.
_FIRST_MAP: Final = 1 << 18


class PowerRole(Role):
    def send_far(self) -> None:
        """A transaction in the sequence to another queue manager, with a message for a queue here too."""
        operation = self.operation()
        aborts = self.chance(5)
        plan = [("far", f"{operation}/{number}") for number in range(self.dice.randint(1, 4))]
        plan.append(("c", f"{operation}/c"))
        tell(begin=operation, aborts=aborts, sends=[[queue, name, 0, False, False] for queue, name in plan])
        transaction = self.manager.transaction()
        for queue, name in plan:
            target = FAR if queue == "far" else queue
            self.manager.send(target, self.body(name), transaction=transaction)
        self.finish(transaction, aborts=aborts)
        tell(end=operation)

    def make_queue(self) -> None:
        """Create one of three queues, or delete it; a deleted one takes its messages along."""
        name = f"{MADE}{self.dice.randrange(3)}"
        operation = self.operation()
        if self.chance(2):
            tell(begin=operation, makes=name)
            with suppress(QueueExists):
                self.manager.create_queue(name, label=f"the queue {name}", journal=True)
        else:
            tell(begin=operation, deletes=name)
            with suppress(QueueNotFound):
                self.manager.delete_queue(name)
        tell(end=operation)


def mutate(mutant: str) -> None:
    """Let the store forget one kind of flush."""
    if mutant == "folder":
        for module in (engine, folder):
            patch.object(module, "flush_folder", lambda _: None).start()
    else:
        opens = {"sync": partial(lmdb.open, sync=False), "metasync": partial(lmdb.open, metasync=False)}
        patch.object(lmdb, "open", opens[mutant]).start()


def load(manager: waypost.Manager, round_number: str, seed: str, operations: int) -> None:
    """Let every thread do so many operations."""
    create_queues(manager)
    duties: list[Callable[[PowerRole], None]] = [
        *(lambda role, queue=queue: role.send(queue) for queue in PLAIN),
        *(lambda role, queue=queue: role.receive(queue) for queue in PLAIN),
        PowerRole.send_express,
        PowerRole.send_to_scratch,
        PowerRole.purge,
        *[PowerRole.send_together] * 2,
        PowerRole.move,
        PowerRole.consume,
        PowerRole.send_far,
        PowerRole.make_queue,
    ]

    def work(number: int, duty: Callable[[PowerRole], None]) -> None:
        name = f"{round_number}.{number}"
        role = PowerRole(manager, name, random.Random(f"{seed} {round_number} {number}"))
        try:
            for _ in range(operations):
                duty(role)
        except BaseException:  # noqa: BLE001, whatever it is, the test has to hear of it
            tell(error=traceback.format_exc()[-3000:])

    threads = [threading.Thread(target=work, args=each) for each in enumerate(duties)]
    tell(ready=round_number)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    path, round_number, seed, operations, end, *mutants = sys.argv[1:]
    patch.object(engine, "_FIRST_MAP", _FIRST_MAP).start()
    for mutant in mutants:
        mutate(mutant)
    manager = waypost.open(path, name="power")
    load(manager, round_number, seed, int(operations))
    if end == "kill":
        os._exit(0)
    manager.close()


if __name__ == "__main__":
    main()
