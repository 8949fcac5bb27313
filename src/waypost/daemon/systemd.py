"""The word to systemd that the service is ready or stops: sd_notify(3), where somebody listens."""

import os
import socket
import sys
from contextlib import suppress


def notify(state: str) -> None:
    """`state` is READY=1, STOPPING=1, or how far a long start is: EXTEND_TIMEOUT_USEC and STATUS, a line each."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path or sys.platform == "win32":
        return
    # A name in the abstract namespace begins with a zero byte, which the variable has as @.
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.sendto(state.encode("ascii"), address)
