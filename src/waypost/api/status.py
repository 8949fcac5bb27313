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
    """A turn of the loop: its time, the part that was work of this process, and what took most of it."""

    at: datetime
    seconds: float
    work_seconds: float
    what: str


class StatusInfo(Record, frozen=True, kw_only=True):
    """The queue manager at this moment. `trouble` is the reason why the store cannot write, or ""; `shortage` is the
    reason why new messages are refused, or ""; `room_bytes` is the disk space for new messages. `quota_bytes` is the
    quota of all messages together, as `bytes` counts them: null without a limit.

    Remote readers have `rpc_connections` and wait for `rpc_open_calls`. `longest_turn` is the longest recent turn of
    the loop, during which everything else waits: null if all were shorter than 10 ms. Inside a program, `max_wait_s`
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


class Check(Record, frozen=True):
    """One check. `hint` says what to do; "" if nothing is wrong."""

    check: str
    ok: bool
    message: str
    hint: str = ""


class Checks(Record, frozen=True):
    """The checks of the doctor."""

    checks: tuple[Check, ...]


class StoreDamage(Record, frozen=True):
    """A damage in the store: `reason` is the sentence. `page` is None if it is not about a page of the file.

    `queue` and `lookup_id` are those of the damaged message, if it is about a message.
    """

    table: str
    reason: str
    page: int | None = None
    queue: str | None = None
    lookup_id: str | None = None


class StoreReport(Record, frozen=True, kw_only=True):
    """The result of a verification: `size` of the file in bytes, and `records` by table.

    `damage` has the first thousand damages, and `damage_count` is their number: 0 if `is_whole`.
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
    """Progress of a verification in pages. At its end, `report` has the result, or `error` the reason of a failure."""

    running: bool
    done: int = 0
    total: int = 0
    report: StoreReport | None = None
    error: str = ""


@operation("GET /api/status", asks=Right.READ)
class Status(Operation[StatusInfo], frozen=True, kw_only=True):
    """Show the state of the queue manager and the limits of this server.

    `turns_s` is the number of seconds to look back for the longest turn of the loop.
    """

    turns_s: float = 60.0


@operation("GET /api/doctor", asks=Right.READ)
class Doctor(Operation[Checks], frozen=True, kw_only=True):
    """Find problems, and say how to solve them."""


@operation("POST /api/store/verification", asks=Right.READ, status=202)
class StartVerification(Operation[VerificationInfo], frozen=True, kw_only=True):
    """Start a verification of the store, or join the one that runs. GET shows its progress."""


@operation("GET /api/store/verification", asks=Right.READ)
class ShowVerification(Operation[VerificationInfo], frozen=True, kw_only=True):
    """Show the progress of the last verification, and its report at the end."""


STATUS_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (Status, Doctor, StartVerification, ShowVerification)
