"""Scripts of simulated applications. A script sends requests, gets answers, and leaves what it opened to the next."""

from collections.abc import Callable, Generator
from dataclasses import replace
from math import inf
from random import Random
from typing import Any, Final, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace as changed

from waypost.api.local import CancelReads
from waypost.api.message_attributes import acknowledge_text
from waypost.api.operations import (
    CloseCursor,
    CloseQueue,
    CursorNext,
    CursorPeek,
    CursorReceive,
    DeleteQueue,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Peek,
    PurgeQueue,
    Receive,
    Seek,
    SetQueue,
)
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.sim.client import Ask, Client, Pause, Result, Script
from waypost.sim.local.arguments import SYSTEM, Draft, name_of, new_properties, send_of
from waypost.sim.local.host import LocalHost
from waypost.sim.operations import CancelRead, Coordinate, Phase
from waypost.sim.plans import begin, end_of, kilobytes

_SEEK: Final[tuple[Seek, ...]] = ("first", "previous", "current", "next", "last")
_ENDS: Final[tuple[Literal["first", "last"], ...]] = ("first", "last")
# Seconds.
_TIMEOUTS: Final = (0, 0, 0, 0.005, 0.05, 0.4)
# The queue does not exist, or another client has it open exclusively.
_AWAY: Final = (HResult.MQ_ERROR_QUEUE_NOT_FOUND, HResult.MQ_ERROR_SHARING_VIOLATION)


def setup(client: Client[LocalHost]) -> Script:
    """Create the queues, in every life: some may have been deleted."""
    for plan in client.host.swarm.plans:
        if plan.key not in client.host.model.state.queues:
            yield Ask(plan.creation)
    while True:
        yield Pause(60.0)


def sender(client: Client[LocalHost]) -> Script:
    rng = _rng(client)
    key = rng.choice([plan.key for plan in client.host.swarm.plans if not plan.transactional or rng.random() < 0.05])
    for _ in range(rng.randint(5, 40)):
        sent = yield _send(client, key, None)
        if sent.status is HResult.MQ_ERROR_QUEUE_NOT_FOUND:
            yield Pause(0.1)
            return
    yield _close(key)


def receiver(client: Client[LocalHost]) -> Script:
    rng = _rng(client)
    key = any_key(client)
    name, handle = name_of(key), (yield from _take_alone(key)) if rng.random() < 0.05 else UNSET
    for _ in range(rng.randint(4, 24)):
        if rng.random() < 0.8:
            count = 1 if rng.random() < 0.75 else rng.randint(1, 5)
            received = yield Ask(Receive(name=name, handle=handle, count=count, timeout_s=rng.choice(_TIMEOUTS)))
            if received.status in _AWAY:
                yield Pause(0.1)
                break
        else:
            waiting = Receive(name=name, handle=handle, timeout_s=rng.choice((0.3, inf)))
            started = yield Ask(waiting, waits=False)
            if started.is_ok and rng.random() < 0.5:
                yield Pause(0.02)
                yield Ask(CancelRead(started.request, waiting), waits=False)
    yield Ask(CloseQueue(identifier=handle)) if isinstance(handle, str) else _close(key)


def transactional(client: Client[LocalHost]) -> Script:
    """Use transactions over several queues. Some are never ended."""
    rng = _rng(client)
    sends, receives = _choose_both(client)
    for _ in range(rng.randint(2, 6)):
        identifier = rng.randbytes(16)
        yield Ask(begin(identifier))
        for _ in range(rng.randint(1, 6)):
            yield from _work(client, identifier, sends, receives)
        outcome = rng.random()
        if outcome < 0.9:
            yield Ask(end_of(identifier, commits=outcome < 0.6))
    for key in (*sends, *receives):
        yield _close(key)


def feeder(client: Client[LocalHost]) -> Script:
    """Send several messages at a time in transactions, so that others have something to receive."""
    rng = _rng(client)
    keys = [plan.key for plan in client.host.swarm.plans if plan.transactional]
    if not keys:
        yield Pause(60.0)
        return
    key = rng.choice(keys)
    for _ in range(rng.randint(2, 6)):
        identifier = rng.randbytes(16)
        begins = rng.random() < 0.3
        if not begins:
            yield Ask(begin(identifier))
        for _ in range(rng.randint(1, 4)):
            yield _send(client, key, identifier, begin_s=0.0 if begins else UNSET)
        yield Ask(end_of(identifier, commits=True))
    yield _close(key)


def browser(client: Client[LocalHost]) -> Script:
    """Read with a cursor."""
    rng = _rng(client)
    key = any_key(client)
    opened = (yield Ask(OpenCursor(queue=name_of(key)))) if rng.random() < 0.7 else Result(0, HResult.MQ_ERROR)
    if opened.is_ok:
        cursor = opened.identifier
        for _ in range(rng.randint(4, 20)):
            read = rng.choice((CursorPeek, CursorNext, CursorNext, CursorReceive))
            yield Ask(read(identifier=cursor, timeout_s=rng.choice((0, 0, 0.02, 0.2))))
        if rng.random() < 0.3:
            yield Ask(CursorPeek(identifier=cursor, timeout_s=inf), waits=False)
        yield Ask(CloseCursor(identifier=cursor))
    yield Ask(Peek(name=name_of(key), timeout_s=rng.choice(_TIMEOUTS)))
    yield _close(key)


def seeker(client: Client[LocalHost]) -> Script:
    """Read by LookupIdentifier."""
    rng = _rng(client)
    key = any_key(client)
    seen = [0]
    for _ in range(rng.randint(4, 20)):
        read = Peek if rng.random() < 0.75 else Receive
        result = yield Ask(read(name=name_of(key), lookup_id=str(rng.choice(seen)), seek=rng.choice(_SEEK)))
        seen += [message.lookup_identifier for message in result.messages]
    yield _close(key)


def mover(client: Client[LocalHost]) -> Script:
    """Move between a queue and its subqueue, and now and then to an unrelated queue, which is refused."""
    rng = _rng(client)
    plans = client.host.swarm.plans
    plan, other = rng.choice([each for each in plans if each.transactional] or plans), rng.choice(plans).key
    if rng.random() < 0.4:
        plan = rng.choice(plans)
    key, late = plan.key, f"{plan.key};late"
    here, there = rng.choice(((key, late), (key, late), (late, key), (late, key), (key, other)))
    for _ in range(rng.randint(1, 6)):
        shown = yield Ask(Peek(name=here, seek=rng.choice(_ENDS)))
        if not shown.messages:
            break
        move = MoveMessage(name=here, lookup_id=str(shown.messages[0].lookup_identifier), to=there)
        if rng.random() < (0.3 if plan.transactional else 0.9):
            yield Ask(move)
            continue
        identifier = rng.randbytes(16)
        yield Ask(begin(identifier))
        yield Ask(changed(move, transaction=guid_text(identifier)))
        if there == late and rng.random() < 0.2:
            yield Ask(DeleteQueue(name=late))
        yield Ask(end_of(identifier, commits=rng.random() < 0.67))
    yield _close(here)


def purger(client: Client[LocalHost]) -> Script:
    rng = _rng(client)
    key = any_key(client)
    yield Ask(PurgeQueue(name=name_of(key)), waits=rng.random() < 0.5)
    yield _close(key)
    yield Pause(rng.uniform(0.1, 1.0))


def administrator(client: Client[LocalHost]) -> Script:
    rng = _rng(client)
    plan = rng.choice(client.host.swarm.plans)
    quota = rng.choice((kilobytes(plan.journal_quota), 1))
    yield Ask(SetQueue(name=plan.key, journal=rng.random() < 0.5, journal_quota_kb=quota))
    yield Pause(rng.uniform(0.05, 0.5))
    if rng.random() < 0.4:
        yield Ask(DeleteQueue(name=plan.key))
        yield Pause(rng.uniform(0.0, 0.1))
        yield Ask(plan.creation)


def _tell_commit(decided: dict[bytes, bool], identifier: bytes) -> Script:
    """End the transaction, unless another coordinator has by now. After a crash the host asks at its next start."""
    if not decided[identifier]:
        decided[identifier] = True
        yield Ask(Coordinate(Phase.COMMIT, identifier))


def end_doubt(identifier: bytes, *, commits: bool) -> Ask:
    """Request that ends a transaction in doubt, without an answer."""
    return Ask(Coordinate(Phase.COMMIT_IN_DOUBT if commits else Phase.ABORT_IN_DOUBT, identifier), waits=False)


def coordinator(client: Client[LocalHost]) -> Script:
    """Coordinate external transactions. Decisions are remembered over the lives of the host."""
    rng, host = _rng(client), client.host
    decided = host.simulation.decided
    for identifier in list(host.reenlisted):
        yield end_doubt(identifier, commits=identifier in decided)
    for identifier in [each for each, is_done in decided.items() if not is_done]:
        yield from _tell_commit(decided, identifier)
    sends, receives = _choose_both(client)
    identifier = rng.randbytes(16)
    enlisted = yield Ask(Coordinate(Phase.ENLIST, identifier))
    if enlisted.is_ok:
        for _ in range(rng.randint(1, 5)):
            yield from _work(client, identifier, sends, receives)
        if rng.random() < 0.9:
            yield Ask(Coordinate(Phase.PREPARE, identifier))
            if receives and rng.random() < 0.5:
                yield Ask(PurgeQueue(name=name_of(rng.choice(receives))))
            yield Pause(rng.choice((0.0, 0.1, 0.5)))
            if rng.random() < 0.7:
                decided[identifier] = False
                # The decision may be on its way for a long time.
                yield Pause(rng.choice((0.0, 0.1, 0.5)))
                yield from _tell_commit(decided, identifier)
            else:
                yield Ask(Coordinate(Phase.ABORT, identifier))
        else:
            yield Ask(Coordinate(Phase.ABORT, identifier))
    for key in (*sends, *receives):
        yield _close(key)


SCRIPTS: Final[dict[str, Callable[[Client[LocalHost]], Script]]] = {
    script.__name__: script
    for script in (sender, receiver, transactional, feeder, browser, seeker, mover, purger, administrator, coordinator)
}


def _choose_both(client: Client[LocalHost]) -> tuple[list[str], list[str]]:
    """Transactional queues to send to, and queues to receive from."""
    rng = _rng(client)
    keys = [plan.key for plan in client.host.swarm.plans if plan.transactional]
    return rng.sample(keys, min(len(keys), 2)), [any_key(client) for _ in range(rng.randint(1, 2))]


def _work(
    client: Client[LocalHost], identifier: bytes, sends: list[str], receives: list[str]
) -> Generator[Ask | Pause, Result]:
    """One operation in a transaction."""
    rng = _rng(client)
    if sends and (not receives or rng.random() < 0.55):
        yield _send(client, rng.choice(sends), identifier)
    elif receives:
        waits = rng.random() < 0.9
        yield Ask(
            Receive(
                name=name_of(rng.choice(receives)),
                count=rng.randint(1, 4) if waits and rng.random() < 0.2 else 1,
                timeout_s=rng.choice((0, 0, 0, 0.03)) if waits else 0.2,
                transaction=guid_text(identifier),
            ),
            waits=waits,
        )


def _take_alone(key: str) -> Generator[Ask | Pause, Result, str | UnsetType]:
    """The handle of an exclusive open, if no other client has the queue open."""
    opened = yield Ask(OpenQueue(queue=name_of(key)))
    return opened.identifier if opened.is_ok else UNSET


def _close(key: str) -> Ask:
    """Operation that closes the shared handles of the queue."""
    return Ask(CancelReads(name=name_of(key)))


def any_key(client: Client[LocalHost]) -> str:
    """Mostly a queue of applications, sometimes its journal or subqueue, or a queue of the system."""
    rng = _rng(client)
    key = rng.choice(client.host.swarm.plans).key
    kind = rng.random()
    if kind < 0.8:
        return key
    return rng.choice((f"{key};journal", f"{key};late", *SYSTEM))


def _send(
    client: Client[LocalHost], key: str, transaction: bytes | None, begin_s: float | UnsetType = UNSET
) -> Ask:  # fmt: skip
    draft = new_draft(client)
    rng = _rng(client)
    others = 0 if rng.random() < 0.9 else rng.randint(1, 4)
    drafts = [draft, *(replace(draft, uid=client.host.simulation.new_uid()) for _ in range(others))]
    return Ask(changed(send_of(key, tuple(drafts), transaction), begin_s=begin_s))


def new_draft(client: Client[LocalHost]) -> Draft:
    rng, shares = _rng(client), client.host.swarm.messages
    given: dict[str, Any] = {"recoverable": rng.random() >= shares.express, "priority": rng.choice((3, 3, 0, 7))}
    if rng.random() < shares.expiring:
        given["time_to_be_received"] = rng.choice((0, 1, 2, 5))
    if rng.random() < shares.expiring:
        given["time_to_reach_queue"] = rng.choice((0, 1))
    if rng.random() < shares.asking:
        acknowledgements = rng.choice((0, 0x0F, 0x0E, 0x05))
        if acknowledgements:
            given |= {"acknowledge": acknowledge_text(acknowledgements), "admin_queue": "admin"}
        given["journal"] = rng.random() < 0.3
        given["dead_letter"] = rng.choice((True, True, "admin")) if rng.random() < 0.6 else False
    properties = new_properties(allow_peek_when_locked=rng.random() < 0.1, **given)
    return Draft(client.host.simulation.new_uid(), properties, rng.choice((0, 10, 200)))


def _rng(client: Client[LocalHost]) -> Random:
    return client.host.rng
