"""Source journaling: the copies that a queue manager keeps of completed messages (MS-MQQB 1.3.4).

Other code decides about the outcome of a message, and whether it asked for a copy. A copy without room is discarded
(MS-MQDMPR 3.1.1.12).
"""

from dataclasses import replace
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_collection import QueueCollection
from waypost.core.queues import Queue
from waypost.core.serialization import packet_of
from waypost.core.writing import Writing
from waypost.errors import IllegalPathName
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import Suffix
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.user_message import UserMessage


class SourceJournal:
    """The system journal and the dead-letter queues of one queue manager."""

    __slots__ = ("_queues", "_writing")

    def __init__(self, queues: QueueCollection, writing: Writing) -> None:
        self._queues: Final = queues
        self._writing: Final = writing

    def keep(self, message: Message, now: Now) -> None:
        """Keep a copy of a delivered message."""
        self._writing.enqueue_message(self._queues.system[Suffix.JOURNAL], replace(message), None, now)

    def keep_dead_letter(self, message: Message, message_class: int, now: Now) -> None:
        """Keep a copy of a message that was not delivered, for the reason of this class."""
        dead_letter = lasting_copy(message, message_class)
        self._writing.enqueue_message(self._dead_letter_queue(message), dead_letter, None, now)

    def _dead_letter_queue(self, message: Message) -> Queue:
        suffix = Suffix.DEADXACT if message.is_transactional else Suffix.DEADLETTER
        return self._application_queue(message.application_deadletter_queue) or self._queues.system[suffix]

    def _application_queue(self, pathname: str) -> Queue | None:
        """The queue of an application on this computer with this path name, or None."""
        try:
            path = PathName.parse(pathname)
        except IllegalPathName:
            return None
        identity = self._queues.identity
        if not identity.is_local(path.computer):
            return None
        queue = self._queues.by_path.get(replace(path, computer=identity.computer_name))
        return None if queue is None or is_of_the_system(queue) else queue


def is_of_the_system(queue: Queue) -> bool:
    """Whether it is a system queue: nothing is sent to it, and its events have no effects."""
    return queue.is_journal or queue.queue_type is QueueKind.SYSTEM


def lasting_copy(message: Message, message_class: int) -> Message:
    """The message with another class and without a time limit. Its packet is otherwise as it came."""
    packet = UserMessage.decode(packet_of(message))
    packet.properties.message_class = message_class
    packet.base.time_to_reach_queue = packet.user.time_to_be_received = INFINITE
    return replace(
        message,
        message_class=message_class,
        time_to_reach_queue=INFINITE,
        time_to_be_received=INFINITE,
        packet=packet.encode(),
    )
