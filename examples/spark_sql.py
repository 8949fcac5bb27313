"""Read, filter and write queues with SQL only.

The program needs a daemon (`waypost serve`) and `waypost[spark]`. The environment variable WAYPOST_URL specifies the
daemon (default: the daemon on this computer).
"""

import os

import waypost
from waypost.spark import register, session

URL = os.environ.get("WAYPOST_URL", "http://127.0.0.1:8181")

STATEMENTS = f"""
CREATE TEMPORARY VIEW orders USING msmq
OPTIONS (server '{URL}', queue 'sql-orders', columns 'seq, message_id, message_class, label, body_text, headers');

SELECT label, count(*) AS orders, min(msmq_class_name(message_class)) AS class
FROM orders GROUP BY label ORDER BY label;

CREATE TEMPORARY VIEW urgent USING msmq
OPTIONS (server '{URL}', queue 'sql-orders', labelPattern 'urgent*', classes 'normal');

SELECT count(*) AS urgent FROM urgent;

SELECT label, get_json_object(body_text, '$.item') AS item, headers[0].value AS sender
FROM orders WHERE get_json_object(body_text, '$.count') > 8 ORDER BY seq;

CREATE TEMPORARY VIEW invoices USING msmq OPTIONS (server '{URL}', queue 'sql-invoices');

INSERT INTO invoices (label, body, correlation_id)
SELECT concat('invoice for ', label), encode(body_text, 'UTF-8'), message_id FROM orders;

SELECT count(*) AS invoices, min(msmq_message_id(correlation_id)) LIKE '{{%}}%' AS has_order FROM invoices;

CREATE TABLE IF NOT EXISTS sql_queues USING msmq;

INSERT INTO sql_queues WITH (server = '{URL}', queue = 'sql-invoices') (label, body) VALUES ('by hand', X'7B7D');

SELECT count(*) AS invoices FROM sql_queues WITH (server = '{URL}', queue = 'sql-invoices')
"""

with waypost.connect(URL) as manager:
    orders = manager.create_queue("sql-orders")
    for number in range(10):
        orders.send(
            b'{"item": "bolt", "count": %d}' % number,
            label="urgent" if number % 5 == 0 else "normal",
            extension=b'{"rbs2-sender": "shop"}',
        )
    manager.create_queue("sql-invoices", transactional=True)

spark = session("sql")
register(spark)  # the functions msmq_...
for statement in STATEMENTS.split(";"):
    rows = spark.sql(statement)
    if statement.split()[0] == "SELECT":
        rows.show(truncate=False)

spark.sql("DROP TABLE sql_queues")
with waypost.connect(URL) as manager:
    for name in ("sql-orders", "sql-invoices"):
        manager.delete_queue(name)
