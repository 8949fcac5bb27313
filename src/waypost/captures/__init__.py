"""Packets out of captures, files of raw packets and hexadecimal text.

The way of a byte: source -> containers -> frames -> streams -> packets, or source -> hextext -> packets. Everything
runs through generators: memory is bounded by limits.py, whatever the size of the input.
"""
