"""`waypost.msmq`: messages to any MSMQ host without a queue manager of one's own.

`place` is where the host is and what its queues are called, `outgoing` what is sent, `line` one session with the host
and what goes over it, without a socket; `sender` has the sockets. `host` and `aio` are what a program sees.
"""
