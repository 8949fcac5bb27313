"""Several queue managers that send each other messages, on a network and on hosts that fail.

No model runs beside the nodes here: simulations of one host check what each node does alone. These check what passes
between them: the durable messages of each host, the bytes on the wire, and the answers to applications.
"""
