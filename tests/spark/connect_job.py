"""A client of Spark Connect: reads queues, writes to them, follows them, and repeats a batch.

python -m tests.spark.connect_job REMOTE URL PLACE
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.contract.recorder import Record, Recorder

LATE_WORKER: Final = "Python worker failed to connect back"
TRIES: Final = 5


def main(remote: str, url: str, place: str) -> None:
    spark = SparkSession.builder.remote(remote).getOrCreate()
    try:
        # Spark finds the format where the server runs.
        orders = spark.read.format("msmq").options(server=url, queue="connect-orders").load()
        found = orders.count()
        spark.sql(f"CREATE TEMPORARY VIEW orders USING msmq OPTIONS (server '{url}', queue 'connect-orders')")
        (view,) = spark.sql("SELECT count(*) AS orders FROM orders").collect()
        for _ in range(2):
            invoices = spark.range(0, 10, 1, 2).selectExpr("concat('invoice ', id) AS body")
            writer = invoices.write.format("msmq").mode("append").options(server=url, queue="connect-invoices")
            writer.options(txnAppId="connect", txnVersion=1).save()
        claim(spark, url, place)
        spark.dataSource.register(Recorder)
        copy = copier(url, place)
        follow(spark, url, place, copy)
        forget_last(Path(place, "copies/commits"))
        follow(spark, url, place, copy)
    finally:
        spark.stop()
    writes = Record(place).events("write")
    print(json.dumps({"found": found, "view": view.orders, "named": all(write["query"] for write in writes)}))


def claim(spark: SparkSession, url: str, place: str) -> None:
    stream = spark.readStream.format("msmq").options(server=url, queue="connect-orders", mode="claim").load()
    run(
        stream.select("body", "body_type")
        .writeStream.format("msmq")
        .options(server=url, queue="connect-invoices", checkpointLocation=f"{place}/claims")
    )


def copier(url: str, place: str) -> Callable[[DataFrame, int], None]:
    def copy(batch: DataFrame, number: int) -> None:
        writer = batch.select("body", "body_type").write.format("msmq").mode("append").options(server=url)
        writer.options(queue="connect-copies", txnAppId="copies", txnVersion=number).save()
        batch.selectExpr("seq AS n").write.format("recorder").option("place", place).mode("append").save()

    return copy


def follow(spark: SparkSession, url: str, place: str, copy: Callable[[DataFrame, int], None]) -> None:
    stream = spark.readStream.format("msmq").options(server=url, queue="connect-invoices").load()
    writer = stream.writeStream.foreachBatch(copy).option("checkpointLocation", f"{place}/copies")
    run(writer)


def run(writer: DataStreamWriter) -> None:
    """Run a query to its end.

    Spark gives a worker ten seconds to start, which a busy computer misses: then the query goes on with its checkpoint.
    """
    for attempt in range(1, TRIES + 1):
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        except PySparkException as error:
            if LATE_WORKER not in str(error) or attempt == TRIES:
                raise
        else:
            return


def forget_last(commits: Path) -> None:
    last = max((path for path in commits.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
