"""What the model does for senders: acknowledgments, source journal, dead letters."""

from typing import Final

from waypost.core.acknowledgments import acknowledgment
from waypost.core.message import NO_IDENTIFIER
from waypost.core.message_values import Acknowledgements
from waypost.core.serialization import packet_of
from waypost.sim.model.books import EXPIRED, RECEIVED, Books
from waypost.sim.model.letters import Box, Letter
from waypost.sim.words import DEAD_LETTERS, DEAD_TRANSACTIONAL, SOURCE_JOURNAL
from waypost.wire.message_class import MessageClass

ARRIVED: Final = MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE


class Post:
    """It acts on the events of the books until there are none."""

    def __init__(self, books: Books) -> None:
        self._books: Final = books
        self._sizes: dict[tuple[MessageClass, int, str, str], int] = {}

    def deliver(self) -> None:
        books = self._books
        while books.events:
            events, books.events = books.events, []
            for event in events:
                if not isinstance(event, tuple):
                    event()
                    continue
                letter, box, reason = event
                if not box.is_system and not box.is_journal:
                    self._acknowledge(letter, ARRIVED if reason is None else reason)
                    self._keep(letter, ARRIVED if reason is None else reason)

    def _acknowledge(self, letter: Letter, message_class: MessageClass) -> None:
        draft = letter.draft
        box = self._books.boxes.get(draft.administration)
        if box is None or not draft.acknowledgements & _wanted(message_class) or box.plan.transactional:
            return
        is_positive = message_class in (ARRIVED, RECEIVED)
        self._books.marks.sometimes(
            "a positive acknowledgment" if is_positive else "a negative acknowledgment"
        )  # fmt: skip
        answer = Letter(
            draft,
            self._size(letter, message_class),
            letter.recoverable,
            transactional=False,
            message_class=message_class,
            is_acknowledgment=True,
        )
        self._books.accept(box, answer)

    def _size(self, letter: Letter, message_class: MessageClass) -> int:
        """The length of a packet is not for the model to know."""
        message = letter.draft.message
        assert message is not None
        destination = str(message.destination_queue_format_name)
        key = message_class, len(message.body), destination, letter.draft.administration
        if key not in self._sizes:
            self._sizes[key] = len(packet_of(acknowledgment(message, message_class, NO_IDENTIFIER, 0)))
        return self._sizes[key]

    def _keep(self, letter: Letter, message_class: MessageClass) -> None:
        draft = letter.draft
        boxes, marks = self._books.boxes, self._books.marks
        failed = message_class not in (ARRIVED, RECEIVED)
        if draft.negative_journaling and failed and (letter.transactional or message_class is EXPIRED):
            marks.sometimes("a dead letter of a transaction" if letter.transactional else "a dead letter")
            system = boxes[DEAD_TRANSACTIONAL if letter.transactional else DEAD_LETTERS]
            self._copy(boxes.get(draft.dead_letters_to, system), letter, message_class)
        elif draft.positive_journaling and message_class is (RECEIVED if letter.transactional else ARRIVED):
            marks.sometimes("a copy in the source journal")
            self._copy(boxes[SOURCE_JOURNAL], letter, letter.message_class)

    def _copy(self, box: Box, letter: Letter, message_class: int) -> None:
        copy = letter.copy()
        copy.message_class = message_class
        if message_class != MessageClass.MQMSG_CLASS_NORMAL:
            # The time of a dead letter does not end any more.
            copy.expiry = None
        self._books.accept(box, copy)


def _wanted(message_class: MessageClass) -> Acknowledgements:
    if message_class is ARRIVED:
        return Acknowledgements.ACK_POS_ARRIVAL
    return Acknowledgements.ACK_POS_RECEIVE if message_class is RECEIVED else Acknowledgements.ACK_NEG_RECEIVE
