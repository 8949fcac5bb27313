"""Messages that were damaged on disk and set aside (ADR 30)."""

from datetime import datetime

from msgspec import field

from waypost.api.records import Record


class DamagedInfo(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A damaged message that was removed from its queue. `queue` is the name of the queue.

    `message_id` is "" if the bytes do not contain the id. `has_bytes` is true if the store contains the damaged bytes.
    `data` contains the damaged bytes if the request contained `with_bytes`.
    """

    queue: str
    # All 64 bits, which most readers of JSON do not keep in a number.
    lookup_text: str = field(name="lookup_id")
    time: datetime
    reason: str
    message_id: str
    has_bytes: bool
    data: bytes | None = field(name="data_base64", default=None)

    @property
    def lookup_id(self) -> int:
        """The position that the message had in its queue."""
        return int(self.lookup_text)


class DamagedPage(Record, frozen=True):
    """A page of damaged messages. `next` is the value of `after` for the next page, or "" at the end."""

    messages: tuple[DamagedInfo, ...]
    next: str = ""


class Forgotten(Record, frozen=True):
    """Number of deleted records of damaged messages, plus the number of deleted damaged frames."""

    forgotten: int
