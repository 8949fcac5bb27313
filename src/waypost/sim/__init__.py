"""Deterministic simulation of whole queue managers: the main test of Waypost.

A seed draws a simulation: hosts with clocks that jump and disks that are slow, full or lost in a crash, clients with
their scripts, and the faults between them (`swarm`, `simulation`, `host`, `disk`, `fabric`). `waypost sim` runs seeds.

The checks depend on the number of hosts. Beside the node of one host (`local`) runs a model of it (`model`) that says
what each operation has to answer and what has to survive; the two are compared after every event. For several hosts
(`net`) the history is checked: the durable messages of each host, the bytes on the wire, the answers to applications.
"""
