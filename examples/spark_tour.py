"""Read, stream and write queues with Spark: the examples of docs/spark.md.

    python examples/spark_tour.py

The program needs the extra `spark` and a daemon. The environment variable WAYPOST_URL specifies the daemon (default:
the daemon on this computer). The program creates two queues, and deletes both queues at the end.
"""

import os
import tempfile
from uuid import uuid4

import waypost
from waypost.spark import purge, session

URL = os.environ.get("WAYPOST_URL", "http://127.0.0.1:8181")

with waypost.connect(URL) as manager:
    orders = manager.create_queue("tour-orders")
    orders.send_many([f"order {number}" for number in range(100)], label="new")
    manager.create_queue("tour-invoices", transactional=True)

spark = session("tour")

messages = spark.read.format("msmq").options(server=URL, queue="tour-orders", decodeBody=True).load()
messages.select("seq", "label", "body_kind", "body_text").orderBy("seq").show(3)
print(messages.where("body_text LIKE 'order 1%'").count(), "orders begin with 1")

folder = tempfile.mkdtemp()
stream = spark.readStream.format("msmq").options(server=URL, queue="tour-orders", maxMessagesPerTrigger=60).load()
query = (
    stream.writeStream.format("parquet")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)  # all messages that are there now; without it, the query waits for more
    .start(f"{folder}/orders")
)
query.awaitTermination()
print("batches:", [progress.numInputRows for progress in query.recentProgress])
print(spark.read.parquet(f"{folder}/orders").count(), "orders are in Parquet files, and in their queue")

invoices = spark.range(10).selectExpr("concat('invoice ', id) AS body", "'by hand' AS label", "id AS app_specific")
sink = invoices.write.format("msmq").mode("append").options(server=URL, queue="tour-invoices", txnId=f"tour {folder}")
sink.option("runId", str(uuid4())).save()
sink.option("runId", str(uuid4())).save()  # changes nothing: another run has written the transaction of this name

source = spark.readStream.format("msmq").options(server=URL, queue="tour-orders", mode="claim", decodeBody=True).load()
query = (
    source.selectExpr("concat('invoice for ', body_text) AS body", "'by machine' AS label", "message_id correlation_id")
    .writeStream.format("msmq")
    .options(server=URL, queue="tour-invoices", checkpointLocation=f"{folder}/orders-to-invoices")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

written = spark.read.format("msmq").options(server=URL, queue="tour-invoices").load()
written.groupBy("label").count().orderBy("label").show()

written.write.parquet(f"{folder}/invoices")
last = written.agg({"seq": "max"}).collect()[0][0]
print(purge("tour-invoices", last, server=URL), "invoices are archived and out of their queue")

with waypost.connect(URL) as manager:
    for name in ("tour-orders", "tour-invoices"):
        print(name, "has", manager.queue(name).info().message_count, "messages")
        manager.delete_queue(name)
