"""The server of RemoteRead: MS-MQRR 3.1."""
