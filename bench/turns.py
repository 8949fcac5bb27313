"""Measure the turns of a daemon's loop beside long work: `python bench/turns.py [--count N] [--staged N] [CASE ...]`.

Everybody who asks a daemon for something waits for the turn that its loop is in. The daemon measures its own turns;
/api/status has the longest one of the last seconds, how much of it was work of the daemon, and what took most of it.
Beside each case an honest program sends recoverable messages one by one, in a separate process, and asks for
/health/ready after each; its median and its longest send are shown, and its longest wait for /health/ready. `quiet` is
the control: the honest program alone.

`staged` commits messages that were staged before, 5,000,000 unless --staged says otherwise, and ends when all are in
their queue. Its target is that the honest program never waits longer than 100 ms.

The exit code does not depend on the figures. build/bench.json has them. A daemon that measures no turns, such as one of
an older version in PYTHONPATH, shows what the honest program saw.
"""

import argparse
import json
import select
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import waypost
from bench import record, servers
from waypost.api.bulk import CommitStages, StagedMessages
from waypost.api.claims import Claim
from waypost.api.properties import MessageProperties
from waypost.api.status import TurnInfo
from waypost.client.bulk.client import BulkClient
from waypost.limits import MAX_CLAIMED, MAX_TRANSACTION_OPERATIONS

ADDRESS: Final = "127.0.0.6"
HONEST: Final = "honest"
BODY: Final = bytes(200)
BATCH: Final = 2000
QUEUES: Final = 2000
EXPIRING: Final = 100_000
RENUMBERED: Final = 100_000
FAR: Final = r"DIRECT=TCP:127.0.0.99\private$\far"
SECONDS_OF_QUIET: Final = 3.0
SECONDS_TO_EXPIRE: Final = 25
SECONDS_AT_MOST: Final = 900.0
GOAL_MS: Final = 100.0
STAGED: Final = "staged"
STAGE: Final = 10_000

Work = Callable[[waypost.Manager], object]


@dataclass(slots=True)
class Figures:
    """Milliseconds. `turn_ms` is None if no turn took 10 ms, or the daemon does not say."""

    case: str
    seconds: float
    turn_ms: float | None
    work_ms: float | None
    what: str
    median_ms: float
    longest_ms: float
    health_ms: float

    @property
    def missed(self) -> list[str]:
        """The targets that are missed, in words."""
        limits = {"turn": self.turn_ms or 0.0}
        if self.case == STAGED:
            limits |= {"send": self.longest_ms, "health": self.health_ms}
        return [f"{name} {GOAL_MS:.0f} ms" for name, value in limits.items() if value >= GOAL_MS]


def honest(url: str) -> None:
    """Send one by one until standard input ends, and say how long it took, and how long /health/ready."""
    waits: list[float] = []
    health: list[float] = []
    address = url.removeprefix("http://").rstrip("/")
    with waypost.connect(url) as manager, closing(HTTPConnection(address)) as connection:
        queue = manager.queue(HONEST)
        queue.send(BODY)
        print("sending", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            start = time.perf_counter()
            queue.send(BODY)
            sent = time.perf_counter()
            connection.request("GET", "/health/ready")
            connection.getresponse().read()
            waits.append(1000 * (sent - start))
            health.append(1000 * (time.perf_counter() - sent))
            time.sleep(0.002)
    print(json.dumps([median(waits), max(waits), max(health)]))


def measure(case: str, url: str, work: Work) -> Figures:
    command = [sys.executable, __file__, "--honest", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as beside:
        assert beside.stdin is not None
        assert beside.stdout is not None
        beside.stdout.readline()
        with waypost.connect(url, timeout=SECONDS_AT_MOST) as manager:
            # The first sends of the honest program are over.
            time.sleep(0.5)
            start = time.time()
            work(manager)
            seconds = time.time() - start
            turn = _longest_turn(manager, time.time() - start)
        beside.stdin.close()
        waits = json.loads(beside.stdout.readline())
    if turn is None:
        return Figures(case, seconds, None, None, "", *waits)
    return Figures(case, seconds, 1000 * turn.seconds, 1000 * turn.work_seconds, turn.what, *waits)


def _longest_turn(manager: waypost.Manager, seconds: float) -> TurnInfo | None:
    try:
        return manager.status(turns_s=seconds).longest_turn
    except waypost.errors.WaypostError:
        return None


# The cases.


def quiet(_: waypost.Manager) -> None:
    time.sleep(SECONDS_OF_QUIET)


def ask(path: str) -> Work:
    def work(manager: waypost.Manager) -> None:
        file = Path(manager.status().path) / "token"
        # Older versions need no token.
        headers = {"Authorization": f"Bearer {file.read_text().strip()}"} if file.exists() else {}
        for _ in range(5):
            with urllib.request.urlopen(urllib.request.Request(manager.url + path, headers=headers)) as answer:
                answer.read()

    return work


def expiries(manager: waypost.Manager, **properties: Any) -> None:
    """Messages whose time is over in the same second, and the time until all are gone."""
    queue = manager.create_queue("expiring")
    end = int(time.time()) + SECONDS_TO_EXPIRE
    for _ in range(EXPIRING // 1000):
        left = end - int(time.time())
        assert left > 1, "the computer is too slow: give SECONDS_TO_EXPIRE more"
        queue.send_many([BODY] * 1000, time_to_be_received=left, **properties)
    while queue.info().message_count:
        time.sleep(0.2)
    queue.delete()


def move(manager: waypost.Manager) -> None:
    manager.queue("orders").move_all("orders;moved")


def move_back(manager: waypost.Manager) -> None:
    manager.queue("orders;moved").move_all("orders")


def backup(folder: Path) -> Work:
    return lambda manager: manager.backup(folder)


def purge(manager: waypost.Manager) -> None:
    manager.queue("orders").purge()


def delete(manager: waypost.Manager) -> None:
    manager.queue("orders").delete()


def commit(count: int) -> Work:
    """A transaction that sends, and one that receives the same."""

    def work(manager: waypost.Manager) -> None:
        queue = manager.create_queue("ledger", transactional=True)
        _send(manager, queue, count)
        with manager.transaction() as transaction:
            _receive(queue, count, transaction)
        queue.delete()

    return work


def abort(manager: waypost.Manager) -> None:
    """The abort of a transaction that has received as much as one may."""
    queue = manager.create_queue("aborted", transactional=True)
    for _ in range(MAX_TRANSACTION_OPERATIONS // 10_000):
        _send(manager, queue, 10_000)
    transaction = manager.transaction()
    _receive(queue, MAX_TRANSACTION_OPERATIONS, transaction)
    transaction.abort()
    queue.delete()


def claim(url: str) -> Work:
    """The largest claim, and its end."""

    def work(manager: waypost.Manager) -> None:
        queue = manager.create_queue("claimed", transactional=True)
        for _ in range(MAX_CLAIMED // 10_000):
            _send(manager, queue, 10_000)
        with BulkClient(url, timeout=SECONDS_AT_MOST) as bulk:
            found = bulk.claim(Claim(name="claimed", claim="bench", max_messages=MAX_CLAIMED))
            assert found.count == MAX_CLAIMED
            bulk.settle("claimed", "bench", found.number)
        queue.delete()

    return work


def stage(url: str, count: int) -> CommitStages:
    """Stage messages, and return the commit of all of them."""
    query, stages = "bench", []
    with waypost.connect(url) as manager, BulkClient(url, timeout=SECONDS_AT_MOST) as bulk:
        manager.create_queue("staged", transactional=True)
        for at in range(0, count, STAGE):
            group = StagedMessages(queue="staged", like=MessageProperties(), bodies=[BODY] * min(STAGE, count - at))
            stages.append(bulk.stage(query, 0, [group]))
    return CommitStages(query=query, batch=0, stages=stages)


def commit_staged(url: str, wish: CommitStages, count: int) -> Work:
    """A commit, and the delivery of all its messages."""

    def work(_: waypost.Manager) -> None:
        with BulkClient(url, timeout=SECONDS_AT_MOST) as bulk:
            bulk.commit_all(wish, SECONDS_AT_MOST)
            found = bulk.queue("staged")
        assert (found.count, found.arriving) == (count, 0)

    return work


def reset(manager: waypost.Manager) -> None:
    """New numbers for what waits in an outgoing queue; nobody answers at its destination."""
    for _ in range(RENUMBERED // 1000):
        _send(manager, manager.queue(FAR), 1000)
    assert manager.reset_sequences(queue=FAR).renumbered == RENUMBERED


def _send(manager: waypost.Manager, queue: waypost.Queue, count: int) -> None:
    with manager.transaction() as transaction:
        for _ in range(count // 1000):
            queue.send_many([BODY] * 1000, transaction=transaction)


def _receive(queue: waypost.Queue, count: int, transaction: waypost.Transaction) -> None:
    while count:
        count -= len(queue.receive_many(min(count, 1000), 0, transaction=transaction))


def fill(folder: Path, count: int) -> None:
    with waypost.open(folder, quota_kb=None) as manager:
        manager.create_queue(HONEST)
        queue = manager.create_queue("orders")
        for at in range(0, count, BATCH):
            queue.send_many([BODY] * min(BATCH, count - at))


def fill_queues(folder: Path) -> None:
    with waypost.open(folder) as manager:
        manager.create_queue(HONEST)
        for number in range(QUEUES):
            manager.create_queue(f"queue{number}").send(BODY)


@contextmanager
def daemon(folder: Path) -> Iterator[str]:
    with servers.waypost_daemon(folder, ADDRESS, servers.free_port(""), quotas__machine_kb=0x7FFF_FFFF) as server:
        yield server.address


def run(count: int, staged: int, wanted: list[str], folder: Path) -> Iterator[Figures]:
    def is_wanted(*names: str) -> list[str]:
        return [name for name in names if not wanted or name in wanted]

    lists: dict[str, Work] = {
        "quiet": quiet,
        "list": ask("/api/queues"),
        "bulk list": ask("/api/bulk/queues?kind=all"),
        "status": ask("/api/status"),
        "metrics": ask("/metrics"),
        "doctor": ask("/api/doctor"),
        "expiries": expiries,
        "dead-letter messages": lambda manager: expiries(manager, dead_letter=True),
        "commit 10000": commit(10_000),
        "commit 100000": commit(MAX_TRANSACTION_OPERATIONS),
        "abort 100000": abort,
        "reset 100000": reset,
    }
    if found := is_wanted(*lists, "claim 100000"):
        fill_queues(folder / "queues")
        with daemon(folder / "queues") as url:
            for name in found:
                yield measure(name, url, lists[name] if name in lists else claim(url))
    if is_wanted(STAGED):
        fill(folder / "staged", 0)
        with daemon(folder / "staged") as url:
            wish = stage(url, staged)
            yield measure(STAGED, url, commit_staged(url, wish, staged))
    many: dict[str, Work] = {"backup": backup(folder / "backup"), "move": move, "move back": move_back, "purge": purge}
    if found := is_wanted(*many):
        fill(folder / "many", count)
        with daemon(folder / "many") as url:
            for name in found:
                yield measure(name, url, many[name])
    if is_wanted("delete"):
        fill(folder / "deleted", count)
        with daemon(folder / "deleted") as url:
            yield measure("delete", url, delete)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="messages to back up, move, purge and delete")
    parser.add_argument("--staged", type=int, default=5_000_000, help="staged messages to commit (default: 5,000,000)")
    parser.add_argument("--honest", default="", help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", help="such as list, metrics, expiries, move; default: all")
    given = parser.parse_args()
    if given.honest:
        honest(given.honest)
        return
    build = record.RECORD.parent
    build.mkdir(exist_ok=True)
    kept = []
    print(
        f"{'case':14} {'seconds':>8} {'turn ms':>8} {'work ms':>8} {'send p50':>9} {'longest':>8} {'health':>7}  what"
    )
    with tempfile.TemporaryDirectory(dir=build, prefix="turns-") as folder:
        for each in run(given.count, given.staged, given.cases, Path(folder)):
            kept.append(asdict(each))
            turn = "-" if each.turn_ms is None else f"{each.turn_ms:.1f}"
            work = "-" if each.work_ms is None else f"{each.work_ms:.1f}"
            verdict = f"  missed: {', '.join(each.missed)}" if each.missed else ""
            print(
                f"{each.case:14} {each.seconds:8.1f} {turn:>8} {work:>8} {each.median_ms:9.2f} "
                f"{each.longest_ms:8.1f} {each.health_ms:7.1f}  {each.what}{verdict}",
                flush=True,
            )  # fmt: skip
    record.keep({"turns": {**record.setting(), "count": given.count, "staged": given.staged, "rows": kept}})


if __name__ == "__main__":
    main()
