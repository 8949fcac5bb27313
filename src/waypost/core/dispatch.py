"""DispatchCollection, the order of sending: MS-MQDMPR 3.1.1.18, 3.1.7.1.28, 3.1.7.1.29, 3.1.7.1.34 and 3.1.7.3.9.

One message is on its way at a time. An event that lets the next one go returns its entry, and the caller sends it; a
sent message is removed, and so on. The next entry has the highest sum of priorities, and among equals the message that
came first. A position has one entry at most. The collection is volatile: transfer fills it again after a restart.
"""

from dataclasses import dataclass
from enum import Enum, auto
from heapq import heapify, heappop, heappush
from typing import Final

from waypost.core.positions import PRIORITIES, SEQUENCE_BITS, SEQUENCE_MASK
from waypost.core.queues import OutgoingQueue

_FEW: Final = 64


class TransferProtocol(Enum):
    BINARY = auto()
    SRMP = auto()


@dataclass(slots=True, eq=False)
class DispatchEntry:
    """MS-MQDMPR 3.1.1.18. The position is known by its queue and LookupIdentifier, which includes the priority.

    `protocol_data` is the data of the binary protocol about the message; None for SRMP.
    """

    queue: OutgoingQueue
    lookup_id: int
    protocol_data: object | None
    priority: int
    send_in_progress: bool = False

    @property
    def transfer_protocol(self) -> TransferProtocol:
        return TransferProtocol.SRMP if self.protocol_data is None else TransferProtocol.BINARY


# The lowest is sent first. The third number is always another, so that no two are equal.
_Ranked = tuple[int, int, int, DispatchEntry]


class Dispatch:
    """The messages of all outgoing queues that wait to be sent.

    A removed entry stays in the heap until it comes to its top, or until the heap has more of those than others.
    Entries that come to the top while their queue is not Active wait in `_idle`, by the number of their queue.
    """

    __slots__ = ("_entries", "_heap", "_idle", "_in_progress", "_pushes", "_size")

    def __init__(self) -> None:
        self._entries: dict[int, dict[int, DispatchEntry]] = {}
        self._size = 0
        self._pushes = 0
        self._heap: list[_Ranked] = []
        self._idle: dict[int, list[DispatchEntry]] = {}
        self._in_progress: DispatchEntry | None = None

    def __len__(self) -> int:
        return self._size

    def add_message_to_dispatch_collection(
        self, queue: OutgoingQueue, lookup_id: int, protocol_data: object | None
    ) -> DispatchEntry | None:
        """MS-MQDMPR 3.1.7.1.28. Adds nothing for a queue from which nothing may leave (MS-MQQB 3.1.7.12)."""
        if not queue.may_send:
            return None
        entries = self._entries.setdefault(queue.number, {})
        entry = entries.get(lookup_id)
        if entry is not None:
            entry.protocol_data = protocol_data
        else:
            priority = queue.attributes.base_priority + PRIORITIES - 1 - (lookup_id >> SEQUENCE_BITS)
            entry = entries[lookup_id] = DispatchEntry(queue, lookup_id, protocol_data, priority)
            self._size += 1
            self._push(entry)
        return self._dispatch_send_message()

    def remove_message_from_dispatch_collection(self, queue: OutgoingQueue, lookup_id: int) -> DispatchEntry | None:
        """MS-MQDMPR 3.1.7.1.29."""
        entry = self._entries.get(queue.number, {}).get(lookup_id)
        if entry is not None:
            self._forget(entry)
        return self._dispatch_send_message()

    def remove_messages_from_dispatch_collection_by_queue(self, queue: OutgoingQueue) -> None:
        """MS-MQDMPR 3.1.7.1.34. It sends nothing."""
        self._size -= len(self._entries.pop(queue.number, ()))
        self._idle.pop(queue.number, None)
        if self._in_progress is not None and self._in_progress.queue is queue:
            self._in_progress = None

    def _dispatch_send_message(self) -> DispatchEntry | None:
        """MS-MQDMPR 3.1.7.3.9."""
        if self._in_progress is not None:
            return None
        self._wake()
        while self._heap:
            entry = heappop(self._heap)[-1]
            if not self._is_held(entry):
                continue
            if entry.lookup_id not in entry.queue.positions:
                self._forget(entry)
            elif not entry.queue.is_active:
                self._idle.setdefault(entry.queue.number, []).append(entry)
            else:
                entry.send_in_progress = True
                self._in_progress = entry
                return entry
        return None

    def _wake(self) -> None:
        """Bring back the entries of queues that have become Active."""
        for number, entries in tuple(self._idle.items()):
            if entries[0].queue.is_active:
                del self._idle[number]
                for entry in entries:
                    self._push(entry)

    def _push(self, entry: DispatchEntry) -> None:
        self._pushes += 1
        heappush(self._heap, (-entry.priority, entry.lookup_id & SEQUENCE_MASK, self._pushes, entry))
        if len(self._heap) > 2 * self._size + _FEW:
            self._heap = [ranked for ranked in self._heap if self._is_held(ranked[-1])]
            heapify(self._heap)

    def _is_held(self, entry: DispatchEntry) -> bool:
        return self._entries.get(entry.queue.number, {}).get(entry.lookup_id) is entry

    def _forget(self, entry: DispatchEntry) -> None:
        entries = self._entries[entry.queue.number]
        del entries[entry.lookup_id]
        if not entries:
            del self._entries[entry.queue.number]
        self._size -= 1
        if self._in_progress is entry:
            self._in_progress = None
