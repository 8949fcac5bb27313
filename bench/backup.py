"""A backup of a daemon while messages are sent and received: the rate that the sender keeps, and what the backup has.

    .venv/bin/python bench/backup.py --waiting 1000000 --count 1000000

One process sends numbered messages in batches and one receives them, until COUNT are through. Meanwhile WAITING
messages of 1 KiB lie in another queue. The rate of the sender is taken without a backup, then while one is made, then
without again, so that noise shows. In the end the backup is restored, and has to hold everything that was acknowledged
before it began and not received by then.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
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


def send(url: str, count: int, sent: "Synchronized[int]") -> None:
    with waypost.connect(url, timeout=SECONDS) as manager:
        queue = manager.queue("work")
        for first in range(0, count, BATCH):
            queue.send_many([b"%010d%b" % (number, BODY) for number in range(first, first + BATCH)])
            sent.value = first + BATCH


def receive(url: str, count: int, received: "Synchronized[int]") -> None:
    with waypost.connect(url, timeout=SECONDS) as manager:
        queue = manager.queue("work")
        while received.value < count:
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
    parser.add_argument("--seconds", type=float, default=10, help="how long a rate is taken without a backup")
    parser.add_argument("--set", action="append", default=[], help="a setting of the daemon, such as store.x=1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        measure(Path(place), options)


def measure(place: Path, options: Any) -> None:
    settings = ["quotas.machine_kb=16000000", *options.set]
    with Daemon(place, "bench", loopback(41), *settings) as daemon:
        daemon.start()
        with waypost.connect(daemon.url, timeout=SECONDS) as manager:
            waiting = manager.create_queue("waiting")
            manager.create_queue("work")
            for _ in range(options.waiting // 1000):
                waiting.send_many([BODY] * 1000)
            sent: Synchronized[int] = multiprocessing.Value("q", 0)
            received: Synchronized[int] = multiprocessing.Value("q", 0)
            workers = [
                multiprocessing.Process(target=work, args=(daemon.url, options.count, progress), daemon=True)
                for work, progress in ((send, sent), (receive, received))
            ]
            for worker in workers:
                worker.start()
            time.sleep(2)
            before = rate(sent, options.seconds)
            acknowledged, taken = sent.value, received.value
            moments: list[int] = []

            def begun(_come: int, _about: int) -> None:
                if not moments:
                    moments.append(received.value)

            start = time.monotonic()
            first = sent.value
            info = manager.backup(place / "backup", progress=begun)
            took = time.monotonic() - start
            beside = (sent.value - first) / took
            is_busy = workers[0].is_alive()
            after = rate(sent, options.seconds)
            for worker in workers:
                worker.join()
        print(f"backup: {info.bytes / 1e6:.0f} MB in {took:.1f} s, {info.bytes / 1e6 / took:.0f} MB/s")
        print(f"sender: {before:.0f}/s before, {beside:.0f}/s beside the backup, {after:.0f}/s after")
        if not is_busy:
            print("the sender was done before the backup: use a greater --count")
        mean = (before + after) / 2
        print(f"ratio to the rate before: {beside / before:.2f}, to the mean of both: {beside / mean:.2f}")
        size = (daemon.folder / "data.mdb").stat().st_size
        print(f"daemon: {daemon.memory / 1e6:.0f} MB in memory, {size / 1e6:.0f} MB on disk")
    start = time.monotonic()
    waypost.restore(place / "backup", place / "copy", new_identity=True)
    print(f"restore: {time.monotonic() - start:.1f} s")
    with waypost.open(place / "copy") as copy:
        kept = copy.queue("waiting").info().message_count
        numbers = [int(message.body[:10]) for message in copy.queue("work").browse()]
    missing = set(range(moments[0], acknowledged)).difference(numbers)
    too_old = [number for number in numbers if number < taken - BATCH]
    print(f"in the backup: {kept} of {options.waiting} that lie, {len(numbers)} under way; missing {len(missing)}")
    assert kept == options.waiting
    assert not missing
    assert not too_old
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


if __name__ == "__main__":
    main()
