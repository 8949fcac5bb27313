"""Faults of hosts and of their network. Rates are probabilities; waypost.sim.swarm draws them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFaults:
    """With each operation a crash, a stop, a full disk, a jump of the clocks; the disk; and the pace of a host.

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


@dataclass(frozen=True, slots=True)
class Faults:
    """Delays are means in seconds, `partition` is the rate with each operation.

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
