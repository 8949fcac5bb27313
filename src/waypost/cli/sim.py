"""`waypost sim`: the command line of the simulator."""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final
from zlib import crc32

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from waypost.cli.program import MOST, Output
from waypost.sim.marks import Marks
from waypost.sim.run import Outcome, run_seed

DEFAULT_SEEDS: Final = 100
LAST_EVENTS: Final = 30
_LAST_SEED: Final = 1 << 48

Advance = Callable[[], None]


def sim(
    *,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=MOST, help="Number of seeds to run (default: 100)."),
    ] = None,
    first: Annotated[int, typer.Option("--from", metavar="SEED", min=0, max=_LAST_SEED, help="First seed to run.")] = 0,
    replay: Annotated[
        int | None,
        typer.Option(metavar="SEED", min=0, max=_LAST_SEED, help="Run only this seed and show every event."),
    ] = None,
    nodes: Annotated[int, typer.Option(metavar="N", min=1, max=16, help="Number of simulated hosts.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
) -> None:
    """Simulate queue managers with crashes, full disks and clock jumps, and check whether they keep their guarantees.

    With several nodes, the queue managers send messages to each other over an unreliable network.

    Each seed defines one simulation, which runs in the same way on every computer. The command stops after the first
    simulation in which a guarantee is violated. The exit code is 1 if a guarantee was violated, otherwise 0.
    """
    out = Output()
    if replay is not None:
        if seeds is not None:
            raise typer.BadParameter("--replay and --seeds are mutually exclusive", param_hint="--replay")
        is_sound = _replay(out, replay, nodes, as_json=as_json)
    else:
        is_sound = _run(out, range(first, first + (seeds or DEFAULT_SEEDS)), nodes, as_json=as_json)
    out.flush()
    raise typer.Exit(0 if is_sound else 1)


def _run(out: Output, seeds: range, nodes: int, *, as_json: bool) -> bool:
    marks = Marks(nodes)
    count = operations = starts = digest = 0
    violation: Outcome | None = None
    # Objects that exist now stay: the garbage collector need not look at them again.
    gc.freeze()
    started = time.perf_counter()
    with _progress(len(seeds)) as advance:
        for seed in seeds:
            outcome = run_seed(seed, marks, nodes=nodes)
            count += 1
            operations += outcome.operations
            starts += outcome.starts
            digest = crc32(outcome.digest.encode(), digest)
            if outcome.violation is not None:
                violation = outcome
                break
            advance()
    seconds = time.perf_counter() - started
    if as_json:
        summary = {
            "from": seeds.start,
            "seeds": count,
            "operations": operations,
            "starts": starts,
            "digest": f"{digest:08x}",
            "violation": None if violation is None else _violation(violation, nodes),
            "never_reached": marks.missing,
        }
        _write_json(out, summary)
    elif violation is not None:
        _show_violation(out, violation, nodes)
    else:
        out.write(f"seeds {seeds.start} to {seeds.stop - 1}: no violation\n")
        out.write(f"{operations} operations, {starts} starts of hosts, digest {digest:08x}\n")
        for name in marks.missing:
            out.write(f"never reached: {name}\n")
    typer.echo(f"{count / seconds:.0f} seeds/s", err=True)
    return violation is None


def _replay(out: Output, seed: int, nodes: int, *, as_json: bool) -> bool:
    outcome = run_seed(seed, Marks(nodes), interval=1, nodes=nodes)
    if as_json:
        trace = {
            "seed": seed,
            "digest": outcome.digest,
            "violation": outcome.violation,
            "events": outcome.trace.lines(),
        }
        _write_json(out, trace)
        return outcome.violation is None
    for line in outcome.trace.lines():
        out.write(f"{line}\n")
    out.write(f"seed {seed}: {outcome.violation or 'no violation'}\n")
    out.write(f"digest {outcome.digest}\n")
    return outcome.violation is None


def _violation(outcome: Outcome, nodes: int) -> dict[str, object]:
    return {
        "seed": outcome.seed,
        "invariant": outcome.violation,
        "last_events": outcome.trace.lines(LAST_EVENTS),
        "replay": _replay_command(outcome, nodes),
    }


def _show_violation(out: Output, outcome: Outcome, nodes: int) -> None:
    for line in outcome.trace.lines(LAST_EVENTS):
        out.write(f"{line}\n")
    out.write(f"seed {outcome.seed}: {outcome.violation}\n")
    out.write(f"replay: {_replay_command(outcome, nodes)}\n")


def _replay_command(outcome: Outcome, nodes: int) -> str:
    return f"waypost sim --replay {outcome.seed}" + (f" --nodes {nodes}" if nodes > 1 else "")


def _write_json(out: Output, value: object) -> None:
    out.write(json.dumps(value, indent=2) + "\n")


@contextmanager
def _progress(total: int) -> Iterator[Advance]:
    """A bar for whoever watches: the result comes at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)
