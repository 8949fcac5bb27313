"""The operations that ask a queue manager about itself, and their replies: its state, what is wrong, its store."""

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
    """A turn of the event loop: its duration, the part of it that was work of this process, and its main work."""

    at: datetime
    seconds: float
    work_seconds: float
    what: str


class StatusInfo(Record, frozen=True, kw_only=True):
    """The queue manager as of now. `trouble` is the reason if the store cannot write, otherwise "". `shortage` is the
    reason if new messages are refused, otherwise "". `room_bytes` is the disk space for new messages.

    `rpc_connections` and `rpc_open_calls` count connections and open calls of remote readers. `longest_turn` is the
    longest recent turn of the event loop; null if all were shorter than 10 ms. A queue manager in a program has no
    listeners, and no limits for waits and batches.
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
    """The result of one check. `hint` says what to do; "" if nothing is wrong."""

    check: str
    ok: bool
    message: str
    hint: str = ""


class Checks(Record, frozen=True):
    """The results of all checks."""

    checks: tuple[Check, ...]


class StoreDamage(Record, frozen=True):
    """One damage, described in `reason`. `page` is None if it does not concern a page of the file.

    `queue` and `lookup_id` identify the affected message, if there is one.
    """

    table: str
    reason: str
    page: int | None = None
    queue: str | None = None
    lookup_id: str | None = None


class StoreReport(Record, frozen=True, kw_only=True):
    """The result of a verification. `size` is the size of the file in bytes, and `records` the number of records of
    each table.

    `damage` has the first thousand damages, and `damage_count` their total. There is none if `is_whole` is true.
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
    """The progress of a verification in pages. At the end, `report` has the result, or `error` the reason."""

    running: bool
    done: int = 0
    total: int = 0
    report: StoreReport | None = None
    error: str = ""


@operation("GET /api/status", asks=Right.READ)
class Status(Operation[StatusInfo], frozen=True, kw_only=True):
    """Show the queue manager and the limits of this server.

    `turns_s` is the time in seconds in which the longest turn of the event loop is searched.
    """

    turns_s: float = 60.0


@operation("GET /api/doctor", asks=Right.READ)
class Doctor(Operation[Checks], frozen=True, kw_only=True):
    """Look for problems, with a hint for each."""


@operation("POST /api/store/verification", asks=Right.READ, status=202)
class StartVerification(Operation[VerificationInfo], frozen=True, kw_only=True):
    """Verify everything that is stored, or join the running verification. GET shows its progress."""


@operation("GET /api/store/verification", asks=Right.READ)
class ShowVerification(Operation[VerificationInfo], frozen=True, kw_only=True):
    """Show the progress of the last verification, and its report at the end."""


STATUS_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (Status, Doctor, StartVerification, ShowVerification)
