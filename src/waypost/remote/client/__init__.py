"""A reader of the queues of another computer: MS-MQRR 3.2 and MS-MQQP 3.2, as conversations without I/O.

    RemoteReadClient(identity).open(name, access, share)    the queue, over RemoteRead
    Qm2QmClient(identity).open(name, access, share)         the same over qm2qm
    open_remote_queue(remote_read, qm2qm, opening)          over the first of the two that the computer has

`open` returns a RemoteQueue: read, cancel, purge, cursors, close. Each of them is a Conversation that a shell
carries, blocking or not (`conversations` says how).
"""
