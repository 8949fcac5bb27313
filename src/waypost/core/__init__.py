"""MS-MQDMPR 3: the queue manager without its protocols: messages, queues, cursors, transactions."""
