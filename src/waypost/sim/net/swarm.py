"""Queues, applications, faults and limits of one seed with several hosts."""

from dataclasses import dataclass
from random import Random
from typing import Final

from waypost.sim.faults import Faults, HostFaults
from waypost.sim.faults import draw as draw_faults
from waypost.sim.net.arguments import QueuePlan
from waypost.transfer.session import LAST_NUMBER
from waypost.transfer.settings import ResendTimeouts, TransferSettings
from waypost.wire.property_values import UNLIMITED

WORKLOADS: Final = ("sender", "sender", "committer", "committer", "receiver", "forwarder", "pauser", "purger")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSwarm(HostFaults):
    """`via` is the host through which others are routed, or none.

    `last_number` is how many messages a session carries before another follows it. `eager` is the window that senders
    go by instead of that of the other side, as Windows does, or 0. `turn` is how many packets of a connection are
    looked at before others have their turn. `odd` is the share of messages for queues that do not take them.
    """

    hosts: tuple[str, ...]
    via: str
    plans: tuple[QueuePlan, ...]
    workloads: tuple[tuple[str, str], ...]
    network: Faults
    transfer: TransferSettings
    last_number: int
    odd: float
    eager: int
    turn: int


def draw(rng: Random, nodes: int) -> NetworkSwarm:
    hosts = tuple("abcdefghijklmnop"[:nodes])
    workloads = [(host, name) for host in hosts for name in WORKLOADS if rng.random() < 0.4]
    workloads += [(rng.choice(hosts), "sender"), (rng.choice(hosts), "committer")]
    workloads += [(host, "receiver") for host in hosts]
    return NetworkSwarm(
        hosts=hosts,
        via=rng.choice(("", *hosts)),
        plans=tuple(plan for host in hosts for plan in _plans(rng, host)),
        workloads=tuple(workloads),
        network=draw_faults(rng),
        transfer=TransferSettings(
            window_size=rng.choice((2, 3, 4, 8)),
            order_ack_timeout_ms=50,
            maximum_order_ack_delay_s=0.5,
            resend_timeouts=ResendTimeouts(1.0, 2.0, 4.0, 8.0),
            session_init_timeout_s=5.0,
            idle_timeout_s=rng.choice((6.0, 20.0, 1000.0)),
            retry_connect_s=rng.choice((0.1, 1.0)),
            duplicate_history_size=rng.choice((3, 10, 50, 1000, 1000)),
            ping=rng.random() < 0.2,
            send_insecure_nacks=rng.random() < 0.5,
        ),
        last_number=rng.choice((LAST_NUMBER, LAST_NUMBER, 100, 30)),
        quota=rng.choice((UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED, 6)),
        operations=rng.randint(120, 200),
        block=rng.choice((2, 8, 1 << 16)),
        page=rng.choice((2, 10_000)),
        crash=rng.choice((0.0, 0.01, 0.03)),
        crash_after_answer=rng.choice((0.0, 0.0, 0.01)),
        crash_unreported=rng.choice((0.0, 0.02, 0.05)),
        stop=rng.choice((0.0, 0.008)),
        full=rng.choice((0.0, 0.0, 0.02)),
        jump=rng.choice((0.0, 0.0, 0.02)),
        disk_delay=rng.choice((0.001, 0.01, 0.1)),
        report_late=rng.choice((0.0, 0.3)),
        group_commit=rng.random() < 0.6,
        batching=rng.choice((0.0, 0.5)),
        think=(think := rng.choice((0.005, 0.05, 0.3))),
        gather=think / 10,
        outages=((0.0, 0.01), (0.0, 0.5), (0.0, 3.0)),
        wall_jump=5.0,
        monotonic_jump=0.0,
        wall_jump_down=0.0,
        express=rng.choice((0.0, 0.3, 0.7)),
        expiring=rng.choice((0.0, 0.0, 0.2)),
        asking=rng.choice((0.0, 0.2, 0.6)),
        odd=rng.choice((0.0, 0.05, 0.2)),
        eager=rng.choice((0, 0, 0, 20)),
        turn=rng.choice((1, 4, 64)),
    )


def _plans(rng: Random, host: str) -> list[QueuePlan]:
    """Every host has queues on which one can rely, and perhaps one on which one cannot."""
    plans = [
        QueuePlan("n", host=host, journaling=rng.random() < 0.2),
        QueuePlan("t", host=host, transactional=True, journaling=rng.random() < 0.2),
    ]
    is_transactional = rng.random() < 0.6
    odd = rng.choice(("", "ghost", "small", "doomed"))
    if odd:
        plans.append(
            QueuePlan(
                odd,
                host=host,
                transactional=is_transactional,
                quota=1 if odd == "small" else UNLIMITED,
                is_made=odd != "ghost",
                is_doomed=odd == "doomed",
            )
        )
    return plans
