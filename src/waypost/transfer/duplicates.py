"""MessageIDHistoryTable of MS-MQQB 3.1.1.3: the nontransactional messages received last, to know one that comes again.

The entries are in the order of their times, so the first one is the one to evict. Times are those of the monotonic
clock.

What was recoverable has to be known after a restart too (MS-MQQB 6, note 26). It goes to disk in blocks, one for each
batch that received some, with consecutive numbers. As soon as the blocks behind one hold as many messages as the
table, that one is of no use any more.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

# A message identifier (MS-MQMQ 2.2.18.1.3), and eight bytes that tell its destination: a message to several queues has
# one identifier.
IDENTIFIER_SIZE: Final = 28
MAX_SIZE: Final = 0x1_0000_0000


@dataclass(frozen=True, slots=True)
class Block:
    """Identifiers, one behind the other, and when they were received."""

    number: int
    identifiers: bytes
    time: float


class MessageHistory:
    """At most `size` entries. Once in `period` seconds those that are older than that are removed."""

    __slots__ = (
        "_blocks",
        "_deadline",
        "_entries",
        "_in_blocks",
        "_new",
        "_next_block",
        "_obsolete",
        "_written",
        "period",
        "size",
    )

    def __init__(self, size: int, period: float) -> None:
        self.size: Final = min(size, MAX_SIZE)
        self.period: Final = period
        self._entries: OrderedDict[bytes, float] = OrderedDict()
        # When a recoverable one was written last.
        self._written: dict[bytes, float] = {}
        self._deadline: float | None = None
        self._new: list[bytes] = []
        # Of each block how many identifiers it has, and their time. The last one is before `_next_block`.
        self._blocks: deque[tuple[int, float]] = deque()
        self._in_blocks = 0
        self._next_block = 0
        self._obsolete = 0

    def __len__(self) -> int:
        return len(self._entries)

    def is_known(self, identifier: bytes) -> bool:
        return identifier in self._entries

    def is_duplicate(self, identifier: bytes, time: float) -> bool:
        """MS-MQQB 3.1.5.8.1. A message that is known is as fresh as if it had come now.

        On disk it gets fresh before it is too old, and not each time: what comes again and again must not push out the
        others there.
        """
        if identifier not in self._entries:
            return False
        self._entries[identifier] = time
        self._entries.move_to_end(identifier)
        written = self._written.get(identifier)
        if written is not None and time - written > self.period / 2:
            self._write(identifier, time)
        return True

    def add(self, identifier: bytes, time: float) -> None:
        """An express message was received. It is not a duplicate."""
        if self._deadline is None:
            self._deadline = time + self.period
        self._entries[identifier] = time
        if len(self._entries) > self.size:
            self._forget_oldest()

    def add_recoverable(self, identifier: bytes, time: float) -> None:
        self.add(identifier, time)
        self._write(identifier, time)

    def _write(self, identifier: bytes, time: float) -> None:
        self._written[identifier] = time
        self._new.append(identifier)

    def _forget_oldest(self) -> None:
        identifier, _ = self._entries.popitem(last=False)
        self._written.pop(identifier, None)

    def next_deadline(self) -> float | None:
        """When the MessageIDHistory Cleanup Timer expires (MS-MQQB 3.1.2.8). It runs while there are entries."""
        return self._deadline

    def clean_up(self, time: float) -> None:
        """MS-MQQB 3.1.6.7, if the timer has expired."""
        if self._deadline is None or time < self._deadline:
            return
        oldest = time - self.period
        entries = self._entries
        while entries and entries[next(iter(entries))] < oldest:
            self._forget_oldest()
        while self._blocks and (not entries or self._blocks[0][1] < oldest):
            self._drop_block()
        self._deadline = time + self.period if entries else None

    def take_block(self, time: float) -> Block | None:
        """What has to be written, if there is something: what became known since the last call."""
        if not self._new:
            return None
        block = Block(self._next_block, b"".join(self._new), time)
        self._append_block(block.number, len(self._new), time)
        self._new.clear()
        return block

    def take_obsolete(self) -> range:
        """The numbers of the blocks that became useless since the last call."""
        first = self._next_block - len(self._blocks)
        obsolete = range(self._obsolete, first)
        self._obsolete = first
        return obsolete

    def restore(self, block: Block) -> None:
        """What take_block gave before a restart. The blocks come in their order."""
        if not self._next_block:
            self._obsolete = block.number
        identifiers = block.identifiers
        for at in range(0, len(identifiers), IDENTIFIER_SIZE):
            identifier = identifiers[at : at + IDENTIFIER_SIZE]
            self._entries.pop(identifier, None)
            self.add(identifier, block.time)
            self._written[identifier] = block.time
        self._append_block(block.number, len(identifiers) // IDENTIFIER_SIZE, block.time)

    def _append_block(self, number: int, count: int, time: float) -> None:
        self._blocks.append((count, time))
        self._next_block = number + 1
        self._in_blocks += count
        while self._blocks and self._in_blocks - self._blocks[0][0] >= self.size:
            self._drop_block()

    def _drop_block(self) -> None:
        self._in_blocks -= self._blocks.popleft()[0]
