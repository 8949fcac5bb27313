"""Faults of hosts and of their network. Each seed draws its own rates: some have no faults, some many."""

from dataclasses import dataclass
from random import Random

from waypost.node import reserves, scans
from waypost.sim.patches import Patch


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFaults:
    """Rates are probabilities: of a crash, a stop, a full disk, a jump of the clocks with each operation, ...

    `think` is what applications take between two steps, `gather` how long a shell lets effects come together at the
    rate `batching`. After an end of its process a host is down for a time of `outages`.
    """

    crash: float
    crash_after_answer: float
    crash_unreported: float
    stop: float
    full: float
    jump: float
    disk_delay: float
    report_late: float
    group_commit: bool
    batching: float
    think: float
    gather: float
    outages: tuple[tuple[float, float], ...]
    # How far the wall clock jumps, and the rates at which the monotonic one does too, and at which it does meanwhile.
    wall_jump: float
    monotonic_jump: float
    wall_jump_down: float
    # How many operations there are before everything heals, and the shares of messages that are so.
    operations: int
    express: float
    expiring: float
    asking: float
    # Limits: of all messages of a host, of reserved numbers, of a page at a start.
    quota: int
    block: int
    page: int

    def limits(self) -> tuple[Patch, ...]:
        return Patch(reserves, "BLOCK", self.block), Patch(scans, "_PAGE", self.page)


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates are probabilities. Delays are means in seconds, `partition` is the rate with each operation.

    `segment` is the longest piece in which bytes arrive, `buffer` how many of them wait before the writer is told.
    """

    latency: float = 0.001
    segment: int = 1 << 16
    buffer: int = 1 << 16
    reset: float = 0.0
    silence: float = 0.0
    refuse: float = 0.0
    silent_death: float = 0.0
    partition: float = 0.0
    unknown_host: float = 0.0
    stale_address: float = 0.0
    datagram_loss: float = 0.0
    datagram_copy: float = 0.0


def draw(rng: Random) -> Faults:
    # Every piece takes its time for itself, so small ones and slow ones together would be no connection at all.
    latency, segment = rng.choice(((0.0005, 16), (0.0005, 1500), (0.002, 200), (0.002, 1 << 16), (0.05, 1500)))
    return Faults(
        latency=latency,
        segment=segment,
        buffer=rng.choice((600, 4096, 1 << 16)),
        reset=rng.choice((0.0, 0.0, 0.003, 0.02)),
        silence=rng.choice((0.0, 0.0, 0.002, 0.01)),
        refuse=rng.choice((0.0, 0.0, 0.2)),
        silent_death=rng.choice((0.0, 0.5, 1.0)),
        partition=rng.choice((0.0, 0.0, 0.02)),
        unknown_host=rng.choice((0.0, 0.0, 0.2)),
        stale_address=rng.choice((0.0, 0.0, 0.3)),
        datagram_loss=rng.choice((0.0, 0.3)),
        datagram_copy=rng.choice((0.0, 0.1)),
    )
