"""Reads by LookupId, which both protocols ask for in the same words: MS-MQRR 3.1.4.7 and MS-MQQP 3.1.4.11."""

from typing import Final

from waypost.core.reading import MessageSeekAction
from waypost.remote.interfaces.remote_read import ReceiveAction

# LookupIds that no message has: before every message and behind every message (readings MQRR 3.8).
FIRST: Final = 0
LAST: Final = 0xFFFF_FFFF_FFFF_FFFF

SEEKS: Final[dict[int, MessageSeekAction]] = {
    ReceiveAction.MQ_LOOKUP_PEEK_CURRENT: MessageSeekAction.SEEK_CURRENT,
    ReceiveAction.MQ_LOOKUP_PEEK_NEXT: MessageSeekAction.SEEK_NEXT,
    ReceiveAction.MQ_LOOKUP_PEEK_PREV: MessageSeekAction.SEEK_PREVIOUS,
    ReceiveAction.MQ_LOOKUP_RECEIVE_CURRENT: MessageSeekAction.SEEK_CURRENT,
    ReceiveAction.MQ_LOOKUP_RECEIVE_NEXT: MessageSeekAction.SEEK_NEXT,
    ReceiveAction.MQ_LOOKUP_RECEIVE_PREV: MessageSeekAction.SEEK_PREVIOUS,
}


def seek_of(action: int, lookup_id: int) -> MessageSeekAction:
    """The message that a lookup action means."""
    seek = SEEKS[action]
    if seek is MessageSeekAction.SEEK_NEXT and lookup_id == FIRST:
        return MessageSeekAction.SEEK_FIRST
    if seek is MessageSeekAction.SEEK_PREVIOUS and lookup_id == LAST:
        return MessageSeekAction.SEEK_LAST
    return seek
