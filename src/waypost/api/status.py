"""Operations about the queue manager itself, and their replies: its state, its problems, its store."""

from datetime import datetime
from typing import Final

from waypost.api.operation_rows import Owned
from waypost.api.operations import Operation, operation
from waypost.api.records import Record
from waypost.roles import Role


class ListenerInfo(Record, frozen=True):
    """A port on which the daemon listens. `name` is, for example, transfer, ping, rpc or http."""

    name: str
    address: str
    port: int


class TurnInfo(Record, frozen=True):
    """A turn of the event loop. `seconds` is the duration, `work_seconds` is the working time of this process, and
    `what` is the main work of the turn."""

    at: datetime
    seconds: float
    work_seconds: float
    what: str


class StatusInfo(Record, frozen=True, kw_only=True):
    """The state of the queue manager. `trouble` is the reason why the store cannot write, or "". `shortage` is the
    reason why new messages are refused, or "". `room_bytes` is the free disk space for new messages. `bytes` is the
    total size of all messages. `quota_bytes` is the quota for the total size, or null for no limit.

    `rpc_connections` is the number of remote reader connections, and `rpc_open_calls` is the number of unanswered calls
    on these connections. `longest_turn` is the longest recent turn of the event loop, or null if all turns were shorter
    than 10 ms. During a turn, all other work of the daemon waits. For a queue manager inside a program, `max_wait_s`
    and `max_batch` are null, and `listeners` is empty.
    """

    name: str
    guid: str
    version: str
    max_wait_s: float | None = None
    max_batch: int | None = None
    path: str
    started: datetime
    time: datetime
    queues: int
    outgoing_queues: int
    bytes: int
    quota_bytes: int | None = None
    sessions: int = 0
    rpc_connections: int = 0
    rpc_open_calls: int = 0
    trouble: str
    shortage: str
    room_bytes: int
    longest_turn: TurnInfo | None = None
    slow_turns: int = 0
    listeners: tuple[ListenerInfo, ...] = ()


class IdentityInfo(Record, frozen=True, kw_only=True):
    """The identity of the queue manager, the limits of this server, and the name, SID and role of the caller.

    For a queue manager inside a program, `max_wait_s` and `max_batch` are null.
    """

    name: str
    guid: str
    version: str
    who: str
    sid: str
    role: str
    max_wait_s: float | None = None
    max_batch: int | None = None


class Check(Record, frozen=True):
    """The result of one check. `hint` describes the solution, or is "" if nothing is wrong."""

    check: str
    ok: bool
    message: str
    hint: str = ""


class Checks(Record, frozen=True):
    """The results of all checks."""

    checks: tuple[Check, ...]


class StoreDamage(Record, frozen=True):
    """A damaged place in the store. `reason` describes the damage. `page` is the page of the file, or None.

    If a message is damaged, `queue` and `lookup_id` identify the message.
    """

    table: str
    reason: str
    page: int | None = None
    queue: str | None = None
    lookup_id: str | None = None


class StoreReport(Record, frozen=True, kw_only=True):
    """The result of a verification. `size` is the size of the file in bytes.

    `records` is the number of records in each table. `damage` lists the first thousand damaged places, and
    `damage_count` is the number of all damaged places. `is_whole` is true if nothing is damaged.
    """

    is_whole: bool
    path: str
    format: int
    size: int
    pages: int
    free_pages: int
    records: dict[str, int]
    damage: tuple[StoreDamage, ...] = ()
    damage_count: int = 0


class VerificationInfo(Record, frozen=True):
    """The progress of a verification. `done` and `total` are numbers of pages.

    When the verification has ended, `report` contains the result, or `error` contains the reason for the failure.
    """

    running: bool
    done: int = 0
    total: int = 0
    report: StoreReport | None = None
    error: str = ""


class LinkInfo(Record, frozen=True):
    """A link for a browser. To get the URL, append `path` to the address of the daemon. `expires_s` is the lifetime of
    the link in seconds."""

    path: str
    expires_s: float


@operation("GET /api/status", asks=Role.READ)
class Status(Operation[StatusInfo], frozen=True, kw_only=True):
    """Show the state of the queue manager and the limits of this server.

    The answer contains the longest turn of the event loop in the last `turns_s` seconds.
    """

    turns_s: float = 60.0


@operation("GET /api/identity", asks=Owned.BY_CALLER)
class ShowIdentity(Operation[IdentityInfo], frozen=True, kw_only=True):
    """Show the identity of the queue manager and of the caller. Users with any role can send this request."""


@operation("GET /api/doctor", asks=Role.READ)
class Doctor(Operation[Checks], frozen=True, kw_only=True):
    """Run all checks, and report problems with their solutions."""


@operation("POST /api/store/verification", asks=Role.OPERATE, status=202)
class StartVerification(Operation[VerificationInfo], frozen=True, kw_only=True):
    """Start a verification of the store, unless a verification is running. A GET request shows the progress."""


@operation("GET /api/store/verification", asks=Role.READ)
class ShowVerification(Operation[VerificationInfo], frozen=True, kw_only=True):
    """Show the progress of the last verification. If the verification has ended, show the report."""


@operation("POST /api/links", asks=Role.ADMIN, status=201)
class CreateLink(Operation[LinkInfo], frozen=True, kw_only=True):
    """Create a link for logging on with a browser. The link works only once, and expires after ten minutes."""


STATUS_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    Status,
    ShowIdentity,
    Doctor,
    StartVerification,
    ShowVerification,
    CreateLink,
)
