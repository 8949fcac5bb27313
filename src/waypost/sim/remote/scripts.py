"""Scripts of remote readers. A script ends when its connection does, and starts over in the next life of its reader."""

from collections.abc import Callable, Generator
from typing import Any, Final

from waypost.core.queues import AccessType, ShareMode
from waypost.remote.client.conversations import Ask as RemoteAsk
from waypost.remote.client.conversations import Conversation
from waypost.remote.client.qm2qm import Qm2QmQueue
from waypost.remote.client.reads import Opening, ReadRequest, Received, RemoteQueue, Transaction
from waypost.remote.client.remote_read import RemoteReadQueue
from waypost.remote.interfaces import qm2qm, remote_read
from waypost.remote.interfaces.qm2qm import QM2QM
from waypost.remote.interfaces.remote_read import REMOTE_READ, ReceiveAction
from waypost.remote.remote_read.coordinator import local_token
from waypost.sim.client import Ask, Pause, Result
from waypost.sim.local.arguments import SYSTEM, format_name
from waypost.sim.model.remote_read import LAST
from waypost.sim.operations import Coordinate, Phase
from waypost.sim.plans import begin, end_of
from waypost.sim.remote.reader import Reader
from waypost.sim.remote.tasks import Await, Begin, Die, Do, Ending, GiveUp, Local, Script, Step, Task
from waypost.wire.codec import INFINITE

_PEEK: Final = ReceiveAction.MQ_ACTION_PEEK_CURRENT
_PEEK_NEXT: Final = ReceiveAction.MQ_ACTION_PEEK_NEXT
_LOOKUPS: Final = tuple(action for action in ReceiveAction if action.is_lookup)
_TIMEOUTS: Final = (0, 0, 5, 50, 400)

Opened = Generator[Step, Any, RemoteQueue | None]


def receiver(reader: Reader) -> Script:
    rng, key = reader.rng, _any_key(reader)
    queue = yield from _open(reader, key)
    if queue is None:
        return
    for _ in range(rng.randint(3, 15)):
        task = yield Do(_read(queue, key, ReadRequest(timeout_ms=rng.choice(_TIMEOUTS))))
        if task.is_cut_off:
            return
    yield Do(Task(queue.close()))


def owner(reader: Reader) -> Script:
    """Read a queue that is open exclusively."""
    rng, key = reader.rng, _any_key(reader)
    queue = yield from _open(reader, key, share=ShareMode.DENY_RECEIVE)
    if queue is None:
        return
    for _ in range(rng.randint(1, 6)):
        task = yield Do(_read(queue, key, ReadRequest(timeout_ms=rng.choice((0, 100)))))
        if task.is_cut_off:
            return
    if rng.random() < 0.5:
        yield Do(Task(queue.close()))


def waiter(reader: Reader) -> Script:
    """Make several reads at a time, some without a timeout; cancel them, give them up, or leave them with the queue."""
    rng, key = reader.rng, _any_key(reader)
    queue = yield from _open(reader, key)
    if queue is None:
        return
    for _ in range(rng.randint(2, 6)):
        tasks = yield from _begin_some(reader, queue, key)
        for task, request in tasks:
            if task.is_over or not request.request_id:
                continue
            way = rng.random()
            if way < 0.4:
                cancelled = yield Do(Task(queue.cancel(request.request_id), lane=rng.choice((0, 1, 1))))
                if cancelled.is_cut_off:
                    return
            elif way < 0.6:
                yield GiveUp(task)
            elif way < 0.65:
                yield Die()
        for task, _ in tasks:
            if rng.random() < 0.5:
                yield Await(task)
                if task.is_cut_off:
                    return
    yield Do(Task(queue.close(), lane=rng.choice((0, 1))))


def rude(reader: Reader) -> Script:
    """Keep the received messages, and leave without cancelling the reads that wait."""
    rng, key = reader.rng, _any_key(reader)
    queue = yield from _open(reader, key)
    if queue is None:
        return
    transaction = _transaction(reader) if isinstance(queue, RemoteReadQueue) and rng.random() < 0.4 else None
    tasks = yield from _begin_some(reader, queue, key, Ending.NEGLECT, transaction)
    yield Await(tasks[0][0])
    yield Do(Task(_close_rudely(queue)))
    if transaction is not None:
        yield Local(Ask(Coordinate(Phase.ABORT, transaction.identifier)))
    for task, _ in tasks:
        yield Await(task)


def _begin_some(
    reader: Reader,
    queue: RemoteQueue,
    key: str,
    ending: Ending | None = None,
    transaction: Transaction | None = None,
) -> Generator[Step, Any, list[tuple[Task, ReadRequest]]]:
    rng = reader.rng
    tasks: list[tuple[Task, ReadRequest]] = []
    for _ in range(rng.randint(2, 4)):
        request = ReadRequest(timeout_ms=rng.choice((200, 1000, INFINITE)), transaction=transaction)
        if transaction is None and rng.random() < 0.3:
            request.action = _PEEK
        task = _read(queue, key, request, lane=rng.choice((0, 0, 1)))
        task.ending = ending
        yield Begin(task)
        tasks.append((task, request))
    yield Pause(rng.choice((0.0, 0.05, 0.5)))
    return tasks


def _close_rudely(queue: RemoteQueue) -> Conversation[None]:
    """Leave without cancelling the reads that wait."""
    if isinstance(queue, RemoteReadQueue):
        yield RemoteAsk(REMOTE_READ, 3, remote_read.CloseQueueRequest(queue.context), queue.port)
    else:
        assert isinstance(queue, Qm2QmQueue)
        yield RemoteAsk(QM2QM, 3, qm2qm.CloseQueueRequest(queue.entry.rr_session_handle), queue.entry.port)


def browser(reader: Reader) -> Script:
    """Read with a cursor."""
    rng, key = reader.rng, _any_key(reader)
    queue = yield from _open(reader, key, rng.choice((AccessType.PEEK, AccessType.RECEIVE, AccessType.RECEIVE)))
    if queue is None:
        return
    opened = yield Do(Task(queue.create_cursor()))
    if opened.is_ok:
        for _ in range(rng.randint(3, 10)):
            action = rng.choice((_PEEK, _PEEK_NEXT, _PEEK_NEXT, ReceiveAction.MQ_ACTION_RECEIVE))
            request = ReadRequest(action, rng.choice((0, 0, 20, 200)), opened.value)
            task = yield Do(_read(queue, key, request))
            if task.is_cut_off:
                return
        if rng.random() < 0.3:
            yield Begin(_read(queue, key, ReadRequest(_PEEK, INFINITE, opened.value)))
        yield Do(Task(queue.close_cursor(opened.value)))
    yield Do(_read(queue, key, ReadRequest(_PEEK, rng.choice(_TIMEOUTS))))
    yield Do(Task(queue.close()))


def seeker(reader: Reader) -> Script:
    """Read by LookupIdentifier."""
    rng, key = reader.rng, _any_key(reader)
    queue = yield from _open(reader, key)
    if queue is None:
        return
    seen = [LAST, LAST if isinstance(queue, RemoteReadQueue) else 0]
    for _ in range(rng.randint(3, 12)):
        request = ReadRequest(rng.choice(_LOOKUPS), lookup_id=rng.choice(seen))
        task = yield Do(_read(queue, key, request))
        if task.is_cut_off:
            return
        if isinstance(task.value, Received):
            seen.append(task.value.lookup_id)
    yield Do(Task(queue.close()))


def purger(reader: Reader) -> Script:
    rng, key = reader.rng, _any_key(reader)
    queue = yield from _open(reader, key)
    if queue is None:
        return
    yield Do(_read(queue, key, ReadRequest()))
    reader.remote.host.history.clears(key)
    yield Do(Task(queue.purge()))
    yield Do(Task(queue.close()))
    yield Pause(rng.uniform(0.1, 1.0))


def mover(reader: Reader) -> Script:
    """Move between a queue and its subqueue."""
    rng = reader.rng
    key = rng.choice(reader.remote.host.swarm.plans).key
    here, there = rng.choice(((key, f"{key};late"), (f"{key};late", key)))
    opened = yield Do(Task(reader.rr.open(Opening(format_name(here)))))
    target = yield Do(Task(reader.rr.open_for_move(format_name(there))))
    if not opened.is_ok or not target.is_ok:
        return
    queue = opened.value
    for _ in range(rng.randint(1, 5)):
        shown = yield Do(_read(queue, here, ReadRequest(_PEEK)))
        if not isinstance(shown.value, Received):
            break
        lookup_id = shown.value.lookup_id
        reader.remote.host.history.moves(here, there)
        if rng.random() < 0.5:
            moved = yield Do(Task(queue.move(lookup_id, target.value)))
            if moved.is_cut_off:
                return
            continue
        transaction = _transaction(reader)
        reader.remote.host.history.enlists(transaction.identifier)
        moved = yield Do(Task(queue.move(lookup_id, target.value, transaction)))
        yield from _conclude(reader, transaction, is_good=moved.is_ok)
        if moved.is_cut_off:
            return
    yield Do(Task(target.value.queue.close()))
    yield Do(Task(queue.close()))


def transactional(reader: Reader) -> Script:
    """Read in transactions of local applications, of a coordinator, and for one message alone."""
    rng = reader.rng
    keys = [plan.key for plan in reader.remote.host.swarm.plans if plan.transactional or rng.random() < 0.02]
    if not keys:
        yield Pause(10.0)
        return
    key = rng.choice(keys)
    opened = yield Do(Task(reader.rr.open(Opening(format_name(key)))))
    if not opened.is_ok:
        yield Pause(0.1)
        return
    queue = opened.value
    for _ in range(rng.randint(1, 5)):
        kind = rng.random()
        if kind < 0.15:
            request = ReadRequest(timeout_ms=rng.choice(_TIMEOUTS), transaction=reader.rr.internal_transaction())
            task = yield Do(_read(queue, key, request))
            if task.is_cut_off:
                return
            continue
        transaction = _transaction(reader)
        if kind < 0.5:
            yield Local(Ask(begin(transaction.identifier)))
        else:
            reader.remote.host.history.enlists(transaction.identifier)
        is_good = yield from _receive_in(reader, queue, key, transaction)
        if kind < 0.5:
            yield Local(Ask(end_of(transaction.identifier, commits=is_good and rng.random() < 0.8)))
        else:
            yield from _conclude(reader, transaction, is_good=is_good)
        reader.rr.transaction_ended(transaction)
    yield Do(Task(queue.close()))


def _receive_in(
    reader: Reader, queue: RemoteReadQueue, key: str, transaction: Transaction
) -> Generator[Step, Any, bool]:
    """Receive some messages in a transaction. Returns whether all messages in it are known."""
    rng = reader.rng
    for _ in range(rng.randint(1, 3)):
        request = ReadRequest(timeout_ms=rng.choice((0, 100, 400)), transaction=transaction)
        task = yield Do(_read(queue, key, request))
        if not task.is_ok:
            return not task.is_cut_off and task.uid is None
        if rng.random() < 0.4:
            rejected = yield Do(Task(queue.reject(task.value)))
            if not rejected.is_ok:
                return False
        if rng.random() < 0.2:
            yield Pause(rng.choice((0.1, 0.5)))
    return True


def _conclude(reader: Reader, transaction: Transaction, *, is_good: bool) -> Generator[Step, Any]:
    """Coordinate transactions. Decisions are remembered, as those of other coordinators are."""
    rng, identifier, decided = reader.rng, transaction.identifier, reader.simulation.decided
    if rng.random() < 0.1:
        return
    if not is_good or rng.random() < 0.2:
        yield Local(Ask(Coordinate(Phase.ABORT, identifier)))
        return
    prepared: Result = yield Local(Ask(Coordinate(Phase.PREPARE, identifier)))
    if prepared.value != "PrepareRequestDone":
        return
    yield Pause(rng.choice((0.0, 0.1)))
    if rng.random() < 0.8:
        decided[identifier] = True
        yield Local(Ask(Coordinate(Phase.COMMIT, identifier)))
    else:
        yield Local(Ask(Coordinate(Phase.ABORT, identifier)))


SCRIPTS: Final[dict[str, Callable[[Reader], Script]]] = {
    script.__name__: script for script in (receiver, waiter, rude, browser, seeker, mover, purger, transactional, owner)
}


def _open(
    reader: Reader, key: str, access: AccessType = AccessType.RECEIVE, share: ShareMode = ShareMode.DENY_NONE
) -> Opened:
    task = yield Do(Task(reader.open(key, access, share)))
    if not task.is_ok:
        yield Pause(0.2)
        return None
    queue: RemoteQueue = task.value
    return queue


def _read(queue: RemoteQueue, key: str, request: ReadRequest, lane: int = 0) -> Task:
    """Task that reads. Its transaction excludes internal ones: their message is gone when it is ended."""
    transaction = request.transaction
    if transaction is not None and transaction.propagation_token is None:
        transaction = None
    return Task(queue.read(request), lane, key, transaction)


def _transaction(reader: Reader) -> Transaction:
    identifier = reader.rng.randbytes(16)
    return Transaction(identifier, local_token(identifier))


def _any_key(reader: Reader) -> str:
    """Mostly a queue of applications, sometimes its journal or subqueue, or a queue of the system."""
    rng = reader.rng
    key = rng.choice(reader.remote.host.swarm.plans).key
    kind = rng.random()
    if kind < 0.85:
        return key
    return f"{key};late" if kind < 0.95 else rng.choice((f"{key};journal", *SYSTEM))
