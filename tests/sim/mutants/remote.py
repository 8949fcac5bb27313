"""Mistakes in serving remote readers, of both protocols and of what carries them."""

from collections.abc import Callable
from typing import Any, Final

from tests.sim.mutants.planting import Mutant, instead, nothing
from waypost.clock import Now
from waypost.core import opening as core_opening
from waypost.core.queues import OpenQueueDescriptor
from waypost.core.reading import Reading
from waypost.core.transactions import Transactions
from waypost.hresult import HResult
from waypost.node.effects import Effect
from waypost.node.remote_reading import RemoteReading
from waypost.remote.interfaces.remote_read import SetUserAcknowledgementClassRequest
from waypost.remote.qm2qm.reads import Reads
from waypost.remote.qm2qm.server import Qm2qmServer
from waypost.remote.remote_read.coordinator import LocalCoordinator
from waypost.remote.remote_read.moving import Moving
from waypost.remote.remote_read.opening import Opening
from waypost.remote.remote_read.pending import PendingRequestEntry, PendingRequestTable, RemoteQueue
from waypost.remote.remote_read.receiving import Receiving
from waypost.rpc.associations import Association, Associations
from waypost.rpc.interface import ResultReply
from waypost.rpc.server_calls import Call
from waypost.wire.message_class import MessageClass


def _answers_at_once(take_output: Any) -> Callable[..., list[tuple[Effect, int]]]:
    def hasty(*arguments: Any) -> list[tuple[Effect, int]]:
        return [(effect, 0) for effect, _ in take_output(*arguments)]

    return hasty


def _answers_overtake(take_output: Any) -> Callable[..., list[tuple[Effect, int]]]:
    def unordered(remote: RemoteReading, *arguments: Any) -> list[tuple[Effect, int]]:
        remote.connections.update(dict.fromkeys(remote.connections, 0))
        output: list[tuple[Effect, int]] = take_output(remote, *arguments)
        return output

    return unordered


def _purge_answered_early(_purge: Any) -> Callable[..., None]:
    def hasty(remote: RemoteReading, descriptor: OpenQueueDescriptor, then: Callable[[], None]) -> None:
        then()
        queue = descriptor.queue
        if queue is not None:
            remote._purges.begin(remote.manager.writing.begin_purge(queue), lambda: None)

    return hasty


def _always_deletes(end: Any) -> Callable[..., HResult]:
    def greedy(table: PendingRequestTable, entry: PendingRequestEntry, *, delete_message: bool) -> HResult:
        status: HResult = end(table, entry, delete_message=True)
        return status

    return greedy


def _never_deletes(end: Any) -> Callable[..., HResult]:
    def generous(table: PendingRequestTable, entry: PendingRequestEntry, *, delete_message: bool) -> HResult:
        status: HResult = end(table, entry, delete_message=False)
        return status

    return generous


def _timer_deletes(_time_out: Any) -> Callable[[PendingRequestTable, PendingRequestEntry], None]:
    def greedy(table: PendingRequestTable, entry: PendingRequestEntry) -> None:
        table.end(entry, delete_message=True)

    return greedy


def _says_it_did(_cancel: Any) -> Callable[[Receiving, RemoteQueue, int], HResult]:
    def lazy(_receiving: Receiving, queue: RemoteQueue, request_id: int) -> HResult:
        return HResult.MQ_OK if request_id in queue.waits else HResult.STATUS_NOT_FOUND

    return lazy


def _rejection_forgotten(reject: Any) -> Callable[[Moving, Call, SetUserAcknowledgementClassRequest, Now], ResultReply]:
    def forgetful(
        moving: Moving, call: Call, request: SetUserAcknowledgementClassRequest, now: Now
    ) -> ResultReply:  # fmt: skip
        reply: ResultReply = reject(moving, call, request, now)
        queue = moving._opening.find(call, request.context).descriptor.queue
        found = None if queue is None else moving._host.manager.transactions.operation_on(queue, request.lookup_id)
        if found is not None:
            found[1].dequeue_reason = MessageClass.MQMSG_CLASS_ACK_RECEIVE
        return reply

    return forgetful


def _nothing_to_run_down(_run_down: Any) -> Callable[..., int]:
    return lambda *_: 0


def _ends_with_any_connection(leave: Any) -> Callable[[Associations, Association, int, Now], Any]:
    def hasty(associations: Associations, association: Association, connection: int, now: Now) -> Any:
        if association.group_id not in associations._by_id:
            return 0
        association.connections = {connection}
        return leave(associations, association, connection, now)

    return hasty


REMOTE_MUTANTS: Final = (
    Mutant(
        "remote-answer-before-commit",
        "answers remote readers before what they did is durable",
        instead(RemoteReading, "take_output", _answers_at_once),
    ),
    Mutant(
        "remote-answers-overtake",
        "lets answers on one connection overtake each other",
        instead(RemoteReading, "take_output", _answers_overtake),
    ),
    Mutant(
        "rundown-forgotten",
        "does not miss readers that are gone",
        instead(Association, "run_down", _nothing_to_run_down),
    ),
    Mutant(
        "rundown-forgets-locks",
        "keeps what was given to a reader of RemoteRead that is gone",
        instead(Opening, "_run_down", nothing),
    ),
    Mutant(
        "qm2qm-rundown-forgotten",
        "keeps queues open for readers of qm2qm that are gone",
        instead(Qm2qmServer, "_run_down", nothing),
    ),
    Mutant(
        "rundown-with-any-connection",
        "takes a reader for gone that has lost one of its connections",
        instead(Associations, "leave", _ends_with_any_connection),
    ),
    Mutant(
        "nack-deletes",
        "deletes what a remote reader gives back",
        instead(PendingRequestTable, "end", _always_deletes),
    ),
    Mutant(
        "ack-does-not-delete",
        "gives to others what a remote reader has received",
        instead(PendingRequestTable, "end", _never_deletes),
    ),
    Mutant(
        "close-leaks-lock",
        "keeps what was given to a handle that is closed",
        (
            *instead(PendingRequestTable, "release_all", nothing),
            *instead(Reading, "end_two_phase_reads", nothing),
        ),
    ),
    Mutant(
        "remote-cancel-forgotten",
        "lets a read wait on that was cancelled",
        instead(Receiving, "_cancel", _says_it_did),
    ),
    Mutant(
        "dead-waiter-takes",
        "gives messages to calls of RemoteRead that nobody waits for",
        instead(Receiving, "cancelled", nothing),
    ),
    Mutant(
        "qm2qm-dead-waiter-takes",
        "gives messages to calls of qm2qm that nobody waits for",
        instead(Reads, "abandon", nothing),
    ),
    Mutant(
        "cleanup-timer-lost",
        "waits without end for a reader to end what it got",
        instead(PendingRequestTable, "time_out", nothing),
    ),
    Mutant(
        "cleanup-timer-deletes",
        "deletes what a reader did not end in time",
        instead(PendingRequestTable, "time_out", _timer_deletes),
    ),
    Mutant(
        "lost-reader-not-counted",
        "does not count that a reader was lost with a message",
        instead(PendingRequestTable, "note_lost_reader", nothing),
    ),
    Mutant(
        "sharing-ignored",
        "lets others read what somebody has for himself",
        instead(core_opening, "_check_sharing", nothing),
    ),
    Mutant(
        "remote-purge-answered-early",
        "says that a queue is purged before it is",
        instead(RemoteReading, "purge", _purge_answered_early),
    ),
    Mutant(
        "enlisted-for-ever",
        "never aborts a transaction whose reader is gone",
        instead(LocalCoordinator, "_give_up", nothing),
    ),
    Mutant(
        "transactional-nack-keeps",
        "leaves in a transaction what did not reach its reader",
        instead(Transactions, "take_back", nothing),
    ),
    Mutant(
        "rejection-forgotten",
        "takes a message for received that its reader rejects",
        instead(Moving, "set_user_acknowledgement_class", _rejection_forgotten),
        is_slow=True,
    ),
    Mutant("strangers-stay", "waits without end for a bind", instead(RemoteReading, "_give_up", nothing)),
)
