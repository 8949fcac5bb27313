"""Settings of the C allocator for freed memory.

Every batch allocates some hundred kilobytes to a few megabytes and frees them. glibc returns the end of its heap to the
system whenever 128 KiB are free there, and the next batch pays for each page again: to copy a message of 1 KiB took 1.3
microseconds instead of 0.3. So a daemon keeps some megabytes.
"""

import ctypes
import sys
from typing import Final

# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3).
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 1 << 25
# Larger blocks have their own mapping and are returned at once. Setting one threshold ends the adjustment of the other.
_LARGE_BYTES: Final = 1 << 22


def keep_freed_memory() -> bool:
    """Make the C library keep freed memory. Returns whether it could."""
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)) and bool(mallopt(_MMAP_THRESHOLD, _LARGE_BYTES))
