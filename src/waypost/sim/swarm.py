"""The swarm of one seed: queues, scripts, faults and limits, only some of each, so that rare combinations are frequent.

Remote readers and bulk clients have separate random numbers, so that the other simulations stay the same.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from waypost.core import queue_manager
from waypost.limits import (
    MAX_BATCHES,
    MAX_BULK_REMOVED,
    MAX_CLAIMS,
    MAX_DELIVERED,
    MAX_STAGED_FRAME,
    MAX_STAGES,
)
from waypost.node import (
    bulk,
    claims,
    committed_batches,
    deleting,
    purging,
    remote_reading,
    removals,
    reserves,
    scans,
    staged_delivery,
    stages,
    stored_messages,
)
from waypost.sim.faults import Faults, HostFaults
from waypost.sim.patches import Patch
from waypost.sim.plans import Plan
from waypost.transfer import session
from waypost.transfer.session import LAST_NUMBER
from waypost.transfer.settings import ResendTimeouts, TransferSettings
from waypost.wire.property_values import UNLIMITED

HOST: Final = "host"

# The scripts that a seed may have: of applications, bulk clients and remote readers of one host, and of several hosts.
APPLICATIONS: Final = (
    *("sender", "receiver", "transactional", "browser", "seeker", "mover", "purger", "administrator", "coordinator"),
)
BULK_CLIENTS: Final = ("streamer", "streamer", "claimer", "claimer", "query", "query", "stager", "stager", "watcher")
READERS: Final = (
    *("receiver", "waiter", "rude", "browser", "seeker", "mover", "purger", "transactional", "transactional", "owner"),
)
NETWORKED: Final = ("sender", "sender", "committer", "committer", "receiver", "forwarder", "pauser", "purger")

# The share of the simulations of one host that have some.
_WITH_READERS: Final = 0.3
_WITH_BULK_CLIENTS: Final = 0.35


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """The shares of messages that are express, expire, ask for something, and go to queues that refuse them."""

    express: float
    expiring: float
    asking: float
    odd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits: bytes of a host, reserved numbers, messages in a page at a start, messages purged together.

    `last_number` is the number of messages that a session carries before another replaces it.
    """

    quota: int
    block: int
    page: int
    purge_part: int = 1000
    last_number: int = LAST_NUMBER

    @property
    def expiry_part(self) -> int:
        """Expired messages that are removed with one tick: fewer than a purge removes."""
        return (self.purge_part + 1) // 2

    def patches(self) -> tuple[Patch, ...]:
        return (
            Patch(reserves, "BLOCK", self.block),
            Patch(scans, "_PAGE", self.page),
            *(Patch(module, "PURGE_PART", self.purge_part) for module in (purging, deleting)),
            Patch(queue_manager, "EXPIRY_PART", self.expiry_part),
            Patch(session, "LAST_NUMBER", self.last_number),
        )


@dataclass(frozen=True, slots=True)
class BulkLimits:
    """Limits of the bulk interface: claims, stages, remembered batches of a query, messages removed with one request,
    messages of a frame of a stage, and those that are delivered with one part.

    `some` is the number of messages beyond the expected ones that a frame looks at, `part` the number read together.
    """

    claims: int = MAX_CLAIMS
    stages: int = MAX_STAGES
    batches: int = MAX_BATCHES
    removed: int = MAX_BULK_REMOVED
    frame: int = MAX_STAGED_FRAME
    delivered: int = MAX_DELIVERED
    some: int = 100
    part: int = 128

    def patches(self) -> tuple[Patch, ...]:
        return (
            Patch(claims, "MAX_CLAIMS", self.claims),
            Patch(stages, "MAX_STAGES", self.stages),
            Patch(committed_batches, "MAX_BATCHES", self.batches),
            Patch(bulk, "MAX_BULK_REMOVED", self.removed),
            Patch(removals, "MAX_BULK_REMOVED", self.removed),
            Patch(stages, "MAX_STAGED_FRAME", self.frame),
            Patch(staged_delivery, "MAX_DELIVERED", self.delivered),
            Patch(bulk, "_SOME", self.some),
            Patch(stored_messages, "_PART", self.part),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRates:
    """Remote readers by their scripts, and their behaviour.

    A message waits `pending_request_s` for its reader to end it, a transaction of a reader `enlistment_s` for prepare,
    and a connection `bind_s` for its bind. `call_timeout` is the time that clients wait for answers, None if unlimited;
    `keep_alive` the interval of the search for dead connections. `neglect` and `death` are the rates at which a reader
    does not end a message, or dies before it does.
    """

    scripts: tuple[str, ...]
    pending_request_s: float
    enlistment_s: float
    bind_s: float
    call_timeout: float | None
    keep_alive: float
    max_fragment: int
    nack: float
    neglect: float
    death: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Sessions between hosts. `via` is the relay of the others, or empty.

    `eager` is the window that senders use instead of the receiver's, as Windows does, or 0. `turn` is the number of
    packets of a connection that are processed before others have their turn.
    """

    via: str = ""
    transfer: TransferSettings = field(default_factory=TransferSettings)
    eager: int = 0
    turn: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Swarm:
    """Everything that a seed draws. `scripts` are the applications: their hosts, and the names of their scripts.

    `operations` is the number of operations before everything heals.
    """

    hosts: tuple[str, ...]
    plans: tuple[Plan, ...]
    scripts: tuple[tuple[str, str], ...]
    operations: int
    faults: HostFaults
    messages: Messages
    limits: Limits
    network: Faults
    readers: ReaderRates | None = None
    bulk: BulkLimits | None = None
    sessions: Sessions = Sessions()

    def patches(self) -> tuple[Patch, ...]:
        """The limits of the engine, as small as this seed sets them."""
        return (
            *self.limits.patches(),
            *(() if self.bulk is None else self.bulk.patches()),
            *(() if self.readers is None else (Patch(remote_reading, "BIND_SECONDS", self.readers.bind_s),)),
        )


# One host.


def draw(seed: int, rng: Random) -> Swarm:
    """Draw one host with its applications, in some simulations with remote readers and bulk clients."""
    count = rng.randint(1, 3)
    plans = [_plan(rng, f"q{number}") for number in range(1, count + 1)]
    plans.append(Plan("admin", quota=rng.choice((UNLIMITED, UNLIMITED, 2))))
    scripts = ["sender", "receiver"]
    scripts += [name for name in APPLICATIONS if rng.random() < 0.45]
    if any(plan.transactional for plan in plans):
        scripts.append("transactional")
    operations = rng.randint(80, 120)
    limits = Limits(
        quota=rng.choice((UNLIMITED, UNLIMITED, UNLIMITED, 8, 3)),
        block=rng.choice((2, 8, 1 << 16)),
        purge_part=rng.choice((2, 5, 1000)),
        page=rng.choice((2, 10_000)),
    )
    faults, messages = _host(rng, is_alone=True)
    network, readers, bulk_limits = Faults(), None, None
    chance = Random(f"remote readers of {seed}")
    if chance.random() < _WITH_READERS:
        network, readers, scripts, more = _readers(chance)
        operations += more
    chance = Random(f"bulk clients of {seed}")
    if chance.random() < _WITH_BULK_CLIENTS:
        others = "sender", "feeder", "feeder", *chance.choices(APPLICATIONS, k=chance.randint(1, 4))
        clients = [*others, *chance.sample(BULK_CLIENTS, chance.randint(3, 6))]
        scripts = clients if readers is None else [*scripts, *clients]
        operations += chance.randint(80, 160)
        bulk_limits = _bulk_limits(chance)
    return Swarm(
        hosts=(HOST,),
        plans=tuple(plans),
        scripts=tuple((HOST, name) for name in scripts),
        operations=operations,
        faults=faults,
        messages=messages,
        limits=limits,
        network=network,
        readers=readers,
        bulk=bulk_limits,
    )


def _readers(rng: Random) -> tuple[Faults, ReaderRates, list[str], int]:
    """Draw remote readers, the scripts of the applications beside them, and the operations that they add."""
    latency, segment = rng.choice(((0.0005, 1 << 16), (0.0005, 1500), (0.002, 100), (0.02, 1 << 16)))
    scripts = "receiver", *rng.choices(READERS, k=rng.randint(2, 6))
    others = ["sender", "sender", "feeder", "feeder", *rng.choices(APPLICATIONS, k=rng.randint(0, 2))]
    operations = rng.randint(80, 160)
    faults = Faults(
        latency=latency,
        segment=segment,
        buffer=rng.choice((600, 1 << 16)),
        reset=rng.choice((0.0, 0.003, 0.02)),
        silence=rng.choice((0.0, 0.002, 0.01)),
        refuse=rng.choice((0.0, 0.0, 0.2)),
        silent_death=rng.choice((0.0, 0.5, 1.0)),
    )
    readers = ReaderRates(
        scripts=scripts,
        pending_request_s=rng.choice((0.3, 2.0, 300.0)),
        enlistment_s=rng.choice((0.2, 2.0, 300.0)),
        bind_s=rng.choice((0.3, 20.0)),
        call_timeout=rng.choice((None, 0.3, 3.0)),
        keep_alive=rng.choice((0.5, 5.0)),
        max_fragment=rng.choice((1432, 5840)),
        nack=rng.choice((0.0, 0.15, 0.4)),
        neglect=rng.choice((0.0, 0.0, 0.1)),
        death=rng.choice((0.0, 0.03, 0.1)),
    )
    return faults, readers, others, operations


def _bulk_limits(rng: Random) -> BulkLimits:
    return BulkLimits(
        claims=rng.choice((1, 2, 10_000)),
        stages=rng.choice((3, 100_000)),
        batches=rng.choice((1, 3, 128)),
        removed=rng.choice((2, 5000)),
        frame=rng.choice((1, 2, 2000)),
        delivered=rng.choice((1, 2, 2000)),
        some=rng.choice((1, 100)),
        part=rng.choice((2, 128)),
    )


def _plan(rng: Random, key: str) -> Plan:
    return Plan(
        key,
        journaling=rng.random() < 0.3,
        transactional=rng.random() < 0.45,
        quota=rng.choice((UNLIMITED, UNLIMITED, UNLIMITED, 1, 4)),
        journal_quota=rng.choice((UNLIMITED, UNLIMITED, 1)),
    )


# Several hosts.


def draw_several(rng: Random, nodes: int) -> Swarm:
    """Draw hosts that send messages to each other. Strangers are drawn separately: see waypost.sim.net.hostility."""
    hosts = tuple("abcdefghijklmnop"[:nodes])
    scripts = [(host, name) for host in hosts for name in NETWORKED if rng.random() < 0.4]
    scripts += [(rng.choice(hosts), "sender"), (rng.choice(hosts), "committer")]
    scripts += [(host, "receiver") for host in hosts]
    via = rng.choice(("", *hosts))
    plans = tuple(plan for host in hosts for plan in _plans_of(rng, host))
    network = draw_network(rng)
    transfer = TransferSettings(
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
    )
    last_number = rng.choice((LAST_NUMBER, LAST_NUMBER, 100, 30))
    quota = rng.choice((UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED, 6))
    operations = rng.randint(120, 200)
    block, page = rng.choice((2, 8, 1 << 16)), rng.choice((2, 10_000))
    faults, messages = _host(rng, is_alone=False)
    return Swarm(
        hosts=hosts,
        plans=plans,
        scripts=tuple(scripts),
        operations=operations,
        faults=faults,
        messages=messages,
        limits=Limits(quota=quota, block=block, page=page, last_number=last_number),
        network=network,
        sessions=Sessions(via=via, transfer=transfer, eager=rng.choice((0, 0, 0, 20)), turn=rng.choice((1, 4, 64))),
    )


def draw_network(rng: Random) -> Faults:
    # Every piece has its own delay, so small and slow pieces together would make a connection useless.
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


def _plans_of(rng: Random, host: str) -> list[Plan]:
    """Draw the queues of a host: reliable ones, and perhaps an unreliable one."""
    plans = [
        Plan("n", host=host, journaling=rng.random() < 0.2),
        Plan("t", host=host, transactional=True, journaling=rng.random() < 0.2),
    ]
    is_transactional = rng.random() < 0.6
    odd = rng.choice(("", "ghost", "small", "doomed"))
    if odd:
        plans.append(
            Plan(
                odd,
                host=host,
                transactional=is_transactional,
                quota=1 if odd == "small" else UNLIMITED,
                is_made=odd != "ghost",
                is_doomed=odd == "doomed",
            )
        )
    return plans


# Every host.


def _host(rng: Random, *, is_alone: bool) -> tuple[HostFaults, Messages]:
    """Draw the faults of a host. A single host has the shorter times, as no other waits for it."""

    def rate(alone: tuple[float, ...], together: tuple[float, ...]) -> float:
        return rng.choice(alone if is_alone else together)

    faults = HostFaults(
        crash=rate((0.0, 0.01, 0.025), (0.0, 0.01, 0.03)),
        crash_after_answer=rate((0.0, 0.0, 0.012), (0.0, 0.0, 0.01)),
        crash_unreported=rate((0.0, 0.0, 0.04), (0.0, 0.02, 0.05)),
        stop=rng.choice((0.0, 0.008)),
        full=rng.choice((0.0, 0.0, 0.02)),
        jump=rate((0.0, 0.0, 0.04), (0.0, 0.0, 0.02)),
        disk_delay=rng.choice((0.001, 0.01, 0.1)),
        report_late=rng.choice((0.0, 0.3)),
        group_commit=rng.random() < 0.6,
        batching=rate((0.0, 0.5, 0.9), (0.0, 0.5)),
        think=(think := rate((0.005, 0.02), (0.005, 0.05, 0.3))),
        gather=think if is_alone else think / 10,
        outages=((0.01, 0.5),) if is_alone else ((0.0, 0.01), (0.0, 0.5), (0.0, 3.0)),
        wall_jump=15.0 if is_alone else 5.0,
        monotonic_jump=0.3 if is_alone else 0.0,
        wall_jump_down=0.3 if is_alone else 0.0,
    )
    messages = Messages(
        express=rng.choice((0.0, 0.3, 0.7)),
        expiring=rate((0.0, 0.1, 0.4), (0.0, 0.0, 0.2)),
        asking=rate((0.0, 0.1, 0.4), (0.0, 0.2, 0.6)),
        odd=0.0 if is_alone else rng.choice((0.0, 0.05, 0.2)),
    )
    return faults, messages
