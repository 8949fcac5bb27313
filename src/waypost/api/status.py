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
    """A turn of the loop: how long it took, how much of that was work of this process, and what took most of it."""

    at: datetime
    seconds: float
    work_seconds: float
    what: str


class StatusInfo(Record, frozen=True, kw_only=True):
    """The queue manager at this moment. `trouble` is why the store cannot write, "" if it can; `shortage` is why new
    messages are refused, "" if they are not, and `room_bytes` is how much the disk has for them.

    Those who read over RPC have `rpc_connections` and wait for `rpc_open_calls`. `longest_turn` is that of the loop
    lately, in which everybody else waited: null if all were shorter than 10 ms. Inside a program there are neither
    limits to a wait and a batch nor listeners.
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
    """One thing that was looked at. `hint` says what to do, "" if nothing is wrong."""

    check: str
    ok: bool
    message: str
    hint: str = ""


class Checks(Record, frozen=True):
    """All that was looked at."""

    checks: tuple[Check, ...]


class StoreDamage(Record, frozen=True):
    """One thing that is wrong: `reason` is the sentence. `page` is None for what is not about a page of the file.

    `queue` and `lookup_id` are those of the message that it is about, if there is one.
    """

    table: str
    reason: str
    page: int | None = None
    queue: str | None = None
    lookup_id: str | None = None


class StoreReport(Record, frozen=True, kw_only=True):
    """The result of a verification: `size` is that of the file in bytes, `records` how many each table holds.

    `damage` has the first thousand things that are wrong, and `damage_count` how many there are: none if `is_whole`.
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
    """How far it is, in pages. When it is over, `report` has the result, or `error` why there is none."""

    running: bool
    done: int = 0
    total: int = 0
    report: StoreReport | None = None
    error: str = ""


@operation("GET /api/status", asks=Right.READ)
class Status(Operation[StatusInfo], frozen=True, kw_only=True):
    """Show the queue manager, and what this server allows.

    `turns_s`: how many seconds back the longest turn of the loop is looked for.
    """

    turns_s: float = 60.0


@operation("GET /api/doctor", asks=Right.READ)
class Doctor(Operation[Checks], frozen=True, kw_only=True):
    """Look for what is wrong, and say what to do about it."""


@operation("POST /api/store/verification", asks=Right.READ, status=202)
class StartVerification(Operation[VerificationInfo], frozen=True, kw_only=True):
    """Verify everything that is stored, or join the verification that is under way. GET shows how far it is."""


@operation("GET /api/store/verification", asks=Right.READ)
class ShowVerification(Operation[VerificationInfo], frozen=True, kw_only=True):
    """Show how far the last verification is, and its report when it is over."""


STATUS_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (Status, Doctor, StartVerification, ShowVerification)
