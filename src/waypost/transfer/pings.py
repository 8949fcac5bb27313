"""Ping Messages as they arrive: MS-MQQB 2.1.2 and 2.2.7."""

from waypost.errors import DecodeError
from waypost.wire.ping import Ping


def received_ping(datagram: bytes) -> Ping | None:
    """The Ping in a datagram. Another signature or size gives None: both sides ignore it without a word."""
    try:
        return Ping.decode(datagram)
    except DecodeError:
        return None
