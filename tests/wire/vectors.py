"""The bytes of tests/vectors, which nobody of this project made, and frame 7 completed (readings MQQB 6)."""

from pathlib import Path
from typing import Final

VECTORS: Final = Path(__file__).parents[1] / "vectors"


def vector(name: str, kind: str = "bin") -> bytes:
    """The bytes of a vector: a packet, or something of another kind."""
    return (VECTORS / f"{name}.{kind}").read_bytes()


def frame(number: int) -> bytes:
    """Frame `number` of MS-MQQB 4.1.

    The printed frame 7 stops at 1650 of 2224 bytes: 61 00 repeated and 2 padding bytes are missing.
    """
    data = vector(f"mqqb-4.1.{number}")
    return data + b"a\0" * 286 + b"\0\0" if number == 7 else data
