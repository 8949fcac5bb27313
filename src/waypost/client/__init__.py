"""The Python API: one facade for threads (manager, queue, transaction) and the same as coroutines (aio_...).

What they do is a record of waypost.api.operations, which a transport (transports) brings to the queue manager.
"""
