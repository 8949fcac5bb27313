"""Local access to the HTTP server: the token of the daemon, its Unix socket, and its file in the runtime folder.

The token and the socket are in the data folder, readable for the account of the daemon alone. A program that
has one of them is the local administrator. The store of the folder is open by then, so no other daemon uses the folder.
"""

import errno
import os
import secrets
import socket
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from waypost.api.asgi import NOBODY, Peer
from waypost.daemon.config import Http
from waypost.daemon.loading import ConfigError
from waypost.daemon.logs import Log
from waypost.daemon.sockets import reason
from waypost.drive.local_daemons import LocalDaemon, announce, own_account, withdraw
from waypost.drive.socket_owners import account_of_peer

TOKEN_FILE: Final = "token"
SOCKET_FILE: Final = "http.sock"
_TOKEN_BYTES: Final = 32
_PRIVATE: Final = 0o600
_OTHERS: Final = 0o077
_CLOSED_UMASK: Final = 0o177
_MAX_TOKEN: Final = 4096
_BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True)
class Doors:
    """The ways in: `token` is the bearer token that TCP requires, "" if it requires none."""

    token: str = field(default="", repr=False)
    listener: socket.socket | None = None
    path: str = ""

    def listen(self) -> None:
        if self.listener is not None:
            self.listener.listen(_BACKLOG)

    def close(self) -> None:
        """Close the Unix socket, and remove its file."""
        if self.listener is not None:
            self.listener.close()
            with suppress(OSError):
                Path(self.path).unlink()


def open_doors(folder: Path, http: Http, log: Log) -> Doors:
    """Make the token at the first start, and the socket at each. Raises ConfigError for a token file that is unsafe."""
    token = http.token or ("" if http.access == "open" else _token(folder / TOKEN_FILE))
    path = folder.absolute() / SOCKET_FILE
    try:
        bound = _bound(path)
    except (OSError, UnicodeError) as error:
        why = "the path is too long for a socket" if _is_too_long(error, path) else reason(error)
        log.warning(
            "no unix socket",
            message=f"Cannot listen on {path}: {why}. Programs of this account use TCP instead.",
            hint="use a data folder with a shorter path." if _is_too_long(error, path) else "",
        )
        return Doors(token)
    return Doors(token) if bound is None else Doors(token, bound, str(path))


class Announcement:
    """The file of a daemon in the runtime folder of its account, as long as the daemon runs."""

    __slots__ = ("_address", "_daemon", "_path", "_port")

    def __init__(self, address: str, port: int, doors: Doors, folder: Path) -> None:
        self._address: Final = address
        self._port: Final = port
        self._daemon: Final = LocalDaemon(doors.path, doors.token, os.getpid(), str(folder.absolute()))
        self._path: Path | None = None

    def write(self) -> bool:
        """Write the file, also when something else has removed it. Returns whether there is one."""
        if self._path is None or not self._path.exists():
            self._path = announce(self._address, self._port, self._daemon)
        return self._path is not None

    def remove(self) -> None:
        if self._path is not None:
            withdraw(self._path, self._daemon)


def _token(path: Path) -> str:
    """The token of the file, which is made if there is none."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w", encoding="ascii") as file:
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            file.write(f"{token}\n")
            file.flush()
            os.fsync(file.fileno())
            return token
    except FileExistsError:
        pass
    except OSError as error:
        raise ConfigError(
            f"Cannot write {path}: {reason(error)}.", "make the account of the daemon the owner of the data folder."
        ) from None
    try:
        seen = path.stat()
        if sys.platform != "win32" and seen.st_mode & _OTHERS:
            raise ConfigError(
                f"{path} has the mode {stat.S_IMODE(seen.st_mode):04o}, so other accounts might know the token.",
                f"run rm {path} to get a new token, or chmod 600 {path} to keep the current token.",
            )
        with path.open(encoding="ascii") as file:
            token = file.read(_MAX_TOKEN).strip()
    except OSError as error:
        raise ConfigError(
            f"Cannot read {path}: {reason(error)}.", "make the account of the daemon the owner of the file."
        ) from None
    except UnicodeError:
        token = ""
    if not token or not token.isprintable():
        raise ConfigError(
            f"{path} does not contain a token.", f"run rm {path}; the daemon creates a new token at its next start."
        )
    return token


def _bound(path: Path) -> socket.socket | None:
    """A bound Unix socket for this account alone; None where the system has none. Raises OSError."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    _remove_dead(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(_CLOSED_UMASK)
        try:
            bound.bind(str(path))
        finally:
            os.umask(before)
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound


def _remove_dead(path: Path) -> None:
    """Remove the socket of a daemon that was killed. Raises OSError for another file, or for a socket that answers."""
    try:
        seen = path.lstat()
    except OSError:
        return
    if not stat.S_ISSOCK(seen.st_mode):
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _is_too_long(error: Exception, path: Path) -> bool:
    """Python says it without a number."""
    return isinstance(error, OSError) and error.errno is None and len(os.fsencode(path)) > 90


def peer_of(connection: socket.socket | None) -> Peer:
    """The program at the other end of a connection of HTTP."""
    if connection is None:
        return NOBODY
    if hasattr(socket, "AF_UNIX") and connection.family == socket.AF_UNIX:
        return Peer(
            is_local=True,
            is_loopback=True,
            account=partial(_account_of, connection),
            origin=f"unix uid {_account_of(connection)}",
        )
    try:
        address = connection.getpeername()[0]
        is_loopback = ip_address(address.partition("%")[0]).is_loopback
    except (OSError, ValueError, IndexError):
        # It is gone already.
        return NOBODY
    return Peer(is_loopback=is_loopback, account=partial(account_of_peer, connection), origin=f"http {address}")


def admits(peer: Peer) -> bool:
    """Whether the program at the other end of the Unix socket is of this account, or root.

    The mode of the file keeps others out already, but not on every system.
    """
    return not hasattr(socket, "SO_PEERCRED") or peer.account() in (own_account(), 0)


def _account_of(connection: socket.socket) -> int | None:
    """The account that connected to a Unix socket; None where the system does not say it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials: bytes = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)
