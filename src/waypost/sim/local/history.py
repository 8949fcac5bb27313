"""Promises to clients, without the model: which client was promised what, and whether the promise was kept.

A recoverable message with an acknowledged send comes out once, unless a client purged or deleted its queue, its time
ended, or a receive was under way when the host crashed; refused messages and those of aborted transactions never
comes out; nothing comes out twice.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import UNSET

from waypost.api.claims import Claim
from waypost.api.operations import (
    AbortTransaction,
    CommitTransaction,
    CursorReceive,
    DeleteQueue,
    MoveMessage,
    OpenCursor,
    PurgeQueue,
    Receive,
    Send,
)
from waypost.core.message import Message
from waypost.guid import parse_guid
from waypost.sim.bulk.history import BulkHistory
from waypost.sim.client import Ask, Result
from waypost.sim.local.arguments import Draft, drafts_of, key_of
from waypost.sim.operations import Coordinate, Phase
from waypost.sim.plans import MARK, uids_of
from waypost.sim.violation import Violation
from waypost.wire.codec import INFINITE

Sent = tuple[Draft, str]


class History:
    def __init__(self) -> None:
        # The keys of their queues.
        self._cursors: Final[dict[str, str]] = {}
        self._sends: dict[bytes, list[Sent]] = {}
        self._receives: dict[bytes, list[int]] = {}
        self._external: dict[bytes, None] = {}
        self._sent: Final[dict[int, Sent]] = {}
        self._received: Final[dict[int, None]] = {}
        self._aborted: Final[dict[int, None]] = {}
        self._refused_sends: Final[dict[int, None]] = {}
        # Messages that may be gone without a notice to a client.
        self._uncertain: Final[dict[int, None]] = {}
        self._lost_receives = 0
        self._cleared: Final[dict[str, None]] = {"admin": None}
        self._moves: Final[dict[str, dict[str, None]]] = {}
        self._bulk: Final = BulkHistory(self)

    def answered(self, ask: Ask, result: Result) -> None:
        if not result.is_ok:
            self._refused(ask)
            return
        self._bulk.answered(ask, result)
        match ask.operation:
            case Coordinate(Phase.ENLIST, identifier):
                self._external[identifier] = None
            case Coordinate(Phase.COMMIT, identifier):
                self._committed(identifier)
            case Coordinate(Phase.ABORT, identifier):
                self._take_back(identifier)
            case Send() as send if not _is_aside(key := key_of(send.name)):
                for draft in drafts_of(send.like, send.bodies):
                    self._send(draft, key, _transaction(send))
            case Receive() as receive:
                self._read(key_of(receive.name), result.messages, _transaction(receive))
            case CursorReceive(identifier=cursor):
                self._read(self._cursors[cursor], result.messages, None)
            case OpenCursor(queue=name):
                self._cursors[result.identifier] = key_of(name)
            case CommitTransaction(identifier=text):
                self._committed(parse_guid(text))
            case AbortTransaction(identifier=text):
                self._take_back(parse_guid(text))
            case MoveMessage() | PurgeQueue() | DeleteQueue() as operation:
                self._cleared_or_moved(operation)

    def _committed(self, identifier: bytes) -> None:
        for draft, key in self._sends.pop(identifier, ()):
            self._sent[draft.uid] = draft, key
        for uid in self._receives.pop(identifier, ()):
            self._receive(uid)

    def _take_back(self, identifier: bytes) -> None:
        for draft, _ in self._sends.pop(identifier, ()):
            self._aborted[draft.uid] = None
        self._receives.pop(identifier, None)

    def _cleared_or_moved(self, operation: MoveMessage | PurgeQueue | DeleteQueue) -> None:
        if isinstance(operation, MoveMessage):
            self.moves(key_of(operation.name), key_of(operation.to))
        else:
            self.clears(key_of(operation.name))

    # Knowledge of remote readers.

    def ending(self, uid: int) -> None:
        """A remote reader is about to say that the message has arrived. The node may not receive that."""
        self._uncertain[uid] = None
        self._aborted.pop(uid, None)

    def ended(self, uid: int, transaction: bytes | None) -> None:
        """The node received it: the message is gone, by itself or with its transaction."""
        self._uncertain.pop(uid, None)
        if transaction is None:
            self._receive(uid)
        else:
            self._receives.setdefault(transaction, []).append(uid)

    def not_ended(self, uid: int) -> None:
        """The node refused it: the message is for others."""
        self._uncertain.pop(uid, None)

    # Knowledge of clients of the bulk interface.

    def seen(self, draft: Draft, key: str) -> None:
        """The batch of the message is committed, so it has to come out."""
        self._uncertain.pop(draft.uid, None)
        self._aborted.pop(draft.uid, None)
        self._sent[draft.uid] = draft, key

    def unseen(self, uid: int) -> None:
        """The message is or was staged, and its batch is done without it: it must never come out."""
        if uid in self._received:
            raise Violation(f"the message <{uid}> was received, but its batch was never committed")
        self._uncertain.pop(uid, None)
        self._aborted[uid] = None

    def lost(self, count: int) -> None:
        """This number of messages may have been received; which ones is unknown."""
        self._lost_receives += count

    def uid_in(self, packet: bytes, key: str) -> int | None:
        return uid_in(packet, key)

    def clears(self, key: str) -> None:
        """A client purges or deletes the queue."""
        self._cleared[key.partition(";")[0]] = None

    def moves(self, here: str, there: str) -> None:
        """A client moves a message between these queues."""
        self._moves.setdefault(here.partition(";")[0], {})[there.partition(";")[0]] = None

    def enlists(self, identifier: bytes) -> None:
        """A client begins a transaction that a coordinator is to end."""
        self._external[identifier] = None

    def crashed(self, asks: Iterable[Ask]) -> None:
        """A crash with these requests under way. A transaction is undone unless its commit was requested."""
        asked: dict[bytes, None] = dict(self._external)
        for ask in asks:
            self._bulk.unanswered(ask)
            match ask.operation:
                case CommitTransaction(identifier=text):
                    asked[parse_guid(text)] = None
                case Receive(count=count):
                    self._lost_receives += count
                case CursorReceive():
                    self._lost_receives += 1
                case MoveMessage() | PurgeQueue() | DeleteQueue() as operation:
                    self._cleared_or_moved(operation)
        for identifier, sends in self._sends.items():
            outcome = self._uncertain if identifier in asked else self._aborted
            outcome.update((draft.uid, None) for draft, _ in sends)
        for identifier, uids in self._receives.items():
            if identifier in asked:
                self._uncertain.update(dict.fromkeys(uids))
        self._sends.clear()
        self._receives.clear()
        self._cursors.clear()

    def drained(self) -> None:
        """Every queue was emptied: each promised message must have come."""
        missing = [
            draft.uid
            for draft, key in self._sent.values()
            if draft.uid not in self._received
            and draft.uid not in self._uncertain
            and draft.time_to_be_received == INFINITE
            and not self._is_cleared(key)
        ]
        if len(missing) > self._lost_receives:
            raise Violation(
                f"the recoverable messages {missing} were acknowledged, but never received; "
                f"crashes interrupted only {self._lost_receives} receives"
            )

    def _refused(self, ask: Ask) -> None:
        """A claim that is refused may have removed the part before it all the same."""
        if isinstance(ask.operation, Claim):
            self._bulk.unanswered(ask)
        elif isinstance(ask.operation, Send):
            self._refused_sends.update(dict.fromkeys(uids_of(ask.operation.bodies)))

    def _is_cleared(self, key: str) -> bool:
        """Whether somebody cleared the queue, or one to which its messages may have been moved."""
        seen, reached = {key: None}, [key]
        while reached:
            here = reached.pop()
            if here in self._cleared:
                return True
            for there in self._moves.get(here, ()):
                if there not in seen:
                    seen[there] = None
                    reached.append(there)
        return False

    def _send(self, draft: Draft, key: str, transaction: bytes | None) -> None:
        if transaction is not None:
            self._sends.setdefault(transaction, []).append((draft, key))
        elif draft.recoverable:
            self._sent[draft.uid] = draft, key

    def _read(self, key: str, messages: Sequence[Message], transaction: bytes | None) -> None:
        for message in messages:
            uid = uid_in(message.packet, key)
            if uid is None:
                continue
            if transaction is None:
                self._receive(uid)
            else:
                self._receives.setdefault(transaction, []).append(uid)

    def _receive(self, uid: int) -> None:
        if uid in self._received:
            raise Violation(f"the message <{uid}> was received twice")
        if uid in self._aborted:
            raise Violation(f"the message <{uid}> was received, but its send was not committed")
        if uid in self._refused_sends:
            raise Violation(f"a client received the message <{uid}>, although the request to send it was refused")
        self._received[uid] = None


def _transaction(operation: Send | Receive) -> bytes | None:
    return None if operation.transaction is UNSET else parse_guid(operation.transaction)


def uid_in(packet: bytes, key: str) -> int | None:
    """The uid of the message in a packet, or None if it does not come from a queue of applications."""
    found = None if _is_aside(key) else MARK.search(packet)
    return None if found is None else int(found[1])


def _is_aside(key: str) -> bool:
    """Whether the queue holds copies, or acknowledgments that return a body."""
    return key.partition(";")[0] in ("", "admin") or key.endswith(";journal")
