"""The time that a link waits before it tries to connect again: MS-MQQB 3.1.2.3.

Messages of programs here are tried without an end. Messages of others that ask for acknowledgments can make us want to
connect, so these attempts become rarer (MS-MQQB 3.1.2.3 allows it) and end: then the other side has to connect.
"""

from typing import Final

from waypost.node.network.outgoing_links import queue_of
from waypost.transfer.links import Link
from waypost.transfer.settings import TransferSettings

# For connections that others have caused: the largest factor of the usual delay, about a minute; the number of attempts
# after which it is an hour; and the number after which, a week later, they end.
_PATIENCE: Final = 12
OFTEN: Final = 60
_LONG_PATIENCE: Final = 720
_MAX_FAILURES: Final = 228


def is_for_strangers(link: Link) -> bool:
    """Whether only others made us want the connection: no program here has sent anything."""
    return link.is_for_acks or bool(queue_of(link).opened_for)


def delay_after_failure(link: Link, settings: TransferSettings) -> float | None:
    """Count one more failure. Returns the seconds until the next attempt; None: until the host is heard again."""
    delay = settings.retry_connect_s + settings.round_trip_delay_ms / 1000
    if not is_for_strangers(link):
        return delay
    failures = link.failures
    link.failures += 1
    if failures >= _MAX_FAILURES:
        return None
    return delay * (min(1 << failures, _PATIENCE) if failures < OFTEN else _LONG_PATIENCE)
