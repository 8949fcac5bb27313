"""The second phase: nothing fails any more, so everything must come to its end and every queue be emptied."""

from waypost.core.queues import AccessType, ShareMode
from waypost.node.application import ReadOptions
from waypost.sim.bulk.scripts import end_bulk
from waypost.sim.client import Ask, Client, Pause, Result, Script
from waypost.sim.local_host import LocalHost
from waypost.sim.model.letters import Box
from waypost.sim.words import Name


def healer(client: Client[LocalHost]) -> Script:
    host = client.host
    oracle, rng = host.oracle, host.simulation.rng
    yield Pause(2.0)
    for identifier in list(oracle.works.in_doubt):
        committed = identifier in host.simulation.decided
        yield Ask("commit_in_doubt" if committed else "abort_in_doubt", (identifier,), waits=False)
    for identifier, work in list(oracle.works.works.items()):
        outcome = rng.choice(("commit", "abort"))
        if work.is_external:
            yield Ask(f"{outcome}_prepared" if work.is_prepared else "abort_prepared", (identifier,))
        else:
            yield Ask(outcome, (identifier,))
    for number in list(oracle.readers.handles):
        yield Ask("close_queue", (number,))
    yield from end_bulk(client)
    # What is received leads to copies and acknowledgments in the queues that come last.
    for box in sorted(oracle.books.boxes.values(), key=_turn):
        if not box.key.endswith("$"):
            opened: Result = yield Ask("open_queue", (Name(box.key), AccessType.RECEIVE, ShareMode.DENY_NONE))
            while (yield Ask("receive", (opened.number, ReadOptions()))).is_ok:
                pass
            yield Ask("close_queue", (opened.number,))


def _turn(box: Box) -> int:
    return 2 if box.is_system or box.is_journal else 1 if box.key == "admin" else 0
