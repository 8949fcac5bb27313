"""Scripts of the applications of several hosts, and of their healing."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from waypost.api.local import CancelReads
from waypost.api.message_attributes import acknowledge_text
from waypost.api.operations import (
    AbortTransaction,
    AdmitAddress,
    DeleteQueue,
    PauseQueue,
    Peek,
    PurgeQueue,
    Receive,
    ResumeQueue,
)
from waypost.api.properties import MessageProperties
from waypost.core.queues import OutgoingQueueState
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.sim.client import Ask, Client, Pause, Script
from waypost.sim.net.arguments import ADMIN, Kind, SentMessage
from waypost.sim.net.host import NetworkHost
from waypost.sim.net.secrecy import COPIES, protection
from waypost.sim.plans import Plan, begin, end_of, label_of

_ACKS: Final = (0x0F, 0x0E, 0x05, 0x02)
_ASIDE: Final = (ADMIN, COPIES)
_SYSTEM: Final = ("system$;journal", "system$;deadletter", "system$;deadxact")


def setup(client: Client[NetworkHost]) -> Script:
    """Create the queues, in every life: some may have been deleted."""
    host = client.host
    for plan in host.simulation.plans_of(host.name):
        if plan.is_made and plan.path not in host.node.manager.queues:
            yield Ask(plan.creation)
    while True:
        yield Pause(60.0)


def sender(client: Client[NetworkHost]) -> Script:
    host, rng = client.host, client.host.rng
    plan = _target(client, is_transactional=rng.random() < host.swarm.messages.odd)
    name = host.simulation.any_name(host.name, plan)
    for _ in range(rng.randint(2, 20)):
        kind = Kind.EXPRESS if rng.random() < host.swarm.messages.express else Kind.RECOVERABLE
        message = _message(client, plan, name, kind)
        sent = yield Ask(_copied(client, message).sending())
        if sent.status is HResult.MQ_ERROR_QUEUE_NOT_FOUND:
            yield Pause(0.1)
            return
    yield _close(name)


def committer(client: Client[NetworkHost]) -> Script:
    """Send in transactions, sometimes to several queues in one."""
    host, rng = client.host, client.host.rng
    targets = []
    for _ in range(rng.choice((1, 1, 2))):
        plan = _target(client, is_transactional=rng.random() >= host.swarm.messages.odd)
        targets.append((plan, host.simulation.fixed_name(host.name, plan)))
    for _ in range(rng.randint(1, 6)):
        identifier = rng.randbytes(16)
        yield Ask(begin(identifier))
        for _ in range(rng.randint(1, 4)):
            plan, name = rng.choice(targets)
            yield Ask(_message(client, plan, name, Kind.TRANSACTIONAL).sending(identifier))
        yield Ask(end_of(identifier, commits=rng.random() < 0.8))
    for _, name in targets:
        yield _close(name)


def forwarder(client: Client[NetworkHost]) -> Script:
    """Receive messages from one queue and send others for them, in one transaction."""
    host, rng = client.host, client.host.rng
    plan = _target(client, is_transactional=True)
    name = host.simulation.fixed_name(host.name, plan)
    own = host.simulation.own_name(_own_plan(client))
    for _ in range(rng.randint(1, 5)):
        identifier = rng.randbytes(16)
        yield Ask(begin(identifier))
        yield Ask(Receive(name=own, timeout_s=rng.choice((0, 0.1)), transaction=guid_text(identifier)))
        yield Ask(_message(client, plan, name, Kind.TRANSACTIONAL).sending(identifier))
        yield Ask(end_of(identifier, commits=rng.random() < 0.7))
    yield _close(own)
    yield _close(name)


def receiver(client: Client[NetworkHost]) -> Script:
    host, rng = client.host, client.host.rng
    name = host.simulation.own_name(_own_plan(client))
    for _ in range(rng.randint(2, 10)):
        timeout_s = rng.choice((0, 0.05, 0.5, 3))
        if rng.random() < 0.2:
            read = yield Ask(Peek(name=name, timeout_s=timeout_s))
        else:
            count = rng.randint(1, 5) if rng.random() < 0.3 else 1
            read = yield Ask(Receive(name=name, count=count, timeout_s=timeout_s))
        if read.status is HResult.MQ_ERROR_QUEUE_NOT_FOUND:
            yield Pause(0.1)
            return
    yield _close(name)


def pauser(client: Client[NetworkHost]) -> Script:
    host, rng = client.host, client.host.rng
    names = [str(name) for name in host.node.manager.collection.outgoing]
    if names:
        name = rng.choice(names)
        paused = yield Ask(PauseQueue(name=name))
        if paused.is_ok:
            host.simulation.marks.sometimes("a queue that was paused")
        yield Pause(rng.uniform(0.01, 2.0))
        yield Ask(ResumeQueue(name=name))
    yield Pause(rng.uniform(0.5, 5.0))


def purger(client: Client[NetworkHost]) -> Script:
    """Purge doomed queues, and delete and create them again."""
    host, rng = client.host, client.host.rng
    for plan in host.simulation.plans_of(host.name):
        name = host.simulation.own_name(plan)
        if plan.is_doomed and rng.random() < 0.5:
            yield Ask(PurgeQueue(name=name))
            yield _close(name)
        elif plan.is_doomed:
            yield Ask(DeleteQueue(name=name))
            yield Pause(rng.uniform(0.0, 1.0))
            yield Ask(plan.creation)
    yield Pause(rng.uniform(0.5, 5.0))


def healer(client: Client[NetworkHost]) -> Script:
    """Receive everything that comes, for as long as something comes; nothing fails any more."""
    host = client.host
    for identifier in list(host.node.manager.transactions.collection):
        yield Ask(AbortTransaction(identifier=guid_text(identifier)))
    for name, queue in list(host.node.manager.collection.outgoing.items()):
        if queue.state is OutgoingQueueState.ON_HOLD:
            yield Ask(ResumeQueue(name=str(name)))
    for other in host.simulation.hosts:
        if other is not host and host.simulation.changes.has_moves:
            # Its former addresses too: messages for it there go to its present address.
            for address in (*other.former, other.address):
                yield Ask(AdmitAddress(guid=guid_text(other.guid), address=address))
    plans = [plan for plan in host.simulation.plans_of(host.name) if plan.is_made]
    for plan in plans:
        if plan.path not in host.node.manager.queues:
            yield Ask(plan.creation)
    while True:
        for plan in plans:
            while len(host.node.manager.queues[plan.path].positions):
                received = yield Ask(Receive(name=plan.key, count=20))
                if not received.is_ok:
                    break
        # Make room: no client reads journals and dead-letter messages here.
        for copies in (*_SYSTEM, *(f"{plan.key};journal" for plan in plans)):
            yield Ask(PurgeQueue(name=copies))
        yield Pause(1.0)


SCRIPTS: Final[dict[str, Callable[[Client[NetworkHost]], Script]]] = {
    script.__name__: script for script in (sender, committer, forwarder, receiver, pauser, purger)
}


def _own_plan(client: Client[NetworkHost]) -> Plan:
    host = client.host
    return host.rng.choice([each for each in host.simulation.plans_of(host.name) if each.is_made])


def _close(name: str) -> Ask:
    """Operation that closes the shared handles of the queue."""
    return Ask(CancelReads(name=name))


def _target(client: Client[NetworkHost], *, is_transactional: bool) -> Plan:
    """Mostly a queue of another host, and mostly a reliable one."""
    host, rng = client.host, client.host.rng
    plans = [plan for plan in host.swarm.plans if plan.transactional == is_transactional and plan.key not in _ASIDE]
    return rng.choice([plan for plan in plans if plan.host != host.name] if rng.random() < 0.9 else plans)


def _message(client: Client[NetworkHost], plan: Plan, name: str, kind: Kind) -> SentMessage:
    host, rng, simulation = client.host, client.host.rng, client.host.simulation
    shares = host.swarm.messages
    given: dict[str, Any] = {"recoverable": kind is not Kind.EXPRESS, "priority": rng.choice((3, 3, 0, 7))}
    padding = rng.choice((0, 10, 200))
    if rng.random() < shares.expiring:
        given["time_to_reach_queue"] = rng.choice((0, 1, 3))
    if rng.random() < shares.expiring:
        given["time_to_be_received"] = rng.choice((0, 2, 5))
    if rng.random() < shares.asking:
        given["acknowledge"] = acknowledge_text(rng.choice(_ACKS))
        given["admin_queue"] = simulation.own_name(rng.choice(simulation.admins))
    if rng.random() < shares.asking:
        given["journal"] = rng.random() < 0.6
        given["dead_letter"] = rng.random() < 0.6
    uid = simulation.new_uid()
    if simulation.secrecy.is_on:
        own = [each.digest.hex() for each in host.desk.own]
        given |= protection(simulation.secrecy, simulation.key_chance, plan, own)
        if given.get("encrypt"):
            given["label"] = label_of(uid)
    message = SentMessage(
        uid,
        MessageProperties(**given),
        padding,
        path=simulation.path(host.name, plan, name),
        plan=plan,
        name=name,
        kind=kind,
        lives=tuple(each.life for each in simulation.hosts),
    )
    simulation.ledger.plan(message)
    return message


def _copied(client: Client[NetworkHost], message: SentMessage) -> SentMessage:
    """Perhaps let the message go to several queues, which changes its signature. It asks for no reports then."""
    host, simulation = client.host, client.host.simulation
    if not simulation.secrecy.is_on or simulation.key_chance.random() >= simulation.secrecy.copied:
        return message
    message.copy_host = simulation.key_chance.choice([each for each in host.swarm.hosts if each != message.plan.host])
    copies = simulation.own_name(Plan(COPIES, host=message.copy_host))
    message.name = f"{message.name},{copies}"
    given = message.properties
    message.properties = replace(
        given,
        signature=3 if given.sign else None,
        acknowledge="none",
        admin_queue=None,
        journal=False,
        dead_letter=False,
    )
    return message
