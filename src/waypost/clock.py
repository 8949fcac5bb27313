"""Time as an argument. The engine never asks what time it is: every event that reaches it carries a Now."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Now:
    """One instant on two clocks, both in seconds.

    `monotonic` only grows and drives acknowledgment and resend timers; `wall` counts from 1970-01-01 UTC, can jump, and
    drives SentTime, TimeToReachQueue and TimeToBeReceived.
    """

    monotonic: float
    wall: float
