"""Several queue managers that send each other messages, on a network and on hosts that fail.

There is no model beside the nodes here: what each does alone, simulations of one host show. What is checked is what
passes between them, from what is durable where, what is on the wire, and what applications were told.
"""
