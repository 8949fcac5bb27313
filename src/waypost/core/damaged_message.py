"""A message that was set aside because its record is damaged (ADR 30)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DamagedMessage:
    """`has_bytes`: the bytes found in its place are kept; `data` has them, if asked for.

    `queue` is the name that its queue had, `time` when it was set aside, in seconds since 1970.
    """

    queue_number: int
    queue: str
    lookup_id: int
    time: int
    reason: str
    message_id: str
    has_bytes: bool
    data: bytes | None = None
