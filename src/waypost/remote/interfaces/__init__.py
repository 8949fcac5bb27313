"""The RPC interfaces of remote reading as tables: MS-MQRR 6, MS-MQQP 6, and what MS-MQQP needs of MS-MQMP 6."""
