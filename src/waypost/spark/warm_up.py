"""Make the archive of classes: a session does a little of everything, so that Java knows which classes to keep.

    python -m waypost.spark.warm_up

The session runs in a separate process, because Java writes the archive when it ends.
"""

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from waypost.spark.java import find_java, make_archive
from waypost.spark.session import JAVA_OPTIONS, java_options, session


def main() -> None:
    if len(sys.argv) > 1:
        sys.exit(dump(sys.argv[1]))
    archive = make_archive()
    print(
        f"Spark will load its classes from the archive {archive}."
        if archive
        else "This Java version does not support an archive of classes for Spark."
    )


def dump(archive: str) -> int:
    """Write the archive. Returns the exit code of Java."""
    options = f'{java_options(find_java())} "-XX:ArchiveClassesAtExit={archive}" "-Xlog:disable"'
    spark = session("warm-up", master="local[2]", conf={JAVA_OPTIONS: options})
    work(spark, f"{archive}.work")
    spark.stop()
    return end_java()


def work(spark: SparkSession, place: str) -> None:
    """Use the parts of Spark that messages need: Python on Arrow, files, a join, a stream. `place` is a new folder."""
    rows = spark.range(100).selectExpr("id", "id % 7 AS seventh", "cast(id AS string) AS word")
    rows.mapInArrow(_same, rows.schema).write.parquet(f"{place}/rows")
    read = spark.read.parquet(f"{place}/rows")
    read.join(read.groupBy("seventh").count(), "seventh").orderBy("id").collect()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().writeStream
    query = stream.format("noop").option("checkpointLocation", f"{place}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination(60)
    query.stop()


def end_java() -> int:
    """Ask the Java of a stopped session to end, and wait for it. Returns its exit code."""
    # Spark keeps Java running until this process ends, and has no public name for its gateway.
    gateway = SparkContext._gateway  # noqa: SLF001
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    code: int = gateway.proc.wait()
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    return code


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    main()
