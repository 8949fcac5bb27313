"""Transports to any MSMQ host, without a local queue manager.

`transport` maps each operation to the host; `thread` is the event loop of the transport for threads. `address` has the
host and the names of its queues. To send: `outgoing` makes the messages, `sending_session` is one session with the host
and its messages, without a socket; `sender` has the sockets. To read: `access` has the user and the ports;
`rpc_connection` has the sockets, `reading_session` the handles open over them, `queue_reader` a queue with its
`reading`, and `reader` all queues of one host; `failures` and `received` make the errors and the messages.
"""
