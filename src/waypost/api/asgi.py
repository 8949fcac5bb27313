"""Extensions of ASGI between the connections of the daemon and waypost.http."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# The name of an extension. Its "event" is set when another request comes behind this one, on the same connection.
BEHIND: Final = "waypost.behind"
EVENT: Final = "event"
# The key of the scope with the caller of an admitted request.
CALLER: Final = "waypost.caller"

# The name of an extension, and of its only value: the Peer of the connection.
PEER: Final = "waypost.peer"


def _unknown() -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class Peer:
    """The program at the other end of a connection.

    `is_local`: it came through the Unix socket of the daemon, which only the account of the daemon and root can use.
    `is_loopback`: it is on this computer. `account` returns the number of its account, or None if the number is
    unknown. `origin` is the same text as in waypost.security.callers.Caller.
    """

    is_local: bool = False
    is_loopback: bool = False
    account: Callable[[], int | None] = _unknown
    origin: str = "http"


NOBODY: Final = Peer()
