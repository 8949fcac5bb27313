"""The users of the store at the start: other accounts cannot read their secrets, and none of them was lost."""

import stat
import sys
from pathlib import Path
from typing import Final

from waypost.daemon.loading import ConfigError
from waypost.node.users import Users
from waypost.store.folder import DATA

_OTHERS: Final = 0o077
# Lost users that a sentence names.
_NAMED: Final = 5


def check_lost_users(folder: Path, users: Users) -> None:
    """Raise ConfigError if a salvage may have lost users: without them, the daemon would let in others."""
    if users.lost is None:
        return
    names = users.lost.names
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    known = f" ({', '.join(names[:_NAMED])}{more})" if names else ""
    raise ConfigError(
        f"{folder / DATA} is the result of a salvage that might have lost users{known}. The daemon does not start, "
        "because some users may be missing.",
        f"to continue without the lost users, run `waypost store forget-users {folder}`, start the daemon, and add the "
        "users again with `waypost user add`. To recover the users instead, restore a backup with `waypost store "
        "restore`.",
    )


def check_store_mode(folder: Path, users: Users) -> None:
    """Raise ConfigError if other accounts may read the users. The system of Windows has no such mode."""
    path = folder / DATA
    if not users or sys.platform == "win32":
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        raise ConfigError(
            f"{path} contains the users of the queue manager, but has the mode {mode:04o}, so other accounts can read "
            "the password hashes.",
            f"run chmod 600 {path}, and change the passwords if another account might have read the file.",
        )
