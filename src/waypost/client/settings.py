"""What an embedded queue manager is told of itself."""

import socket

from waypost.core.queues import UNLIMITED
from waypost.errors import InvalidParameter
from waypost.node.recovery import Settings
from waypost.wire.path_names import check_computer_name


def settings(name: str | None, quota_kb: int | None) -> Settings:
    """`name` may be qualified with a domain; without one it is the name of the host."""
    if quota_kb is not None and (not isinstance(quota_kb, int) or not 0 <= quota_kb <= UNLIMITED):
        raise InvalidParameter(f"quota_kb is a number of kilobytes from 0 to {UNLIMITED}, not {quota_kb!r}")
    qualified = name if name is not None else socket.gethostname()
    if not isinstance(qualified, str):
        raise InvalidParameter(f"the name of a computer is text, not {qualified!r}")
    check_computer_name(qualified, 0)
    return Settings(qualified.partition(".")[0], qualified, quota=quota_kb)
