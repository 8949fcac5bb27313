"""The operations on the transactional sequences of a daemon."""

from datetime import datetime
from typing import Final, cast
from urllib.parse import urlencode

from waypost.api.sequences import Direction, SequenceInfo, SequencePage, SequenceQuery, SequenceReset
from waypost.client.remote.exchanges import Conversation, Decoder, get, post
from waypost.client.remote.sequence_schema import ResetSequences, SequenceObject, SequenceResetObject, SequencesObject

_page: Final = Decoder(SequencesObject)
_reset: Final = Decoder(SequenceResetObject)


class RemoteSequenceCalls:
    """What waypost.node.sequence_calls.SequenceCalls does in this process."""

    __slots__ = ()

    def page(self, direction: Direction, query: SequenceQuery, start: str) -> Conversation[SequencePage]:
        asked = {"direction": direction, "queue": query.queue, "source": query.source, "address": query.address}
        given = {name: value for name, value in (asked | {"after": start}).items() if value}
        found = _page((yield get(f"/api/sequences?{urlencode(given)}")))
        return SequencePage(tuple(map(_info, found.sequences)), found.next)

    def reset(self, query: SequenceQuery, start: str, is_trial: object) -> Conversation[SequenceReset]:
        request = ResetSequences(
            queue=query.queue,
            source=query.source,
            address=query.address,
            older_than_s=query.older_than,
            after=start,
            trial=bool(is_trial),
        )
        found = _reset((yield post("/api/sequences/reset", request)))
        identifiers = tuple(found.identifiers)
        return SequenceReset(
            found.sequences, found.warning, found.renumbered, found.may_come_twice, identifiers, found.next
        )


def _info(found: SequenceObject) -> SequenceInfo:
    return SequenceInfo(
        cast("Direction", found.direction),
        found.queue,
        found.source,
        tuple(found.addresses),
        datetime.fromisoformat(found.time_stamp),
        found.ordinal,
        found.number,
        None if found.last_time is None else datetime.fromisoformat(found.last_time),
        found.rejected,
        found.unacknowledged,
        found.reason,
    )
