"""A queue manager that is backed up, and folders that are made of its backups: tests/power/restore_load.py."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import waypost
from tests.power.log import Told
from tests.power.restore_load import BACKUP, QUEUE, RESTORED, STORE
from tests.power.subject import Subject
from waypost.errors import BackupError, NotAStore, QueueNotFound


class Restore(Subject):
    """See tests/power/subject.py."""

    name = "restore"
    machines = ()
    begins_anew = True

    def program(self, root: Path, round_number: int, seed: int, end: str) -> list[str]:
        return [sys.executable, "-m", "tests.power.restore_load", str(root), str(round_number), end]

    def examine(self, root: Path) -> dict[str, Any]:
        """For every folder the messages that it has, or the sentence that refuses it."""
        found: dict[str, list[str] | str] = {STORE: _names(root / STORE)}
        for folder in sorted(root.iterdir()):
            if folder.name.startswith(BACKUP):
                found[folder.name] = _restored(folder, root / f"check-{folder.name}")
            elif folder.name.startswith(RESTORED):
                found[folder.name] = _names(folder)
        return {"problems": [], "found": found}

    def problems(self, told: list[Told], found: Any) -> Iterator[str]:
        lines: list[dict[str, str]] = [json.loads(each.line) for each in told]
        begun = [line["begin"] for line in lines if "begin" in line]
        ended = {line["end"] for line in lines if "end" in line}
        sent: list[str] = []
        for name in begun:
            if name.startswith((BACKUP, RESTORED)):
                yield from _copy(name, found.get(name), sent, is_done=name in ended)
            else:
                sent.append(name)
        names = found[STORE]
        if not isinstance(names, list) or names not in (sent, [name for name in sent if name in ended]):
            yield f"{STORE} has {names} instead of {sent}"
        for name, content in found.items():
            if name.endswith(".restoring") and isinstance(content, list) and content not in _prefixes(sent):
                yield f"{name} has {content}"


def _copy(name: str, content: list[str] | str | None, sent: list[str], *, is_done: bool) -> Iterator[str]:
    """A copy that was answered is whole; another one is whole, refused or not there."""
    if isinstance(content, list) and content != sent:
        yield f"{name} has {content} instead of {sent}"
    if is_done and not isinstance(content, list):
        yield f"{name} was finished, and is refused or gone: {content}"


def _prefixes(names: list[str]) -> list[list[str]]:
    return [names[:end] for end in range(len(names) + 1)]


def _names(folder: Path) -> list[str] | str:
    try:
        with waypost.open(folder, name="power") as manager:
            return [message.text.partition(" ")[0] for message in manager.queue(QUEUE).browse()]
    except QueueNotFound:
        return []
    except NotAStore as error:
        return str(error)


def _restored(backup: Path, folder: Path) -> list[str] | str:
    try:
        waypost.restore(backup, folder, same_identity=True)
    except BackupError as error:
        return str(error)
    return _names(folder)
