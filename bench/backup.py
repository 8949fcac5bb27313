"""A backup of a daemon while messages are sent and received: the rate that the sender keeps, and what the backup has.

    .venv/bin/python bench/backup.py --waiting 1000000 --count 1000000

One process sends numbered messages in batches and one receives them, until COUNT are through and every round is done.
Meanwhile WAITING messages of 1 KiB lie in another queue. A round is the rate of the sender without a backup, while one
is made, and without again; its ratio is the middle one to the mean of the other two, so that noise shows in the spread.
In the end the last backup is restored, and has to hold everything that was acknowledged before it began and not
received by then.
"""

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import waypost  # noqa: E402
from tests.crash.daemons import Daemon, loopback  # noqa: E402

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

BATCH: Final = 250
BODY: Final = b"x" * 1014
SECONDS: Final = 600


def send(url: str, count: int, sent: "Synchronized[int]", is_over: "Synchronized[int]") -> None:
    with waypost.connect(url, timeout=SECONDS) as manager:
        queue = manager.queue("work")
        while sent.value < count or not is_over.value:
            first = sent.value
            queue.send_many([b"%010d%b" % (number, BODY) for number in range(first, first + BATCH)])
            sent.value = first + BATCH


def receive(url: str, received: "Synchronized[int]") -> None:
    with waypost.connect(url, timeout=SECONDS) as manager:
        queue = manager.queue("work")
        while True:
            found = queue.receive_many(BATCH, timeout=SECONDS)
            received.value += len(found)


def rate(sent: "Synchronized[int]", seconds: float) -> float:
    first, begun = sent.value, time.monotonic()
    time.sleep(seconds)
    return (sent.value - first) / (time.monotonic() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--waiting", type=int, default=1_000_000, help="messages that lie in a queue")
    parser.add_argument("--count", type=int, default=1_000_000, help="messages that are sent and received")
    parser.add_argument("--seconds", type=float, default=10, help="seconds of measurement without a backup")
    parser.add_argument("--rounds", type=int, default=3, help="backups to make")
    parser.add_argument("--set", action="append", default=[], help="a setting of the daemon, such as store.x=1")
    options = parser.parse_args()
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    # On the disk of the checkout, where nothing is taken for a part of it.
    with tempfile.TemporaryDirectory(dir=build, prefix="backup-") as place:
        measure(Path(place), options)


@dataclass(slots=True)
class Moment:
    """When a backup began: what was acknowledged to the sender by then, and what was received."""

    acknowledged: int
    taken: int
    taken_at_first_byte: int = -1


def measure(place: Path, options: Any) -> None:
    settings = ["quotas.machine_kb=16000000", *options.set]
    sent: Synchronized[int] = multiprocessing.Value("q", 0)
    received: Synchronized[int] = multiprocessing.Value("q", 0)
    is_over: Synchronized[int] = multiprocessing.Value("q", 0)
    ratios = []
    with Daemon(place, "bench", loopback(41), *settings) as daemon:
        daemon.start()
        with waypost.connect(daemon.url, timeout=SECONDS) as manager:
            waiting = manager.create_queue("waiting")
            manager.create_queue("work")
            for _ in range(options.waiting // 1000):
                waiting.send_many([BODY] * 1000)
            sender = multiprocessing.Process(target=send, args=(daemon.url, options.count, sent, is_over), daemon=True)
            receiver = multiprocessing.Process(target=receive, args=(daemon.url, received), daemon=True)
            for worker in (sender, receiver):
                worker.start()
            time.sleep(3)
            before = rate(sent, options.seconds)
            for number in range(options.rounds):
                folder = place / f"backup{number}"
                moment = Moment(sent.value, received.value)
                begun = time.monotonic()
                manager.backup(folder, progress=partial(note, moment, received))
                took = time.monotonic() - begun
                beside = (sent.value - moment.acknowledged) / took
                after = rate(sent, options.seconds)
                size = (folder / "waypost.backup").stat().st_size / 1e6
                ratios.append(beside / ((before + after) / 2))
                print(
                    f"backup of {size:.0f} MB in {took:.1f} s, {size / took:.0f} MB/s; sender: {before:.0f}/s before, "
                    f"{beside:.0f}/s beside it, {after:.0f}/s after: ratio {ratios[-1]:.2f}",
                    flush=True,
                )
                before = after
                if number < options.rounds - 1:
                    shutil.rmtree(folder)
            is_over.value = 1
            sender.join()
            while received.value < sent.value:
                time.sleep(0.1)
            receiver.terminate()
        size = (daemon.folder / "data.mdb").stat().st_size / 1e6
        print(f"{sent.value} sent and received; daemon: {daemon.memory / 1e6:.0f} MB in memory, {size:.0f} MB on disk")
    print(f"the sender keeps {median(ratios):.2f} of its rate (from {min(ratios):.2f} to {max(ratios):.2f})")
    check(place, folder, moment, options.waiting)


def note(moment: Moment, received: "Synchronized[int]", _come: int, _about: int) -> None:
    if moment.taken_at_first_byte < 0:
        moment.taken_at_first_byte = received.value


def check(place: Path, backup: Path, moment: Moment, waiting: int) -> None:
    start = time.monotonic()
    waypost.restore(backup, place / "copy", new_identity=True)
    print(f"restored in {time.monotonic() - start:.1f} s")
    with waypost.open(place / "copy") as copy:
        kept = copy.queue("waiting").info().message_count
        numbers = [int(message.body[:10]) for message in copy.queue("work").browse()]
    missing = set(range(moment.taken_at_first_byte, moment.acknowledged)).difference(numbers)
    print(f"the backup has {kept} of {waiting} that lie, and {len(numbers)} under way; missing: {len(missing)}")
    assert kept == waiting
    assert not missing
    # Messages that were received before it began are not there, but for an answer that was under way.
    assert not [number for number in numbers if number < moment.taken - BATCH]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


if __name__ == "__main__":
    main()
