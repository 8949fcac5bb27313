"""Access to the queues of a host for reading: the ports of RPC, and the user."""

from dataclasses import dataclass, field

from waypost.api.excerpt import excerpt
from waypost.errors import AuthenticationFailed, InvalidParameter
from waypost.rpc.authentication import LEVELS, AuthLevel
from waypost.rpc.settings import MAPPER_PORT


class NoCredentials(AuthenticationFailed):
    """The user has no password and no Kerberos ticket. No request was sent to the host."""


@dataclass(frozen=True, slots=True)
class Access:
    """User, level and ports. A port of None comes from the endpoint mapper, or is the default one."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    level: AuthLevel = AuthLevel.NONE
    rpc_port: int | None = None
    qm2qm_port: int | None = None
    epm_port: int | None = MAPPER_PORT

    @classmethod
    def of(cls, user: object, password: object, level: object, ports: tuple[object, object, object]) -> "Access":
        """Check the arguments. Raises InvalidParameter. `ports`: of RemoteRead, qm2qm and the endpoint mapper."""
        if user is not None and not (isinstance(user, str) and user):
            raise InvalidParameter(f"`user` must be text such as 'CORP\\\\alice', not {excerpt(user)}")
        if password is not None and not isinstance(password, str):
            raise InvalidParameter("`password` must be text")
        if password is not None and user is None:
            raise InvalidParameter("`password` requires `user`, such as user='CORP\\\\alice'")
        found = LEVELS.get(level) if isinstance(level, str) else None
        if level is None:
            found = AuthLevel.NONE if user is None else AuthLevel.PRIVACY
        if found is None:
            raise InvalidParameter(f"`level` must be one of {', '.join(LEVELS)}, not {excerpt(level)}")
        if found is AuthLevel.NONE and user is not None:
            raise InvalidParameter("`user` and `level='none'` are mutually exclusive")
        rpc_port, qm2qm_port, epm_port = map(_port, ports)
        return cls(user, password, found, rpc_port, qm2qm_port, epm_port)

    @property
    def who(self) -> str:
        """The user, for a sentence."""
        if self.level is AuthLevel.NONE:
            return "anonymous readers"
        return f"the user {self.user}" if self.user else "the user of this process"


def _port(port: object) -> int | None:
    if port is not None and (not isinstance(port, int) or not 0 < port <= 0xFFFF):
        raise InvalidParameter(f"`rpc_port` must be a number from 1 to 65535, or None, not {excerpt(port)}")
    return port
