"""Explain why a message does not move: the state of a queue manager about a message or a queue, in sentences.

Nothing is changed, and nothing is guessed: each sentence follows from what the queue manager knows at this moment, and
`facts` has the same as values for JSON. Outgoing queues are explained in `explain_transfer`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.position_events import KILOBYTE
from waypost.core.positions import PositionState
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.system import QueueManagerState
from waypost.core.transaction_records import OperationType, Transaction
from waypost.guid import guid_text
from waypost.limits import MAX_EXPLAINED_PLACES
from waypost.node.access import queue_name
from waypost.node.explain_journey import add_journey, not_known
from waypost.node.explain_kept_acks import add_kept_acks, add_kept_acks_of_queue
from waypost.node.explain_keys import is_unsent, queue_sentences, unsent_sentences, waiting_sentences
from waypost.node.explain_sequences import refused_of, refused_sentence
from waypost.node.explain_transfer import add_loop, add_transfer
from waypost.node.explain_words import at, counted, moment, span
from waypost.node.node import Node
from waypost.node.shortages import disk_shortage
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import DirectFormatName, FormatName, Suffix
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import MessageClass, is_negative_ack, meaning
from waypost.wire.property_values import UNLIMITED

# Clocks of computers with the same time server differ by less.
_CLOCK_TOLERANCE: Final = 60

# The last refusals of transactional sequences that an explanation names.
_REFUSED: Final = 3

# A quota is mentioned when less than this part of it is free.
_NEARLY_FULL: Final = 0.9


@dataclass(frozen=True, slots=True)
class ExplanationDraft:
    """Sentences and facts. The fact `found`: whether this computer has the message or queue."""

    sentences: list[str] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _FoundMessage:
    """A message in a queue, and the number of messages before it."""

    queue: Queue
    message: Message
    before: int


def explain_queue(node: Node, name: FormatName, now: Now) -> ExplanationDraft:
    """Explain why the messages of this queue are where they are."""
    explanation = ExplanationDraft()
    manager = node.manager
    queue = manager.find_queue(name) or manager.collection.outgoing.get(name)
    explanation.facts.update(queue=str(name), found=queue is not None)
    if queue is None:
        explanation.sentences.append(_no_queue(node, name))
    else:
        _add_queue(explanation, node, queue, now)
        _add_quotas(explanation, node, queue)
        _add_refusal(explanation, node, queue)
    _add_manager(explanation, node)
    return explanation


def explain_message(node: Node, identifier: MessageIdentifier, now: Now) -> ExplanationDraft:
    """Explain where the message is, in every queue that has it, and what it waits for."""
    explanation = ExplanationDraft()
    places, more = _places(node, identifier)
    unknown = node.index.unknown
    explanation.facts.update(message=str(identifier), found=bool(places), not_searched=unknown)
    told: list[dict[str, object]] = []
    explanation.facts["places"] = told
    for place in places:
        part = ExplanationDraft()
        _add_message(part, node, place, now)
        explanation.sentences.extend(part.sentences)
        told.append(part.facts)
    if more:
        is_are = "is" if more == 1 else "are"
        explanation.sentences.append(f"{counted(more, 'more message')} with this identifier {is_are} not shown.")
    if unknown:
        explanation.sentences.append(
            f"The search does not yet cover {counted(unknown, 'message')} that {'was' if unknown == 1 else 'were'} "
            "here when the queue manager started: try again in a few seconds."
        )
    is_known = add_journey(explanation.sentences, explanation.facts, node, identifier)
    damaged = [] if places else _damaged_message(node, identifier)
    explanation.sentences.extend(damaged)
    if not (places or unknown or is_known or damaged):
        explanation.sentences.extend(not_known(node, identifier))
    if node.index.unreadable and not places:
        explanation.sentences.append(
            f"{counted(node.index.unreadable, 'message')} in the store could not be read. This message may be one of "
            "them."
        )
    _add_manager(explanation, node)
    return explanation


def called(queue: Queue) -> str:
    """Name of the queue in a sentence."""
    if isinstance(queue, OutgoingQueue):
        return f"the outgoing queue for {queue}"
    if queue.is_journal:
        return f"the journal of {queue.parent}"
    return f"the queue {queue}"


def _add_refusal(explanation: ExplanationDraft, node: Node, queue: Queue) -> None:
    name = queue_name(queue)
    last = node.access.last_refusals.get(name)
    if last is None:
        return
    explanation.facts["access_denied"] = last.count
    explanation.facts["last_refused"] = last.who
    times = f"{counted(last.count, 'request')} {'was' if last.count == 1 else 'were'} refused"
    if last.problem:
        explanation.sentences.append(
            f"{times}: a right was missing, or a signature or the encryption was not accepted. The last one, at "
            f"{at(last.wall)}, was a message from {last.who}: {last.problem}."
        )
        return
    explanation.sentences.append(
        f"{times}: a right was missing, or a signature or the encryption was not accepted. The last one, at "
        f"{at(last.wall)}, was from {last.who}, who does not have the right {last.right}. `waypost queue acl {name}` "
        "shows and changes the rights."
    )


def _no_queue(node: Node, name: FormatName) -> str:
    is_elsewhere = isinstance(name, DirectFormatName) and not node.manager.identity.is_local(name.host)
    if is_elsewhere:
        return f"No message for {name} waits here, because this computer has no outgoing queue for this name."
    return f"The queue {name} does not exist on this computer: it was never created, or it was deleted."


def _places(node: Node, identifier: MessageIdentifier) -> tuple[list[_FoundMessage], int]:
    """The places of the message, and the number of further places."""
    found, more = node.index.find(_likely_first(node), identifier, MAX_EXPLAINED_PLACES)
    places = [_FoundMessage(queue, each, queue.positions.before(each.lookup_identifier)) for queue, each in found]
    return places, more


def _likely_first(node: Node) -> Iterator[Queue]:
    queues = list(node.manager.collection.by_number.values())
    system = node.manager.system_queues.values()
    yield from (queue for queue in queues if isinstance(queue, OutgoingQueue))
    yield from (node.manager.system_queues[suffix] for suffix in (Suffix.DEADLETTER, Suffix.DEADXACT))
    yield from (
        queue
        for queue in queues
        if not isinstance(queue, OutgoingQueue) and not queue.is_journal and queue not in system
    )
    yield node.manager.system_queues[Suffix.JOURNAL]
    yield from (queue for queue in queues if queue.is_journal)


def _add_message(explanation: ExplanationDraft, node: Node, place: _FoundMessage, now: Now) -> None:
    queue, message = place.queue, place.message
    say, facts = explanation.sentences.append, explanation.facts
    facts.update(
        queue=str(queue),
        lookup_id=str(message.lookup_identifier),
        before=place.before,
        sent_time=moment(message.sent_time),
        arrived_time=moment(message.arrival_time),
    )
    facts["class"] = f"{message.message_class:#06x}"
    is_ended = _add_end(explanation, node, place)
    add_kept_acks(explanation.sentences, facts, node, place.message, now)
    if is_ended:
        return
    since = f"since {at(message.arrival_time)} ({span(now.wall - message.arrival_time)})"
    say(f"Message {message.identifier} has been waiting in {called(queue)} {since}.")
    if place.before:
        say(
            f"{counted(place.before, 'message')} in this queue {'is' if place.before == 1 else 'are'} ahead of this "
            "message."
        )
    if message.sent_time > now.wall + _CLOCK_TOLERANCE:
        say(
            f"The message was sent at {at(message.sent_time)}, which is in the future according to the clock of this "
            "computer: the clocks of the two computers differ, so the time limits of the message are wrong."
        )
    if isinstance(queue, OutgoingQueue):
        explanation.sentences.extend(waiting_sentences(node, message))
    _add_hold(explanation, node, place, now)
    _add_times(explanation, place, now)
    if message.abort_count:
        say(f"{counted(message.abort_count, 'transaction')} received the message and aborted.")
    if message.move_count:
        say(f"The message was moved {counted(message.move_count, 'time')} between the queue and its subqueues.")
    _add_queue(explanation, node, queue, now)
    _add_quotas(explanation, node, queue)


def _add_end(explanation: ExplanationDraft, node: Node, place: _FoundMessage) -> bool:
    """Whether the message has come to its end: it is a dead-letter message or a copy."""
    queue, message = place.queue, place.message
    say = explanation.sentences.append
    if queue.is_journal:
        say(f"Message {message.identifier} was received from {queue.parent}. Its copy is in {called(queue)}.")
    elif queue is node.manager.system_queues[Suffix.JOURNAL]:
        say(f"Message {message.identifier} was delivered to {_destination(message)}. Its copy is in {called(queue)}.")
    elif queue is node.manager.awaiting_final_ack:
        say(f"Message {message.identifier} has arrived at {_destination(message)}.")
        say("As far as this queue manager knows, no application has received the message yet.")
        say(
            "This copy is kept until the final acknowledgment arrives. The final acknowledgment determines whether the "
            "message becomes a dead-letter message."
        )
    elif _is_dead_letter(node, place):
        say(f"Message {message.identifier} is a dead-letter message in {called(queue)}, for {_destination(message)}.")
        if is_unsent(message):
            say(f"The message class is {_class(message.message_class)}.")
            told = unsent_sentences(node, message)
            explanation.sentences.extend(told)
            explanation.facts["class_meaning"] = told[0]
        else:
            say(f"The message class is {_class(message.message_class)}: {meaning(message.message_class)}.")
            explanation.facts["class_meaning"] = meaning(message.message_class)
        say("When the cause is fixed, `waypost message resend` sends the message again.")
    else:
        return False
    return True


def _is_dead_letter(node: Node, place: _FoundMessage) -> bool:
    """Whether it is a dead-letter message: in an application queue, only one that asked for it; a nack is not."""
    system = node.manager.system_queues
    if place.queue in (system[Suffix.DEADLETTER], system[Suffix.DEADXACT]):
        return True
    return is_negative_ack(place.message.message_class) and bool(place.message.application_deadletter_queue)


def _destination(message: Message) -> str:
    return str(message.destination_queue_format_name or "several queues")


def _class(number: int) -> str:
    try:
        return f"{MessageClass(number).name} ({number:#06x})"
    except ValueError:
        return f"{number:#06x}"


def _add_hold(explanation: ExplanationDraft, node: Node, place: _FoundMessage, now: Now) -> None:
    lookup_id = place.message.lookup_identifier
    state = place.queue.positions.state(lookup_id)
    explanation.facts["position"] = state.name.lower()
    if state is PositionState.AVAILABLE:
        return
    say = explanation.sentences.append
    if state is PositionState.PURGE_PENDING:
        say("The queue was purged while the message was locked. The message is deleted when the lock ends.")
    for transaction in node.manager.transactions.collection.values():
        operation = transaction.operations.get((place.queue.number, lookup_id))
        if operation is not None:
            say(_hold(transaction, operation.operation_type))
            explanation.facts["transaction"] = guid_text(transaction.identifier)
            return
    lasting = _lasting_hold(node, place.queue, lookup_id, now)
    if lasting:
        say(lasting)
        return
    say("A reader has locked the message, and has neither received nor returned it yet.")


def _lasting_hold(node: Node, queue: Queue, lookup_id: int, now: Now) -> str:
    """The claim or stage that holds the message, as a sentence; "" without one."""
    found = node.manager.transactions.operation_on(queue, lookup_id)
    if found is None:
        return ""
    identifier = found[0].identifier
    holder = node.claims.holder(identifier, now)
    if holder is not None:
        claim, left = holder
        if not left:
            return (
                f"The claim {claim} still locks the message after the end of the lease: `waypost claim list` shows the "
                "reason."
            )
        return (
            f"The claim {claim} has locked the message. If the lease of the claim is not renewed, the message becomes "
            f"available again in {span(left)}."
        )
    staged = node.stages.key_of(identifier)
    return "" if staged is None else f"The message is staged for {staged}: readers see it after the commit."


def _hold(transaction: Transaction, operation_type: OperationType) -> str:
    name = guid_text(transaction.identifier)
    until = "the coordinator decides the outcome" if transaction.is_prepared else "the transaction ends"
    match operation_type:
        case OperationType.ENQUEUE:
            return f"The transaction {name} has sent the message: no reader sees it until {until}."
        case OperationType.DEQUEUE:
            return f"The transaction {name} has received the message: no other reader gets it until {until}."
        case _:
            return f"The transaction {name} is moving the message: no reader gets it until {until}."


def _add_times(explanation: ExplanationDraft, place: _FoundMessage, now: Now) -> None:
    message, say = place.message, explanation.sentences.append
    if isinstance(place.queue, OutgoingQueue):
        left = _left(message, message.time_to_reach_queue, now)
        explanation.facts["time_to_reach_queue_left"] = left
        if left is not None:
            say(f"The message has {span(left)} left to reach its queue.")
    left = _left(message, message.time_to_be_received, now)
    explanation.facts["time_to_be_received_left"] = left
    if left is not None:
        say(f"The message has {span(left)} left to be received.")


def _left(message: Message, seconds: int, now: Now) -> int | None:
    return None if seconds == INFINITE else max(int(message.sent_time + seconds - now.wall), 0)


def _add_queue(explanation: ExplanationDraft, node: Node, queue: Queue, now: Now) -> None:
    facts = explanation.facts
    facts.update(message_count=len(queue.positions), bytes=queue.total_bytes)
    held = sum(
        operation.queue is queue
        for transaction in node.manager.transactions.collection.values()
        for operation in transaction.operations.values()
    )
    held += sum(len(run) for runs in node.manager.lasting.collection.values() for run in runs if run.queue is queue)
    facts["held_by_transactions"] = held
    if "message" not in facts and "lookup_id" not in facts:
        explanation.sentences.append(_contents(queue, held))
    facts["committed_waiting"] = waiting = node.stages.delivery.bound_for(queue)
    if waiting:
        explanation.sentences.append(
            f"{counted(waiting, 'message')} of committed batches {'waits' if waiting == 1 else 'wait'} for room in "
            "this queue, or in other queues of the same batches."
        )
    facts["damaged"] = damaged = node.damaged.count_of(queue)
    explanation.sentences.extend(_damaged_sentences(damaged))
    if isinstance(queue, OutgoingQueue):
        add_transfer(explanation.sentences, facts, queue, now)
        explanation.sentences.extend(queue_sentences(node, queue))
        reset = node.renumberings.find(queue)
        if reset is not None:
            explanation.sentences.append(
                f"The sequence of the queue is being reset: {reset.progress}. Sending continues after the reset."
            )
        loop = None if node.network is None else node.network.loops.of(queue.destination_format_name)
        if loop is not None:
            add_loop(explanation.sentences, facts, loop)
        if "lookup_id" not in facts:
            add_kept_acks_of_queue(explanation.sentences, facts, node, queue, now)
    else:
        _add_readers(explanation, queue)
        refused = refused_of(node, queue)
        facts["refused_sequences"] = len(refused)
        explanation.sentences.extend(f"{refused_sentence(node, each, now)}." for each in refused[-_REFUSED:])


def _contents(queue: Queue, held: int) -> str:
    subject = called(queue)
    sentence = f"{subject[0].upper()}{subject[1:]} holds {counted(len(queue.positions), 'message')}"
    return f"{sentence}, {held} of them locked by transactions, claims or stages." if held else f"{sentence}."


def _add_readers(explanation: ExplanationDraft, queue: Queue) -> None:
    readers = sum(each.access_type.can_receive for each in queue.descriptors.values())
    waits = sum(len(each.waiting) for each in queue.descriptors.values())
    explanation.facts.update(readers=readers, waiting_reads=waits)
    say = explanation.sentences.append
    if not readers:
        say("No application has opened the queue for receiving.")
    elif queue.deniers:
        say("A reader has opened the queue exclusively.")
    if waits:
        say(f"{counted(waits, 'read')} {'waits' if waits == 1 else 'wait'} for a message in the queue.")


def _add_quotas(explanation: ExplanationDraft, node: Node, queue: Queue) -> None:
    manager, attributes = node.manager, queue.attributes
    explanation.facts.update(
        quota_kb=_kilobytes(attributes.quota),
        machine_quota_kb=_kilobytes(manager.positions.quota),
        machine_bytes=manager.total_bytes,
    )
    say = explanation.sentences.append
    if _is_nearly_full(queue.total_bytes, attributes.quota):
        say(
            f"The queue uses {queue.total_bytes} bytes of its quota of {attributes.quota} KB. Messages that exceed "
            "the quota are refused."
        )
    if _is_nearly_full(manager.total_bytes, manager.positions.quota):
        say(
            f"All queues together use {manager.total_bytes} bytes of the machine quota of {manager.positions.quota} "
            "KB. Messages that exceed the quota are refused."
        )


def _is_nearly_full(size: int, quota: int) -> bool:
    return quota != UNLIMITED and size >= quota * KILOBYTE * _NEARLY_FULL


def _kilobytes(quota: int) -> int | None:
    return None if quota == UNLIMITED else quota


def _add_manager(explanation: ExplanationDraft, node: Node) -> None:
    say = explanation.sentences.append
    if node.kernel.failure is not None:
        say(f"The queue manager has stopped working: {node.kernel.failure}.")
    elif node.kernel.trouble is not None:
        say(
            f"The store cannot write now: {node.kernel.trouble}. Changes are kept in memory until the store can "
            "write again."
        )
    elif shortage := disk_shortage(node):
        say(f"{shortage[0].upper()}{shortage[1:]}.")
    elif node.manager.state is not QueueManagerState.READY:
        say(f"The queue manager is not ready: it is {node.manager.state.name.lower()}.")


def _damaged_sentences(count: int) -> list[str]:
    """Sentences about a queue with this number of messages set aside because their records are damaged (ADR 30)."""
    if not count:
        return []
    were = "was" if count == 1 else "were"
    return [
        f"{counted(count, 'message')} of this queue {were} damaged on disk and removed: `waypost store damaged` "
        "shows the details."
    ]


def _damaged_message(node: Node, identifier: MessageIdentifier) -> list[str]:
    """Sentences about a message that is in no queue, if it was damaged."""
    if not len(node.damaged):
        return []
    text = str(identifier)
    return [
        f"Message {text} was in {each.queue} and was found damaged on disk at {at(each.time)}: {each.reason}. The "
        "message was removed from the queue. Send the message again."
        for each in node.damaged.all()
        if each.message_id == text
    ]
