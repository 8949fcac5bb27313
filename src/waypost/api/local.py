"""Operations inside the process only: they have no path, and clients cannot request them."""

from dataclasses import dataclass
from typing import Final

from msgspec import UNSET, UnsetType

from waypost.api.bulk import BulkQueues
from waypost.api.operation_rows import Owned, QueueRight
from waypost.api.operations import Operation, QueueName, operation
from waypost.api.users import NewToken, RoleName, UserInfo
from waypost.core.message import Message
from waypost.roles import Role
from waypost.wire.format_names import FormatName


@operation("", asks=QueueRight.PEEK, status=204)
class CancelReads(Operation[None], frozen=True, kw_only=True):
    """Cancel the reads that wait on a queue, and close its shared handles: all, or only those for reading."""

    name: QueueName
    keeps_sending: bool = False


@dataclass(frozen=True, slots=True)
class Followed:
    """Messages that have arrived in a queue, and the `since` and `held` for the next request."""

    messages: list[Message]
    since: int
    held: tuple[int, ...]


@operation("", asks=QueueRight.PEEK)
class Follow(Operation[Followed], frozen=True, kw_only=True):
    """Peek at messages that came to a queue after the SequentialID `since`, in the order of arrival.

    `held` lists the LookupIdentifiers of earlier messages that were not visible yet. The answer contains at most
    `limit` new messages, and the messages of `held` that are visible now.
    """

    name: QueueName
    since: int
    limit: int
    held: tuple[int, ...] = ()


@operation("", asks=Role.READ)
class ShowBulkQueues(Operation[BulkQueues], frozen=True, kw_only=True):
    """Show these queues, for a part of a list. Deleted ones are left out."""

    names: tuple[FormatName, ...]


@operation("", asks=Role.ADMIN, status=200, is_audited=True)
class StoreUser(Operation[UserInfo], frozen=True, kw_only=True):
    """Add a user, or change one, with hashes in place of the password. UNSET stays unchanged."""

    name: str
    is_new: bool
    role: RoleName | UnsetType = UNSET
    sid: str | UnsetType = UNSET
    groups: tuple[str, ...] | UnsetType = UNSET
    password: str | UnsetType = UNSET
    nt_hash: str | UnsetType = UNSET

    @property
    def words(self) -> str:
        return "add user" if self.is_new else "set user"


@operation("", asks=Owned.BY_CALLER, status=204, is_audited=True)
class StorePassword(Operation[None], frozen=True, kw_only=True):
    """Change the hashes of the password of a user. `is_proven`: the caller knows the current password."""

    name: str
    password: str
    nt_hash: str
    is_proven: bool


@operation("", asks=Role.ADMIN, is_audited=True)
class StoreToken(Operation[NewToken], frozen=True, kw_only=True):
    """Add a token with this hash to a user. The reply has no secret."""

    name: str
    hash: str
    role: RoleName | UnsetType = UNSET
    expires_days: float | UnsetType = UNSET


@operation("", asks=Role.ADMIN, status=204, is_audited=True)
class ImportUsers(Operation[None], frozen=True, kw_only=True):
    """Add users for NTLM, unless they exist: names with the hashes of their passwords.

    `digest` is the digest of the users file.
    """

    digest: str
    users: tuple[tuple[str, str, str], ...]


@operation("", asks=Owned.BY_CALLER, status=204)
class Note(Operation[None], frozen=True, kw_only=True):
    """Note in the audit trail what a shell did for the caller, or refused."""

    what: str
    object: str = ""
    count: int = 1
    result: str = "ok"


@operation("", asks=Owned.BY_CALLER, status=204)
class NoteStranger(Operation[None], frozen=True, kw_only=True):
    """Note in the log that a shell refused a request for this path, because its caller is unknown."""

    path: str
    reason: str


LOCAL_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    CancelReads,
    Follow,
    ShowBulkQueues,
    StoreUser,
    StorePassword,
    StoreToken,
    ImportUsers,
    NoteStranger,
    Note,
)
