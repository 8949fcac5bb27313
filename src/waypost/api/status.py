"""Operations about the queue manager itself, and their replies: its state, its problems, its store."""

from datetime import datetime
from typing import Final

from waypost.api.operations import Operation, Right, operation
from waypost.api.records import Record


class ListenerInfo(Record, frozen=True):
    """A port of a daemon: transfer, ping, rpc, http, ..."""

    name: str
    address: str
    port: int


class TurnInfo(Record, frozen=True):
    """A turn of the event loop: its duration, the working time of this process, and the main work."""

    at: datetime
    seconds: float
    work_seconds: float
    what: str


class StatusInfo(Record, frozen=True, kw_only=True):
    """The state of the queue manager. `trouble` is the reason why the store cannot write, or "". `shortage` is the
    reason why new messages are refused, or "". `room_bytes` is the free disk space for new messages. `bytes` is the
    size of all messages together. `quota_bytes` is the quota for this size, or null for no limit.

    `rpc_connections` is the number of connections of remote readers, and `rpc_open_calls` the number of their
    unanswered calls. `longest_turn` is the longest recent turn of the event loop, or null if all turns were shorter
    than 10 ms. Everything else waits during a turn. For a queue manager in a program, `max_wait_s` and `max_batch` are
    null, and `listeners` is empty.
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


class Check(Record, frozen=True):
    """The result of one check. `hint` says what to do, or is "" if nothing is wrong."""

    check: str
    ok: bool
    message: str
    hint: str = ""


class Checks(Record, frozen=True):
    """The results of all checks."""

    checks: tuple[Check, ...]


class StoreDamage(Record, frozen=True):
    """One damage in the store. `reason` describes it. `page` is the page of the file, or None.

    If a message is damaged, `queue` and `lookup_id` identify the message.
    """

    table: str
    reason: str
    page: int | None = None
    queue: str | None = None
    lookup_id: str | None = None


class StoreReport(Record, frozen=True, kw_only=True):
    """The result of a verification: `size` of the file in bytes, and `records` by table.

    `damage` lists the first thousand damages, and `damage_count` is the number of all. `is_whole` is true if nothing is
    damaged.
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
    """Progress of a verification, in pages. At the end, `report` has the result, or `error` the reason of a failure."""

    running: bool
    done: int = 0
    total: int = 0
    report: StoreReport | None = None
    error: str = ""


@operation("GET /api/status", asks=Right.READ)
class Status(Operation[StatusInfo], frozen=True, kw_only=True):
    """Show the state of the queue manager and the limits of this server.

    `turns_s` is the time over which to report the longest turn of the event loop, in seconds.
    """

    turns_s: float = 60.0


@operation("GET /api/doctor", asks=Right.READ)
class Doctor(Operation[Checks], frozen=True, kw_only=True):
    """Check for problems, and report solutions."""


@operation("POST /api/store/verification", asks=Right.READ, status=202)
class StartVerification(Operation[VerificationInfo], frozen=True, kw_only=True):
    """Start a verification of the store, unless one is running. GET shows its progress."""


@operation("GET /api/store/verification", asks=Right.READ)
class ShowVerification(Operation[VerificationInfo], frozen=True, kw_only=True):
    """Show the progress of the last verification, and its report when it is complete."""


STATUS_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (Status, Doctor, StartVerification, ShowVerification)
