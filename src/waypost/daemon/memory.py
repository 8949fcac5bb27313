"""How the allocator of the C library treats memory that is free again.

Every batch takes some hundred kilobytes to a few megabytes and gives them back. glibc returns the end of its heap to
the system whenever 128 KiB are free there, and the next batch pays for each page again: a copy of a message of 1 KiB
took 1.3 microseconds instead of 0.3. So a daemon keeps some megabytes.
"""

import ctypes
import sys
from typing import Final

# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3).
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 1 << 25
# Larger blocks are mapped by themselves and returned at once. To set one threshold ends the other's adjustment.
_LARGE_BYTES: Final = 1 << 22


def keep_freed_memory() -> bool:
    """Whether the C library of this system could be asked for it."""
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)) and bool(mallopt(_MMAP_THRESHOLD, _LARGE_BYTES))
