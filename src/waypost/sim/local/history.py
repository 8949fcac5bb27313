"""Promises to clients, without the model: who was promised what, and whether the promise was kept.

A recoverable message whose send was acknowledged comes out once, unless somebody purged or deleted its queue, its time
ended, or a receive was under way when the host crashed; what was refused and what an aborted transaction sent never
comes out; nothing comes out twice.
"""

import re
from collections.abc import Iterable
from typing import Final

from waypost.api.operations import DeleteQueue
from waypost.core.message import Message
from waypost.node.application import ReadOptions
from waypost.sim.bulk.history import BulkHistory
from waypost.sim.bulk.operations import OPERATIONS
from waypost.sim.client import Ask, Result
from waypost.sim.local.arguments import Draft, Drafts, Name
from waypost.sim.violation import Violation
from waypost.wire.codec import INFINITE

_MARK: Final = re.compile(rb"<uid (\d+)>")
_READS: Final = ("receive", "receive_many", "receive_by_lookup_id", "begin_receive")
_MATTERS: Final = frozenset(
    {
        *_READS,
        *("open_queue", "send", "send_several", "end_receive", "enlist", "commit", "commit_prepared", "abort"),
        *("abort_prepared", "purge", "do", "move"),
    }
)

Sent = tuple[Draft, str]


class History:
    def __init__(self) -> None:
        self._handles: dict[int, str] = {}
        self._two_phase: dict[tuple[int, int], int] = {}
        self._sends: dict[bytes, list[Sent]] = {}
        self._receives: dict[bytes, list[int]] = {}
        self._external: dict[bytes, None] = {}
        self._sent: Final[dict[int, Sent]] = {}
        self._received: Final[dict[int, None]] = {}
        self._aborted: Final[dict[int, None]] = {}
        self._refused_sends: Final[dict[int, None]] = {}
        # What may be gone for a reason that nobody was told.
        self._uncertain: Final[dict[int, None]] = {}
        self._lost_receives = 0
        self._cleared: Final[dict[str, None]] = {"admin": None}
        self._moves: Final[dict[str, dict[str, None]]] = {}
        self._bulk: Final = BulkHistory(self)

    def answered(self, ask: Ask, result: Result) -> None:
        if not result.is_ok:
            self._refused(ask)
            return
        if ask.name in OPERATIONS:
            self._bulk.answered(ask, result)
        if ask.name not in _MATTERS:
            return
        match ask.name, ask.arguments:
            case "open_queue", (Name(key), *_):
                self._handles[result.number] = key
            case "send", (int(handle), Draft() as draft, transaction) if not _is_aside(self._handles[handle]):
                self._send(draft, self._handles[handle], transaction)
            case "send_several", (int(handle), Drafts(drafts), transaction) if not _is_aside(self._handles[handle]):
                for draft in drafts:
                    self._send(draft, self._handles[handle], transaction)
            case name, (int(handle), *_, ReadOptions(transaction=transaction)) if name in _READS:
                for message in result.value if isinstance(result.value, list) else [result.value]:
                    assert isinstance(message, Message)
                    self._read(name, handle, message, transaction)
            case "end_receive", (int(handle), int(lookup_id)):
                uid = self._two_phase.pop((handle, lookup_id), None)
                if uid is not None and ask.options["delete_message"]:
                    self._receive(uid)
            case "enlist", (bytes(identifier),):
                self._external[identifier] = None
            case "commit" | "commit_prepared", (bytes(identifier),):
                for draft, key in self._sends.pop(identifier, ()):
                    self._sent[draft.uid] = draft, key
                for uid in self._receives.pop(identifier, ()):
                    self._receive(uid)
            case "abort" | "abort_prepared", (bytes(identifier),):
                for draft, _ in self._sends.pop(identifier, ()):
                    self._aborted[draft.uid] = None
                self._receives.pop(identifier, None)
            case "purge" | "do", _:
                self._clear(ask)
            case "move", (int(source), _, int(target)):
                self._move(source, target)

    # What remote readers know.

    def ending(self, uid: int) -> None:
        """One of them is about to say that the message has arrived. Whether that is heard is not known yet."""
        self._uncertain[uid] = None
        self._aborted.pop(uid, None)

    def ended(self, uid: int, transaction: bytes | None) -> None:
        """It was heard: the message is gone for good, or with its transaction."""
        self._uncertain.pop(uid, None)
        if transaction is None:
            self._receive(uid)
        else:
            self._receives.setdefault(transaction, []).append(uid)

    def not_ended(self, uid: int) -> None:
        """The node does not want to hear it: the message is for others."""
        self._uncertain.pop(uid, None)

    # What clients of the bulk interface know.

    def seen(self, draft: Draft, key: str) -> None:
        """Its batch is committed."""
        self._uncertain.pop(draft.uid, None)
        self._aborted.pop(draft.uid, None)
        self._sent[draft.uid] = draft, key

    def unseen(self, uid: int) -> None:
        """It is staged, or was, and its batch is done without it."""
        if uid in self._received:
            raise Violation(f"the message <{uid}> was received, and never committed")
        self._uncertain.pop(uid, None)
        self._aborted[uid] = None

    def lost(self, count: int) -> None:
        """So many may have been received, and nobody knows which."""
        self._lost_receives += count

    def uid_in(self, packet: bytes, key: str) -> int | None:
        return uid_in(packet, key)

    def clears(self, key: str) -> None:
        """One of them asks for a purge."""
        self._cleared[key.partition(";")[0]] = None

    def moves(self, here: str, there: str) -> None:
        """One of them asks for a move."""
        self._moves.setdefault(here.partition(";")[0], {})[there.partition(";")[0]] = None

    def enlists(self, identifier: bytes) -> None:
        """One of them begins a transaction that a coordinator is to end."""
        self._external[identifier] = None

    def crashed(self, asks: Iterable[Ask]) -> None:
        """These were under way. What a transaction did is gone with it, if nobody had asked to commit."""
        asked: dict[bytes, None] = dict(self._external)
        for ask in asks:
            if ask.name in OPERATIONS:
                self._bulk.unanswered(ask)
            match ask.name, ask.arguments:
                case "commit", (bytes(identifier),):
                    asked[identifier] = None
                case (("receive" | "receive_by_lookup_id" | "end_receive"), _):
                    self._lost_receives += 1
                case "receive_many", (_, int(count), *_):
                    self._lost_receives += count
                case (("purge" | "do"), _):
                    self._clear(ask)
                case "move", (int(source), _, int(target)):
                    self._move(source, target)
        for identifier, sends in self._sends.items():
            outcome = self._uncertain if identifier in asked else self._aborted
            outcome.update((draft.uid, None) for draft, _ in sends)
        for identifier, uids in self._receives.items():
            if identifier in asked:
                self._uncertain.update(dict.fromkeys(uids))
        self._sends.clear()
        self._receives.clear()
        self._two_phase.clear()
        self._handles.clear()

    def drained(self) -> None:
        """Every queue was emptied: what was promised must have come."""
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
                f"acknowledged and never received: the recoverable messages {missing}; "
                f"only {self._lost_receives} receives were under way in crashes"
            )

    def _refused(self, ask: Ask) -> None:
        """A claim that is refused may have removed the part before it all the same."""
        match ask.name, ask.arguments:
            case "claim", _:
                self._bulk.unanswered(ask)
            case "send", (_, Draft() as draft, _):
                self._refused_sends[draft.uid] = None
            case "send_several", (_, Drafts(drafts), _):
                self._refused_sends.update((draft.uid, None) for draft in drafts)

    def _move(self, source: int, target: int) -> None:
        here, there = (self._handles.get(handle, "").partition(";")[0] for handle in (source, target))
        self._moves.setdefault(here, {})[there] = None

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

    def _send(self, draft: Draft, key: str, transaction: object) -> None:
        if isinstance(transaction, bytes):
            self._sends.setdefault(transaction, []).append((draft, key))
        elif draft.recoverable:
            self._sent[draft.uid] = draft, key

    def _read(self, name: str, handle: int, message: Message, transaction: bytes | None) -> None:
        uid = uid_in(message.packet, self._handles[handle])
        if uid is None:
            return
        if transaction is not None:
            self._receives.setdefault(transaction, []).append(uid)
        elif name == "begin_receive":
            self._two_phase[handle, message.lookup_identifier] = uid
        else:
            self._receive(uid)

    def _receive(self, uid: int) -> None:
        if uid in self._received:
            raise Violation(f"the message <{uid}> was received twice")
        if uid in self._aborted:
            raise Violation(f"the message <{uid}> of a transaction that was aborted was received")
        if uid in self._refused_sends:
            raise Violation(f"the message <{uid}> was received, and its sender was told that it is refused")
        self._received[uid] = None

    def _clear(self, ask: Ask) -> None:
        match ask.arguments:
            case (DeleteQueue(name=key),):
                self._cleared[key.partition(";")[0]] = None
            case (int(handle), *_):
                self._cleared[self._handles.get(handle, "").partition(";")[0]] = None


def uid_in(packet: bytes, key: str) -> int | None:
    """Which message of an application this is, if it comes from a queue of theirs."""
    found = None if _is_aside(key) else _MARK.search(packet)
    return None if found is None else int(found[1])


def _is_aside(key: str) -> bool:
    """Where copies go, and acknowledgments that bring a body back."""
    return key.partition(";")[0] in ("", "admin") or key.endswith(";journal")
