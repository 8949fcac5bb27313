"""Operations for any MSMQ host, without a queue manager of one's own.

`transport` says what becomes of each operation; `thread` is the loop of the one for threads. `address` is where the
host is and what its queues are called. To send: `outgoing` is what is sent, `sending_session` one session with the host
and what goes over it, without a socket; `sender` has the sockets. To read: `access` is who reads, at which ports;
`rpc_connection` has the sockets, `reading_session` what is open over them, `queue_reader` a queue with its `reading`,
and `reader` all of one host; `failures` and `received` say what came of it.
"""
