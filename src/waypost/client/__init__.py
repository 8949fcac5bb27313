"""The Python API: one facade for threads (manager, queue, transaction) and the same as coroutines (aio_...).

Each method makes a record of waypost.api.operations, and a transport (transports) brings it to the queue manager.
"""
