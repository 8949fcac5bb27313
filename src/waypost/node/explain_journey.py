"""Explain a message that is in no queue here: it was refused on arrival, or handed over to another host."""

from typing import Final

from waypost.guid import guid_text
from waypost.node.explain_words import at, moment
from waypost.node.network.handed_over import HandedOver, Outcome
from waypost.node.network.refusals import Refusal
from waypost.node.node import Node
from waypost.peers import peer_of
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import MessageClass, meaning

_HOW_TO_ASK: Final = (
    "To get a report, send with an administration queue: `waypost send QUEUE --ack full-reach-queue --admin-queue "
    "FORMAT_NAME`. With `full-receive`, the report also shows whether the message was received."
)


def add_journey(sentences: list[str], facts: dict[str, object], node: Node, identifier: MessageIdentifier) -> bool:
    """Add what is remembered of the message. False if nothing is."""
    if node.network is None:
        return False
    refusal = node.network.refusals.of(identifier)
    if refusal is not None:
        _add_refusal(sentences, facts, identifier, refusal)
    entries = node.network.handed.find(identifier)
    outcome = node.network.handed.outcome(identifier)
    if entries:
        _add_handed_over(sentences, facts, identifier, entries)
    if outcome is not None:
        _add_outcome(sentences, facts, identifier, outcome, entries)
    elif entries and not any(entry.way.is_transactional for entry in entries):
        sentences.append(_HOW_TO_ASK)
    return refusal is not None or bool(entries) or outcome is not None


def not_known(node: Node, identifier: MessageIdentifier) -> list[str]:
    """Sentences about a message that is in no queue, and of which nothing is remembered."""
    manager = node.manager
    if identifier.queue_manager_guid != manager.identity.identifier:
        sender = guid_text(identifier.queue_manager_guid)
        return [
            f"Message {identifier} is not on this computer. The queue manager {sender} sent the message. If the "
            "message has not arrived yet, that queue manager knows the reason. If the message has arrived, it was "
            "received or purged, or it has expired."
        ]
    if identifier.ordinal > manager.last_ordinal:
        return [f"Message {identifier} does not exist: this queue manager has not sent a message with that number yet."]
    sentences = [
        f"Message {identifier} was sent from this computer, but is no longer here: the message was delivered, received "
        "or purged, or it has expired."
    ]
    if node.network is not None:
        since = at(node.network.handed.since)
        sentences.append(f"The message is not among the messages sent to other hosts since {since}.")
    sentences.append(
        "A message that requests a journal copy or a dead-letter message leaves a copy in system$;journal, "
        "system$;deadletter or system$;deadxact. None of these queues contains this message."
    )
    return sentences


def _add_refusal(
    sentences: list[str], facts: dict[str, object], identifier: MessageIdentifier, refusal: Refusal
) -> None:
    facts["refusal"] = {
        "queue": refusal.queue,
        "address": refusal.address,
        "reason": refusal.reason.value,
        "sentence": refusal.sentence,
        "time": moment(refusal.time),
        "count": refusal.count,
    }
    queue = f" for {refusal.queue}" if refusal.queue else ""
    often = f", {refusal.count} times so far" if refusal.count > 1 else ""
    sentences.append(
        f"Message {identifier} arrived from {refusal.address} at {at(refusal.time)}{queue} and was refused{often}: "
        f"{refusal.sentence}."
    )
    if refusal.reason.comes_again:
        sentences.append("The sender keeps the message and sends it again.")
    else:
        sentences.append(
            "The message is not sent again. Its sender is notified only if the message requests a notification."
        )


def _add_handed_over(
    sentences: list[str], facts: dict[str, object], identifier: MessageIdentifier, entries: list[HandedOver]
) -> None:
    facts["handed_over"] = [
        {"queue": entry.way.queue, "address": entry.way.address, "time": moment(entry.time)} for entry in entries
    ]
    for entry in entries:
        if entry.way.is_transactional:
            result = (
                "the destination acknowledged the message. The destination reports refusals, and reports other "
                "outcomes only if the message requests this"
            )
        else:
            result = "the destination reports acceptance or refusal only if the message requests this"
        sentences.append(
            f"Message {identifier} was sent to {entry.way.address} at {at(entry.time)}, for {entry.way.queue}; "
            f"{result}."
        )


def _add_outcome(
    sentences: list[str],
    facts: dict[str, object],
    identifier: MessageIdentifier,
    outcome: Outcome,
    entries: list[HandedOver],
) -> None:
    try:
        name = MessageClass(outcome.message_class).name
    except ValueError:
        name = f"{outcome.message_class:#06x}"
    facts["outcome"] = {
        "address": outcome.peer,
        "class": f"{outcome.message_class:#06x}",
        "meaning": meaning(outcome.message_class),
        "time": moment(outcome.time),
        "final_ack": outcome.is_final_ack,
    }
    kind = "a final acknowledgment" if outcome.is_final_ack else "an acknowledgment"
    sentences.append(
        f"At {at(outcome.time)}, {kind} of message {identifier} arrived from {outcome.peer}: "
        f"{meaning(outcome.message_class)} ({name})."
    )
    if entries and all(peer_of(entry.way.address) != peer_of(outcome.peer) for entry in entries):
        sentences.append(f"The message was not sent to {outcome.peer}, so this report may be forged.")
