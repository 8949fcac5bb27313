"""The mode of the store: with users in it, it has hashes of passwords, and must be closed to other accounts."""

import stat
import sys
from pathlib import Path
from typing import Final

from waypost.daemon.loading import ConfigError
from waypost.node.users import Users
from waypost.store.folder import DATA

_OTHERS: Final = 0o077


def check_store_mode(folder: Path, users: Users) -> None:
    """Raise ConfigError if other accounts may read the users. The system of Windows has no such mode."""
    path = folder / DATA
    if not users or sys.platform == "win32":
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        raise ConfigError(
            f"{path} contains the users of the queue manager, but has the mode {mode:04o}, so other accounts may read "
            "the password hashes.",
            f"run chmod 600 {path}, and change the passwords if another account may have read the file.",
        )
