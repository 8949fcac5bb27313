"""Transports to a daemon, over HTTP.

An operation becomes a conversation of requests and answers (`asking`). A transport for threads (`blocking`) and one for
an event loop (`looping`) carry it over connections; `http11` makes and reads their bytes. `schema` has the structures
on the wire that are not operations, for the daemon too.
"""
