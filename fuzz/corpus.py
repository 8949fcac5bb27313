"""The inputs of a target: its seeds, the corpus in the repository, and what campaigns found, outside of it."""

import sys
from collections.abc import Callable, Iterable
from hashlib import sha1
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import waypost
from fuzz.seeds import SEEDS

ROOT: Final = Path(__file__).resolve().parents[1]
KEPT: Final = ROOT / "fuzz/corpus"
FOUND: Final = ROOT / "build/fuzz"

# The corpus of one target in the repository, in bytes.
MAX_KEPT: Final = 16 * 1024

_PACKAGE: Final = str(Path(waypost.__file__).parent)

Place = tuple[CodeType, int]


def read(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def write(folder: Path, inputs: Iterable[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (folder / sha1(data, usedforsecurity=False).hexdigest()[:16]).write_bytes(data)


def known(name: str) -> list[bytes]:
    """The inputs that the suite replays: the seeds of a target and its corpus in the repository."""
    return [*SEEDS[name](), *read(KEPT / name)]


def keep(name: str, target: Callable[[bytes], None]) -> int:
    """Replaces the corpus of a target by the best of all its inputs; returns how many these are."""
    best = distilled(target, SEEDS[name](), [*read(KEPT / name), *read(FOUND / name)])
    for path in (KEPT / name).glob("*"):
        path.unlink()
    write(KEPT / name, best)
    return len(best)


def distilled(target: Callable[[bytes], None], seeds: list[bytes], inputs: list[bytes]) -> list[bytes]:
    """The shortest inputs first, each of which takes a step through the package that no seed and none before took."""
    steps: set[tuple[Place, Place]] = set()
    for seed in seeds:
        steps |= steps_of(target, seed)
    best = []
    room = MAX_KEPT
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        found = steps_of(target, data)
        if len(data) <= room and not found <= steps:
            steps |= found
            best.append(data)
            room -= len(data)
    return best


def steps_of(target: Callable[[bytes], None], data: bytes) -> set[tuple[Place, Place]]:
    """The pairs of lines of the package that are executed one after the other."""
    steps: set[tuple[Place, Place]] = set()
    before: Place = (steps_of.__code__, 0)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal before
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        if event == "line":
            here = (frame.f_code, frame.f_lineno)
            steps.add((before, here))
            before = here
        return trace

    sys.settrace(trace)
    try:
        target(data)
    finally:
        sys.settrace(None)
    return steps
