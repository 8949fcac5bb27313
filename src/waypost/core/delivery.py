"""Reports of a message that arrives, leaves its queue or is refused: acknowledgments, journal, dead-letter messages.

Serves MS-MQQB 3.1.5.8.2, 3.1.5.8.3, 3.1.5.8.10 and 3.1.7.2.1 and the attributes of MS-MQDMPR 3.1.1.12 that ask for it.

Source journaling ends with one outcome (MS-MQQB 1.3.4, 3.1.5.7, 3.1.5.8.8, 3.1.7.1.2):
- a nontransactional message counts as delivered when it is in its queue. It fails before that, or there when its
  time is over (readings MQQB 7.1); its source keeps the dead-letter message, or, if the source will never know, the
  queue manager that finds it expired or its queue full;
- a transactional message counts as delivered when it was received. Its source alone keeps it.

Messages that are put here lead to events too, which come back to `handle` and end there: an acknowledgment and a
dead-letter message have a class of the system, for which nothing is done, and nothing is done for journals and system
queues either. So one event leads to two messages at most, and those to none.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from waypost.clock import Now
from waypost.core.acknowledgments import INSECURE_NACKS, acknowledgment, asks_in_vain, is_requested
from waypost.core.message import NO_IDENTIFIER, Message
from waypost.core.message_values import AuthenticationLevel
from waypost.core.ports import MessageArrived, MessagePositionDeleted
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import AccessType, OutgoingQueue, Queue, ShareMode
from waypost.core.source_journal import SourceJournal, is_of_the_system
from waypost.core.writing import EnqueueStatus
from waypost.errors import WaypostError
from waypost.limits import MAX_ANSWER_QUEUES, MAX_ENDED
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.base_header import has_expired
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass, is_arrival_nack, is_negative_ack

# The class that a status of Enqueue Message means for the sender. The quota of the computer has none: the message may
# be tried again (MS-MQQB 3.1.5.8.8).
STATUS_CLASSES: Final = {
    EnqueueStatus.QUEUE_QUOTA_EXCEEDED: MessageClass.MQMSG_CLASS_NACK_Q_EXCEED_QUOTA,
    EnqueueStatus.TIMED_OUT: MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT,
}

_KEPT_WHERE_IT_HAPPENS: Final = frozenset(
    {
        MessageClass.MQMSG_CLASS_NACK_Q_EXCEED_QUOTA,
        MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT,
        MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT,
    }
)

# MS-MQMQ 2.2.18.1.6: the class of an end in the queue, and the class of the same end on the way there.
_ON_THE_WAY: Final = {
    MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT: MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT,
    MessageClass.MQMSG_CLASS_NACK_Q_PURGED: MessageClass.MQMSG_CLASS_NACK_DELETED,
    MessageClass.MQMSG_CLASS_NACK_Q_DELETED: MessageClass.MQMSG_CLASS_NACK_DELETED,
}


class Gate(Protocol):
    """Decides which acknowledgments leave this computer: transfer implements it."""

    def admits(self, name: FormatName, message: Message, /) -> bool:
        """Whether an acknowledgment of this message may go to a queue of another computer."""

    def opened(self, queue: OutgoingQueue, message: Message, /) -> None:
        """Note that a queue was created for an acknowledgment."""

    def refused(self, name: FormatName, message: Message, reason: str, /) -> None:
        """Note that an acknowledgment did not go into its outgoing queue."""

    def left_out(self, names: Sequence[FormatName], message: Message, /) -> None:
        """Note queues that get no acknowledgment, because the message names too many."""


class _OpenGate:
    """The gate of a queue manager without transfer: all messages that it acknowledges came from local programs."""

    def admits(self, _name: FormatName, _message: Message) -> bool:
        return True

    def opened(self, _queue: OutgoingQueue, _message: Message) -> None: ...

    def refused(self, _name: FormatName, _message: Message, _reason: str) -> None: ...

    def left_out(self, _names: Sequence[FormatName], _message: Message) -> None: ...


def protection_refusal(queue: Queue, *, is_signed: bool, is_encrypted: bool) -> MessageClass | None:
    """The class of the refusal by a queue that demands or excludes protection: readings MQQB 3.26."""
    attributes = queue.attributes
    if attributes.authentication and not is_signed:
        return MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE
    if not attributes.privacy_level.accepts(encrypted=is_encrypted):
        return MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION
    return None


def protection_sentence(reason: MessageClass, *, is_encrypted: bool) -> str:
    """A refusal of `protection_refusal` in words."""
    if reason is MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE:
        return "the queue requires a signature, and the message is not signed"
    if is_encrypted:
        return "the queue does not accept encrypted messages"
    return "the queue requires encryption, and the message is not encrypted"


def protection_hint(reason: MessageClass, *, is_encrypted: bool) -> str:
    """The help for such a refusal."""
    if reason is MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE:
        return "sign the message: `waypost send --sign`, in Python `sign=True`"
    if is_encrypted:
        return "send without --encrypt, or change the queue with `waypost queue set NAME --privacy optional`"
    return "encrypt the message: `waypost send --encrypt`, in Python `encrypt=True`"


class Delivery:
    """The services of one queue manager for senders, as the source and as the destination of messages."""

    __slots__ = ("_ended", "_gate", "_manager", "_source_journal", "send_insecure_nacks")

    def __init__(
        self, manager: QueueManager, gate: Gate | None = None, *, send_insecure_nacks: bool = False
    ) -> None:  # fmt: skip
        self._manager: Final = manager
        self._source_journal: Final = SourceJournal(manager.collection, manager.writing)
        self.send_insecure_nacks = send_insecure_nacks
        self._gate: Final[Gate] = gate or _OpenGate()
        # The ordinals of messages of this computer that failed in an outgoing queue, the oldest first.
        self._ended: dict[int, None] = {}

    def refusal(self, queue: Queue, message: Message) -> MessageClass | None:
        """The class of the refusal by the queue, or None if it accepts the message. An outgoing queue accepts all.

        AuthenticationLevel is the verified one: an unverified signature counts as none.
        """
        if isinstance(queue, OutgoingQueue):
            return None
        is_signed = message.authentication_level is not AuthenticationLevel.NONE
        # A level alone is only a claim (readings MQMQ 3.19), but enough from here. A message gets its identifier later.
        is_encrypted = message.privacy_level != PrivacyLevel.NONE and (
            bool(message.symmetric_key) or message.identifier is NO_IDENTIFIER or self._is_ours(message)
        )
        return self.kind_refusal(queue, message) or protection_refusal(
            queue, is_signed=is_signed, is_encrypted=is_encrypted
        )

    def kind_refusal(self, queue: Queue, message: Message) -> MessageClass | None:
        """The class of the refusal by a queue that is for other messages."""
        if is_of_the_system(queue):
            return MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q
        attributes = queue.attributes
        if message.is_transactional and not attributes.transactional:
            return MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q
        if attributes.transactional and not message.is_transactional:
            return MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG
        return None

    def rejected(self, message: Message, message_class: MessageClass, now: Now) -> None:
        """Handle a message that was not accepted into its queue, for the reason of this class."""
        assert is_arrival_nack(message_class), f"{message_class.name} is not a reason to reject a message"
        self._acknowledge(message, message_class, now)
        self._journal(message, message_class, now)

    def handle(self, event: MessageArrived | MessagePositionDeleted, now: Now) -> None:
        """Handle an event of the core. It may put messages, and so lead to more events."""
        queue, message = event.queue, event.message
        if isinstance(queue, OutgoingQueue):
            if isinstance(event, MessagePositionDeleted):
                self._left_outgoing(message, event.reason, now)
            else:
                self._manager.final_acks.expect(queue, message)
            return
        if is_of_the_system(queue):
            return
        message_class = MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
        if isinstance(event, MessagePositionDeleted):
            message_class = _ON_THE_WAY[event.reason] if _came_too_late(event) else event.reason
        self._acknowledge(message, message_class, now)
        self._journal(message, message_class, now)

    def _left_outgoing(self, message: Message, reason: MessageClass, now: Now) -> None:
        """The destination acknowledges a message that reached it; otherwise its holder does (MS-MQQB 3.1.7.1.2)."""
        message_class = _ON_THE_WAY.get(reason, reason)
        if is_negative_ack(message_class):
            if self._is_ours(message):
                self._note_end(message.identifier.ordinal)
            self._acknowledge(message, message_class, now)
        self._journal(message, message_class, now)

    def has_ended(self, ordinal: int) -> bool:
        """Whether the message of this computer with this ordinal is known to have failed here."""
        return ordinal in self._ended

    def _note_end(self, ordinal: int) -> None:
        self._ended[ordinal] = None
        if len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def _acknowledge(self, message: Message, message_class: MessageClass, now: Now) -> None:
        """MS-MQQB 3.1.7.15. An acknowledgment that does not go out is discarded, and the gate is called."""
        if message.administration_queue_format_name is None or not is_requested(message, message_class):
            return
        if message_class in INSECURE_NACKS and not self.send_insecure_nacks:
            return
        names = message.administration_queues
        if len(names) > MAX_ANSWER_QUEUES:
            self._gate.left_out(names[MAX_ANSWER_QUEUES:], message)
        for name in names[:MAX_ANSWER_QUEUES]:
            answer = acknowledgment(message, message_class, self._manager.message_identifier(), int(now.wall))
            answer.destination_queue_format_name = name
            self._answer(name, answer, message, now)

    def _answer(self, name: FormatName, answer: Message, message: Message, now: Now) -> None:
        manager = self._manager
        queue = manager.find_queue(name)
        if queue is None:
            self._send(name, answer, message, now)
            return
        answer.destination_queue_manager_identifier = manager.identity.identifier
        if self.refusal(queue, answer) is None:
            manager.writing.enqueue_message(queue, answer, None, now)

    def _send(self, name: FormatName, answer: Message, message: Message, now: Now) -> None:
        """Send an answer with the origin of the message: it shows for which peer acknowledgments wait here."""
        if not self._gate.admits(name, message):
            return
        manager = self._manager
        answer.origin = message.origin
        is_new = name not in manager.collection.outgoing
        try:
            descriptor = manager.open_queue(name, AccessType.SEND, ShareMode.DENY_NONE, now)
            if is_new and isinstance(descriptor.queue, OutgoingQueue):
                self._gate.opened(descriptor.queue, message)
            try:
                status = manager.enqueue_message_to_open_queue(descriptor, answer, None, now)
            finally:
                manager.close_queue(descriptor)
        except WaypostError as error:
            self._gate.refused(name, message, str(error))
            return
        if status is not EnqueueStatus.ACCEPTED:
            self._gate.refused(name, message, f"the queue does not accept the acknowledgment ({status.name.lower()})")

    def _journal(self, message: Message, message_class: MessageClass, now: Now) -> None:
        if asks_in_vain(message):
            return
        if message.negative_journaling_requested and self._keeps_as_dead_letter(message, message_class):
            self._source_journal.keep_dead_letter(message, message_class, now)
        elif message.positive_journaling_requested and self._is_ours(message) and _is_delivered(message, message_class):
            self._source_journal.keep(message, now)

    def _keeps_as_dead_letter(self, message: Message, message_class: MessageClass) -> bool:
        if message.is_transactional:
            return is_negative_ack(message_class) and self._is_ours(message)
        return message_class in _KEPT_WHERE_IT_HAPPENS or (is_arrival_nack(message_class) and self._is_ours(message))

    def _is_ours(self, message: Message) -> bool:
        return message.source_machine_identifier == self._manager.identity.identifier


def _is_delivered(message: Message, message_class: MessageClass) -> bool:
    if message.is_transactional:
        return message_class is MessageClass.MQMSG_CLASS_ACK_RECEIVE
    return message_class is MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE


def _came_too_late(event: MessagePositionDeleted) -> bool:
    """Whether TimeToBeReceived was over on arrival: it counts as never in the queue (MS-MQMQ 2.2.18.1.6)."""
    message = event.message
    return event.reason is MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT and has_expired(
        message.sent_time, message.time_to_be_received, message.arrival_time
    )
