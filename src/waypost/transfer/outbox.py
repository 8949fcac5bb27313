"""The order of messages of an outgoing queue on one session: OutgoingMessageTable of MS-MQQB 3.1.1.3.1.

The messages are in the queue, in list order, which is the order of sending. The outbox has only their progress on the
session: `cursor` is the position up to which all were sent, `sent` are those that are sent and still in the queue, and
`returned` are those before the cursor to send, again or because they came later with a higher priority. A
new session starts from nothing (MS-MQQB 3.1.3.2, readings MQQB 3.1).
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final

from waypost.transfer.session import Sent


class Outbox:
    """`next_available` gives the first position to send behind another, `end` if there are no more."""

    __slots__ = ("_cursor", "_is_available", "_next_available", "_returned", "_start", "end", "sent")

    def __init__(
        self, next_available: Callable[[int], int], is_available: Callable[[int], bool], *, start: int, end: int
    ) -> None:
        self._next_available: Final = next_available
        self._is_available: Final = is_available
        self._start: Final = start
        self.end: Final = end
        self._cursor = start
        self._returned: list[int] = []
        self.sent: dict[int, Sent] = {}

    def start_again(self) -> None:
        """MS-MQQB 3.1.3.2: nothing was sent on the new session."""
        self._cursor = self._start
        self._returned.clear()
        self.sent.clear()

    def became_available(self, lookup_id: int) -> None:
        """Note a message that is new in the queue, or was given back."""
        if lookup_id <= self._cursor and lookup_id not in self.sent:
            heappush(self._returned, lookup_id)

    def send_again(self, lookup_ids: Iterable[int]) -> None:
        """MS-MQQB 3.1.6.5."""
        for lookup_id in lookup_ids:
            if self.sent.pop(lookup_id, None) is not None:
                heappush(self._returned, lookup_id)

    def removed(self, lookup_id: int) -> Sent | None:
        """Note that the message has left the queue."""
        return self.sent.pop(lookup_id, None)

    def next(self) -> int:
        """The next position to send, or `end`."""
        while self._returned:
            lookup_id = self._returned[0]
            if lookup_id not in self.sent and self._is_available(lookup_id):
                return lookup_id
            heappop(self._returned)
        lookup_id = self._next_available(self._cursor)
        while lookup_id in self.sent:
            self._cursor = lookup_id
            lookup_id = self._next_available(lookup_id)
        return lookup_id

    def went(self, sent: Sent) -> None:
        """Note that the message from `next` is sent."""
        self.sent[sent.lookup_id] = sent
        if self._returned and self._returned[0] == sent.lookup_id:
            heappop(self._returned)
        else:
            self._cursor = sent.lookup_id
