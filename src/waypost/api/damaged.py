"""Messages that were damaged on disk and set aside (ADR 30)."""

from datetime import datetime

from msgspec import field

from waypost.api.records import Record


class DamagedInfo(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A message that was set aside. `queue` is the name that its queue had.

    `message_id` is "" if the bytes do not show it. `has_bytes` if the bytes that were found in its place are kept;
    `data` has them if they were asked for.
    """

    queue: str
    # All 64 bits, which few readers of JSON keep in a number.
    lookup_text: str = field(name="lookup_id")
    time: datetime
    reason: str
    message_id: str
    has_bytes: bool
    data: bytes | None = field(name="data_base64", default=None)

    @property
    def lookup_id(self) -> int:
        """The place that it had in its queue."""
        return int(self.lookup_text)


class DamagedPage(Record, frozen=True):
    """Some of them. `next` is the `after` of the next page; "" at the end."""

    messages: tuple[DamagedInfo, ...]
    next: str = ""


class Forgotten(Record, frozen=True):
    """The number of messages that were let go."""

    forgotten: int
