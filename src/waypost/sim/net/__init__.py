"""Several queue managers that send each other messages, on a network and on machines that fail.

There is no model beside the nodes here: what each does alone, worlds of one machine show. What is checked is what
passes between them, from what is durable where, what is on the wire, and what applications were told.
"""
