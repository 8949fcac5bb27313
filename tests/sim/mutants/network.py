"""Mistakes in the transfer between queue managers, of every layer of acknowledgments, for several hosts to find.

As tests.sim.mutants.planting says, each is a small sabotage of the engine for one run.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tests.sim.mutants.planting import Mutant, instead, nothing
from waypost.clock import Now
from waypost.core.final_acks import FinalAcks
from waypost.core.message import Message
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.source_journal import SourceJournal
from waypost.node import incoming_store, sequences
from waypost.node.damaged import DamagedMessages
from waypost.node.incoming_store import IncomingStore
from waypost.node.kept_acks import Acknowledgment
from waypost.node.kernel import Kernel
from waypost.node.network import admission, arrivals, runs
from waypost.node.network.ack_judging import AckJudging
from waypost.node.network.admission import Admission
from waypost.node.network.arrivals import Arrivals
from waypost.node.network.connecting import Connecting
from waypost.node.network.departures import Departures
from waypost.node.network.known_hosts import KnownHosts
from waypost.node.network.order_acking import OrderAcking
from waypost.node.network.sessions import Sessions
from waypost.node.stored_messages import StoredMessages
from waypost.node.transactional_acks import TransactionalAcks
from waypost.node.turns import Turns
from waypost.sim.patches import Patch, patched
from waypost.transfer import believing, duplicates
from waypost.transfer.believing import APPLY, Verdict, Written
from waypost.transfer.duplicates import MessageHistory
from waypost.transfer.links import Link
from waypost.transfer.order_acks import OrderAcks
from waypost.transfer.outbox import Outbox
from waypost.transfer.sequences import IncomingSequence, OutgoingSequence, SentEntry, TxOutgoingSequence
from waypost.transfer.session import ALL, Inlet, Session
from waypost.transfer.session_acks import InFlight, Sent, SessionCounts
from waypost.transfer.session_timers import SessionTimers
from waypost.wire.identifiers import TxSequenceId
from waypost.wire.message_class import MessageClass
from waypost.wire.transaction_header import TransactionHeader

_NODES: Final = 3


def _at_once(original: Any) -> Callable[..., Any]:
    """Do at once what is done otherwise when something is durable."""

    def now_or_never(kernel: Kernel, later: Callable[[Now], None]) -> None:
        later(kernel.now)

    def hasty(*arguments: Any, **options: Any) -> Any:
        with patched(Patch(Kernel, "when_durable", now_or_never)):
            return original(*arguments, **options)

    return hasty


def _as_express(add: Any) -> Callable[[InFlight, Sent], None]:
    def careless(in_flight: InFlight, sent: Sent) -> None:
        if not sent.is_transactional:
            sent.recoverable_sequence_number = 0
        add(in_flight, sent)

    return careless


def _as_nontransactional(acknowledged: Any) -> Callable[[Departures, list[Sent], Now], None]:
    def careless(departures: Departures, entries: list[Sent], now: Now) -> None:
        for sent in entries:
            sent.is_transactional = False
        acknowledged(departures, entries, now)

    return careless


def _never(_original: Any) -> Callable[..., bool]:
    return lambda *_, **__: False


def _advanced_on_reject(accept: Any) -> Callable[[IncomingSequence, TransactionHeader, float], bool]:
    def trusting(sequence: IncomingSequence, header: TransactionHeader, wall: float) -> bool:
        is_next: bool = accept(sequence, header, wall)
        if not is_next and header.tx_sequence_id >= sequence.sequence_id:
            sequence.sequence_id, sequence.number = header.tx_sequence_id, header.tx_sequence_number
        return is_next

    return trusting


def _any_order(_is_next: Any) -> Callable[[IncomingSequence, TransactionHeader], bool]:
    return lambda _sequence, _header: True


def _never_bridged(_previous_of: Any) -> Callable[[TxOutgoingSequence, int], int]:
    return lambda _sequence, number: number - 1


def _of_any_sequence(order_acknowledged: Any) -> Callable[[TxOutgoingSequence, int, int, Now], list[SentEntry]]:
    def careless(sequence: TxOutgoingSequence, _sequence_id: int, number: int, now: Now) -> list[SentEntry]:
        known = min(number, sequence.highest_number)
        left: list[SentEntry] = order_acknowledged(sequence, sequence.sequence_id.value, known, now)
        return left

    return careless


def _about_the_present(subject: Any) -> Callable[[AckJudging, Acknowledgment], Any]:
    def careless(judging: AckJudging, ack: Acknowledgment) -> Any:
        queue = judging._sequences.queue_of(ack.tx_sequence_id)
        link: Link | None = None if queue is None else queue.link
        if ack.is_order_ack and link is not None:
            sequence = link.sequence
            number = min(ack.tx_sequence_number, sequence.highest_number)
            ack = replace(ack, tx_sequence_id=sequence.sequence_id.value, tx_sequence_number=number)
        return subject(judging, ack)

    return careless


def _beyond(order_ack: Any) -> Callable[[Departures, TxSequenceId, int, Now], None]:
    def generous(departures: Departures, sequence_id: TxSequenceId, number: int, now: Now) -> None:
        order_ack(departures, sequence_id, number + 1, now)

    return generous


def _twice(original: Any) -> Callable[..., None]:
    def eager(*arguments: Any, **options: Any) -> None:
        original(*arguments, **options)
        original(*arguments, **options)

    return eager


def _taken_for_received(final_ack: Any) -> Callable[[Departures, tuple[Queue, Message] | None, int, Now], None]:
    def hopeful(departures: Departures, found: tuple[Queue, Message] | None, _message_class: int, now: Now) -> None:
        final_ack(departures, found, MessageClass.MQMSG_CLASS_ACK_RECEIVE, now)

    return hopeful


def _window_ignored(_can_send: Any) -> property:
    return property(lambda session: session.state.name == "OPEN")


def _all_of_it(take: Any) -> Callable[[Inlet, int], Any]:
    return lambda inlet, _most: take(inlet, ALL)


def _newest_first(take: Any) -> Callable[[Turns[int]], Any]:
    def unfair(turns: Turns[int]) -> Any:
        turns.waiting = dict(reversed(turns.waiting.items()))
        return take(turns)

    return unfair


def _dead_session_kept(forget: Any) -> Callable[[Sessions, Session, Now], None]:
    def sentimental(sessions: Sessions, session: Session, now: Now) -> None:
        was_open = session in sessions._open
        forget(sessions, session, now)
        if was_open:
            sessions._open[session] = None

    return sentimental


def _origin_forgotten(put: Any) -> Callable[[StoredMessages, int, Message], None]:
    def forgetful(messages: StoredMessages, queue: int, message: Message) -> None:
        if message.origin is not None:
            message = replace(message, origin=None)
        put(messages, queue, message)

    return forgetful


def _pending_ignored(_is_pending: Any) -> Callable[..., bool]:
    return lambda *_: False


def _numbers_given_again(number: Any) -> Callable[[OutgoingSequence], int]:
    def stuck(sequence: OutgoingSequence) -> int:
        given: int = number(sequence)
        if given % 4 == 3:
            sequence.next_number -= 1
        return given

    return stuck


def _one_too_many(take_header: Any) -> Callable[[SessionCounts, int], Any]:
    """The header acknowledges a message that is not on disk yet."""

    def hopeful(counts: SessionCounts, window_size: int) -> Any:
        if counts.recoverable_msg_ack_flags:
            last = counts.first_pending + counts.recoverable_msg_ack_flags.bit_length() - 1
            if last < counts.recoverable_message_received_count:
                counts.stored(last + 1)
        return take_header(counts, window_size)

    return hopeful


def _wait_without_timer(wait: Any) -> Callable[[Connecting, Link, Now], None]:
    def lossy(connecting: Connecting, link: Link, now: Now) -> None:
        wait(connecting, link, now)
        connecting._timers.stop((Connecting, link))

    return lossy


def _delivered_instead(_await_final_ack: Any) -> Callable[[FinalAcks, OutgoingQueue, int], None]:
    def impatient(final_acks: FinalAcks, queue: OutgoingQueue, lookup_id: int) -> None:
        positions = final_acks._positions
        positions.delivered_all(queue, (positions.messages.get(queue.number, lookup_id),))

    return impatient


def _of_one(_peer_of: Any) -> Callable[[str], str]:
    """All senders, from all addresses, are the same."""
    return lambda _address: "192.0.2.1"


def _always(_original: Any) -> Callable[..., bool]:
    return lambda *_, **__: True


def _as_written(_written: Any) -> Callable[..., Written]:
    return lambda *_: Written.YES


def _as_of_the_destination(_judge_sender: Any) -> Callable[..., Verdict]:
    return lambda *_, **__: APPLY


def _unread(_read: Any) -> Callable[..., None]:
    return lambda *_: None


def _tried_only(_send_final_ack: Any) -> Callable[..., bool]:
    return TransactionalAcks.try_final_ack


def _whole_turns(take: Any) -> Callable[[Turns[Any]], Any]:
    def generous(turns: Turns[Any]) -> Any:
        turn = take(turns)
        return None if turn is None else (turn[0], turns._whole)

    return generous


def _at_the_front(_wait: Any) -> Callable[[Turns[Any], Any], None]:
    def pushy(turns: Turns[Any], key: Any) -> None:
        turns.waiting = {key: None, **turns.waiting}

    return pushy


def _mutant(name: str, mistake: str, patches: tuple[Patch, ...]) -> Mutant:
    return Mutant(name, mistake, patches, _NODES)


def _slow(name: str, mistake: str, patches: tuple[Patch, ...], first: int = 0) -> Mutant:
    """One that shows when healing does not end, or seldom."""
    return Mutant(name, mistake, patches, _NODES, is_slow=True, first=first)


NETWORK_MUTANTS: Final = (
    _mutant(
        "session-ack-before-commit",
        "acknowledges recoverable messages before they are durable",
        instead(Arrivals, "take", _at_once),
    ),
    _slow(
        "session-ack-too-far",
        "acknowledges one recoverable message more than is durable",
        instead(SessionCounts, "take_header", _one_too_many),
    ),
    _mutant(
        "recoverable-as-express",
        "forgets a recoverable message when its number is acknowledged",
        instead(InFlight, "add", _as_express),
    ),
    _mutant(
        "transactional-as-any",
        "forgets a transactional message when the next hop has it",
        instead(Departures, "acknowledged", _as_nontransactional),
    ),
    _mutant(
        "sent-before-durable",
        "sends messages before they are durable",
        instead(StoredMessages, "is_pending", _pending_ignored),
    ),
    _mutant("no-duplicate-check", "takes whatever comes", instead(MessageHistory, "is_duplicate", _never)),
    _mutant(
        "duplicates-not-kept",
        "forgets in a restart what it has received",
        instead(sequences, "write_history", nothing),
    ),
    _mutant(
        "advanced-on-reject",
        "counts messages that it rejects in their sequence",
        instead(IncomingSequence, "accept", _advanced_on_reject),
    ),
    _mutant(
        "sequence-ignored",
        "accepts transactional messages twice",
        instead(IncomingSequence, "is_next", _any_order),
    ),
    _mutant(
        "incoming-not-written",
        "does not write how far an incoming sequence is",
        instead(incoming_store, "write_incoming", nothing),
    ),
    _slow(
        "outgoing-not-written",
        "does not write how far an outgoing sequence is",
        instead(sequences, "write_outgoing", nothing),
    ),
    _mutant(
        "numbers-given-again",
        "gives two messages the same place",
        instead(OutgoingSequence, "number", _numbers_given_again),
    ),
    _slow(
        "never-bridged", "waits for messages that are gone", instead(TxOutgoingSequence, "previous_of", _never_bridged)
    ),
    _mutant(
        "gap-left-behind",
        "remembers messages in a sequence that have expired",
        instead(TxOutgoingSequence, "removed", nothing),
    ),
    _mutant(
        "order-ack-before-commit",
        "says that messages are in order before they are durable",
        (*instead(OrderAcking, "settle", _at_once), *instead(Departures, "settle", _at_once)),
    ),
    _slow("no-order-acks", "never sends an OrderAck", instead(OrderAcks, "received", nothing)),
    _slow("order-acks-ignored", "never reads an OrderAck", instead(Departures, "order_ack", nothing)),
    _mutant(
        "order-ack-too-far", "reads an OrderAck for one message too many", instead(Departures, "order_ack", _beyond)
    ),
    _slow(
        "order-ack-of-another",
        "takes the OrderAck of an earlier sequence for that of the present one",
        (
            *instead(AckJudging, "_subject", _about_the_present),
            *instead(TxOutgoingSequence, "order_acknowledged", _of_any_sequence),
        ),
        # A message has to get lost in the moment in which an earlier sequence is acknowledged once more.
        first=1200,
    ),
    _slow("no-final-acks", "never sends a FinalAck", instead(TransactionalAcks, "send_final_ack", _never)),
    _slow("final-acks-ignored", "never reads a FinalAck", instead(Departures, "final_ack", nothing)),
    _mutant("journaled-twice", "keeps two copies of what was delivered", instead(SourceJournal, "keep", _twice)),
    _mutant(
        "final-ack-not-looked-at",
        "takes every FinalAck for a good one",
        instead(Departures, "final_ack", _taken_for_received),
    ),
    _mutant(
        "not-awaited",
        "does not wait for the FinalAck of a message that has arrived",
        instead(FinalAcks, "await_final_ack", _delivered_instead),
    ),
    _slow("origin-forgotten", "forgets where to send a FinalAck", instead(StoredMessages, "put", _origin_forgotten)),
    _slow("lost-retry-timer", "does not try to connect again", instead(Connecting, "_wait", _wait_without_timer)),
    _slow("lost-resend-timer", "does not send again", instead(TxOutgoingSequence, "_start_timer", nothing)),
    _slow("lost-ack-timer", "never sends a SessionAck in time", instead(SessionTimers, "_start_ack_send", nothing)),
    _slow("lost-ack-wait-timer", "never leaves a silent session", instead(SessionTimers, "start_ack_wait", nothing)),
    _mutant("lost-idle-timer", "never closes a session", instead(SessionTimers, "start_cleanup", nothing)),
    _mutant("window-ignored", "sends beyond the window", instead(Session, "can_send", _window_ignored)),
    _mutant("budget-ignored", "looks at all that a connection has sent", instead(Inlet, "take", _all_of_it)),
    _mutant("newest-first", "gives the next turn to the one that came last", instead(Turns, "take", _newest_first)),
    _slow("held-for-ever", "reads nothing more from a peer that exceeds the window", instead(Session, "go_on", _never)),
    _mutant("dead-session-used", "sends on sessions that are closed", instead(Sessions, "forget", _dead_session_kept)),
    _slow(
        "not-sent-again",
        "takes what was sent on a lost session for delivered",
        instead(Outbox, "start_again", nothing),
    ),
    _mutant(
        "acks-from-anywhere",
        "believes acknowledgments whatever address they come from",
        instead(KnownHosts, "is_admitted", _always),
    ),
    _mutant(
        "acks-of-anybody",
        "believes acknowledgments whoever makes and brings them",
        instead(believing, "_judge_sender", _as_of_the_destination),
    ),
    _mutant(
        "acks-of-unsent-messages",
        "believes acknowledgments of messages that were never written to a session",
        instead(AckJudging, "_written", _as_written),
    ),
    _mutant(
        "sequences-forgotten",
        "knows no sequence that is not in memory",
        instead(IncomingStore, "_read", _unread),
    ),
    _slow(
        "sequences-of-one-address",
        "lets the sequence of a stranger move that of the source",
        instead(admission, "peer_of", _of_one),
    ),
    _slow("sequences-years-ahead", "lets a sequence begin years ahead", instead(Admission, "_is_ahead", _never)),
    _mutant(
        "duplicates-of-one-address",
        "forgets the messages of one address for those of another",
        (
            *instead(arrivals, "peer_of", _of_one),
            *instead(runs, "peer_of", _of_one),
            *instead(duplicates, "peer_of", _of_one),
        ),
    ),
    _mutant(
        "waiting-acks-dropped",
        "drops FinalAcks of consumed messages where many wait",
        instead(TransactionalAcks, "send_final_ack", _tried_only),
    ),
    _mutant("turns-too-long", "lets one connection do more than others wait for", instead(Turns, "take", _whole_turns)),
    _mutant("turns-at-the-front", "goes on with whoever had its turn last", instead(Turns, "wait", _at_the_front)),
    _mutant("damage-untold", "drops a damaged message without a word", instead(DamagedMessages, "keep", nothing)),
    _slow("not-attached", "does not send what waits when a session opens", instead(Departures, "attached", nothing)),
)
