"""Settings of an RPC server. The bounds against abuse are in limits.py."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from waypost.rpc.authentication import AuthLevel

# C706 12.6.3.1 MustRecvFragSize: every peer takes fragments of this size, whatever it says.
MUST_RECV_FRAG_SIZE: Final = 1432
# MS-RPCE 2.1.1.1: where the endpoint mapper of a host is.
MAPPER_PORT: Final = 135


@dataclass(frozen=True, slots=True)
class RpcSettings:
    """`min_auth_level`: less than this ends a call with a fault, unless its method asks for another level.

    `level_now` gives a level that can change, instead of it.

    `max_fragment`: bytes of the fragments that are sent and asked for; a client can agree on less.
    """

    min_auth_level: AuthLevel = AuthLevel.PRIVACY
    max_fragment: int = 5840
    level_now: Callable[[], AuthLevel] | None = None

    def __post_init__(self) -> None:
        assert MUST_RECV_FRAG_SIZE <= self.max_fragment <= 0xFFFF

    @property
    def level(self) -> AuthLevel:
        """The least level of calls at this moment."""
        return self.min_auth_level if self.level_now is None else self.level_now()
