"""Notifications to systemd, if it runs the daemon: the service is ready, or stops (sd_notify(3))."""

import os
import socket
import sys
from contextlib import suppress


def notify(state: str) -> None:
    """Send a state: READY=1, STOPPING=1, or the progress of a long start, EXTEND_TIMEOUT_USEC and STATUS by line."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path or sys.platform == "win32":
        return
    # A name in the abstract namespace begins with a zero byte, written as @ in the variable.
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.sendto(state.encode("ascii"), address)
