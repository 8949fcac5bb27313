"""Measure durable queues side by side: `python bench/queues.py [--rounds N] [--quick]`.

Each contender of bench/contenders.py has a separate folder under build/, on the disk of the checkout. In each round
all of them send and then receive for a fraction of a second, one contender after the other and each first in turn; a
rate is the median of the rounds, and a ratio the median of the ratios of the rounds, which a busy machine disturbs
least. Messages have 1 KiB, time is that of the wall, and the garbage collector is on. The table is printed, and
build/bench.json has the same figures. The exit code does not depend on them.
"""

import argparse
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from threading import Barrier, Thread
from time import perf_counter
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.contenders import BATCH, BODY, CONTENDERS, Contender, Worker

ROUNDS: Final = 11
QUICK_ROUNDS: Final = 3
SECONDS_OF_ONE_STRETCH: Final = 0.2

LEAST_TO_RAW: Final = 0.25
LEAST_TO_OTHERS: Final = 3.0

RAW: Final = "py-lmdb"
OTHERS: Final = ("persist-queue", "litequeue")


@dataclass(frozen=True, slots=True)
class Scene:
    """The work of all contenders: `threads` at a time, each `size` messages at a time."""

    threads: int
    size: int

    @property
    def contenders(self) -> list[str]:
        return [name for name in CONTENDERS if self.size > 1 or name != "waypost, many"]

    def calls(self, worker: Worker) -> tuple[Callable[[], None], Callable[[], None]]:
        return (worker.send, worker.receive) if self.size == 1 else (worker.send_batch, worker.receive_batch)


SCENES: Final = tuple(Scene(threads, size) for threads in (1, 4) for size in (1, BATCH))

# Messages per second of each round, by scene, verb ("send", "receive") and contender.
Rates = dict[tuple[Scene, str, str], list[float]]


@dataclass(slots=True)
class Figures:
    """Messages per second, and ratios to the others. Only batches have bounds."""

    what: str
    threads: int
    size: int
    per_second: float
    raw_per_second: float
    to_raw: float
    others_per_second: dict[str, float]
    to_better_other: float


def measure(rounds: int, folder: Path) -> Rates:
    rates: Rates = defaultdict(list)
    with ExitStack() as opened:
        contenders: dict[str, Contender] = {}
        for name, make in CONTENDERS.items():
            place = folder / name
            place.mkdir()
            contenders[name] = make(place)
            opened.callback(contenders[name].close)
        # The first round finds cold caches and empty files, and does not count.
        for number in range(rounds + 1):
            for scene in SCENES:
                names = scene.contenders
                turn = number % len(names)
                for name in names[turn:] + names[:turn]:
                    sent, received = one_round(scene, contenders[name])
                    if number:
                        rates[scene, "send", name].append(sent)
                        rates[scene, "receive", name].append(received)
            print(f"\rround {number} of {rounds}", end="", file=sys.stderr, flush=True)
    print("\r", end="", file=sys.stderr)
    return rates


def one_round(scene: Scene, contender: Contender) -> tuple[float, float]:
    """Send for a while and receive that, or as much of it as the time allows."""
    calls = [scene.calls(contender.worker()) for _ in range(scene.threads)]
    sends, seconds_of_sends = stretch([send for send, _ in calls])
    receives, seconds_of_receives = stretch([receive for _, receive in calls], sends)
    contender.clear()
    return sends * scene.size / seconds_of_sends, receives * scene.size / seconds_of_receives


def stretch(calls: list[Callable[[], None]], most: int | None = None) -> tuple[int, float]:
    """Call each in a separate thread, again and again, at most `most` times together. Returns calls and seconds."""
    tickets = iter(range(sys.maxsize if most is None else most))
    start = Barrier(len(calls) + 1)
    done: list[int] = []
    errors: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        start.wait()
        try:
            done.append(_repeat(call, tickets, perf_counter() + SECONDS_OF_ONE_STRETCH))
        except BaseException as error:  # noqa: BLE001, it is raised below
            errors.append(error)

    threads = [Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    start.wait()
    begun = perf_counter()
    for thread in threads:
        thread.join()
    seconds = perf_counter() - begun
    for error in errors:
        raise error
    return sum(done), seconds


def _repeat(call: Callable[[], None], tickets: Iterable[int], deadline: float) -> int:
    """Each ticket allows one call. One that is taken is used, so that the deadline loses no message."""
    times = 0
    for _ in tickets:
        call()
        times += 1
        if perf_counter() >= deadline:
            break
    return times


def figures(rates: Rates) -> list[Figures]:
    result = []
    for scene in SCENES:
        for verb in ("send", "receive"):
            raw = rates[scene, verb, RAW]
            others = {name: rates[scene, verb, name] for name in OTHERS}
            better = [max(both) for both in zip(*others.values(), strict=True)]
            for name in (name for name in scene.contenders if name.startswith("waypost")):
                ours = rates[scene, verb, name]
                result.append(
                    Figures(
                        verb + "_many" * name.endswith("many"),
                        scene.threads,
                        scene.size,
                        median(ours),
                        median(raw),
                        _ratio(ours, raw),
                        {other: median(theirs) for other, theirs in others.items()},
                        _ratio(ours, better),
                    )
                )
    return result


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return median(our / their for our, their in zip(ours, theirs, strict=True))


def table(rows: list[Figures]) -> str:
    heads = f"{'messages/s':14}{'threads':>8}{'together':>9}{'waypost':>11}{'py-lmdb':>11}{'ratio':>7}{'bound':>13}"
    lines = [heads + f"{'persist-queue':>15}{'litequeue':>11}{'ratio':>7}{'bound':>13}"]
    for row in rows:
        persist, lite = (row.others_per_second[name] for name in OTHERS)
        lines.append(
            f"{row.what:14}{row.threads:8}{row.size:9}"
            f"{row.per_second:11,.0f}{row.raw_per_second:11,.0f}{row.to_raw:7.2f}"
            f"{_verdict(row, row.to_raw, LEAST_TO_RAW):>13}"
            f"{persist:15,.0f}{lite:11,.0f}{row.to_better_other:7.1f}"
            f"{_verdict(row, row.to_better_other, LEAST_TO_OTHERS):>13}".rstrip()
        )
    return "\n".join(lines)


def _verdict(row: Figures, ratio: float, least: float) -> str:
    if row.size == 1:
        return ""
    return f"{least:g} {'met' if ratio >= least else 'MISSED'}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure durable queues side by side.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"number of measurements of each ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, for a first look")
    arguments = parser.parse_args()
    rounds = QUICK_ROUNDS if arguments.quick else max(1, arguments.rounds)
    record.RECORD.parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=record.RECORD.parent))
    try:
        rows = figures(measure(rounds, folder))
    finally:
        shutil.rmtree(folder)
    setting = {**record.setting(), "rounds": rounds, "bytes": len(BODY)}
    record.keep({"queues": {**setting, "rows": [asdict(row) for row in rows]}})
    print(table(rows))
    print(
        f"Medians of {rounds} rounds, messages of {len(BODY):,} bytes, each call durable when it returns; "
        f"together: messages in one transaction. Python {setting['python']}, {setting['machine']}."
    )


if __name__ == "__main__":
    main()
