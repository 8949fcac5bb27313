"""A folder of an earlier version that is upgraded when it is opened: tests/power/upgrade_load.py."""

import sys
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import waypost
from tests.crash.inventory import DEAD_LETTERS, SOURCE_JOURNAL
from tests.power.log import Told
from tests.power.recorder import PROJECT
from tests.power.subject import Subject
from tests.power.upgrade_load import FRESH, NEW
from waypost.errors import QueueNotFound


class Upgrade(Subject):
    """See tests/power/subject.py."""

    name = "upgrade"
    machines = ()
    begins_anew = True

    def prepare(self, root: Path) -> None:
        with tarfile.open(PROJECT / "tests" / "upgrade" / "folders-0.1.0.tar.gz") as archive:
            archive.extractall(root, filter="data")

    def program(self, root: Path, round_number: int, seed: int, end: str) -> list[str]:
        return [sys.executable, "-m", "tests.power.upgrade_load", str(root / "alpha"), end]

    def examine(self, root: Path) -> dict[str, Any]:
        with waypost.open(root / "alpha", name="alpha") as manager:
            found = {name: _texts(manager, name) for name in (*DEAD_LETTERS, SOURCE_JOURNAL, "local;journal", FRESH)}
            for queue in (*manager.queues(), *manager.outgoing_queues()):
                info = queue.info()
                found[info.format_name] = [message.text for message in queue.browse()]
            with manager.transaction() as transaction:
                taken = manager.queue("held").receive(0, transaction=transaction)
                manager.queue("held").send(taken.text, transaction=transaction)
        return {"problems": [], "found": found}

    @cached_property
    def _expected(self) -> dict[str, list[str]]:
        """The content of a folder after an upgrade that nothing disturbs."""
        with tempfile.TemporaryDirectory() as name:
            self.prepare(Path(name))
            expected: dict[str, list[str]] = self.examine(Path(name))["found"]
            return expected

    def problems(self, told: list[Told], found: Any) -> Iterator[str]:
        ended = sum('"end"' in each.line for each in told)
        begun = sum('"begin"' in each.line for each in told)
        new = found[FRESH]
        if not (ended <= len(new) <= begun) or set(new) - {NEW}:
            yield f"{FRESH} has {new} after {ended} to {begun} messages"
        fresh = [name for name in found if FRESH in name]
        for name, texts in self._expected.items():
            if name not in fresh and found.get(name) != texts:
                yield f"{name} has {found.get(name)} instead of {texts}"


def _texts(manager: waypost.Manager, name: str) -> list[str]:
    try:
        return [message.text for message in manager.queue(name).browse()]
    except QueueNotFound:
        return []
