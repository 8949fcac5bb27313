"""Faults of hosts and of their network. Rates are probabilities; waypost.sim.swarm draws them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFaults:
    """Faults of a host: rates of crashes, stops, full disks and clock jumps with each operation; its disk and its pace.

    `think` is the pause of applications between two steps, `gather` the time for which a shell collects effects, at the
    rate `batching`. After its process ends, a host is down for one of the times in `outages`.
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
    # The length of wall clock jumps, and the rates at which the monotonic clock jumps too, and during a downtime.
    wall_jump: float
    monotonic_jump: float
    wall_jump_down: float


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of the network. Delays are means in seconds, `partition` is the rate with each operation.

    `segment` is the longest piece in which bytes arrive, `buffer` the number of waiting bytes that pauses the writer.
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
