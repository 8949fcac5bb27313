"""A driver for a cluster: counts rows in Python, and writes numbers with a task that may fail.

python -m tests.spark.cluster_job MASTER PLACE SETTINGS
"""

import json
import sys
from collections.abc import Iterator

import pyarrow as pa

from tests.spark.contract.recorder import Recorder
from waypost.spark import session


def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


def main(master: str, place: str, settings: str) -> None:
    spark = session("cluster", master=master, conf=json.loads(settings))
    try:
        rows = spark.range(0, 1000, 1, 4).mapInArrow(count, "rows long").collect()
        executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
        spark.dataSource.register(Recorder)
        numbers = spark.range(0, 4, 1, 2).selectExpr("id AS n")
        numbers.write.format("recorder").option("place", place).mode("append").save()
        print(json.dumps({"rows": sum(row.rows for row in rows), "executors": executors}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
