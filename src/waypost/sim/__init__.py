"""Deterministic simulation of whole queue managers: the main instrument that Waypost is proven with.

A seed draws a simulation: hosts with clocks that jump and disks that are slow, full or lost in a crash, clients with
their scripts, and the faults between them. Beside every node runs a model (waypost.sim.model) that says what each
operation has to answer and what has to survive; checkers compare the two after every event. `waypost sim` runs seeds.
"""
