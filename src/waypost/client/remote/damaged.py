"""What the API asks the daemon about messages that were damaged on disk, and the records of both sides."""

from base64 import b64decode
from datetime import datetime
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from waypost.client.remote.exchanges import Conversation, Decoder, delete, get
from waypost.core.damaged_message import DamagedMessage


class DamagedObject(Struct, kw_only=True):
    """A message that was set aside: the keys of DamagedInfo.to_dict."""

    queue: str
    lookup_id: str
    time: str
    reason: str
    message_id: str
    has_bytes: bool
    data_base64: str | UnsetType = UNSET


class DamagedObjects(Struct):
    """`next` is the `after` of the next page; "" at the end."""

    messages: list[DamagedObject]
    next: str = ""


class Forgotten(Struct):
    """How many messages it was."""

    forgotten: int


_damaged: Final = Decoder(DamagedObjects)
_forgotten: Final = Decoder(Forgotten)


class DamagedCalls:
    """The part of RemoteCalls for /api/store/damaged."""

    __slots__ = ()

    def damaged(
        self, start: bytes, with_bytes: bool  # noqa: FBT001
    ) -> Conversation[tuple[list[DamagedMessage], bytes | None]]:  # fmt: skip
        target = f"/api/store/damaged?after={start.hex()}&with_bytes={str(bool(with_bytes)).lower()}"
        page: DamagedObjects = _damaged((yield get(target)))
        return list(map(_message_of, page.messages)), bytes.fromhex(page.next) if page.next else None

    def forget_damaged(self) -> Conversation[int]:
        answer: Forgotten = _forgotten((yield delete("/api/store/damaged")))
        return answer.forgotten


def _message_of(found: DamagedObject) -> DamagedMessage:
    return DamagedMessage(
        0,
        found.queue,
        int(found.lookup_id),
        int(datetime.fromisoformat(found.time).timestamp()),
        found.reason,
        found.message_id,
        found.has_bytes,
        None if found.data_base64 is UNSET else b64decode(found.data_base64),
    )
