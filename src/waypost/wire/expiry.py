"""When a message has expired: TimeToReachQueue of MS-MQMQ 2.2.19.1 and TimeToBeReceived of 2.2.19.2.

Times are seconds since 1970-01-01 UTC. What MS-MQRR returns has the end itself in TimeToReachQueue, which is not asked
here.
"""

from waypost.wire.codec import INFINITE


def has_expired(sent_time: int, time_limit: int, now: float) -> bool:
    """At the very end of its time a message has not expired yet, nor has one whose SentTime is still to come."""
    return time_limit != INFINITE and now - sent_time > time_limit
