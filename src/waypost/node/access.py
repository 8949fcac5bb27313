"""Access checks: the only place that decides whether a caller may do something with a queue or with this computer.

A queue is guarded by its security descriptor, and so are its subqueues and its journal. The dead-letter queues, the
journal of the computer and the outgoing queues are guarded by the descriptor of the computer, which is open to
administrators only unless `security.machine` says otherwise. Every path asks once: an operation before it uses its
queue, a remote reader when it opens one, a stage for each of its queues, and an arrival for its sender. Actions of the
queue manager itself (acknowledgments, journals, delivery of staged messages) are not checked.

Objects without a descriptor (transactions, handles, cursors, claims, stages) belong to the SID of the caller that has
made them, and to administrators. To others they do not exist.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from waypost.core.queue_manager import QueueManager
from waypost.core.queues import AccessType, OpenQueueDescriptor, OutgoingQueue, Queue
from waypost.errors import AccessDenied, DecodeError, WaypostError
from waypost.node.directory import NodeDirectory
from waypost.node.kernel import Kernel
from waypost.node.users import WELL_KNOWN, Users
from waypost.security.access import Sender, allows, owner_of
from waypost.security.callers import QUEUE_MANAGER, Caller, may_be_account
from waypost.security.default_descriptor import default_machine_descriptor, default_queue_descriptor
from waypost.security.permissions import changers, denying, is_changeable, words_of
from waypost.wire.access_masks import MachineAccess, QueueAccess
from waypost.wire.format_names import DirectFormatName, FormatName, MultipleElementFormatName, Suffix
from waypost.wire.path_names import QueueKind
from waypost.wire.security_descriptor import SecurityDescriptor
from waypost.wire.sid import ADMINISTRATORS, AUTHENTICATED_USERS, EVERYONE, Sid

# Objects whose last refusal is remembered.
MAX_REFUSALS: Final = 1000

# readings MQRR 2: moving a message into a queue takes no more than to look at it.
QUEUE_RIGHTS: Final[dict[AccessType, QueueAccess]] = {
    AccessType.SEND: QueueAccess.MQSEC_WRITE_MESSAGE,
    AccessType.RECEIVE: QueueAccess.MQSEC_RECEIVE_MESSAGE,
    AccessType.PEEK: QueueAccess.MQSEC_PEEK_MESSAGE,
    AccessType.MOVE: QueueAccess.MQSEC_PEEK_MESSAGE,
    AccessType.RECEIVE_ADMIN: QueueAccess.MQSEC_RECEIVE_MESSAGE,
    AccessType.PEEK_ADMIN: QueueAccess.MQSEC_PEEK_MESSAGE,
}

# MS-MQMQ 2.2.23: the rights on the computer that stand for those on its queues. Outgoing queues are like its journal.
_DEAD_LETTER_RIGHTS: Final = {
    QueueAccess.MQSEC_RECEIVE_MESSAGE: MachineAccess.MQSEC_RECEIVE_DEADLETTER_MESSAGE,
    QueueAccess.MQSEC_PEEK_MESSAGE: MachineAccess.MQSEC_PEEK_DEADLETTER_MESSAGE,
}
_JOURNAL_RIGHTS: Final = {
    QueueAccess.MQSEC_RECEIVE_MESSAGE: MachineAccess.MQSEC_RECEIVE_JOURNAL_QUEUE_MESSAGE,
    QueueAccess.MQSEC_PEEK_MESSAGE: MachineAccess.MQSEC_PEEK_JOURNAL_QUEUE_MESSAGE,
}
_OTHER_MACHINE_RIGHTS: Final = {
    QueueAccess.MQSEC_GET_QUEUE_PROPERTIES: MachineAccess.MQSEC_GET_MACHINE_PROPERTIES,
    QueueAccess.MQSEC_SET_QUEUE_PROPERTIES: MachineAccess.MQSEC_SET_MACHINE_PROPERTIES,
    QueueAccess.MQSEC_DELETE_QUEUE: MachineAccess.MQSEC_SET_MACHINE_PROPERTIES,
    QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS: MachineAccess.MQSEC_GET_MACHINE_PERMISSIONS,
    QueueAccess.MQSEC_CHANGE_QUEUE_PERMISSIONS: MachineAccess.MQSEC_CHANGE_MACHINE_PERMISSIONS,
    QueueAccess.MQSEC_TAKE_QUEUE_OWNERSHIP: MachineAccess.MQSEC_TAKE_MACHINE_OWNERSHIP,
}

# Between the SID of a caller and the name of an object.
_OF: Final = "/"

# Verbs for a refusal, by the missing right.
_VERBS: Final = {
    "receive": "receive from",
    "receive-journal": "receive from",
    "peek": "peek at",
    "send": "send to",
    "set-properties": "change properties of",
    "get-properties": "see properties of",
    "delete": "delete",
    "get-permissions": "see the rights on",
    "set-permissions": "change the rights on",
    "take-ownership": "change the owner of",
}


# Hints where no queue has an access list.
_OF_COMPUTER: Final = (
    "access to this queue requires rights on the computer. Administrators have these rights, and the configuration key "
    "security.machine grants them to other users"
)
_LOCKED: Final = "no known account can change the rights on the queue: ask an administrator to run `waypost doctor`"
_NO_ANONYMOUS: Final = "anonymous callers cannot send to other computers: use a token, or log in as a user"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last refusal of a queue: the number of all, the name of the caller, the missing right, and the time.

    `problem` is a sentence about a message from another computer whose signature or encryption was the reason.
    """

    count: int
    who: str
    right: str
    wall: float
    problem: str = ""


class Access:
    """The access checks of one node."""

    __slots__ = (
        "_directory",
        "_kernel",
        "_machine",
        "_manager",
        "_users",
        "administrator",
        "last_refusals",
        "refused",
    )

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        directory: NodeDirectory,
        users: Users,
        *,
        administrator: Caller,
        machine: bytes,
    ) -> None:
        """`machine` is the configured descriptor of the computer, if any."""
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._directory: Final = directory
        self._users: Final = users
        self._machine: Final = machine or default_machine_descriptor()
        self.administrator: Final = administrator
        # Number of refusals, by right.
        self.refused: Final[Counter[str]] = Counter()
        # The last refusal of each queue, the oldest first.
        self.last_refusals: Final[dict[str, Refusal]] = {}

    # Queues.

    def check(self, caller: Caller, queue: Queue, right: QueueAccess) -> None:
        """Raise AccessDenied unless the caller has the right on the queue."""
        if not self.may(caller, queue, right):
            raise self.refusal(caller, queue, right)

    def may(self, caller: Caller, queue: Queue, right: QueueAccess) -> bool:
        """Whether the caller has the right on the queue."""
        if caller is QUEUE_MANAGER:
            return True
        if right is QueueAccess.MQSEC_WRITE_MESSAGE and isinstance(queue, OutgoingQueue):
            # It has no descriptor: the other computer decides. Anonymous callers send nothing from here.
            return not caller.is_anonymous
        guarded = self._guarded(queue, right)
        return guarded is not None and allowed(guarded[0], caller.sids, guarded[1])

    def may_as(self, sender: Sender, queue: Queue, right: QueueAccess) -> bool:
        """Whether somebody has the right on the queue whose account is not known, or who only claims one."""
        guarded = self._guarded(queue, right)
        return guarded is not None and allows(guarded[0], sender, guarded[1])

    def _guarded(self, queue: Queue, right: QueueAccess) -> "tuple[bytes, QueueAccess | MachineAccess] | None":
        """The descriptor that decides about a right on a queue, and the right that it has to give. None: nobody may."""
        if queue.is_internal:
            return None
        guard = queue.parent
        if isinstance(queue, OutgoingQueue):
            return self._guarded_by_machine(_JOURNAL_RIGHTS, right)
        if guard is None:
            if queue.queue_type is QueueKind.SYSTEM:
                is_journal = queue is self._manager.system_queues.get(Suffix.JOURNAL)
                return self._guarded_by_machine(_JOURNAL_RIGHTS if is_journal else _DEAD_LETTER_RIGHTS, right)
            guard = queue
        elif queue.is_journal and right is QueueAccess.MQSEC_RECEIVE_MESSAGE:
            right = QueueAccess.MQSEC_RECEIVE_JOURNAL_MESSAGE
        # A queue that was salvaged without its descriptor is open as a new one is.
        return self._directory.security_of(guard) or default_queue_descriptor(is_closed=bool(self._users)), right

    def check_open(self, caller: Caller, name: FormatName, access: AccessType) -> None:
        """Raise AccessDenied unless the caller may open the queues of this name. Call it before they are opened.

        An open for sending may create outgoing queues, and others create subqueues. Unknown queues are left to the
        open.
        """
        if caller is QUEUE_MANAGER:
            return
        expanded = self._directory.core.expand_format_name(name)
        elements = expanded.elements if isinstance(expanded, MultipleElementFormatName) else (expanded,)
        for element in elements:
            guard = self.guard(element)
            if guard is None and access.is_for_outgoing:
                guard = self._manager.collection.outgoing.get(element)
            if guard is not None:
                self.check(caller, guard, QUEUE_RIGHTS[access])
            elif access is AccessType.SEND and caller.is_anonymous:
                raise self._refusal(caller, str(element), QueueAccess.MQSEC_WRITE_MESSAGE, _NO_ANONYMOUS)

    def check_opened(self, caller: Caller, handle: OpenQueueDescriptor) -> None:
        """Raise AccessDenied unless the caller may use a handle as it was opened, by the rights of now."""
        if caller is QUEUE_MANAGER:
            return
        right = QUEUE_RIGHTS[handle.access_type]
        for each in handle.multiple or (handle,):
            if each.queue is not None:
                self.check(caller, each.queue, right)

    def is_decided_by_queue(self, handle: OpenQueueDescriptor) -> bool:
        """Whether nothing but the attributes of its queue and the caller decide about the use of a handle.

        The descriptor of the computer and those of the directory can change without them.
        """
        queue = handle.queue
        if queue is None or queue.parent is not None or self._directory.is_integrated:
            return False
        return bool(queue.attributes.security) or (
            isinstance(queue, OutgoingQueue) and handle.access_type is AccessType.SEND
        )

    def guard(self, name: FormatName) -> Queue | None:
        """The queue of this computer that decides who may open a name; for a missing subqueue, its parent."""
        queue = self._manager.find_queue(name)
        if queue is None and isinstance(name, DirectFormatName) and name.subqueue:
            queue = self._manager.find_queue(replace(name, subqueue="", suffix=Suffix.NONE))
        return queue

    # This computer.

    def check_create(self, caller: Caller, path: object) -> None:
        """Raise AccessDenied unless the caller may create queues."""
        create = MachineAccess.MQSEC_CREATE_QUEUE
        if caller is not QUEUE_MANAGER and not allowed(self.machine_descriptor, caller.sids, create):
            self._note(caller, str(path), "create-queue")
            raise AccessDenied(f"{caller.name} does not have the right to create queues on this computer")

    @property
    def machine_descriptor(self) -> bytes:
        return self._manager.attributes.security or self._machine

    def _guarded_by_machine(
        self, rights: dict[QueueAccess, MachineAccess], right: QueueAccess
    ) -> tuple[bytes, MachineAccess]:
        # System queues refuse messages of applications themselves, so that everybody may try.
        needed = rights.get(right) or _OTHER_MACHINE_RIGHTS.get(right, MachineAccess.MQSEC_GET_MACHINE_PROPERTIES)
        return self.machine_descriptor, needed

    # Objects without a descriptor.

    def own_name(self, caller: Caller, name: str) -> str:
        """The name under which a claim or a query of the caller is kept: names of different callers differ.

        Administrators share the names as they are, and can name the objects of others as they are kept.
        """
        if caller is QUEUE_MANAGER or caller.is_administrator or not name:
            return name
        return f"{caller.sid}{_OF}{name}"

    def shown_name(self, caller: Caller, kept: str) -> str | None:
        """The reverse of `own_name`. None if the object does not exist for the caller."""
        if caller is QUEUE_MANAGER or caller.is_administrator:
            return kept
        prefix = f"{caller.sid}{_OF}"
        return kept[len(prefix) :] if kept.startswith(prefix) else None

    # Names.

    def sid_of(self, who: str) -> Sid | None:
        """The SID of a user, a group or a well-known name, or of a SID as text. None if it is unknown."""
        found = self._users.sid_of(who)
        if found is None and who.lower() == self.administrator.name:
            return self.administrator.sid
        return Sid.parse(who) if found is None and who[:2].upper() == "S-" else found

    def name_of(self, sid: Sid) -> str:
        """The name of a SID, or the SID as text."""
        if sid == self.administrator.sid:
            return self.administrator.name
        known = next((name for name, each in WELL_KNOWN.items() if each == sid), None)
        return known or self._users.name_of(sid) or str(sid)

    def is_account(self, sid: Sid) -> bool:
        """Whether it is a user or a group of this queue manager, or its administrator."""
        return sid in (self.administrator.sid, ADMINISTRATORS) or self._users.name_of(sid) is not None

    def is_known(self, sid: Sid) -> bool:
        """Whether somebody has this SID, as far as this queue manager knows."""
        return sid in (EVERYONE, AUTHENTICATED_USERS) or self.is_account(sid)

    def owner_name(self, queue: Queue) -> str:
        """The name of the owner of a queue; "" for one without a descriptor."""
        guard = queue.parent or queue
        owner = owner_of(guard.attributes.security) if guard.attributes.security else None
        return "" if owner is None else self.name_of(owner)

    # Refusals.

    def refusal(self, caller: Caller, queue: Queue, right: QueueAccess) -> WaypostError:
        """The error for a caller without a right, counted and noted in the log."""
        if queue.is_internal:
            return AccessDenied(f"{queue} is reserved for the queue manager")
        if queue.is_journal and right is QueueAccess.MQSEC_RECEIVE_MESSAGE:
            right = QueueAccess.MQSEC_RECEIVE_JOURNAL_MESSAGE
        is_outgoing = isinstance(queue, OutgoingQueue)
        if is_outgoing and right is QueueAccess.MQSEC_WRITE_MESSAGE:
            hint = _NO_ANONYMOUS
        elif is_outgoing or (queue.queue_type is QueueKind.SYSTEM and queue.parent is None):
            hint = _OF_COMPUTER
        else:
            hint = self._way_to(caller, queue.parent or queue, right)
        return self._refusal(caller, queue_name(queue), right, hint)

    def _way_to(self, caller: Caller, queue: Queue, right: QueueAccess) -> str:
        """The hint for a caller without a right: who can give it, and with which command."""
        descriptor = self._descriptor(queue)
        able = [] if descriptor is None else changers(descriptor)
        if descriptor is None or not any(map(self.is_known, able)):
            # Names and SIDs of others are for administrators.
            return self.way_out(queue) if caller.is_administrator else _LOCKED
        name, word = queue_name(queue), words_of(right)[0]
        what, command = "grant the right", f"waypost queue acl {name} --grant {caller.name}:{word}"
        if denied := denying(descriptor, caller.sids, right):
            who = [self.name_of(sid) for sid in denied]
            what = f"remove the entries of {' and '.join(who)}, which deny the right"
            command = f"waypost queue acl {name} {' '.join(f'--revoke {each}' for each in who)}"
        if ADMINISTRATORS in able or EVERYONE in able or self.administrator.sid in able:
            return f"the owner of the queue or an administrator can {what}: {command}"
        if not caller.is_administrator:
            return f"only an account that can change the rights on the queue can {what}: {command}"
        known = " or ".join(self.name_of(sid) for sid in able if self.is_known(sid))
        return f"only {known} can {what}: {command}"

    # Queues whose rights nobody can change.

    def locked(self, without: Sid | None = None) -> list[Queue]:
        """The queues whose rights no known account can change, or could not if the account `without` were gone."""
        verdicts: dict[bytes, bool] = {}
        found = []
        for queue in self._manager.queues.values():
            if queue.parent is not None or queue.queue_type is QueueKind.SYSTEM or queue.is_internal:
                continue
            data = self._directory.security_of(queue)
            if isinstance(queue, OutgoingQueue) or not data or (without is not None and without.encode() not in data):
                continue
            if data not in verdicts:
                descriptor = self._descriptor(queue)
                able = [] if descriptor is None else changers(descriptor)
                verdicts[data] = any(sid != without and self.is_known(sid) for sid in able)
            if not verdicts[data]:
                found.append(queue)
        return found

    def check_remains(self, sid: Sid, name: str) -> None:
        """Raise AccessDenied if without this account nobody could change the rights on a queue."""
        found = [queue for queue in self.locked(sid) if self._is_changeable(queue)]
        if not found:
            return
        first = queue_name(found[0])
        others = len(found) - 1
        more = "" if not others else " and 1 more queue" if others == 1 else f" and {others} more queues"
        error = AccessDenied(
            f"the user {name} was not removed, because without this user, no known account could change the rights on "
            f"{first}{more}"
        )
        descriptor = self._descriptor(found[0])
        many = (EVERYONE, AUTHENTICATED_USERS, ADMINISTRATORS)
        change = QueueAccess.MQSEC_CHANGE_QUEUE_PERMISSIONS
        denied = [] if descriptor is None else denying(descriptor, many, change)
        revoked = "".join(f"--revoke {self.name_of(each)} " for each in denied)
        error.add_note(
            f"as {name}, run `waypost queue acl {first} {revoked}--grant administrators:full` (`waypost user token "
            f"{name}` creates a token of the user), or use --force"
        )
        raise error

    def way_out(self, queue: Queue) -> str:
        """The hint for a queue whose rights no known account can change."""
        name, descriptor = queue_name(queue), self._descriptor(queue)
        able = [] if descriptor is None else [sid for sid in changers(descriptor) if may_be_account(sid)]
        if not able:
            return f"no account can change the rights on {name}: use another queue"
        return (
            f"no known account can change the rights on {name}, but an administrator can add a user who can: waypost "
            f"user add NAME --sid {able[0]}"
        )

    def _is_changeable(self, queue: Queue) -> bool:
        descriptor = self._descriptor(queue)
        return descriptor is not None and is_changeable(descriptor, self.is_known)

    def _descriptor(self, queue: Queue) -> SecurityDescriptor | None:
        data = self._directory.security_of(queue) or default_queue_descriptor(is_closed=bool(self._users))
        try:
            return SecurityDescriptor.decode(data)
        except DecodeError:
            return None

    def _refusal(self, caller: Caller, name: str, right: QueueAccess, hint: str) -> AccessDenied:
        word = words_of(right)[0]
        self._note(caller, name, word)
        error = AccessDenied(f"{caller.name} may not {_VERBS[word]} {name}: the right {word} is missing")
        error.add_note(hint)
        return error

    def refused_arrival(self, queue: Queue, who: str, problem: str) -> None:
        """Note a refused message from another computer, which has its line in the log.

        `problem` is about its signature or encryption; without one, its sender lacks the right to send.
        """
        if not problem:
            self.refused["send"] += 1
        self._remember(queue_name(queue), who, "send", problem)

    def _note(self, caller: Caller, name: str, word: str) -> None:
        self.refused[word] += 1
        self._remember(name, caller.name, word)
        self._kernel.notice(
            "access denied", who=caller.name, sid=str(caller.sid), origin=caller.origin, object=name, right=word
        )

    def _remember(self, name: str, who: str, word: str, problem: str = "") -> None:
        before = self.last_refusals.pop(name, None)
        count = 1 if before is None else before.count + 1
        self.last_refusals[name] = Refusal(count, who, word, self._kernel.now.wall, problem)
        if len(self.last_refusals) > MAX_REFUSALS:
            del self.last_refusals[next(iter(self.last_refusals))]


def owns(caller: Caller, owner: Sid) -> bool:
    """Whether an object of this owner exists for the caller."""
    return caller.sid == owner or caller is QUEUE_MANAGER or caller.is_administrator


def queue_name(queue: Queue) -> str:
    """The name of a queue of this computer as an operator writes it."""
    path = queue.pathname
    if isinstance(queue, OutgoingQueue) or path.kind is QueueKind.SYSTEM:
        return str(queue)
    name = path.queue if path.kind is QueueKind.PRIVATE else f".\\{path.queue}"
    if path.subqueue:
        return f"{name};{path.subqueue}"
    return f"{name};journal" if queue.is_journal else name


# Few callers use queues with few descriptors, and each operation asks.
@lru_cache(maxsize=4096, typed=True)
def allowed(descriptor: bytes, sids: frozenset[Sid], right: QueueAccess | MachineAccess) -> bool:
    """Whether a token has a right on the queue, or on the computer, with this descriptor."""
    return allows(descriptor, Sender(sids), right)
