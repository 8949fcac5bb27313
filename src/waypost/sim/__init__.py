"""Deterministic simulation of whole queue managers: the main instrument that Waypost is proven with.

A seed draws a simulation: hosts with clocks that jump and disks that are slow, full or lost in a crash, clients with
their scripts, and the faults between them (`swarm`, `simulation`, `host`, `disk`, `fabric`). `waypost sim` runs seeds.

What is checked depends on how many hosts there are. Beside the node of one host (`local`) runs a model of it (`model`)
that says what each operation has to answer and what has to survive; the two are compared after every event. Of several
hosts (`net`) the history is checked: what is durable where, what is on the wire, what applications were told.
"""
