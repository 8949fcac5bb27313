"""The second phase: nothing fails any more, so everything must finish and every queue must become empty."""

from waypost.api.local import CancelReads
from waypost.api.operations import CloseQueue, Receive
from waypost.sim.bulk.scripts import end_bulk
from waypost.sim.client import Ask, Client, Pause, Script
from waypost.sim.local.arguments import name_of
from waypost.sim.local.host import LocalHost
from waypost.sim.local.workloads import end_doubt
from waypost.sim.model.model import Model
from waypost.sim.model.records import ModelQueue
from waypost.sim.operations import Coordinate, Phase
from waypost.sim.plans import end_of


def healer(client: Client[LocalHost]) -> Script:
    host = client.host
    model, rng = host.model, host.simulation.rng
    yield Pause(2.0)
    for identifier in list(model.transactions.in_doubt):
        yield end_doubt(identifier, commits=identifier in host.simulation.decided)
    for identifier, transaction in list(model.transactions.transactions.items()):
        commits = rng.random() < 0.5
        if transaction.is_external:
            phase = Phase.COMMIT if commits and transaction.is_prepared else Phase.ABORT
            yield Ask(Coordinate(phase, identifier))
        else:
            yield Ask(end_of(identifier, commits=commits))
    for handle in list(model.opened.exclusive):
        yield Ask(CloseQueue(identifier=handle))
    for key in list(model.opened.shared):
        yield Ask(CancelReads(name=name_of(key)))
    yield from end_bulk(client)
    is_delivered = False
    while not is_delivered:
        # Messages of a commit follow part by part (ADR 37): a queue that is empty now may get more.
        is_delivered = not model.bulk.stages.commits
        yield from _empty(model)


def _empty(model: Model) -> Script:
    """Receive from every queue until it is empty."""
    # A received message leads to copies and acknowledgments in the queues that come last.
    for queue in sorted(model.state.queues.values(), key=_turn):
        if not queue.key.endswith("$"):
            name = name_of(queue.key)
            while (yield Ask(Receive(name=name))).is_ok:
                pass
            yield Ask(CancelReads(name=name))


def _turn(queue: ModelQueue) -> int:
    return 2 if queue.is_system or queue.is_journal else 1 if queue.key == "admin" else 0
