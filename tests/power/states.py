"""Legal states of the disk after a power failure, drawn by a seed that prefers nasty ones."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Final

from tests.power.disk import PAGE, SECTOR, Disk, File, Lie
from tests.power.log import Log, Named, Over, Told

_IN_A_PAGE: Final = PAGE // SECTOR
# States of each moment. There are as many moments as it takes.
_OF_EACH: Final = 3
_MOST_TURNS: Final = 20
# For so long something new is watched closely.
_CLOSELY: Final = 16


class Part(Enum):
    """The pages that are not durable and have reached the disk."""

    NONE = "none"
    ALL = "all"
    FEW = "few"
    HALF = "half"
    MOST = "most"
    ALL_BUT_ONE = "all but one"
    ONLY_ONE = "only one"
    FIRST = "the first ones"
    LAST = "the last ones"


class Tear(Enum):
    """The ways in which pages are torn."""

    NONE = "no"
    ONE = "one page"
    ALL = "every page"


class Growth(Enum):
    """The size of a file."""

    FULL = "as written"
    OLD = "as durable"
    ANY = "any"


@dataclass(slots=True)
class State:
    """The files and, as None, the folders below the root. `told` is how many lines were told by then."""

    position: int
    told: int
    how: str
    files: dict[str, bytes | None]

    def write_to(self, root: Path) -> None:
        for path, data in sorted(self.files.items()):
            if data is None:
                (root / path).mkdir()
            else:
                (root / path).write_bytes(data)

    @property
    def digest(self) -> bytes:
        found = blake2b(self.told.to_bytes(8, "little"), digest_size=16)
        for path, data in sorted(self.files.items()):
            found.update(repr((path, data is None, len(data or b""))).encode())
            found.update(data or b"")
        return found.digest()


def states(
    log: Log, amount: int, dice: random.Random, lie: Lie = Lie.NONE, machines: Sequence[str] = ()
) -> Iterator[State]:
    """Different ones, in the order of their moments. Fewer than `amount` if there are not as many.

    Each of the `machines`, folders below the root, loses its power now and then while the others keep theirs.
    """
    seen: set[bytes] = set()
    wanted = amount
    for _ in range(_MOST_TURNS):
        positions = sorted(_positions(log, -(-wanted // _OF_EACH), dice))
        disk = Disk(log, lie)
        told = 0
        reached = 0
        for position in positions:
            disk.advance(position)
            told += sum(isinstance(entry, Told) for entry in log.entries[reached:position])
            reached = position
            for _ in range(_OF_EACH):
                state = draw(disk, told, dice, dice.choice(["", *machines]))
                if wanted and state.digest not in seen:
                    seen.add(state.digest)
                    wanted -= 1
                    yield state
        if not wanted:
            return


def _positions(log: Log, amount: int, dice: random.Random) -> list[int]:
    """Moments: right after something that is drawn by its kind, so that what is rare is not missed."""
    kinds: dict[str, set[int]] = defaultdict(set)
    for at, entry in enumerate(log.entries, 1):
        kinds[type(entry).__name__].add(at)
        if isinstance(entry, Named | Over):
            kinds["new"].update(range(at, min(at + _CLOSELY, len(log.entries) + 1)))
    choices = [sorted(positions) for positions in kinds.values()]
    return [dice.choice(dice.choice(choices)) for _ in range(amount)]


def draw(disk: Disk, told: int, dice: random.Random, machine: str = "") -> State:
    """A state of this moment. Only this machine has lost its power, or, if it has no name, all have."""
    part, tear, growth = dice.choice(list(Part)), dice.choice(list(Tear)), dice.choice(list(Growth))
    names = [change for _, change in disk.changes_of_names]
    some = [each for each in names if dice.random() < 0.5]
    kept = names if machine else dice.choice([names, [], some, names[: dice.randint(0, len(names))]])
    files: dict[str, bytes | None] = {}
    for path, number in disk.tree(kept).items():
        if disk.is_folder(number):
            files[path] = None
            continue
        file = disk.file(number)
        if not path.startswith(machine):
            files[path] = file.cached()
        elif file.is_mapped:
            size = _size(file, growth, dice)
            files[path] = dice.choice([bytes(size), dice.randbytes(size)])
        else:
            files[path] = file.image(_reached(file, part, tear, dice), _size(file, growth, dice))
    how = (
        f"pages: {part.value}, torn: {tear.value}, size: {growth.value}, "
        f"{len(kept)} of {len(names)} changes of names{machine and f', only on {machine}'}"
    )
    return State(disk.position, told, how, files)


def _size(file: File, growth: Growth, dice: random.Random) -> int:
    sizes = file.sizes()
    if growth is Growth.FULL:
        return sizes[-1]
    return sizes[0] if growth is Growth.OLD else dice.choice(sizes)


def _reached(file: File, part: Part, tear: Tear, dice: random.Random) -> dict[int, int]:
    """The number of changes of each sector that have reached the disk."""
    sectors = file.sectors()
    pages: dict[int, set[int]] = defaultdict(set)
    for sector, places in sectors.items():
        pages[sector // _IN_A_PAGE].update(places)
    if not pages:
        return {}
    chosen = _pages(sorted(pages), part, dice)
    torn = set(pages) if tear is Tear.ALL else {dice.choice(sorted(pages))} if tear is Tear.ONE else set()
    found: dict[int, int] = {}
    for page, touching in pages.items():
        stages = [-1, *sorted(touching)]
        stage = _stage(stages, dice) if page in chosen else -1
        cut = _IN_A_PAGE
        other = stage
        if page in torn:
            cut = dice.randrange(1, _IN_A_PAGE)
            other = dice.choice(stages)
        for within in range(_IN_A_PAGE):
            sector = page * _IN_A_PAGE + within
            last = stage if within < cut else other
            found[sector] = sum(place <= last for place in sectors.get(sector, ()))
    return found


def _stage(stages: list[int], dice: random.Random) -> int:
    """Mostly the page as it was last, now and then one of its earlier contents."""
    return stages[-1] if dice.random() < 0.7 else dice.choice(stages)


def _pages(pages: list[int], part: Part, dice: random.Random) -> set[int]:
    cut = dice.randint(0, len(pages))
    one = dice.choice(pages)
    match part:
        case Part.NONE:
            return set()
        case Part.ALL:
            return set(pages)
        case Part.FEW | Part.HALF | Part.MOST:
            chance = {Part.FEW: 0.1, Part.HALF: 0.5, Part.MOST: 0.9}[part]
            return {page for page in pages if dice.random() < chance}
        case Part.ALL_BUT_ONE:
            return set(pages) - {one}
        case Part.ONLY_ONE:
            return {one}
        case Part.FIRST:
            return set(pages[:cut])
        case Part.LAST:
            return set(pages[cut:])
