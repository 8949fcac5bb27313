"""Facts of an operation besides its fields: the place of each field in a request, and who may call the operation."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from msgspec import Struct

from waypost.roles import Role


class QueueRight(Enum):
    """A right on a queue. Only the security descriptor of the queue grants it, regardless of the role of the caller."""

    SEND = "send"
    RECEIVE = "receive"
    PEEK = "peek"
    GET_PROPERTIES = "get-properties"
    SET_PROPERTIES = "set-properties"
    DELETE = "delete"
    GET_PERMISSIONS = "get-permissions"
    SET_PERMISSIONS = "set-permissions"


class Owned(Enum):
    """Objects without a descriptor, such as transactions, handles and claims: they belong to their caller."""

    BY_CALLER = "owned"


# Facts that decide whether a caller may do something: its role, the descriptor of the queue, or the ownership.
Asks: TypeAlias = Role | QueueRight | Owned

# Changes of a queue itself are rare, and an operator wants to know who made them.
NOTED: Final = frozenset({QueueRight.SET_PROPERTIES, QueueRight.DELETE, QueueRight.SET_PERMISSIONS})


@dataclass(frozen=True, slots=True)
class Row:
    """Facts of an operation besides its fields.

    `path_names`, `query_names` and `body_names` say where each field is in a request, and `body` is the structure of
    the body: the record itself if the body has all fields. `reads_only` operations change nothing. If an
    `is_repeatable` operation is repeated, nothing more changes. Exactly one of `role`, `queue_right` and `is_owned` is
    set: a caller needs this role, or this right on the queue, or must own the object. An `is_audited` operation is
    noted in the audit trail. `status` is the HTTP status of success: 204 for an operation without a reply. An answer
    may take `wait_s` seconds longer than others. An operation that `waits` waits for a message for its `timeout_s`, and
    callers can cancel it meanwhile.
    """

    name: str
    method: str
    path: str
    path_names: tuple[str, ...]
    query_names: tuple[str, ...]
    body_names: tuple[str, ...]
    body: type[Struct] | None
    reply: type[Any]
    role: Role | None
    queue_right: QueueRight | None
    is_owned: bool
    is_audited: bool
    reads_only: bool
    is_repeatable: bool
    status: int
    wait_s: float
    waits: bool
    help: str

    @property
    def asks(self) -> Asks:
        """The role, the right or the ownership that a caller needs."""
        return next((each for each in (self.role, self.queue_right) if each is not None), Owned.BY_CALLER)

    @property
    def words(self) -> str:
        """Its name, for people."""
        return self.name.replace("_", " ")
