"""`waypost decode`: captures, raw packets and hexadecimal text, field by field.

The way of a byte: source -> captures -> frames -> streams -> packets, or source -> hextext -> packets; then
wire.describe, entries, report. Everything runs through generators: memory is bounded by limits.py, whatever the size
of the input.
"""

from waypost.cli.decode.command import decode

__all__ = ["decode"]
