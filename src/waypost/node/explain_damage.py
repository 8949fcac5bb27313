"""What is said of messages that were set aside because their records are damaged (ADR 30)."""

from waypost.node.explain_words import at, counted
from waypost.node.node import Node
from waypost.wire.identifiers import MessageIdentifier


def damaged_sentences(count: int) -> list[str]:
    """Of a queue that has lost so many."""
    if not count:
        return []
    were = "was" if count == 1 else "were"
    return [
        f"{counted(count, 'message')} of it {were} damaged on disk and set aside: `waypost store damaged` shows what "
        "is known."
    ]


def damaged_message(node: Node, identifier: MessageIdentifier) -> list[str]:
    """What became of a message that is in no queue, if it was damaged."""
    if not len(node.damaged):
        return []
    text = str(identifier)
    return [
        f"Message {text} was in {each.queue} and was found damaged on disk at {at(each.time)}: {each.reason}. It was "
        "set aside, and nobody receives it; send it again."
        for each in node.damaged.all()
        if each.message_id == text
    ]
