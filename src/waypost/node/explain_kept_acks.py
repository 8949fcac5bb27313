"""Explain acknowledgments that came and are not believed yet (ADR 22)."""

from collections.abc import Sequence
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import OutgoingQueue
from waypost.guid import guid_text
from waypost.node.explain_words import at, counted, moment
from waypost.node.kept_acks import Acknowledgment
from waypost.node.node import Node
from waypost.transfer.believing import Decision, Verdict
from waypost.wire.message_class import MessageClass

# Number of acknowledgments to describe one by one.
_SHOWN: Final = 4
_OFFLINE: Final = Verdict(Decision.KEEP, "must wait until this queue manager is on a network")


def add_kept_acks(
    sentences: list[str], facts: dict[str, object], node: Node, message: Message, now: Now
) -> None:  # fmt: skip
    """Add the FinalAcks that name this message, if it is one of this queue manager."""
    identifier = message.identifier
    if identifier.queue_manager_guid == node.manager.identity.identifier:
        _add(sentences, facts, node, node.kept_acks.of_message(identifier.ordinal), now)


def add_kept_acks_of_queue(
    sentences: list[str], facts: dict[str, object], node: Node, queue: OutgoingQueue, now: Now
) -> None:  # fmt: skip
    """Add the acknowledgments of messages that are in this outgoing queue, or were."""
    kept = node.kept_acks
    acks = [ack for ack in kept if node.sequences.queue_of(ack.tx_sequence_id) is queue] if kept else []
    _add(sentences, facts, node, acks, now)


def _add(
    sentences: list[str], facts: dict[str, object], node: Node, acks: Sequence[Acknowledgment], now: Now
) -> None:  # fmt: skip
    told = [(ack, verdict) for ack in acks if (verdict := _verdict(node, ack, now)) is not None]
    facts["kept_acknowledgments"] = [_facts(ack, verdict) for ack, verdict in told]
    for ack, verdict in told[:_SHOWN]:
        sentences.append(
            f"At {at(ack.time)}, an acknowledgment ({_class(ack)}) arrived. The queue manager keeps the "
            f"acknowledgment, but does not apply it, because the acknowledgment {verdict.reason}."
        )
        if verdict.is_by_address:
            guid, address = guid_text(ack.bringer.guid), ack.bringer.address
            sentences.append(
                f"If the address belongs to that queue manager, run: waypost sequence admit {guid} {address}"
            )
    more = len(told) - _SHOWN
    if more > 0:
        are = "is" if more == 1 else "are"
        sentences.append(f"{counted(more, 'more acknowledgment')} {are} kept for similar reasons.")


def _verdict(node: Node, ack: Acknowledgment, now: Now) -> Verdict | None:
    return _OFFLINE if node.network is None else node.network.ack_judging.verdict(ack, now)


def _facts(ack: Acknowledgment, verdict: Verdict) -> dict[str, object]:
    return {
        "class": f"{ack.message_class:#06x}",
        "guid": guid_text(ack.bringer.guid),
        "address": ack.bringer.address,
        "source": guid_text(ack.source),
        "number": ack.tx_sequence_number,
        "time": moment(ack.time),
        "reason": verdict.reason,
    }


def _class(ack: Acknowledgment) -> str:
    try:
        return MessageClass(ack.message_class).name
    except ValueError:
        return f"{ack.message_class:#06x}"
