"""Explain refused transactional sequences, and give hints about them."""

from typing import Final

from waypost.clock import Now
from waypost.core.queues import Queue
from waypost.guid import guid_text
from waypost.node.explain_words import at, counted, span
from waypost.node.network.admission import Refused
from waypost.node.node import Node
from waypost.transfer.incoming import Verdict

_RESET: Final = "accept the next message of the source with `waypost sequence reset --source {source}`"
_HINTS: Final = {
    Verdict.AHEAD: (
        "correct the clock of the sender and run `waypost sequence reset QUEUE` on that computer, or raise "
        "transfer.max_sequence_ahead_s on this computer"
    ),
    Verdict.TOO_MANY: "if the address belongs to a relay, add it to routing.relays, or raise "
    "transfer.new_sequences_at_once and transfer.new_sequences_per_s; otherwise, block the address",
    Verdict.DOUBTED: f"if the source has moved to this address, wait a few minutes, or {_RESET}; if not, block the "
    "address",
    Verdict.NOT_MET: (
        f"if {{greatest_address}} is an unknown host, delete its sequences with `waypost sequence reset --address "
        f"{{greatest_address}}`; otherwise, {_RESET}"
    ),
    Verdict.NO_ROOM: f"if the source really has that many addresses, {_RESET}",
    Verdict.IN_THE_MIDDLE: f"a Waypost sender starts a new sequence automatically; for other senders, {_RESET}",
    Verdict.BELOW_OWN: (
        f"if the clock of the sender was set back, or its data folder was restored from an earlier copy, {_RESET}"
    ),
    Verdict.DAMAGED: (
        f"{_RESET}; after this reset, the last messages of the source may arrive twice, so check the queue"
    ),
    Verdict.ENDED: f"these messages are late copies; if the sender continues to send them, {_RESET}",
}


def refused_sentence(node: Node, refused: Refused, now: Now) -> str:
    """A sentence about refused messages, with the reason."""
    queue = node.manager.collection.by_number[refused.queue]
    subject = (
        f"{counted(refused.count, 'transactional message')} of {guid_text(refused.source)} from {refused.address} for "
        f"{queue} {'was' if refused.count == 1 else 'were'} refused, most recently at {at(refused.last_time)}"
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
    known = f"{at(refused.greatest)}, from {refused.greatest_address or 'an unknown address'}"
    match refused.verdict:
        case Verdict.AHEAD:
            return (
                f"the TimeStamp of its sequence is {began}, which is {span(refused.time_stamp - now.wall)} ahead of "
                f"the clock of this computer; transfer.max_sequence_ahead_s allows {settings.max_sequence_ahead_s:g} s"
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
                f"the source has never used this address before, and the TimeStamp of its sequence, {began}, is not "
                f"later than the latest known TimeStamp of the source, {known}"
            )
        case Verdict.NO_ROOM:
            return f"the source has used too many addresses; its latest known TimeStamp is {known}"
        case Verdict.IN_THE_MIDDLE:
            return (
                f"its sequence with the TimeStamp {began} is unknown on this computer, and this message is not the "
                "first of the sequence"
            )
        case Verdict.DAMAGED:
            return "the record of this source is damaged in the store, so the message may have arrived before"
        case Verdict.ENDED:
            return (
                f"its sequence with the TimeStamp {began} has ended; the latest known TimeStamp of the source is "
                f"{known}"
            )
        case _:
            return (
                f"its sequence with the TimeStamp {began} is earlier than the last sequence from this address; the "
                f"latest known TimeStamp of the source is {known}"
            )
