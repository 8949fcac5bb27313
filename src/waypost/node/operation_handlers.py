"""Handlers of operations: one for each type of record.

A handler gets the Call and the record, and makes one Reply, of the type that the operation names, or one Failure. It
raises its refusals before any change.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, Never, TypeVar

from waypost.api.bulk import (
    CommitStages,
    DropStages,
    FindSeq,
    ListBatches,
    ListBulkQueues,
    PlanRange,
    PlanRanges,
    ReadRange,
    RemoveRange,
    ShowBulkQueue,
    Stage,
)
from waypost.api.claims import Claim, KeepClaim, ListAllClaims, ListClaims, ReadClaim, ReturnClaim, TakeClaim
from waypost.api.keys import KEY_OPERATIONS
from waypost.api.local import (
    CancelReads,
    Follow,
    ImportUsers,
    Note,
    NoteStranger,
    ShowBulkQueues,
    StorePassword,
    StoreToken,
    StoreUser,
)
from waypost.api.operations import (
    AbortTransaction,
    AdmitAddress,
    BeginTransaction,
    Browse,
    CloseCursor,
    CloseQueue,
    CommitTransaction,
    CreateQueue,
    CursorNext,
    CursorPeek,
    CursorReceive,
    DeleteMessage,
    DeleteQueue,
    Explain,
    ForgetDamaged,
    ListAdmitted,
    ListDamaged,
    ListQueues,
    ListSequences,
    MoveAll,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Operation,
    PauseQueue,
    Peek,
    PurgeQueue,
    Receive,
    Resend,
    ResetSequences,
    ResumeQueue,
    RevokeAddress,
    Send,
    SetAcl,
    SetQueue,
    ShowAcl,
    ShowQueue,
)
from waypost.api.users import ListAudit, ListUsers, RemoveToken, RemoveUser, ShowUser
from waypost.clock import Now
from waypost.errors import AccessDenied, StoreError, WaypostError
from waypost.node.bulk import BulkReadingCalls
from waypost.node.bulk_writing import BulkWriting
from waypost.node.damage_calls import DamageCalls
from waypost.node.explain_calls import ExplainCalls
from waypost.node.following import Following
from waypost.node.kernel import Call
from waypost.node.key_calls import KeyCalls
from waypost.node.message_calls import MessageCalls
from waypost.node.node import Node
from waypost.node.noted import Noted, audited_object, audited_words
from waypost.node.opened_queues import OpenedQueues
from waypost.node.permission_calls import PermissionCalls
from waypost.node.queue_calls import QueueCalls
from waypost.node.reading_calls import ReadingCalls
from waypost.node.sequence_calls import SequenceCalls
from waypost.node.transaction_calls import TransactionCalls
from waypost.node.user_calls import UserCalls
from waypost.security.callers import QUEUE_MANAGER, Role, check_role

O = TypeVar("O", bound=Operation[object])  # noqa: E741, an operation


# The role that an operation needs, whether it is audited, and its handler.
_Entry = tuple[Role | None, bool, Callable[[Call, Never], None]]


class Handlers:
    """The handlers of one node."""

    __slots__ = ("_audit", "_by_type", "_kernel", "_transactions", "_users", "messages", "opened", "reading")

    def __init__(self, node: Node) -> None:
        self._kernel: Final = node.kernel
        self._audit: Final = node.audit
        self._users: Final = node.users
        self.opened: Final = OpenedQueues(node)
        self._transactions: Final = TransactionCalls(node)
        self.messages: Final = MessageCalls(node, self.opened, self._transactions)
        self.reading: Final = ReadingCalls(node, self.opened, self._transactions)
        # The types cannot express that each handler takes the record of its key: `_on` guarantees it.
        self._by_type: Final[dict[type[Operation[object]], _Entry]] = {}
        queues, sequences, damage = QueueCalls(node, self.opened.deleted), SequenceCalls(node), DamageCalls(node)
        messages, reading, transactions = self.messages, self.reading, self._transactions
        self._on(ListQueues, queues.list_queues)
        self._on(ShowQueue, queues.show)
        self._on(DeleteQueue, queues.delete)
        self._on(PauseQueue, queues.pause)
        self._on(ResumeQueue, queues.resume)
        self._on(CreateQueue, queues.create)
        self._on(SetQueue, queues.set)
        permissions = PermissionCalls(node)
        self._on(ShowAcl, permissions.show)
        self._on(SetAcl, permissions.set)
        self._on(PurgeQueue, messages.purge)
        self._on(Send, messages.send)
        self._on(Receive, reading.receive)
        self._on(Peek, reading.peek)
        self._on(Browse, reading.browse)
        self._on(DeleteMessage, messages.delete)
        self._on(MoveMessage, messages.move)
        self._on(MoveAll, messages.move_all)
        self._on(Resend, messages.resend)
        self._on(OpenQueue, reading.open_queue)
        self._on(CloseQueue, reading.close_queue)
        self._on(OpenCursor, reading.open_cursor)
        self._on(CloseCursor, reading.close_cursor)
        self._on(CursorPeek, reading.cursor_peek)
        self._on(CursorNext, reading.cursor_next)
        self._on(CursorReceive, reading.cursor_receive)
        self._on(BeginTransaction, transactions.begin)
        self._on(CommitTransaction, transactions.commit)
        self._on(AbortTransaction, transactions.abort)
        self._on(ListSequences, sequences.list_sequences)
        self._on(ResetSequences, sequences.reset)
        self._on(AdmitAddress, sequences.admit)
        self._on(RevokeAddress, sequences.revoke)
        self._on(ListAdmitted, sequences.admitted)
        self._on(Explain, ExplainCalls(node).explain)
        self._on(ListDamaged, damage.list_damaged)
        self._on(ForgetDamaged, damage.forget)
        bulk_reading, writing = BulkReadingCalls(node), BulkWriting(node)
        self._on(ListBulkQueues, bulk_reading.list_queues)
        self._on(ShowBulkQueue, bulk_reading.show)
        self._on(ShowBulkQueues, bulk_reading.show_some)
        self._on(PlanRange, bulk_reading.plan)
        self._on(PlanRanges, bulk_reading.plan_all)
        self._on(ReadRange, bulk_reading.read)
        self._on(FindSeq, bulk_reading.find_seq)
        self._on(RemoveRange, bulk_reading.remove)
        self._on(Claim, writing.claim)
        self._on(TakeClaim, writing.take_claim)
        self._on(KeepClaim, writing.keep_claim)
        self._on(ReadClaim, writing.read_claim)
        self._on(ReturnClaim, writing.return_claim)
        self._on(ListClaims, writing.list_claims)
        self._on(ListAllClaims, writing.list_all_claims)
        self._on(Stage, writing.stage)
        self._on(DropStages, writing.drop)
        self._on(CommitStages, writing.commit)
        self._on(ListBatches, writing.list_batches)
        self._on(CancelReads, reading.cancel_reads)
        self._on(Follow, Following(node).follow)
        users = UserCalls(node)
        self._on(StoreUser, users.store)
        self._on(StorePassword, users.set_password)
        self._on(StoreToken, users.add_token)
        self._on(ImportUsers, users.import_users)
        self._on(ListUsers, users.list_users)
        self._on(ShowUser, users.show)
        self._on(RemoveUser, users.remove)
        self._on(RemoveToken, users.remove_token)
        self._on(Note, users.note)
        self._on(NoteStranger, users.note_stranger)
        self._on(ListAudit, users.list_audit)
        keys = KeyCalls(node)
        for kind in KEY_OPERATIONS:
            self._on(kind, keys.perform)

    def start(self, call: Call, operation: Operation[object]) -> None:
        """Start an operation. Raises AccessDenied if the caller does not have its role, and as its handler does.

        A request may have begun long ago: the caller counts as it is now. Raises NotLoggedIn for one that is gone.
        """
        if call.caller.proof is not None:
            call = self._renewed(call)
        role, is_audited, handler = self._by_type[type(operation)]
        if role is not None or is_audited:
            self._manage(role, call, operation, handler, is_audited=is_audited)
            return
        self._kernel.caller = call.caller
        try:
            handler(call, operation)  # type: ignore[arg-type]  # the type of its key
        finally:
            self._kernel.caller = QUEUE_MANAGER

    def _renewed(self, call: Call) -> Call:
        caller = self._users.current(call.caller, call.now.wall)
        return call if caller is call.caller else replace(call, caller=caller)

    def _manage(
        self,
        role: Role | None,
        call: Call,
        operation: Operation[object],
        handler: Callable[[Call, Never], None],
        *,
        is_audited: bool,
    ) -> None:
        """Start an operation of management: check the role, and note changes and refusals in the audit trail."""
        kernel = self._kernel
        noted = Noted(call.caller, audited_words(operation), audited_object(operation))
        noted.end = partial(self._end, noted, is_audited=is_audited)
        try:
            if role is not None:
                check_role(call.caller, role, f"for the operation {operation.row.words!r}")
            kernel.caller, kernel.noted = call.caller, noted
            handler(call, operation)  # type: ignore[arg-type]  # the type of its key
            is_over = kernel.noted is noted
        except WaypostError as error:
            if self._has_entry(noted, error, call.now, is_audited=is_audited):
                self._note(noted, call.now)
            raise
        finally:
            kernel.caller, kernel.noted = QUEUE_MANAGER, None
        if is_over and is_audited:
            self._note(noted, call.now)

    def _note(self, noted: Noted, now: Now) -> None:
        """Add an entry to the batch of the operation, which has not left yet."""
        if self._kernel.failure is None:
            with self._kernel.operation(now):
                self._audit.note(noted)

    def _end(self, noted: Noted, error: WaypostError | None, now: Now, *, is_audited: bool) -> None:
        """Note an operation that had to wait, in the frame of its end."""
        if is_audited if error is None else self._has_entry(noted, error, now, is_audited=is_audited):
            self._audit.note(noted)

    def _has_entry(self, noted: Noted, error: WaypostError, now: Now, *, is_audited: bool) -> bool:
        """Whether an operation that failed gets an entry, with the error as its result."""
        noted.result = str(error)
        is_denied = isinstance(error, AccessDenied)
        self._audit.denied += is_denied
        if is_denied:
            self._kernel.notice("refused", who=noted.caller.name, origin=noted.caller.origin, reason=error)
        # A store that cannot write, or is full, has no room for entries about it.
        can_note = self._kernel.trouble is None and not isinstance(error, StoreError)
        return (is_audited or is_denied) and can_note and self._audit.refused(now)

    def cancel(self, now: Now, request: int, operation: Operation[object]) -> None:
        """Cancel a read that waits for a message; it then fails."""
        self.reading.cancel(now, request, operation)

    def stop(self, now: Now) -> None:
        """Abort the active transactions."""
        self._transactions.stop(now)

    @property
    def types(self) -> set[type[Operation[object]]]:
        """The types of operations that have handlers."""
        return set(self._by_type)

    def _on(self, kind: type[O], handler: Callable[[Call, O], None]) -> None:
        self._by_type[kind] = kind.row.role, kind.row.is_audited, handler
