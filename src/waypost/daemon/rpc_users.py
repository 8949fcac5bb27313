"""The users of RPC that authenticate with NTLM: those of the user store that have an NT hash.

`rpc.users_file`, lines DOMAIN:user:password, is imported once, at the first start that finds users in it. A line
without a domain is for its user in any domain, because a computer without a domain names itself there. Empty lines and
lines that begin with # are ignored.
"""

import asyncio
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from waypost.api.local import ImportUsers
from waypost.daemon.logs import Log
from waypost.drive.loop import Loop
from waypost.drive.passwords import hash_password, nt_hash
from waypost.errors import InvalidParameter
from waypost.node.users import Users
from waypost.security.callers import QUEUE_MANAGER


@dataclass(slots=True)
class Logons:
    """The users that may log on with NTLM. Before the queue manager has started, nobody may log on."""

    users: Users | None = None

    @property
    def had_users(self) -> bool:
        """Whether users exist, also without NTLM, or have existed since the start."""
        return self.users is not None and self.users.had_any

    @property
    def has_any(self) -> bool:
        return self.users is not None and self.users.has_logons

    def find(self, domain: str, user: str) -> tuple[str, bytes] | None:
        """The name and the NT hash of a user; None for an unknown one."""
        found = None if self.users is None else self.users.logon(domain, user)
        return None if found is None else (found.name, bytes.fromhex(found.nt_hash))


@dataclass(frozen=True, slots=True)
class User:
    """A line of the users file."""

    domain: str
    user: str
    password: str = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.domain}\\{self.user}" if self.domain else self.user


def read_users(path: Path) -> dict[tuple[str, str], User]:
    """All users of a file by domain and name in upper case. Raises InvalidParameter, never with a password."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InvalidParameter(f"cannot read the users file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidParameter(f"the users file {path} is not UTF-8 text") from None
    users: dict[tuple[str, str], User] = {}
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        user = _parse(line)
        if user is None:
            raise InvalidParameter(f"line {number} of the users file {path} is not DOMAIN:user:password")
        if users.setdefault((user.domain.upper(), user.user.upper()), user) is not user:
            raise InvalidParameter(f"line {number} of the users file {path} repeats the user {user.name}")
    return users


async def import_users(shell: Loop, path: Path, log: Log) -> None:
    """Add the users of the file to the user store, unless it was imported before. Raises InvalidParameter."""
    users = shell.driver.node.users
    found = read_users(path)
    digest = sha256("\0".join(sorted(f"{user.name}:{user.password}" for user in found.values())).encode()).hexdigest()
    if not found or users.imported == digest:
        return
    if users.imported:
        log.warning(
            "users file ignored",
            message=f"{path} has changed, but the file was already imported and is not read again.",
            hint="use `waypost user add NAME --ntlm` and `waypost user passwd NAME`, and remove rpc.users_file.",
        )
        return
    hashed = await asyncio.get_running_loop().run_in_executor(None, _hashed, list(found.values()))
    await shell.call(ImportUsers(digest=digest, users=tuple(hashed)), QUEUE_MANAGER)
    log.info(
        "users imported",
        message=f"{len(found)} users of {path} were imported into the user store.",
        hint="remove rpc.users_file from the configuration, and delete the file, which contains passwords.",
    )


def _hashed(users: list[User]) -> list[tuple[str, str, str]]:
    return [(user.name, hash_password(user.password), nt_hash(user.password)) for user in users]


def _parse(line: str) -> User | None:
    domain, _, rest = line.partition(":")
    user, _, password = rest.partition(":")
    return User(domain, user, password) if user and password else None
