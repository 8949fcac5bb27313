"""A driver for a cluster: counts rows in Python, writes numbers with a task that may fail, and messages slowly.

python -m tests.spark.cluster_job MASTER PLACE SETTINGS URL
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from tests.crash.daemons import patience
from tests.spark.clusters import SECONDS
from tests.spark.contract.recorder import Recorder
from waypost.spark import session

# Copies of tasks that take longer than others start at once.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}
# Ten Arrow batches for each partition, more than what waits in the buffers between the processes of Spark.
ROWS = 2000
PARTS = 2
BATCHES = 10


def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


def slowly(place: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows as they are. The first attempt of the last partition waits before its last rows for a copy of it."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        is_slow = context.partitionId() == PARTS - 1
        if is_slow:
            Path(place, f"attempt{context.attemptNumber()}").touch()
        for number, batch in enumerate(batches):
            if is_slow and number == BATCHES - 1 and context.attemptNumber() == 0:
                with patience(SECONDS, "no copy of the slow task has started") as turns:
                    for _ in turns:
                        if Path(place, "attempt1").exists():
                            break
            yield batch

    return rows


def main(master: str, place: str, settings: str, url: str) -> None:
    spark = session("cluster", master=master, conf={**json.loads(settings), **SPECULATION})
    try:
        rows = spark.range(0, 1000, 1, 4).mapInArrow(count, "rows long").collect()
        executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
        spark.dataSource.register(Recorder)
        numbers = spark.range(0, 4, 1, 2).selectExpr("id AS n")
        numbers.write.format("recorder").option("place", place).mode("append").save()
        messages = spark.range(0, ROWS, 1, PARTS).selectExpr("concat(id, repeat(' ', 1000)) AS body")
        slow = messages.mapInArrow(slowly(place), messages.schema)
        slow.write.format("msmq").mode("append").options(server=url, queue="speculated").save()
        print(json.dumps({"rows": sum(row.rows for row in rows), "executors": executors}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
