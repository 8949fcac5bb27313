"""The Python API on a running daemon, over HTTP: `waypost.connect` and `waypost.aio.connect`.

The classes are those of the queue manager inside the process. What they ask for becomes an Exchange instead of an
operation on an engine (`calls`), and two shells, one for threads and one for an event loop, carry it over connections
whose bytes `http11` makes and reads. `schema` is what travels, for the daemon too.
"""
