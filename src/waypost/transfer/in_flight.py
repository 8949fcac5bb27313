"""What was sent on a session and is not acknowledged: MS-MQQB 3.1.5.5.1 to 3.1.5.5.3."""

from dataclasses import dataclass
from typing import Any

from waypost.wire.session_header import SessionHeader


@dataclass(slots=True, eq=False)
class Sent:
    """One message on its way: OutgoingMessagePosition of MS-MQQB 3.1.1.3.1.2.

    `owner`, `lookup_id` and `message` mean something to the one who sends only. `recoverable_sequence_number` is 0 for
    an express message.
    """

    owner: Any
    lookup_id: int
    message: Any
    is_transactional: bool
    sequence_number: int = 0
    recoverable_sequence_number: int = 0


class InFlight:
    """The entries in the order in which they were sent.

    An express or transactional one is acknowledged by its number; a recoverable one when the other side says that it is
    on disk (3.1.5.5.3). Only what was sent here is in here, so a number 0 cannot match (readings MQQB 3.1).
    """

    __slots__ = ("_entries", "_recoverable", "_recoverable_acknowledged", "acknowledged")

    def __init__(self) -> None:
        self.acknowledged = 0
        self._entries: dict[int, Sent] = {}
        self._recoverable: dict[int, Sent] = {}
        self._recoverable_acknowledged = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, sent: Sent) -> None:
        self._entries[sent.sequence_number] = sent
        if sent.recoverable_sequence_number and not sent.is_transactional:
            self._recoverable[sent.recoverable_sequence_number] = sent

    def entries(self) -> list[Sent]:
        return list(self._entries.values())

    def acknowledge(self, header: SessionHeader) -> list[Sent]:
        """Take out what the header acknowledges. A number that was acknowledged before changes nothing."""
        taken = []
        entries = self._entries
        last = header.ack_sequence_number
        for number in range(self.acknowledged + 1, last + 1):
            sent = entries.get(number)
            if sent is not None and (sent.is_transactional or not sent.recoverable_sequence_number):
                del entries[number]
                taken.append(sent)
        self.acknowledged = max(self.acknowledged, last)

        lowest = header.recoverable_msg_ack_seq_number
        flags = header.recoverable_msg_ack_flags
        for number in range(self._recoverable_acknowledged + 1, lowest + max(flags.bit_length(), 1)):
            if number <= lowest or flags >> number - lowest & 1:
                sent = self._recoverable.pop(number, None)
                if sent is not None:
                    del entries[sent.sequence_number]
                    taken.append(sent)
        self._recoverable_acknowledged = max(self._recoverable_acknowledged, lowest)
        assert len(self._recoverable) <= len(entries), "a message waits for the disk of the other side, and is not sent"
        return taken
