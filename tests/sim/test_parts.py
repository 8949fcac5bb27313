"""The parts that a simulation is made of."""

from random import Random
from typing import Any

import pytest

from waypost.node.effects import Resolve
from waypost.sim.bulk.scripts import BULK_SCRIPTS
from waypost.sim.clock import Clock
from waypost.sim.local.simulation import LocalSimulation
from waypost.sim.local.workloads import SCRIPTS
from waypost.sim.marks import Marks
from waypost.sim.model.disk import ModelDisk, SavedQueue
from waypost.sim.net.workloads import SCRIPTS as NETWORKED_SCRIPTS
from waypost.sim.plans import Plan
from waypost.sim.remote.scripts import SCRIPTS as REMOTE_SCRIPTS
from waypost.sim.swarm import Swarm, draw, draw_several
from waypost.sim.trace import Trace
from waypost.sim.violation import Violation

QUEUE = SavedQueue("q1", Plan("q1"), 0)


def drawn(seed: int) -> Swarm:
    return draw(seed, Random(seed))


def test_clocks_run_apart() -> None:
    clock = Clock(100.0, 1000.0, 1.5)
    assert (clock.now(10.0).monotonic, clock.now(10.0).wall) == (110.0, 1015.0)
    assert clock.time_of(110.0) == 10.0


def test_only_known_marks_can_be_reached() -> None:
    marks = Marks()
    first, *others = marks.missing
    marks.sometimes(first)
    assert marks.missing == others
    with pytest.raises(KeyError):
        marks.sometimes("something that nobody expects")


def test_the_digest_sees_time_order_and_numbers() -> None:
    digests = set()
    for events in ([(0.0, 1), (1.0, 2)], [(1.0, 2), (0.0, 1)], [(0.0, 1), (1.0, 3)], [(0.0, 1)]):
        trace = Trace()
        for time, number in events:
            trace.note(time, number, "something")
        digests.add(trace.digest)
    assert len(digests) == 4


def test_a_trace_is_written_when_it_is_read() -> None:
    trace = Trace()
    trace.note(1.5, 0, "client", 7, Plan("q1"))
    assert trace.lines() == ["    1.500 client 7 q1"]


def test_what_was_not_durable_is_gone_in_a_crash() -> None:
    disk = ModelDisk()
    disk.write(1, QUEUE)
    disk.seal()
    disk.write(2, QUEUE)
    disk.seal()
    disk.complete(1)
    disk.crash()
    assert list(disk.queues) == [1]
    assert (disk.token, disk.durable, disk.highest_queue) == (1, 0, 1)


def test_without_remote_readers_there_is_no_network() -> None:
    simulation = LocalSimulation(next(seed for seed in range(100) if drawn(seed).readers is None), Marks())
    simulation.run()
    with pytest.raises(Violation, match="but the simulation has no network"):
        simulation.hosts[0]._carry(Resolve(1, "elsewhere"))


def test_every_script_and_every_limit_is_drawn_by_some_seed() -> None:
    swarms = [drawn(seed) for seed in range(200)]
    readers = [each.readers for each in swarms if each.readers is not None]
    bulk = [each.bulk for each in swarms if each.bulk is not None]
    assert {name for each in swarms for _, name in each.scripts} == {*SCRIPTS, *BULK_SCRIPTS}
    assert {name for each in readers for name in each.scripts} == set(REMOTE_SCRIPTS)
    groups: list[tuple[list[Any], tuple[str, ...]]] = [
        ([each.limits for each in swarms], ("quota", "block", "purge_part", "expiry_part", "page")),
        ([each.faults for each in swarms], ("crash", "full", "jump")),
        ([each.messages for each in swarms], ("express", "expiring", "asking")),
        (bulk, ("claims", "stages", "batches", "removed", "some", "part")),
    ]
    for group, names in groups:
        for name in names:
            assert len({getattr(each, name) for each in group}) > 1, name


def test_every_script_of_several_hosts_is_drawn_by_some_seed() -> None:
    swarms = [draw_several(Random(seed), 3) for seed in range(50)]
    assert {name for each in swarms for _, name in each.scripts} == set(NETWORKED_SCRIPTS)
