"""Stream orders from a queue to a Delta table, and invoices back to a queue, exactly once even after failures.

    python examples/spark_delta.py [FOLDER]

The program needs the extras `spark` and `delta`, and a daemon. The environment variable WAYPOST_URL specifies the
daemon (default: the daemon on this computer). The folder contains the table and the checkpoint. If you run the program
again with the same folder, the program continues where it ended. The package delta-rs writes the table, so Spark needs
no jars.
"""

import os
import sys
import tempfile
from contextlib import suppress

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame

import waypost
from waypost.errors import QueueExists
from waypost.spark import session

URL = os.environ.get("WAYPOST_URL", "http://127.0.0.1:8181")
FOLDER = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
TABLE = f"{FOLDER}/orders"

with waypost.connect(URL) as manager:
    for name in ("delta-orders", "delta-invoices"):
        with suppress(QueueExists):
            manager.create_queue(name, transactional=True)
    with manager.transaction() as transaction:
        orders = [f'{{"customer": "customer {number % 3}", "amount": {number}}}' for number in range(30)]
        manager.queue("delta-orders").send_many(orders, transaction=transaction, label="order")

spark = session("delta")


def load(batch: DataFrame, number: int) -> None:
    """Add a batch to the table. The commit also records the query and the number of the batch."""
    query = str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
    if DeltaTable.is_deltatable(TABLE):
        last = DeltaTable(TABLE).transaction_version(query)
        if last is not None and last >= number:
            print("batch", number, "is already in the table")  # Spark repeats it after a crash
            return
    rows = batch.selectExpr("seq", "from_json(body_text, 'customer STRING, amount INT') AS it").select("seq", "it.*")
    once = CommitProperties(app_transactions=[Transaction(query, number)])
    write_deltalake(TABLE, rows.toArrow(), mode="append", commit_properties=once)


# From the queue to the table: a claim repeats a batch with the same messages, and removes the messages after the batch.
source = spark.readStream.format("msmq").options(server=URL, queue="delta-orders", mode="claim", decodeBody=True)
query = (
    source.option("maxMessagesPerTrigger", 20)
    .load()
    .writeStream.foreachBatch(load)
    .option("checkpointLocation", f"{FOLDER}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# From the table to a queue: the files that a version has added contain the rows of that version. The daemon skips
# versions that it already has. The name of the application contains the identifier of the table.
table = DeltaTable(TABLE)
before: set[str] = set()
for version in range(table.version() + 1):
    files = set(DeltaTable(TABLE, version=version).file_uris())
    invoices = (
        spark.read.parquet(*sorted(files - before))
        .groupBy("customer")
        .agg({"amount": "sum"})
        .selectExpr("customer AS label", "concat('please pay ', `sum(amount)`) AS body")
    )
    writer = invoices.write.format("msmq").mode("append").options(server=URL, queue="delta-invoices")
    writer.options(txnAppId=f"invoices of {table.metadata().id}", txnVersion=version).save()
    before = files

with waypost.connect(URL) as manager:
    print("versions of the table:", table.version() + 1)
    print("orders in the table:", table.count())
    print("orders in the queue:", manager.queue("delta-orders").info().message_count)
    print("invoices:", manager.queue("delta-invoices").info().message_count)
