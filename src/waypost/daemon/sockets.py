"""Sockets to listen on, created before anything else so that a port in use fails at once.

They are bound and do not listen: until `listen`, the system refuses connections.
"""

import errno
import os
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from waypost.errors import InvalidParameter
from waypost.limits import MAX_CONNECTING
from waypost.wire.ip_addresses import with_port

if sys.platform != "win32":
    import resource

_BACKLOG: Final = 1024
_MAX_STEPS: Final = 20
# For the store, the log, listeners and outgoing connections.
_RESERVED_FILES: Final = 64 + MAX_CONNECTING


class CannotListen(InvalidParameter):
    """An address or port is not usable. `is_taken`: another port of the address may be free."""

    is_taken = False


def stream_sockets(address: str, port: int) -> list[socket.socket]:
    """TCP sockets; an empty address means all addresses of both families. Port 0: one free port for all."""
    return _sockets(address, port, socket.SOCK_STREAM)


def stepping_sockets(address: str, port: int, step: int) -> list[socket.socket]:
    """TCP sockets on this port, or on the next free one in steps."""
    for each in range(port, 0x1_0000, step):
        try:
            return stream_sockets(address, each)
        except CannotListen as error:
            if not error.is_taken or each >= port + step * _MAX_STEPS:
                raise
    raise CannotListen(
        f"TCP port {port} of {address or 'this computer'} and all higher ports in steps of {step} are in use"
    )


def datagram_sockets(address: str, port: int) -> list[socket.socket]:
    """UDP sockets; an empty address means all addresses of both families."""
    return _sockets(address, port, socket.SOCK_DGRAM)


def endpoint(bound: socket.socket) -> str:
    """The ADDRESS:PORT of a socket, with brackets around an address of IPv6."""
    address, port, *_ = bound.getsockname()
    return with_port(address, port)


def keep_alive(connection: socket.socket, seconds: int) -> None:
    """Let the system check whether a silent peer is still there."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Not every system has these; the defaults are long.
        for name, value in (("TCP_KEEPIDLE", seconds), ("TCP_KEEPINTVL", seconds // 4 or 1), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def reason(error: Exception) -> str:
    """The reason of a failed connection, in words."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number is not None and number > 0 else str(error) or type(error).__name__


def allow_files(wanted: int, others: int) -> int:
    """Raise the limit of open files for these and other connections. Returns how many of these it allows."""
    if sys.platform == "win32":
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + others + _RESERVED_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # If the limit is low, these connections get half of it.
    return min(wanted, max(soft // 2, soft - others - _RESERVED_FILES))


def _sockets(address: str, port: int, kind: socket.SocketKind) -> list[socket.socket]:
    if address:
        return [_bound(address, port, kind)]
    first = _bound("0.0.0.0", port, kind)
    sockets = [first]
    # A computer may have no IPv6.
    with suppress(CannotListen):
        sockets.append(_bound("::", first.getsockname()[1], kind))
    return sockets


def _bound(address: str, port: int, kind: socket.SocketKind) -> socket.socket:
    try:
        # asyncio sets TCP_NODELAY on a socket that knows its protocol.
        family, _, protocol, _, place = socket.getaddrinfo(address, port, type=kind, flags=socket.AI_NUMERICHOST)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(f"cannot use {address}: {reason(error)}") from None
    try:
        if kind is socket.SOCK_STREAM and sys.platform != "win32":
            # Allows a port with old connections in TIME_WAIT.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(place)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        refused = CannotListen(_sentence(address, port, kind, error))
        refused.is_taken = error.errno == errno.EADDRINUSE
        raise refused from None
    return bound


def listen(bound: Iterable[socket.socket]) -> None:
    """Begin to listen. Raises CannotListen: two programs may bind a port as long as neither listens there."""
    for each in bound:
        address, port, *_ = each.getsockname()
        try:
            each.listen(_BACKLOG)
        except OSError as error:
            raise CannotListen(_sentence(address, port, socket.SOCK_STREAM, error)) from None


def _sentence(address: str, port: int, kind: socket.SocketKind, error: OSError) -> str:
    name = f"{'TCP' if kind is socket.SOCK_STREAM else 'UDP'} port {port} of {address}"
    match error.errno:
        case errno.EADDRINUSE:
            return f"{name} is in use by another program"
        case errno.EACCES:
            return f"the current user has no permission to listen on {name}"
        case errno.EADDRNOTAVAIL:
            return f"{address} is not an address of this computer"
        case _:
            return f"cannot listen on {name}: {reason(error)}"
