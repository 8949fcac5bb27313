"""Explain refused transactional sequences, and give hints about them."""

from typing import Final

from waypost.clock import Now
from waypost.core.queues import Queue
from waypost.guid import guid_text
from waypost.node.explain_words import at, counted, span
from waypost.node.network.admission import Refused
from waypost.node.node import Node
from waypost.transfer.incoming import Verdict

_RESET: Final = (
    "`waypost sequence reset --source {source}` makes this queue manager accept the next message of the source"
)
_HINTS: Final = {
    Verdict.AHEAD: (
        "set the clock of the sender, and reset its sequence on that computer with `waypost sequence reset QUEUE`; or "
        "raise transfer.max_sequence_ahead_s on this computer"
    ),
    Verdict.TOO_MANY: "if the address belongs to a relay, add it to routing.relays, or raise "
    "transfer.new_sequences_at_once and transfer.new_sequences_per_s; otherwise, block the address",
    Verdict.DOUBTED: f"if the source has moved to this address, wait a few minutes, or {_RESET}; if not, block the "
    "address",
    Verdict.NOT_MET: (
        f"if {{greatest_address}} is an unknown host, `waypost sequence reset --address {{greatest_address}}` "
        f"deletes its sequences; otherwise {_RESET}"
    ),
    Verdict.NO_ROOM: f"if the source really has that many addresses, {_RESET}",
    Verdict.IN_THE_MIDDLE: f"a Waypost sender starts a new sequence automatically; for other senders, {_RESET}",
    Verdict.BELOW_OWN: f"if the clock or the data folder of the sender was set back, {_RESET}",
    Verdict.DAMAGED: f"{_RESET}; then its last messages may arrive twice, so check the queue",
    Verdict.ENDED: f"these messages are late copies; if the sender continues to send them, {_RESET}",
}


def refused_sentence(node: Node, refused: Refused, now: Now) -> str:
    """A sentence about refused messages, with the reason."""
    queue = node.manager.collection.by_number[refused.queue]
    subject = (
        f"{counted(refused.count, 'transactional message')} of {guid_text(refused.source)} from {refused.address} for "
        f"{queue} {'was' if refused.count == 1 else 'were'} refused, the last one at {at(refused.last_time)}"
    )
    return f"{subject}: {_reason(node, refused, now)}"


def refused_hint(refused: Refused) -> str:
    """A hint for the operator about refused messages."""
    return _HINTS[refused.verdict].format(
        source=guid_text(refused.source), greatest_address=refused.greatest_address or "the other address"
    )


def refused_of(node: Node, queue: Queue) -> list[Refused]:
    """The recent refusals of a queue."""
    if node.network is None:
        return []
    return [refused for refused in node.network.arrivals.admission.refused if refused.queue == queue.number]


def _reason(node: Node, refused: Refused, now: Now) -> str:
    assert node.network is not None
    settings, began = node.network.settings, at(refused.time_stamp)
    known = f"{at(refused.greatest)} of {refused.greatest_address or 'an unknown address'}"
    match refused.verdict:
        case Verdict.AHEAD:
            return (
                f"the TimeStamp of its sequence is {began}, which is {span(refused.time_stamp - now.wall)} ahead of "
                f"the clock of this computer, and transfer.max_sequence_ahead_s is {settings.max_sequence_ahead_s:g}"
            )
        case Verdict.TOO_MANY:
            return (
                "the address begins more new sequences than the settings transfer.new_sequences_at_once = "
                f"{settings.new_sequences_at_once} and transfer.new_sequences_per_s = {settings.new_sequences_per_s:g} "
                "allow"
            )
        case Verdict.DOUBTED:
            return (
                "its sequence was begun from other addresses, and this address has tried many wrong TimeStamps before"
            )
        case Verdict.NOT_MET:
            return (
                f"the source has never used this address before, and its sequence of {began} is not later than {known}"
            )
        case Verdict.NO_ROOM:
            return f"the source has used too many addresses; the last sequence is {known}"
        case Verdict.IN_THE_MIDDLE:
            return (
                f"its sequence of {began} is unknown on this computer, and this message is not the first of the "
                "sequence"
            )
        case Verdict.DAMAGED:
            return "the record of this source is damaged in the store, so the message may have arrived before"
        case Verdict.ENDED:
            return f"its sequence of {began} has ended; the last sequence is {known}"
        case _:
            return (
                f"its sequence of {began} is earlier than the last sequence from this address; the last sequence "
                f"from any address is {known}"
            )
