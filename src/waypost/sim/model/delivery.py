"""The model's acknowledgments, source journal and dead-letter messages."""

from typing import Final

from waypost.core.acknowledgments import acknowledgment
from waypost.core.message import NO_IDENTIFIER
from waypost.core.message_values import Acknowledgements
from waypost.core.serialization import packet_of
from waypost.sim.local.arguments import DEAD_LETTERS, DEAD_TRANSACTIONAL, SOURCE_JOURNAL
from waypost.sim.model.records import ModelMessage, ModelQueue
from waypost.sim.model.state import EXPIRED, RECEIVED, ModelState
from waypost.wire.message_class import MessageClass

ARRIVED: Final = MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
_NOT_ARRIVED: Final = (
    MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q,
    MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT,
)


class ModelDelivery:
    """Delivery of acknowledgments and copies, for all events of the state."""

    def __init__(self, state: ModelState) -> None:
        self._state: Final = state
        self._sizes: dict[tuple[MessageClass, int, str, str], int] = {}

    def deliver(self) -> None:
        state = self._state
        while state.events:
            events, state.events = state.events, []
            for event in events:
                if not isinstance(event, tuple):
                    event()
                    continue
                message, queue, reason = event
                if not queue.is_system and not queue.is_journal:
                    self._acknowledge(message, ARRIVED if reason is None else reason)
                    self._keep(message, ARRIVED if reason is None else reason)

    def rejected(self, message: ModelMessage, message_class: MessageClass) -> None:
        """Handle a message that does not enter its queue.

        MS-MQQB 3.1.7.15: without SendInsecureNacks, nobody acknowledges a message for a missing queue.
        """
        if message_class is not MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q:
            self._acknowledge(message, message_class)
        self._keep(message, message_class)

    def _acknowledge(self, message: ModelMessage, message_class: MessageClass) -> None:
        draft = message.draft
        queue = self._state.queues.get(draft.administration)
        if queue is None or not draft.acknowledgements & _wanted(message_class) or queue.plan.transactional:
            return
        is_positive = message_class in (ARRIVED, RECEIVED)
        self._state.marks.sometimes(
            "a positive acknowledgment" if is_positive else "a negative acknowledgment"
        )  # fmt: skip
        answer = ModelMessage(
            draft,
            self._size(message, message_class),
            message.recoverable,
            transactional=False,
            message_class=message_class,
            is_acknowledgment=True,
        )
        self._state.accept(queue, answer)

    def _size(self, due: ModelMessage, message_class: MessageClass) -> int:
        """The length of the packet, which the model does not compute."""
        message = due.draft.message
        assert message is not None
        destination = str(message.destination_queue_format_name)
        key = message_class, len(message.body), destination, due.draft.administration
        if key not in self._sizes:
            self._sizes[key] = len(packet_of(acknowledgment(message, message_class, NO_IDENTIFIER, 0)))
        return self._sizes[key]

    def _keep(self, message: ModelMessage, message_class: MessageClass) -> None:
        draft = message.draft
        queues, marks = self._state.queues, self._state.marks
        failed = message_class not in (ARRIVED, RECEIVED)
        if draft.negative_journaling and failed and (message.transactional or message_class is EXPIRED):
            marks.sometimes("a transactional dead-letter message" if message.transactional else "a dead-letter message")
            system = queues[DEAD_TRANSACTIONAL if message.transactional else DEAD_LETTERS]
            self._copy(queues.get(draft.dead_letters_to, system), message, message_class)
        elif draft.positive_journaling and message_class is (RECEIVED if message.transactional else ARRIVED):
            marks.sometimes("a copy in the source journal")
            self._copy(queues[SOURCE_JOURNAL], message, message.message_class)

    def _copy(self, queue: ModelQueue, message: ModelMessage, message_class: int) -> None:
        copy = message.copy()
        copy.message_class = message_class
        if message_class != MessageClass.MQMSG_CLASS_NORMAL:
            # The time of a dead-letter message does not end any more.
            copy.expiry = None
        self._state.accept(queue, copy)


def _wanted(message_class: MessageClass) -> Acknowledgements:
    if message_class is ARRIVED:
        return Acknowledgements.ACK_POS_ARRIVAL
    if message_class in _NOT_ARRIVED:
        return Acknowledgements.ACK_NEG_ARRIVAL
    return Acknowledgements.ACK_POS_RECEIVE if message_class is RECEIVED else Acknowledgements.ACK_NEG_RECEIVE
