"""The daemons of an account on this computer: a file for each, by address and port, in its runtime folder.

A daemon writes its file when it is ready and removes it when it stops. The file has the token and the path of the Unix
socket, so that programs of the same account reach the daemon without a token from a person. The folder belongs to the
account and is closed to others; a folder that is not is ignored. Only an address and a port lead to a file: never a
default data folder, which may be that of another daemon.
"""

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from waypost.wire.ip_addresses import with_port

if sys.platform != "win32":
    import pwd

_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600
_OTHERS: Final = 0o077
# A link or a pipe in place of a file must not lead elsewhere, nor make root wait.
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
# A file is shorter; a longer one is not of a daemon.
_MAX_FILE: Final = 0x4000
# Where systemd makes the runtime folder of packaging/waypost.service.
_SERVICE: Final = Path("/run/waypost")


@dataclass(frozen=True, slots=True)
class LocalDaemon:
    """A daemon of this computer. `socket` is the path of its Unix socket, or "" without one."""

    socket: str
    token: str = field(repr=False)
    process: int
    data: str


def own_account() -> int:
    """The account of this process; -1 where the system has no numbers of accounts."""
    return -1 if sys.platform == "win32" else os.geteuid()


def account_name(uid: int) -> str:
    """The name of an account, or its number."""
    if sys.platform != "win32":
        with suppress(KeyError):
            return pwd.getpwuid(uid).pw_name
    return str(uid)


def announce(address: str, port: int, daemon: LocalDaemon) -> Path | None:
    """Write the file of a daemon of this account. Returns its path, or None if no folder is safe.

    Files of daemons that ended without removing them are removed, if their data folders are gone or of this daemon now.
    """
    for folder in _folders(own_account(), is_own=True):
        with suppress(OSError):
            _make(folder)
            if not _is_private(folder, own_account()):
                continue
            path = folder / with_port(address, port)
            _sweep(folder, path, daemon.data)
            new = folder / f".{path.name}.{os.getpid()}"
            new.unlink(missing_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE), "w") as file:
                json.dump(asdict(daemon), file)
            new.replace(path)
            return path
    return None


def withdraw(path: Path, daemon: LocalDaemon) -> None:
    """Remove the file of a daemon, unless another daemon has written it since."""
    with suppress(OSError):
        if _read(path, own_account()) == daemon:
            path.unlink()


def find(address: str, port: int, account: int) -> LocalDaemon | None:
    """The daemon of an account at an address and port, or at the port of all addresses."""
    if account < 0:
        return None
    everywhere = "::" if ":" in address else "0.0.0.0"
    for folder in _folders(account, is_own=account == own_account()):
        if not _is_private(folder, account):
            continue
        for each in (address, everywhere):
            found = _read(folder / with_port(each, port), account)
            if found is not None:
                return found
    return None


def _folders(account: int, *, is_own: bool) -> Iterator[Path]:
    """The folders where the daemons of an account may leave their files, the best first."""
    if account < 0:
        return
    given = os.environ.get("XDG_RUNTIME_DIR") if is_own else None
    if given and _is_private(Path(given), account):
        yield Path(given) / "waypost"
    if _is_private(_SERVICE, account):
        yield _SERVICE
    runtime = Path(f"/run/user/{account}")
    if str(runtime) != given and _is_private(runtime, account):
        yield runtime / "waypost"
    # Everybody may write to /tmp, so the folder there must be the account's own.
    yield Path(f"/tmp/waypost-{account}")


def _make(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.mkdir(_PRIVATE_FOLDER)


def _is_private(folder: Path, account: int) -> bool:
    """Whether a folder belongs to this account, and to nobody else. Only root can put a link in its place."""
    try:
        seen = folder.lstat() if folder.parent != _SERVICE.parent else folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == account and not seen.st_mode & _OTHERS


def _read(path: Path, account: int) -> LocalDaemon | None:
    """The daemon of a file; None for a missing file, or one with anything odd about it."""
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            seen = os.fstat(file.fileno())
            if not stat.S_ISREG(seen.st_mode) or seen.st_uid != account or seen.st_mode & _OTHERS:
                return None
            values = json.loads(file.read(_MAX_FILE))
        found = LocalDaemon(**values)
        # An account may write what it likes for root: also a path that the system cannot have.
        os.fsencode(found.socket)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    texts = (found.socket, found.token, found.data)
    is_sound = all(isinstance(each, str) for each in texts) and isinstance(found.process, int)
    return found if is_sound and found.token.isascii() and found.token.isprintable() else None


def _sweep(folder: Path, kept: Path, data: str) -> None:
    """Remove files of daemons whose data folder is gone, and other files than `kept` with the folder `data`.

    Tests and demos leave the former. The latter would lead from an old address or port of a daemon to its socket.
    """
    for path in folder.iterdir():
        found = _read(path, own_account())
        with suppress(OSError):
            if found is None or path == kept or not found.data:
                continue
            if found.data == data or not Path(found.data).exists():
                path.unlink()
