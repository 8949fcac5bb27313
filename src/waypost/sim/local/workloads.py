"""Scripts of simulated applications. A script asks, is answered, and leaves what it opened to those after it."""

from collections.abc import Callable, Generator
from dataclasses import replace
from random import Random
from typing import Final

from waypost.api.operations import DeleteQueue
from waypost.core.message import Message
from waypost.core.queues import AccessType, ShareMode
from waypost.core.reading import MessageSeekAction
from waypost.node.application import ReadOptions
from waypost.sim.client import Ask, Client, Pause, Result, Script, do
from waypost.sim.local.arguments import SYSTEM, Draft, Drafts, Existing, Name, Plan
from waypost.sim.local.host import LocalHost
from waypost.wire.codec import INFINITE

_ACTIONS: Final = tuple(MessageSeekAction)
_TIMEOUTS: Final = (0, 0, 0, 5, 50, 400, None)

Asked = Generator[Ask | Pause, Result, Result]
Opened = Generator[Ask | Pause, Result, int | None]


def setup(client: Client[LocalHost]) -> Script:
    """Make the queues, in every life: some may have been deleted."""
    for plan in client.host.swarm.plans:
        if plan.key not in client.host.model.state.queues:
            yield Ask("create_queue", (plan,))
    while True:
        yield Pause(60.0)


def sender(client: Client[LocalHost]) -> Script:
    rng = _rng(client)
    keys = [plan.key for plan in client.host.swarm.plans if not plan.transactional or rng.random() < 0.05]
    handle = yield from _open(rng.choice(keys), AccessType.SEND)
    if handle is not None:
        for _ in range(rng.randint(5, 40)):
            yield _send(client, handle, None)
        yield Ask("close_queue", (handle,))


def receiver(client: Client[LocalHost]) -> Script:
    rng = _rng(client)
    share = ShareMode.DENY_RECEIVE if rng.random() < 0.05 else ShareMode.DENY_NONE
    handle = yield from _open(any_key(client), AccessType.RECEIVE, share)
    if handle is None:
        return
    for _ in range(rng.randint(4, 24)):
        options = ReadOptions(rng.choice(_TIMEOUTS[:-1]))
        if rng.random() < 0.6:
            yield Ask("receive", (handle, options))
        elif rng.random() < 0.5:
            yield Ask("receive_many", (handle, rng.randint(1, 5), options))
        else:
            started = yield Ask("receive", (handle, ReadOptions(rng.choice((300, None)))), waits=False)
            if started.is_ok and rng.random() < 0.5:
                yield Pause(0.02)
                yield Ask("cancel_read", (handle, started.request), waits=False)
    yield Ask("close_queue", (handle,))


def transactional(client: Client[LocalHost]) -> Script:
    """Over several queues. Some transactions are left alone."""
    rng = _rng(client)
    sends, receives = yield from _open_both(client)
    for _ in range(rng.randint(2, 6)):
        identifier = rng.randbytes(16)
        yield Ask("begin_transaction", (identifier,))
        for _ in range(rng.randint(1, 6)):
            yield from _work(client, identifier, sends, receives)
        outcome = rng.random()
        if outcome < 0.9:
            yield Ask("commit" if outcome < 0.6 else "abort", (identifier,))
    for handle in (*sends, *receives):
        yield Ask("close_queue", (handle,))


def feeder(client: Client[LocalHost]) -> Script:
    """It sends in transactions, several messages at a time, so that others have something to receive."""
    rng = _rng(client)
    keys = [plan.key for plan in client.host.swarm.plans if plan.transactional]
    handle = (yield from _open(rng.choice(keys), AccessType.SEND)) if keys else None
    if handle is None:
        yield Pause(60.0)
        return
    for _ in range(rng.randint(2, 6)):
        identifier = rng.randbytes(16)
        yield Ask("begin_transaction", (identifier,))
        for _ in range(rng.randint(1, 4)):
            yield _send(client, handle, identifier)
        yield Ask("commit", (identifier,))
    yield Ask("close_queue", (handle,))


def two_phase(client: Client[LocalHost]) -> Script:
    rng = _rng(client)
    handle = yield from _open(any_key(client), AccessType.RECEIVE)
    if handle is None:
        return
    for _ in range(rng.randint(2, 12)):
        begun = yield Ask("begin_receive", (handle, ReadOptions(rng.choice(_TIMEOUTS[:-1]))))
        if isinstance(begun.value, Message) and rng.random() < 0.85:
            yield Pause(0.01)
            options: dict[str, object] = {"delete_message": rng.random() < 0.6}
            yield Ask("end_receive", (handle, begun.value.lookup_identifier), options)
    yield Ask("close_queue", (handle,))


def browser(client: Client[LocalHost]) -> Script:
    """With a cursor."""
    rng = _rng(client)
    handle = yield from _open(any_key(client), rng.choice((AccessType.PEEK, AccessType.RECEIVE, AccessType.RECEIVE)))
    if handle is None:
        return
    opened = yield Ask("open_cursor", (handle,))
    if opened.is_ok:
        for _ in range(rng.randint(4, 20)):
            name = rng.choice(("peek", "peek_next", "peek_next", "receive"))
            yield Ask(name, (handle, ReadOptions(rng.choice((0, 0, 20, 200)), opened.number)))
        if rng.random() < 0.3:
            yield Ask("peek", (handle, ReadOptions(None, opened.number)), waits=False)
        yield Ask("close_cursor", (handle, opened.number))
    yield Ask("peek", (handle, ReadOptions(rng.choice(_TIMEOUTS[:-1]))))
    yield Ask("close_queue", (handle,))


def seeker(client: Client[LocalHost]) -> Script:
    """By LookupIdentifier."""
    rng = _rng(client)
    handle = yield from _open(any_key(client), AccessType.RECEIVE)
    if handle is None:
        return
    seen = [0]
    for _ in range(rng.randint(4, 20)):
        found = rng.choice(seen), rng.choice(_ACTIONS)
        if rng.random() < 0.75:
            result = yield Ask("peek_by_lookup_id", (handle, found))
        else:
            result = yield Ask("receive_by_lookup_id", (handle, found, ReadOptions()))
        if isinstance(result.value, Message):
            seen.append(result.value.lookup_identifier)
    yield Ask("close_queue", (handle,))


def mover(client: Client[LocalHost]) -> Script:
    """Between a queue and its subqueue, and now and then to a queue that is not related, which is refused."""
    rng = _rng(client)
    plans = client.host.swarm.plans
    plan, other = rng.choice([each for each in plans if each.transactional] or plans), rng.choice(plans).key
    if rng.random() < 0.4:
        plan = rng.choice(plans)
    key, late = plan.key, f"{plan.key};late"
    here, there = rng.choice(((key, late), (key, late), (late, key), (late, key), (key, other)))
    source = yield from _open(here, AccessType.RECEIVE)
    target = yield from _open(there, AccessType.MOVE)
    if source is None or target is None:
        return
    for _ in range(rng.randint(1, 6)):
        shown = yield Ask("peek_by_lookup_id", (source, (0, rng.choice(_ACTIONS[::4]))))
        if not isinstance(shown.value, Message):
            break
        lookup_id = shown.value.lookup_identifier
        if rng.random() < (0.3 if plan.transactional else 0.9):
            yield Ask("move", (source, lookup_id, target))
            continue
        identifier = rng.randbytes(16)
        yield Ask("begin_transaction", (identifier,))
        yield Ask("move", (source, lookup_id, target), {"transaction": identifier})
        if there == late and rng.random() < 0.2:
            yield do(DeleteQueue(name=late))
        yield Ask(rng.choice(("commit", "commit", "abort")), (identifier,))
    yield Ask("close_queue", (source,))
    yield Ask("close_queue", (target,))


def purger(client: Client[LocalHost]) -> Script:
    rng = _rng(client)
    handle = yield from _open(any_key(client), AccessType.RECEIVE)
    if handle is not None:
        yield Ask("purge", (handle,), waits=rng.random() < 0.5)
        yield Ask("close_queue", (handle,))
    yield Pause(rng.uniform(0.1, 1.0))


def administrator(client: Client[LocalHost]) -> Script:
    rng = _rng(client)
    plan = rng.choice(client.host.swarm.plans)
    changed = Plan(
        plan.key,
        journaling=rng.random() < 0.5,
        transactional=plan.transactional,
        quota=plan.quota,
        journal_quota=rng.choice((plan.journal_quota, 1)),
    )
    yield Ask("modify_queue", (Existing(plan.key), changed))
    yield Pause(rng.uniform(0.05, 0.5))
    if rng.random() < 0.4:
        yield do(DeleteQueue(name=plan.key))
        yield Pause(rng.uniform(0.0, 0.1))
        yield Ask("create_queue", (plan,))


def _tell_commit(decided: dict[bytes, bool], identifier: bytes) -> Script:
    """Unless another coordinator has told it by now. If the host ends before it hears, it asks at its next start."""
    if not decided[identifier]:
        decided[identifier] = True
        yield Ask("commit_prepared", (identifier,))


def coordinator(client: Client[LocalHost]) -> Script:
    """Somebody else's transactions. What was decided is remembered over the lives of the host."""
    rng, host = _rng(client), client.host
    decided = host.simulation.decided
    for identifier in list(host.reenlisted):
        yield Ask("commit_in_doubt" if identifier in decided else "abort_in_doubt", (identifier,), waits=False)
    for identifier in [each for each, is_done in decided.items() if not is_done]:
        yield from _tell_commit(decided, identifier)
    sends, receives = yield from _open_both(client)
    identifier = rng.randbytes(16)
    enlisted = yield Ask("enlist", (identifier,))
    if enlisted.is_ok:
        for _ in range(rng.randint(1, 5)):
            yield from _work(client, identifier, sends, receives)
        if rng.random() < 0.9:
            yield Ask("prepare", (identifier,))
            if receives and rng.random() < 0.5:
                yield Ask("purge", (rng.choice(receives),))
            yield Pause(rng.choice((0.0, 0.1, 0.5)))
            if rng.random() < 0.7:
                decided[identifier] = False
                # The word may be long on its way.
                yield Pause(rng.choice((0.0, 0.1, 0.5)))
                yield from _tell_commit(decided, identifier)
            else:
                yield Ask("abort_prepared", (identifier,))
        else:
            yield Ask("abort_prepared", (identifier,))
    for handle in (*sends, *receives):
        yield Ask("close_queue", (handle,))


SCRIPTS: Final[dict[str, Callable[[Client[LocalHost]], Script]]] = {
    "sender": sender,
    "receiver": receiver,
    "transactional": transactional,
    "feeder": feeder,
    "two_phase": two_phase,
    "browser": browser,
    "seeker": seeker,
    "mover": mover,
    "purger": purger,
    "administrator": administrator,
    "coordinator": coordinator,
}


def _open_both(client: Client[LocalHost]) -> Generator[Ask | Pause, Result, tuple[list[int], list[int]]]:
    """Handles to send with to transactional queues, and handles to receive with."""
    rng = _rng(client)
    keys = [plan.key for plan in client.host.swarm.plans if plan.transactional]
    handles: tuple[list[int], list[int]] = [], []
    for key in rng.sample(keys, min(len(keys), 2)):
        handle = yield from _open(key, AccessType.SEND)
        if handle is not None:
            handles[0].append(handle)
    for _ in range(rng.randint(1, 2)):
        handle = yield from _open(any_key(client), AccessType.RECEIVE)
        if handle is not None:
            handles[1].append(handle)
    return handles


def _work(
    client: Client[LocalHost], identifier: bytes, sends: list[int], receives: list[int]
) -> Generator[Ask | Pause, Result]:
    """One operation in a transaction."""
    rng = _rng(client)
    if sends and (not receives or rng.random() < 0.55):
        yield _send(client, rng.choice(sends), identifier)
    elif receives:
        timeout = rng.choice((0, 0, 0, 30))
        waits = rng.random() < 0.9
        options = ReadOptions(timeout if waits else 200, None, identifier)
        if waits and rng.random() < 0.1:
            yield Ask("begin_receive", (rng.choice(receives), options))
        elif waits and rng.random() < 0.2:
            yield Ask("receive_many", (rng.choice(receives), rng.randint(1, 4), options))
        else:
            yield Ask("receive", (rng.choice(receives), options), waits=waits)


def _open(key: str, access: AccessType, share: ShareMode = ShareMode.DENY_NONE) -> Opened:
    result = yield Ask("open_queue", (Name(key), access, share))
    if not result.is_ok:
        yield Pause(0.1)
        return None
    return result.number


def any_key(client: Client[LocalHost]) -> str:
    """Mostly a queue of applications, sometimes its journal or subqueue, or a queue of the system."""
    rng = _rng(client)
    key = rng.choice(client.host.swarm.plans).key
    kind = rng.random()
    if kind < 0.8:
        return key
    return rng.choice((f"{key};journal", f"{key};late", *SYSTEM))


def _send(client: Client[LocalHost], handle: int, transaction: bytes | None) -> Ask:
    draft = new_draft(client)
    rng = _rng(client)
    if rng.random() < 0.9:
        return Ask("send", (handle, draft, transaction))
    others = [replace(draft, uid=client.host.simulation.new_uid()) for _ in range(rng.randint(0, 4))]
    return Ask("send_several", (handle, Drafts((draft, *others)), transaction))


def new_draft(client: Client[LocalHost]) -> Draft:
    rng, swarm = _rng(client), client.host.swarm
    draft = Draft(
        client.host.simulation.new_uid(),
        rng.random() >= swarm.express,
        rng.choice((3, 3, 0, 7)),
        padding=rng.choice((0, 10, 200)),
        allow_peek_when_locked=rng.random() < 0.1,
    )
    draft.time_to_be_received = rng.choice((0, 1, 2, 5)) if rng.random() < swarm.expiring else INFINITE
    if rng.random() < swarm.expiring:
        draft.time_to_reach_queue = rng.choice((0, 1))
    if rng.random() < swarm.asking:
        draft.acknowledgements = rng.choice((0, 0x0F, 0x0E, 0x05))
        draft.administration = "admin" if draft.acknowledgements else ""
        draft.positive_journaling = rng.random() < 0.3
        draft.negative_journaling = rng.random() < 0.6
        draft.dead_letters_to = "admin" if rng.random() < 0.2 else ""
    return draft


def _rng(client: Client[LocalHost]) -> Random:
    return client.host.rng
