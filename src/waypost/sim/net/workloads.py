"""Scripts of the applications of several hosts, and of their healing."""

from collections.abc import Callable, Generator
from typing import Final

from waypost.api.operations import AdmitAddress, DeleteQueue, PauseQueue, ResumeQueue
from waypost.core.queues import AccessType, OutgoingQueueState, ShareMode
from waypost.guid import guid_text
from waypost.node.application import ReadOptions
from waypost.sim.client import Ask, Client, Pause, Result, Script, do
from waypost.sim.net.arguments import ADMIN, Kind, Name, QueuePlan, SentMessage
from waypost.sim.net.host import NetworkHost

Opened = Generator[Ask | Pause, Result, int | None]

_SHARE: Final = ShareMode.DENY_NONE
_ACKS: Final = (0x0F, 0x0E, 0x05, 0x02)


def setup(client: Client[NetworkHost]) -> Script:
    """Make the queues, in every life: some may have been deleted."""
    host = client.host
    for plan in host.simulation.plans_of(host.name):
        if plan.is_made and plan.path not in host.node.manager.queues:
            yield Ask("create_queue", (plan,))
    while True:
        yield Pause(60.0)


def sender(client: Client[NetworkHost]) -> Script:
    host, rng = client.host, client.host.rng
    plan = _target(client, is_transactional=rng.random() < host.swarm.odd)
    name = host.simulation.any_name(host.name, plan)
    handle = yield from _open(name, AccessType.SEND)
    if handle is not None:
        for _ in range(rng.randint(2, 20)):
            kind = Kind.EXPRESS if rng.random() < host.swarm.express else Kind.RECOVERABLE
            yield Ask("send", (handle, _message(client, plan, name, kind), None))
        yield Ask("close_queue", (handle,))


def committer(client: Client[NetworkHost]) -> Script:
    """Sends in transactions, sometimes to several queues in one."""
    host, rng = client.host, client.host.rng
    targets = []
    for _ in range(rng.choice((1, 1, 2))):
        plan = _target(client, is_transactional=rng.random() >= host.swarm.odd)
        name = host.simulation.fixed_name(host.name, plan)
        handle = yield from _open(name, AccessType.SEND)
        if handle is not None:
            targets.append((handle, plan, name))
    if not targets:
        return
    for _ in range(rng.randint(1, 6)):
        identifier = rng.randbytes(16)
        yield Ask("begin_transaction", (identifier,))
        for _ in range(rng.randint(1, 4)):
            handle, plan, name = rng.choice(targets)
            yield Ask("send", (handle, _message(client, plan, name, Kind.TRANSACTIONAL), identifier))
        yield Ask("commit" if rng.random() < 0.8 else "abort", (identifier,))
    for handle, _, _ in targets:
        yield Ask("close_queue", (handle,))


def forwarder(client: Client[NetworkHost]) -> Script:
    """Takes messages from one queue and sends others for them, in one transaction."""
    host, rng = client.host, client.host.rng
    plan = _target(client, is_transactional=True)
    name = host.simulation.fixed_name(host.name, plan)
    own = rng.choice([each for each in host.simulation.plans_of(host.name) if each.is_made])
    source = yield from _open(host.simulation.own_name(own), AccessType.RECEIVE)
    target = yield from _open(name, AccessType.SEND)
    if source is None or target is None:
        return
    for _ in range(rng.randint(1, 5)):
        identifier = rng.randbytes(16)
        yield Ask("begin_transaction", (identifier,))
        yield Ask("receive", (source, ReadOptions(rng.choice((0, 100)), None, identifier)))
        yield Ask("send", (target, _message(client, plan, name, Kind.TRANSACTIONAL), identifier))
        yield Ask("commit" if rng.random() < 0.7 else "abort", (identifier,))
    yield Ask("close_queue", (source,))
    yield Ask("close_queue", (target,))


def receiver(client: Client[NetworkHost]) -> Script:
    host, rng = client.host, client.host.rng
    plan = rng.choice([each for each in host.simulation.plans_of(host.name) if each.is_made])
    handle = yield from _open(host.simulation.own_name(plan), AccessType.RECEIVE)
    if handle is None:
        return
    for _ in range(rng.randint(2, 10)):
        options = ReadOptions(rng.choice((0, 50, 500, 3000)))
        if rng.random() < 0.2:
            yield Ask("peek", (handle, options))
        elif rng.random() < 0.3:
            yield Ask("receive_many", (handle, rng.randint(1, 5), options))
        else:
            yield Ask("receive", (handle, options))
    yield Ask("close_queue", (handle,))


def pauser(client: Client[NetworkHost]) -> Script:
    host, rng = client.host, client.host.rng
    names = [str(name) for name in host.node.manager.collection.outgoing]
    if names:
        name = rng.choice(names)
        paused = yield do(PauseQueue(name=name))
        if paused.is_ok:
            host.simulation.marks.sometimes("a queue that was paused")
        yield Pause(rng.uniform(0.01, 2.0))
        yield do(ResumeQueue(name=name))
    yield Pause(rng.uniform(0.5, 5.0))


def purger(client: Client[NetworkHost]) -> Script:
    """Clears queues that are doomed, and deletes them and makes them again."""
    host, rng = client.host, client.host.rng
    for plan in host.simulation.plans_of(host.name):
        if plan.is_doomed and rng.random() < 0.5:
            handle = yield from _open(host.simulation.own_name(plan), AccessType.RECEIVE)
            if handle is not None:
                yield Ask("purge", (handle,))
                yield Ask("close_queue", (handle,))
        elif plan.is_doomed:
            yield do(DeleteQueue(name=host.simulation.own_name(plan)))
            yield Pause(rng.uniform(0.0, 1.0))
            yield Ask("create_queue", (plan,))
    yield Pause(rng.uniform(0.5, 5.0))


def healer(client: Client[NetworkHost]) -> Script:
    """Nothing fails any more: take everything that comes, for as long as something comes."""
    host = client.host
    yield Ask("abort_all")
    for name, queue in list(host.node.manager.collection.outgoing.items()):
        if queue.state is OutgoingQueueState.ON_HOLD:
            yield do(ResumeQueue(name=str(name)))
    for other in host.simulation.hosts:
        if other is not host and host.simulation.changes.has_moves:
            # The addresses that it had, too: what is owed to it there goes where it is now.
            for address in (*other.former, other.address):
                yield do(AdmitAddress(guid=guid_text(other.guid), address=address))
    plans = [plan for plan in host.simulation.plans_of(host.name) if plan.is_made]
    for plan in plans:
        if plan.path not in host.node.manager.queues:
            yield Ask("create_queue", (plan,))
    handles = []
    for plan in plans:
        opened: Result = yield Ask("open_queue", (Name(host.simulation.own_name(plan)), AccessType.RECEIVE, _SHARE))
        handles.append((opened.number, plan.path))
    while True:
        for handle, path in handles:
            while len(host.node.manager.queues[path].positions):
                received = yield Ask("receive_many", (handle, 20, ReadOptions()))
                if not received.is_ok:
                    break
        yield Ask("clear_copies")
        yield Pause(1.0)


SCRIPTS: Final[dict[str, Callable[[Client[NetworkHost]], Script]]] = {
    "sender": sender,
    "committer": committer,
    "forwarder": forwarder,
    "receiver": receiver,
    "pauser": pauser,
    "purger": purger,
}


def _open(name: str, access: AccessType) -> Opened:
    result = yield Ask("open_queue", (Name(name), access, _SHARE))
    if not result.is_ok:
        yield Pause(0.1)
        return None
    return result.number


def _target(client: Client[NetworkHost], *, is_transactional: bool) -> QueuePlan:
    """Mostly a queue of another host, and mostly one on which one can rely."""
    host, rng = client.host, client.host.rng
    plans = [plan for plan in host.swarm.plans if plan.transactional == is_transactional and plan.key != ADMIN]
    return rng.choice([plan for plan in plans if plan.host != host.name] if rng.random() < 0.9 else plans)


def _message(client: Client[NetworkHost], plan: QueuePlan, name: str, kind: Kind) -> SentMessage:
    host, rng, simulation = client.host, client.host.rng, client.host.simulation
    swarm = host.swarm
    message = SentMessage(
        simulation.new_uid(),
        simulation.path(host.name, plan, name),
        plan,
        name,
        kind,
        tuple(each.life for each in simulation.hosts),
        priority=rng.choice((3, 3, 0, 7)),
        padding=rng.choice((0, 10, 200)),
    )
    if rng.random() < swarm.expiring:
        message.time_to_reach_queue = rng.choice((0, 1, 3))
    if rng.random() < swarm.expiring:
        message.time_to_be_received = rng.choice((0, 2, 5))
    if rng.random() < swarm.asking:
        message.acknowledgements = rng.choice(_ACKS)
        message.administration = simulation.own_name(rng.choice(simulation.admins))
    if rng.random() < swarm.asking:
        message.positive_journaling = rng.random() < 0.6
        message.negative_journaling = rng.random() < 0.6
    return message
