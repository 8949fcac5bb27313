"""Two queue managers that send to each other: tests/power/transfer_load.py. Both lose power, or one of them."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.crash.transfer_history import TransferHistory
from tests.power.log import Told
from tests.power.subject import Subject
from tests.power.transfer_load import NAMES, QUEUES, Pair, label, took

# A round after all others.
_LAST_ROUND: Final = 200
_HOURS: Final = 3600.0
_MOST_HOURS: Final = 48


class Transfer(Subject):
    """See tests/power/subject.py."""

    name = "transfer"
    machines = NAMES

    def __init__(self, steps: int = 40) -> None:
        self._steps = steps

    def program(self, root: Path, round_number: int, seed: int, end: str) -> list[str]:
        words = [str(root), str(round_number), str(seed), str(self._steps), end]
        return [sys.executable, "-m", "tests.power.transfer_load", *words]

    def examine(self, root: Path) -> dict[str, Any]:
        """They run until everything has arrived, and send each other one more."""
        problems: list[str] = []
        pair = Pair(root, _LAST_ROUND)
        for host in pair.hosts:
            host.send_all(rf"DIRECT=OS:{pair.other(host).name}\private$\orders", f"last-{host.name}/1")
        for _ in range(_MOST_HOURS):
            pair.net.advance(_HOURS)
            if not pair.waiting():
                break
        else:
            problems.append(f"{pair.waiting()} messages do not arrive")
        for host in pair.hosts:
            problems += [
                f"{host.name}: {queue} has messages, but nothing has expired"
                for queue in (";deadletter", ";deadxact")
                if host.bodies(queue)
            ]
        found = {label(host, queue): took(host, queue) for host in pair.hosts for queue in QUEUES}
        pair.close()
        return {"problems": problems, "found": found}

    def problems(self, told: list[Told], found: Any) -> Iterator[str]:
        history = TransferHistory()
        lines = [each.line for each in told]
        for name, other in (NAMES, NAMES[::-1]):
            sends = [[f"transactional {other} orders", f"last-{name}/1"]]
            lines.append(json.dumps({"begin": f"last {name}", "sends": sends}))
            lines.append(json.dumps({"end": f"last {name}", "outcome": "done"}))
        for queue, entries in found.items():
            lines.append(json.dumps({"begin": f"all of {queue}", "reads": queue, "took": entries}))
            lines.append(json.dumps({"end": f"all of {queue}", "outcome": "done"}))
        history.read(lines)
        yield from history.problems()
