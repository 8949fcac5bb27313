"""Make an archive with a data folder and checkpoints, as a version of Waypost leaves them amid its queries.

    PYTHONPATH=OLD/src python -m tests.spark.upgrade.make FILE QUERY ...

OLD is a checkout of that version. All queries move 20 messages in batches of 10. `done` has committed batch 1 at the
daemon, and Spark has not noted it. The others were killed while one of two tasks of batch 1 had staged its messages:
`staged` in the mode peek, `claimed` in the mode claim, and `drained` in the mode drain. A write under the txnId
`import-7` is done. `interrupted.tar.gz` has `done` and `staged`, and `modes.tar.gz` has `claimed` and `drained`.
"""

import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from pyspark import TaskContext

from tests.crash.daemons import ROOT, Daemon, loopback, patience
from waypost.api.bulk import StagedMessages
from waypost.api.properties import MessageProperties
from waypost.client.bulk.client import BulkClient
from waypost.spark.session import session

NAME: Final = "upgrade"
QUERIES: Final = ("done", "staged")
MODES: Final = {"done": "peek", "staged": "peek", "claimed": "claim", "drained": "drain"}
IMPORT: Final = "import-7"
COLUMNS: Final = "body binary, label string"
_SECONDS: Final = 120


class Stuck:
    """Hands rows on, but the second task of batch 1 never ends."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        if context.getLocalProperty("streaming.sql.batchId") == "1" and context.partitionId() == 1:
            time.sleep(3600)
        yield from batches


def options_of(query: str) -> dict[str, str]:
    return {"mode": MODES[query], "maxMessagesPerTrigger": "10", "minPartitions": "2"}


def drive(url: str, query: str, checkpoint: str) -> None:
    """Move what is in the queue come-QUERY to go-QUERY."""
    spark = session("upgrade", master="local[2]")
    rows = (
        spark.readStream.format("msmq")
        .schema(COLUMNS)
        .options(server=url, queue=f"come-{query}", **options_of(query))
        .load()
    )
    if query != "done":
        rows = rows.mapInArrow(Stuck(), COLUMNS)
    options = {"server": url, "queue": f"go-{query}", "checkpointLocation": checkpoint}
    started = rows.writeStream.format("msmq").options(**options).trigger(availableNow=True).start()
    assert started.awaitTermination(_SECONDS)
    assert started.exception() is None


def interrupted(place: Path, daemon: Daemon, queries: list[str]) -> None:
    with daemon.connect() as manager:
        for query in queries:
            bodies = [f"{query} {number}".encode() for number in range(20)]
            manager.create_queue(f"come-{query}").send_many(bodies, label="as it was")
            manager.create_queue(f"go-{query}", transactional=True)
        manager.create_queue("go-import", transactional=True)
    with BulkClient(daemon.url) as client:
        rows = StagedMessages(queue="go-import", like=MessageProperties(), bodies=[b"0", b"1", b"2"])
        client.commit(IMPORT, 0, [client.stage(IMPORT, 0, [rows])])
    for query in queries:
        command = [sys.executable, "-m", "tests.spark.upgrade.make", "drive", daemon.url, query, str(place / query)]
        # A process group for it, so that its Java ends with it.
        with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as driver:
            if query == "done":
                assert driver.wait(_SECONDS) == 0
                continue
            with BulkClient(daemon.url) as client, patience(_SECONDS, "nothing was staged") as turns:
                for _ in turns:
                    queue = client.queue(f"go-{query}")
                    if queue.count == 10 and queue.staged == 5:
                        break
            os.killpg(driver.pid, signal.SIGKILL)
    for name in ("1", ".1.crc") if "done" in queries else ():
        (place / "done/commits" / name).unlink(missing_ok=True)


def make(file: Path, queries: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder), NAME, loopback(77)) as daemon:
        place = Path(folder)
        daemon.start()
        interrupted(place, daemon, queries)
        daemon.stop()
        with tarfile.open(file, "w:gz", compresslevel=9) as archive:
            for name in (f"{NAME}/data.mdb", *queries):
                archive.add(place / name, name)


if __name__ == "__main__":
    if sys.argv[1] == "drive":
        drive(*sys.argv[2:])
    else:
        make(Path(sys.argv[1]), sys.argv[2:] or list(QUERIES))
