"""The users of RPC that authenticate with NTLM: a file of lines DOMAIN:user:password.

A line without a domain is for its user in any domain, because a computer without a domain names itself there. Empty
lines and lines that begin with # are ignored.
"""

from dataclasses import dataclass, field
from pathlib import Path

from waypost.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class User:
    domain: str
    user: str
    password: str = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.domain}\\{self.user}" if self.domain else self.user


@dataclass(frozen=True, slots=True)
class UsersFile:
    """The users file. It is read at every logon, so a new user needs no restart."""

    path: Path

    def find(self, domain: str, user: str) -> User | None:
        users = self.read()
        return users.get((domain.upper(), user.upper())) or users.get(("", user.upper()))

    def read(self) -> dict[tuple[str, str], User]:
        """All users by domain and name in upper case. Raises InvalidParameter, never with a password in its text."""
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise InvalidParameter(f"cannot read the users file {self.path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidParameter(f"the users file {self.path} is not UTF-8 text") from None
        users: dict[tuple[str, str], User] = {}
        for number, line in enumerate(lines, 1):
            if not line or line.startswith("#"):
                continue
            user = _parse(line)
            if user is None:
                raise InvalidParameter(f"line {number} of the users file {self.path} is not DOMAIN:user:password")
            if users.setdefault((user.domain.upper(), user.user.upper()), user) is not user:
                raise InvalidParameter(f"line {number} of the users file {self.path} repeats the user {user.name}")
        return users


def _parse(line: str) -> User | None:
    domain, _, rest = line.partition(":")
    user, _, password = rest.partition(":")
    return User(domain, user, password) if user and password else None
