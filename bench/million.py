"""Measure a queue that holds very much: `python bench/million.py [--count N]`.

A queue is filled to a hundredth, a tenth and the whole of the count. At each of these levels a new process opens the
folder, receives, and then measures what single operations cost and how much anonymous memory there is (RssAnon of
Linux: what the process itself holds, without the pages of the store's file that the kernel keeps for it). The folder is
under build/ and is removed. The table is printed, and build/bench.json has the same figures.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import waypost
from bench import record

COUNT: Final = 1_000_000
MOST_MEGABYTES: Final = 300
MOST_SECONDS_TO_FIRST: Final = 3.0

BODY_SIZE: Final = 1024
# More than the default: a million messages with their headers are more than 1 GiB.
QUOTA_KB: Final = 8 << 20
FILL_BATCH: Final = 1000
BATCH: Final = 100
ROUNDS: Final = 30
SINGLES: Final = 200
RECEIVED_FOR_MEMORY: Final = 10_000

# In the temporary folder: the store, and the lookup ids of one in fifty messages, one in a line.
STORE: Final = "store"
LOOKUP_IDS: Final = "lookup_ids"
ONE_IN: Final = 50


@dataclass(slots=True)
class Level:
    """A queue with `waiting` messages in a process that has just opened it."""

    waiting: int
    seconds_to_first: float
    anonymous_mb_opened: float
    anonymous_mb_received: float
    costs: dict[str, "Cost"]


@dataclass(slots=True)
class Cost:
    """Microseconds for one message: of the clock on the wall, with the disk, and of the processor."""

    wall_us: float
    processor_us: float


def fill(folder: Path, level: int) -> dict[str, Any]:
    """Send until so many messages wait."""
    with waypost.open(folder / STORE, quota_kb=QUOTA_KB) as manager, (folder / LOOKUP_IDS).open("a") as lookup_ids:
        queue = _queue(manager)
        body = random.randbytes(BODY_SIZE)
        missing = level - queue.info().message_count
        start = perf_counter()
        for at in range(0, missing, FILL_BATCH):
            with manager.transaction() as transaction:
                sent = queue.send_many([body] * min(FILL_BATCH, missing - at), transaction=transaction)
            lookup_ids.writelines(f"{message.lookup_id}\n" for message in sent[::ONE_IN])
        return {"sent": missing, "seconds": perf_counter() - start, "anonymous_mb": anonymous_megabytes()}


def measure(folder: Path) -> dict[str, Any]:
    """Measure the costs for a new process to use the queue as it is."""
    start = perf_counter()
    with waypost.open(folder / STORE) as manager:
        opened_mb = anonymous_megabytes()
        queue = manager.queue("orders")
        first = queue.receive(0)
        assert len(first.body) == BODY_SIZE
        seconds_to_first = perf_counter() - start
        waiting = queue.info().message_count

        def send_batch() -> None:
            with manager.transaction() as transaction:
                queue.send_many([first.body] * BATCH, transaction=transaction)

        def receive_batch() -> None:
            with manager.transaction() as transaction:
                assert len(queue.receive_many(BATCH, 0, transaction=transaction)) == BATCH

        def peek() -> None:
            queue.peek(lookup_id=random.choice(lookup_ids))

        costs = {
            "send_many": _cost(send_batch, ROUNDS, BATCH),
            "receive_many": _cost(receive_batch, ROUNDS, BATCH),
            "receive": _cost(lambda: queue.receive(0), SINGLES),
        }
        head = queue.peek(0).lookup_id
        lookup_ids = [each for each in map(int, (folder / LOOKUP_IDS).read_text().split()) if each >= head]
        costs["peek"] = _cost(peek, SINGLES)
        left = min(RECEIVED_FOR_MEMORY, queue.info().message_count)
        while left > 0:
            left -= len(queue.receive_many(min(BATCH, left), 0))
        return asdict(Level(waiting + 1, seconds_to_first, opened_mb, anonymous_megabytes(), costs))


def anonymous_megabytes() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("anonymous memory is only known on Linux")


def _queue(manager: waypost.Manager) -> waypost.Queue:
    try:
        return manager.create_queue("orders", transactional=True)
    except waypost.errors.QueueExists:
        return manager.queue("orders")


def _cost(call: Callable[[], object], times: int, messages: int = 1) -> Cost:
    wall = []
    processor_start = process_time()
    for _ in range(times):
        start = perf_counter()
        call()
        wall.append(perf_counter() - start)
    processor = (process_time() - processor_start) / times
    return Cost(median(wall) / messages * 1e6, processor / messages * 1e6)


def _in_new_process(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, __file__, *map(str, arguments)]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return dict(json.loads(result.stdout))


def table(levels: list[Level]) -> str:
    verbs = list(levels[0].costs)
    lines = [f"{'waiting':>10}{'first receive':>15}{'memory':>9}{'then':>9}" + "".join(f"{verb:>18}" for verb in verbs)]
    for level in levels:
        costs = (f"{cost.wall_us:,.0f} ({cost.processor_us:,.0f})" for cost in level.costs.values())
        lines.append(
            f"{level.waiting:10,}{level.seconds_to_first:13.3f} s"
            f"{level.anonymous_mb_opened:6.0f} MB{level.anonymous_mb_received:6.0f} MB"
            + "".join(f"{cost:>18}" for cost in costs)
        )
    lines.append(
        "Memory: anonymous, after opening and after 10,000 receives. Costs: microseconds for one message, "
        "in brackets those of the processor."
    )
    return "\n".join(lines)


def verdict(level: Level) -> str:
    memory = max(level.anonymous_mb_opened, level.anonymous_mb_received)
    return (
        f"At {level.waiting:,}: anonymous memory at most {MOST_MEGABYTES} MB: {_met(memory <= MOST_MEGABYTES)}, "
        f"first receive within {MOST_SECONDS_TO_FIRST:g} s: {_met(level.seconds_to_first <= MOST_SECONDS_TO_FIRST)}."
    )


def _met(is_met: object) -> str:
    return "met" if is_met else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a queue that holds very much.")
    parser.add_argument("--count", type=int, default=COUNT, help=f"messages at the last level ({COUNT:,})")
    steps = parser.add_subparsers(dest="step")
    for step in ("fill", "measure"):
        steps.add_parser(step).add_argument("folder", type=Path)
    steps.choices["fill"].add_argument("level", type=int)
    arguments = parser.parse_args()
    if arguments.step == "fill":
        print(json.dumps(fill(arguments.folder, arguments.level)))
        return
    if arguments.step == "measure":
        print(json.dumps(measure(arguments.folder)))
        return
    record.RECORD.parent.mkdir(exist_ok=True)
    folder = tempfile.mkdtemp(prefix="million-", dir=record.RECORD.parent)
    levels = []
    fills = []
    try:
        # The smallest level has to outlast the measurement itself.
        for part in (100, 10, 1):
            fills.append(_in_new_process("fill", folder, max(arguments.count // part, 2 * ROUNDS * BATCH)))
            filled = fills[-1]
            rate = filled["sent"] / filled["seconds"]
            print(f"sent {filled['sent']:,} at {rate:,.0f}/s; anonymous memory then {filled['anonymous_mb']:.0f} MB")
            found = _in_new_process("measure", folder)
            costs = {verb: Cost(**cost) for verb, cost in found.pop("costs").items()}
            levels.append(Level(costs=costs, **found))
    finally:
        shutil.rmtree(folder)
    setting = {**record.setting(), "bytes": BODY_SIZE, "batch": BATCH}
    record.keep({"million": {**setting, "fills": fills, "levels": [asdict(level) for level in levels]}})
    print(table(levels))
    print(verdict(levels[-1]))


if __name__ == "__main__":
    main()
