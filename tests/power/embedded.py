"""A queue manager in a process or in a daemon, loaded by many threads: tests/power/embedded_load.py, daemon_load.py."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import waypost
from tests.crash import inventory
from tests.crash.checks import Checks, Register
from tests.crash.history import History
from tests.crash.load import create_queues
from tests.power.daemon_load import NAME
from tests.power.embedded_load import MADE
from tests.power.log import Told
from tests.power.subject import Subject

# The folder has parents that are new as well.
STORE: Final = "new/data/store"


class Embedded(Subject):
    """See tests/power/subject.py."""

    name = "embedded"
    machines = ()
    # The folder of the store.
    store = STORE

    def __init__(self, operations: int = 8, mutant: str = "") -> None:
        self._arguments = [str(operations)]
        self._mutants = [mutant] if mutant else []

    def program(self, root: Path, round_number: int, seed: int, end: str) -> list[str]:
        words = [str(root / STORE), str(round_number), str(seed), *self._arguments, end, *self._mutants]
        return [sys.executable, "-m", "tests.power.embedded_load", *words]

    def examine(self, root: Path) -> dict[str, Any]:
        """Everything is received, and one more message goes through."""
        problems: list[str] = []
        with waypost.open(root / self.store, name="power") as manager:
            made = list(_made(manager))
            outgoing = manager.outgoing_queues()
            far = [entry for queue in outgoing for entry in inventory.look_into(queue, "far", problems)]
            create_queues(manager)
            found = inventory.take(manager)
            jobs = manager.queue("jobs")
            jobs.send("one more", recoverable=True)
            if jobs.receive(0).text != "one more":
                problems.append("one more message did not come back")
        queues = {**found["queues"], "far": far}
        return {"problems": problems + found["problems"], "found": {"queues": queues, "made": made}}

    def problems(self, told: list[Told], found: Any) -> Iterator[str]:
        history = _history(told)
        yield from Checks(history, found["queues"]).problems()
        yield from Register().problems(history, found["queues"])
        for name, allowed in _made_or_not(told).items():
            if (name in found["made"]) not in allowed:
                yield f"{name} is {'there, and was deleted' if name in found['made'] else 'gone, and was created'}"


class Daemon(Embedded):
    """The same through a daemon."""

    name = "daemon"
    store = NAME

    def program(self, root: Path, round_number: int, seed: int, end: str) -> list[str]:
        words = [str(root), str(round_number), str(seed), *self._arguments, end]
        return [sys.executable, "-m", "tests.power.daemon_load", *words]


def _made(manager: waypost.Manager) -> Iterator[str]:
    for queue in manager.queues():
        name = queue.info().path.rpartition("\\")[2]
        if name.startswith(MADE):
            yield name


def _history(told: list[Told]) -> History:
    history = History()
    last = 0
    for each in told:
        if last and each.round != last:
            history.end_of_round(last)
        last = each.round
        history.read(each.line, each.round)
    history.end_of_round(last)
    return history


def _made_or_not(told: list[Told]) -> dict[str, set[bool]]:
    """For each queue that was created or deleted, whether it may be there."""
    found: dict[str, set[bool]] = {}
    begun: dict[str, tuple[str, bool]] = {}
    for each in told:
        line: dict[str, Any] = json.loads(each.line)
        if name := line.get("makes") or line.get("deletes"):
            begun[line["begin"]] = (name, "makes" in line)
            found.setdefault(name, {False}).add("makes" in line)
        elif (ended := begun.pop(line.get("end", ""), None)) is not None:
            found[ended[0]] = {ended[1]}
    return found
