"""The parts that a simulation is made of."""

from random import Random

import pytest

from waypost.sim.bulk import swarm as bulk_swarm
from waypost.sim.bulk.scripts import BULK_SCRIPTS
from waypost.sim.clock import Clock
from waypost.sim.local import swarm
from waypost.sim.local.simulation import LocalSimulation
from waypost.sim.local.workloads import SCRIPTS
from waypost.sim.marks import SOMETIMES, Marks
from waypost.sim.model.disk import ModelDisk, SavedQueue
from waypost.sim.network import NoNetwork
from waypost.sim.plans import Plan
from waypost.sim.remote import swarm as remote_swarm
from waypost.sim.remote.scripts import SCRIPTS as REMOTE_SCRIPTS
from waypost.sim.trace import Trace
from waypost.sim.violation import Violation

QUEUE = SavedQueue("q1", Plan("q1"), 0)


def test_clocks_run_apart() -> None:
    clock = Clock(100.0, 1000.0, 1.5)
    assert (clock.now(10.0).monotonic, clock.now(10.0).wall) == (110.0, 1015.0)
    assert clock.time_of(110.0) == 10.0


def test_only_known_marks_can_be_reached() -> None:
    marks = Marks()
    marks.sometimes(SOMETIMES[0])
    assert marks.missing == list(SOMETIMES[1:])
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
    simulation = LocalSimulation(next(seed for seed in range(100) if remote_swarm.draw(seed) is None), Marks())
    simulation.run()
    with pytest.raises(Violation, match="network that is not there"):
        NoNetwork().carry(simulation.hosts[0], "a datagram")


def test_every_workload_and_every_limit_is_drawn_by_some_seed() -> None:
    drawn = [swarm.draw(Random(seed)) for seed in range(200)]
    readers = [each for each in map(remote_swarm.draw, range(200)) if each is not None]
    bulk = [each for each in map(bulk_swarm.draw, range(200)) if each is not None]
    workloads = [each.workloads for swarms in (drawn, readers, bulk) for each in swarms]
    assert {name for names in workloads for name in names} == {*SCRIPTS, *BULK_SCRIPTS}
    assert {name for each in readers for name in each.readers} == set(REMOTE_SCRIPTS)
    limits = "quota", "block", "purge_part", "expiry_part", "page"
    for name in (*limits, "crash", "full", "jump", "express", "expiring", "asking"):
        assert len({getattr(each, name) for each in drawn}) > 1
    for name in ("claims", "stages", "batches", "removed", "some", "part"):
        assert len({getattr(each.limits, name) for each in bulk}) > 1
