"""The queues of the one host by their keys, and its messages: as planned, and as the engine makes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from msgspec import UNSET

from waypost.api.message_attributes import message_like
from waypost.api.operations import Send
from waypost.api.properties import MessageProperties
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.serialization import packet_of
from waypost.guid import guid_text
from waypost.node import bulk_writing, message_calls
from waypost.sim.patches import Patch
from waypost.sim.plans import PlannedMessage, uids_of
from waypost.wire.format_names import FormatName

COMPUTER: Final = "host"

# The keys of the queues that every queue manager has: an empty name and a suffix.
SOURCE_JOURNAL: Final = ";journal"
DEAD_LETTERS: Final = ";deadletter"
DEAD_TRANSACTIONAL: Final = ";deadxact"
SYSTEM: Final = (SOURCE_JOURNAL, DEAD_LETTERS, DEAD_TRANSACTIONAL)

_SYSTEM_NAME: Final = "system$"
# MS-MQDMPR 3.1.1.12, AllowPeekWhenLocked: the node honours it, and no application can ask for it. Here this tag does.
_ALLOW_PEEK_WHEN_LOCKED: Final = 1


def name_of(key: str) -> str:
    """The NAME of a queue with the key `q1`, `q1;journal`, `q1;sub`, or one of SYSTEM."""
    return f"{_SYSTEM_NAME}{key}" if key.startswith(";") else key


def key_of(name: str) -> str:
    return name.removeprefix(_SYSTEM_NAME)


@lru_cache
def format_name(key: str) -> FormatName:
    queue = "SYSTEM$" if key.startswith(";") else "PRIVATE$\\"
    return FormatName.parse(f"DIRECT=OS:{COMPUTER}\\{queue}{key}")


@dataclass(slots=True, eq=False)
class Draft(PlannedMessage):
    """A message before it is sent, and the message that was made of it."""

    message: Message | None = None

    @property
    def dead_letters_to(self) -> str:
        found = self.properties.dead_letter
        return found if isinstance(found, str) else ""

    @property
    def allow_peek_when_locked(self) -> bool:
        return self.properties.app_tag == _ALLOW_PEEK_WHEN_LOCKED

    @property
    def size(self) -> int:
        """The length of the packet, which the model does not compute."""
        assert self.message is not None
        return len(packet_of(self.message))

    def send_to(self, key: str, *, is_transactional: bool) -> None:
        """Make the message that the node makes of the draft, as far as its size depends on it."""
        message = self.message = _like(self.properties, computer=COMPUTER)
        message.body = self.body
        message.destination_queue_format_name = format_name(key)
        if is_transactional:
            message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
            message.transaction_identifier = 1

    def __str__(self) -> str:
        return f"<{self.uid}>{'' if self.recoverable else ' express'} priority {self.priority}"


def new_properties(*, allow_peek_when_locked: bool, **given: Any) -> MessageProperties:
    return MessageProperties(app_tag=_ALLOW_PEEK_WHEN_LOCKED if allow_peek_when_locked else 0, **given)


def send_of(key: str, drafts: tuple[Draft, ...], transaction: bytes | None) -> Send:
    """Operation that sends messages which differ only in their bodies, all of one length."""
    return Send(
        name=name_of(key),
        like=drafts[0].properties,
        bodies=[draft.body for draft in drafts],
        transaction=UNSET if transaction is None else guid_text(transaction),
    )


def drafts_of(like: object, bodies: Sequence[bytes]) -> tuple[Draft, ...]:
    """The messages that are sent with these, in order."""
    assert isinstance(like, MessageProperties)
    drafts = tuple(Draft(uid, like) for uid in uids_of(bodies))
    for draft, body in zip(drafts, bodies, strict=True):
        draft.padding = len(body) - len(draft.mark)
    return drafts


def _like(properties: MessageProperties, *, computer: str) -> Message:
    message = message_like(properties, computer=computer)
    message.allow_peek_when_locked = properties.app_tag == _ALLOW_PEEK_WHEN_LOCKED
    return message


# Arguments for the node beside the properties of a message.
ATTRIBUTES: Final = tuple(Patch(module, "message_like", _like) for module in (message_calls, bulk_writing))
