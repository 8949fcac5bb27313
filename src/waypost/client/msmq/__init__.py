"""`waypost.msmq`: messages to and from any MSMQ host without a queue manager of one's own.

`place` is where the host is and what its queues are called. To send: `outgoing` is what is sent, `line` one session
with the host and what goes over it, without a socket; `sender` has the sockets. To read: `access` is who reads, at
which ports; `rpc_connection` has the sockets, `session` what is open over them, `source` a queue with its `reading`,
and `reader` all of one host; `failures` and `received` say what came of it. `host` and `aio`, with `host_queue` and
`aio_queue`, are what a program sees; `thread` is the loop of `host`.
"""
