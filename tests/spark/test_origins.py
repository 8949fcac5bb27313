"""An MSMQ host and the folder of a store as origins, each beside the daemon that has the same messages."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import waypost
from tests.crash.daemons import Daemon, loopback
from tests.crash.remote_reader import QM2QM_PORT, RPC_PORT
from waypost.api.bulk import Batches, PlanRanges, RangeOfQueue, ReadRange, RemoveRange
from waypost.api.claims import Claim, KeepClaim, ReadClaim, TakeClaim
from waypost.arrow.decoder import decode
from waypost.arrow.packets import OnMalformed
from waypost.client.bulk.client import BulkClient
from waypost.errors import InvalidParameter
from waypost.spark.host_origin import HostOrigin
from waypost.spark.options import Endpoint
from waypost.spark.origins import DaemonOrigin, Origin

COLUMNS = ("seq", "label", "priority", "body", "arrived_time")
MESSAGES = [(0, b"one"), (7, b"two"), (3, b"three"), (3, b"four"), (7, b"five")]
PART = ReadClaim(name="orders", claim="claim", number=1, start=0, stop=1)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    place = tmp_path_factory.mktemp("origins")
    with Daemon(place, "alpha", loopback(81)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            queue = manager.create_queue("orders")
            for priority, body in MESSAGES:
                queue.send(body, label=body.decode(), priority=priority)
        yield daemon


@pytest.fixture
def host(daemon: Daemon) -> Iterator[HostOrigin]:
    with waypost.msmq(daemon.address, rpc_port=RPC_PORT, qm2qm_port=QM2QM_PORT, epm_port=None) as host:
        yield HostOrigin(host)


def rows(origin: Origin, name: str, after: int, up_to: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for packets in origin.read(ReadRange(name=name, after=after, up_to=up_to)):
        batch = decode(packets, COLUMNS, on_malformed=OnMalformed.FAIL)
        found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return found


def test_a_host_reads_what_the_daemon_reads(daemon: Daemon, host: HostOrigin) -> None:
    origin, name = host, daemon.direct("orders")
    with BulkClient(daemon.url) as client:
        through = DaemonOrigin(client, Endpoint("daemon", daemon.url))
        expected = rows(through, "orders", 0, client.queue("orders").stable)
    assert [row[3] for row in expected] == [body for _, body in MESSAGES]
    queue = origin.queue(name)
    assert sorted(rows(origin, name, 0, queue.last)) == expected
    assert (queue.first, queue.last) == (expected[0][0], expected[-1][0])
    middle = expected[2][0]
    assert sorted(rows(origin, name, middle, queue.last)) == expected[3:]
    assert queue.count == len(MESSAGES)
    (plan,) = origin.plan(PlanRanges(ranges=[RangeOfQueue(name=name)], max_messages=3, parts=2))
    assert (plan.bounds, plan.counts) == ([0, expected[0][0], middle], [1, 2])
    (rest,) = origin.plan(PlanRanges(ranges=[RangeOfQueue(name=name, after=queue.last)]))
    assert rest.counts == []
    assert origin.seq_at(name, datetime.now(UTC) + timedelta(hours=1)) == queue.last
    assert origin.seq_at(name, datetime.now(UTC) - timedelta(hours=1)) == 0


def test_a_host_gives_up_what_is_drained(daemon: Daemon, host: HostOrigin) -> None:
    with daemon.connect() as manager:
        queue = manager.create_queue("drained")
        for priority in (3, 7, 0):
            queue.send(b"x", priority=priority)
        queue.send(b"last")
        name = daemon.direct("drained")
        (plan,) = host.plan(PlanRanges(ranges=[RangeOfQueue(name=name)], max_messages=3))
        end = plan.bounds[-1]
        assert host.remove(RemoveRange(name=name, up_to=end)).count == 3
        assert host.remove(RemoveRange(name=name, up_to=end)).count == 0
        assert [message.body for message in queue.browse()] == [b"last"]


def test_what_a_host_cannot_do_is_said_in_a_sentence(host: HostOrigin) -> None:
    with pytest.raises(InvalidParameter, match="does not list its queues"):
        host.queues("*")
    with pytest.raises(InvalidParameter, match="peek"):
        host.claim(Claim(name="orders", claim="claim"))
    with pytest.raises(InvalidParameter, match="peek"):
        host.take_claim(TakeClaim(name="orders", claim="claim", driver="d", started=0.0, asked=1.0))
    with pytest.raises(InvalidParameter, match="peek"):
        host.keep_claim(KeepClaim(name="orders", claim="claim"))
    assert host.batches("query") == Batches([])
    with pytest.raises(InvalidParameter, match="peek"):
        host.read_claim(PART)


def test_places_of_a_host_fit_into_columns(daemon: Daemon, host: HostOrigin) -> None:
    name = daemon.direct("orders")
    (packets,) = host.read(ReadRange(name=name, up_to=host.queue(name).last))
    assert packets.lookup_ids is not None
    assert packets.lookup_ids.dtype == np.uint64
    assert packets.queue == name
