"""The Python API: a queue manager inside the process, and the same as coroutines.

What does not wait is written once (calls, and what arguments and results mean). The shells of waypost.drive are the two
ways to wait for an answer, and the classes on them differ in nothing else.
"""
