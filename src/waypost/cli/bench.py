"""`waypost bench`: how fast this daemon is here, measured from outside."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from waypost.cli.daemon import Json, session
from waypost.cli.program import MOST, Output
from waypost.cli.progress import Advance, progress
from waypost.cli.tables import write_json, write_table
from waypost.limits import MAX_PACKET_SIZE

if TYPE_CHECKING:
    from waypost import Queue

BATCH: Final = 500
# Each of these waits for the disk by itself, so there are fewer of them.
SINGLE: Final = 200


@dataclass(frozen=True, slots=True)
class Measurement:
    work: str
    messages: int
    seconds: float
    per_second: float


def bench(
    context: typer.Context,
    *,
    count: Annotated[
        int, typer.Option(metavar="N", min=1, max=MOST, help="Number of messages to send and receive.")
    ] = 10_000,
    size: Annotated[
        int, typer.Option(metavar="BYTES", min=0, max=MAX_PACKET_SIZE, help="Size of a body, in bytes.")
    ] = 1000,
    express: Annotated[bool, typer.Option("--express", help="Send express messages, which stay in memory.")] = False,
    as_json: Json = False,
) -> None:
    """Send messages to a temporary queue, receive them, and print the number of messages per second.

    \b
    waypost bench
    waypost bench --count 1000 --size 100 --express --json
    """
    out = Output()
    with session(context) as manager:
        queue = manager.create_queue(f"bench-{token_hex(4)}", label="temporary queue of waypost bench, safe to delete")
        try:
            found = _measure(queue, count, bytes(size), {"recoverable": not express})
        finally:
            queue.delete()
    if as_json:
        write_json(out, [asdict(each) for each in found])
    else:
        rows = [(each.work, each.messages, f"{each.seconds:.2f}", f"{each.per_second:.0f}") for each in found]
        write_table(out, ("WORK", "MESSAGES", "SECONDS", "PER SECOND"), rows)
    out.flush()


def _measure(queue: "Queue", count: int, body: bytes, properties: dict[str, Any]) -> list[Measurement]:
    single = min(count, SINGLE)

    def send_one_by_one(advance: Advance) -> None:
        for _ in range(single):
            queue.send(body, **properties)
            advance(1)

    def receive_one_by_one(advance: Advance) -> None:
        for _ in range(single):
            queue.receive(0)
            advance(1)

    def send_together(advance: Advance) -> None:
        for start in range(0, count, BATCH):
            bodies = [body] * min(BATCH, count - start)
            queue.send_many(bodies, **properties)
            advance(len(bodies))

    def receive_together(advance: Advance) -> None:
        left = count
        while left:
            received = len(queue.receive_many(min(BATCH, left), 0))
            left -= received
            advance(received)

    with progress("measuring", 2 * (single + count)) as advance:
        return [
            _timed("send one by one", single, send_one_by_one, advance),
            _timed("receive one by one", single, receive_one_by_one, advance),
            _timed(f"send {min(BATCH, count)} together", count, send_together, advance),
            _timed(f"receive {min(BATCH, count)} together", count, receive_together, advance),
        ]


def _timed(work: str, messages: int, do: Callable[[Advance], None], advance: Advance) -> Measurement:
    started = time.perf_counter()
    do(advance)
    seconds = time.perf_counter() - started
    return Measurement(work, messages, seconds, messages / seconds)
