"""The Python API: one facade for threads (facade, queue, transaction) and the same as coroutines (aio, aio_...).

What they do is a record of waypost.api.operations, which a transport (transports) brings to the queue manager.
"""
