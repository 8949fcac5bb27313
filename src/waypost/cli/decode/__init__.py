"""`waypost decode`: captures, raw packets and hexadecimal text, field by field.

waypost.captures finds the packets; then wire.describe, entries, report, one packet after the other.
"""

from waypost.cli.decode.command import decode

__all__ = ["decode"]
