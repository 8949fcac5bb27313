"""One damage to a folder, and what follows: is it seen, does it end in a loop of crashes, and what comes back?"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.damage.folders import Anatomy, Inventory, Look, anatomy, inventory, look, make_folder, stored_keys
from waypost.client.storage.salvaging import salvage
from waypost.client.storage.verifying import verify
from waypost.errors import StoreError


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a file that are others, by where they begin."""

    words: str
    pages: tuple[int, ...]
    changes: tuple[tuple[int, bytes], ...]

    def apply(self, folder: Path) -> None:
        with (folder / "data.mdb").open("r+b") as data:
            for at, content in self.changes:
                data.seek(at)
                data.write(content)


@dataclass(slots=True)
class Pristine:
    """A folder that is whole. It is never opened again: every case has a copy."""

    folder: Path
    labels: Inventory
    anatomy: Anatomy
    content: bytes

    @classmethod
    def make(cls, place: Path, messages: int = 300, seed: int = 1) -> "Pristine":
        folder = place / "pristine"
        make_folder(folder, messages, seed)
        seen = place / "seen"
        shutil.copytree(folder, seen)
        labels = inventory(seen)
        shutil.rmtree(seen)
        return cls(folder, labels, anatomy(folder), (folder / "data.mdb").read_bytes())

    @property
    def keys(self) -> set[bytes]:
        return {key for found in self.anatomy.messages.values() for key in found}

    def flips(self, chance: Random, count: int) -> Iterator[Damage]:
        """Single bits of pages that are in use."""
        for _ in range(count):
            page = chance.choice(self.anatomy.used)
            at = page * self.anatomy.page_size + chance.randrange(self.anatomy.page_size)
            bit = chance.randrange(8)
            yield Damage(
                f"bit {bit} of byte {at} in page {page}", (page,), ((at, bytes([self.content[at] ^ 1 << bit])),)
            )

    def pages(self, chance: Random, count: int) -> Iterator[Damage]:
        """Whole pages of zeros, or of garbage, that are in use."""
        size = self.anatomy.page_size
        for number in range(count):
            page = chance.choice(self.anatomy.used)
            content = bytes(size) if number % 2 else chance.randbytes(size)
            words = f"page {page} of {'zeros' if number % 2 else 'garbage'}"
            yield Damage(words, (page,), ((page * size, content),))

    def destroyed(self, words: str, *pages: int) -> Damage:
        """These pages, all of zeros."""
        size = self.anatomy.page_size
        return Damage(words, pages, tuple((page * size, bytes(size)) for page in pages))

    def lost_with(self, damage: Damage) -> set[bytes]:
        """The keys of the messages that lie on its pages."""
        return set().union(*(self.anatomy.messages.get(page, set()) for page in damage.pages))


@dataclass(slots=True)
class Outcome:
    """The consequences. `problems` are sentences about what must not be."""

    words: str
    is_seen_by_verify: bool = False
    starts: list[Look] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    brought_back: int = 0

    @property
    def is_seen_by_start(self) -> bool:
        return any(start.error or start.signal for start in self.starts)


def examine(pristine: Pristine, damage: Damage, place: Path) -> Outcome:
    """All of it, on copies in `place`."""
    outcome = Outcome(damage.words)
    for step in (_verify, _start, _salvage):
        folder = place / "damaged"
        shutil.copytree(pristine.folder, folder)
        damage.apply(folder)
        try:
            step(pristine, damage, folder, outcome)
        finally:
            shutil.rmtree(folder)
    return outcome


def _verify(_: Pristine, __: Damage, folder: Path, outcome: Outcome) -> None:
    try:
        outcome.is_seen_by_verify = not verify(folder).is_whole
    except StoreError:
        outcome.is_seen_by_verify = True


def _start(pristine: Pristine, _: Damage, folder: Path, outcome: Outcome) -> None:
    """A start that LMDB ends by a signal is the last one of that kind."""
    outcome.starts.append(look(folder))
    if outcome.starts[0].signal:
        outcome.starts.append(look(folder))
        if outcome.starts[1].signal:
            outcome.problems.append(f"a second start ended by signal {outcome.starts[1].signal}")
    last = outcome.starts[-1]
    if not last.error and last.labels != pristine.labels and not outcome.is_seen_by_verify:
        outcome.problems.append("messages are others, and nobody says so")


def _salvage(pristine: Pristine, damage: Damage, folder: Path, outcome: Outcome) -> None:
    new = folder.with_name("new")
    try:
        report = salvage(folder, new)
        found = stored_keys(new)
        outcome.brought_back = len(found)
        expected = pristine.keys - pristine.lost_with(damage)
        if not found >= expected:
            outcome.problems.append(f"{len(expected - found)} messages that are whole did not come back")
        if not found <= pristine.keys:
            outcome.problems.append(f"{len(found - pristine.keys)} messages came back that were gone")
        if report.records["messages"] != len(found):
            outcome.problems.append("the report counts otherwise")
        if problem := _serves(new, len(found)):
            outcome.problems.append(problem)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _serves(folder: Path, count: int) -> str:
    labels = inventory(folder)
    seen = sum(map(len, labels.values()))
    return "" if seen == count else f"the new folder shows {seen} of {count} messages"
