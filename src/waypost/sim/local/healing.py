"""The second phase: nothing fails any more, so everything must come to its end and every queue be emptied."""

from waypost.core.queues import AccessType, ShareMode
from waypost.node.application import ReadOptions
from waypost.sim.bulk.scripts import end_bulk
from waypost.sim.client import Ask, Client, Pause, Result, Script
from waypost.sim.local.arguments import Name
from waypost.sim.local.host import LocalHost
from waypost.sim.model.records import ModelQueue


def healer(client: Client[LocalHost]) -> Script:
    host = client.host
    model, rng = host.model, host.simulation.rng
    yield Pause(2.0)
    for identifier in list(model.transactions.in_doubt):
        committed = identifier in host.simulation.decided
        yield Ask("commit_in_doubt" if committed else "abort_in_doubt", (identifier,), waits=False)
    for identifier, transaction in list(model.transactions.transactions.items()):
        outcome = rng.choice(("commit", "abort"))
        if transaction.is_external:
            yield Ask(f"{outcome}_prepared" if transaction.is_prepared else "abort_prepared", (identifier,))
        else:
            yield Ask(outcome, (identifier,))
    for number in list(model.readers.handles):
        yield Ask("close_queue", (number,))
    yield from end_bulk(client)
    # What is received leads to copies and acknowledgments in the queues that come last.
    for queue in sorted(model.state.queues.values(), key=_turn):
        if not queue.key.endswith("$"):
            opened: Result = yield Ask("open_queue", (Name(queue.key), AccessType.RECEIVE, ShareMode.DENY_NONE))
            while (yield Ask("receive", (opened.number, ReadOptions()))).is_ok:
                pass
            yield Ask("close_queue", (opened.number,))


def _turn(queue: ModelQueue) -> int:
    return 2 if queue.is_system or queue.is_journal else 1 if queue.key == "admin" else 0
