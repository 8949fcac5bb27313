"""Messages that were damaged on disk and set aside, as the API, HTTP and the command line show them."""

from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime

from waypost.api.times import iso_8601
from waypost.core.damaged_message import DamagedMessage


@dataclass(frozen=True, slots=True)
class DamagedInfo:
    """A message that was set aside. `queue` is the name that its queue had.

    `message_id` is "" if the bytes do not show it. `has_bytes` if the bytes that were found in its place are kept;
    `data` has them if they were asked for.
    """

    queue: str
    lookup_id: int
    time: datetime
    reason: str
    message_id: str
    has_bytes: bool
    data: bytes | None = None

    def to_dict(self) -> dict[str, object]:
        """Ready for json."""
        values: dict[str, object] = {
            "queue": self.queue,
            "lookup_id": str(self.lookup_id),
            "time": iso_8601(self.time),
            "reason": self.reason,
            "message_id": self.message_id,
            "has_bytes": self.has_bytes,
        }
        return values if self.data is None else values | {"data_base64": b64encode(self.data).decode("ascii")}


def info_of(message: DamagedMessage) -> DamagedInfo:
    return DamagedInfo(
        message.queue,
        message.lookup_id,
        datetime.fromtimestamp(message.time, UTC),
        message.reason,
        message.message_id,
        message.has_bytes,
        message.data,
    )
