"""Reading the queues of other computers over RPC: MS-MQRR, and MS-MQQP with its part of MS-MQMP."""
