"""How the queues of a host are read: at which ports of RPC, and who says to be the reader."""

from dataclasses import dataclass, field

from waypost.api.excerpt import excerpt
from waypost.errors import AuthenticationFailed, InvalidParameter
from waypost.rpc.authentication import LEVELS, AuthLevel
from waypost.rpc.settings import MAPPER_PORT


class NoCredentials(AuthenticationFailed):
    """There is no password, and no ticket of Kerberos: the host was not asked."""


@dataclass(frozen=True, slots=True)
class Access:
    """Ports that are None are those that the endpoint mapper tells, or the usual ones. With none it is not asked."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    level: AuthLevel = AuthLevel.NONE
    rpc_port: int | None = None
    qm2qm_port: int | None = None
    epm_port: int | None = MAPPER_PORT

    @classmethod
    def of(cls, user: object, password: object, level: object, ports: tuple[object, object, object]) -> "Access":
        """Raises InvalidParameter. `ports` are those of RemoteRead, qm2qm and the endpoint mapper."""
        if user is not None and not (isinstance(user, str) and user):
            raise InvalidParameter(f"user is text such as 'CORP\\\\alice', not {excerpt(user)}")
        if password is not None and not isinstance(password, str):
            raise InvalidParameter("password is text")
        if password is not None and user is None:
            raise InvalidParameter("a password needs its user, such as user='CORP\\\\alice'")
        found = LEVELS.get(level) if isinstance(level, str) else None
        if level is None:
            found = AuthLevel.NONE if user is None else AuthLevel.PRIVACY
        if found is None:
            raise InvalidParameter(f"level is one of {', '.join(LEVELS)}, not {excerpt(level)}")
        if found is AuthLevel.NONE and user is not None:
            raise InvalidParameter("at level 'none' nobody is told who the user is; leave user away or the level")
        rpc_port, qm2qm_port, epm_port = map(_port, ports)
        return cls(user, password, found, rpc_port, qm2qm_port, epm_port)

    @property
    def who(self) -> str:
        """The reader, in a sentence."""
        if self.level is AuthLevel.NONE:
            return "anonymous readers"
        return f"the user {self.user}" if self.user else "the user of this process"


def _port(port: object) -> int | None:
    if port is not None and (not isinstance(port, int) or not 0 < port <= 0xFFFF):
        raise InvalidParameter(f"a port is a number from 1 to 65535, or None, not {excerpt(port)}")
    return port
