"""The Python API: a facade for threads (manager, queue, transaction), and the same with coroutines (aio_...).

Each method makes a record of waypost.api.operations, and a transport (transports) carries it to the queue manager.
"""
