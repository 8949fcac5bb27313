"""Operations for a daemon, over HTTP.

Each becomes a conversation of requests and answers (`asking`). One transport for threads (`blocking`) and one for an
event loop (`looping`) carry it over connections whose bytes `http11` makes and reads. `schema` is what travels and is
not an operation, for the daemon too.
"""
