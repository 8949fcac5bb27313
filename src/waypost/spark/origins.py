"""Origins of messages: the interface of a daemon and of any MSMQ host for Spark, and the daemon as one.

An origin is made from options in every process that needs one (the driver plans, executors read), and closed there.
waypost.api.bulk defines the terms. The origin takes the treatment of locked messages and the lease of a claim from the
options. `purge` removes messages from a queue after they were read and are safe elsewhere.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from importlib import import_module
from typing import Final, Protocol

from msgspec import UNSET
from msgspec.structs import replace

from waypost.api.bulk import Batches, BulkQueue, ListBatches, PlannedRange, PlanRanges, ReadRange, Removed, RemoveRange
from waypost.api.claims import Claim, Claimed, KeepClaim, ReadClaim, TakeClaim, Taken
from waypost.arrow.packets import Packets
from waypost.client.bulk.client import BulkClient
from waypost.errors import InvalidParameter
from waypost.spark.options import Endpoint, read_options


class Origin(Protocol):
    """A source of messages. Every method raises WaypostError if it fails. Queues are format names."""

    def queues(self, pattern: str) -> Sequence[BulkQueue]: ...

    def queue(self, name: str) -> BulkQueue: ...

    def plan(self, wanted: PlanRanges) -> list[PlannedRange]: ...

    def seq_at(self, name: str, time: datetime) -> int: ...

    def read(self, wanted: ReadRange) -> Iterator[Packets]:
        """All messages of the range, page by page."""

    def remove(self, wanted: RemoveRange) -> Removed:
        """Remove all messages of the range from the queue, in several steps if it is long."""

    def claim(self, wish: Claim) -> Claimed: ...

    def take_claim(self, wish: TakeClaim) -> Taken: ...

    def keep_claim(self, wish: KeepClaim) -> None: ...

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]: ...

    def batches(self, query: str) -> Batches:
        """The last batches of a query that were committed here."""

    def close(self) -> None: ...


class DaemonOrigin:
    """The Origin of a daemon."""

    def __init__(self, client: BulkClient, endpoint: Endpoint) -> None:
        self._client: Final = client
        self._endpoint: Final = endpoint

    def queues(self, pattern: str) -> Sequence[BulkQueue]:
        return self._client.queues(pattern, "all")

    def queue(self, name: str) -> BulkQueue:
        return self._client.queue(name)

    def plan(self, wanted: PlanRanges) -> list[PlannedRange]:
        locked = "skip" if wanted.locked == "skip" else self._endpoint.locked
        return self._client.plan_all(replace(wanted, locked=locked))

    def seq_at(self, name: str, time: datetime) -> int:
        return self._client.seq_at(name, time)

    def read(self, wanted: ReadRange) -> Iterator[Packets]:
        for frame in self._client.read_all(replace(wanted, locked=self._endpoint.locked)):
            yield Packets.of_frame(frame, wanted.name)

    def remove(self, wanted: RemoveRange) -> Removed:
        count = first_moved = 0
        while True:
            removed = self._client.remove(wanted)
            count += removed.count
            first_moved = first_moved or removed.first_moved
            # The messages that are left then are locked by another reader, or were moved there after the plan.
            is_over = not removed.count if wanted.as_of is UNSET else removed.end >= wanted.up_to
            if is_over or not removed.left:
                return Removed(count, removed.left, first_moved, wanted.up_to)
            if wanted.as_of is not UNSET:
                wanted = replace(wanted, after=removed.end)

    def claim(self, wish: Claim) -> Claimed:
        return self._client.claim(replace(wish, lease_s=self._endpoint.lease_s, max_aborts=self._endpoint.max_aborts))

    def take_claim(self, wish: TakeClaim) -> Taken:
        return self._client.take_claim(wish)

    def keep_claim(self, wish: KeepClaim) -> None:
        self._client.keep_claim(wish)

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]:
        for frame in self._client.read_claim_all(wanted):
            yield Packets.of_frame(frame, wanted.name)

    def batches(self, query: str) -> Batches:
        return self._client.call(ListBatches(query=query))

    def close(self) -> None:
        self._client.close()


def open_origin(endpoint: Endpoint) -> Origin:
    """Open the origin at an endpoint; the caller closes it. Raises WaypostError if nothing answers there."""
    if endpoint.kind == "daemon":
        return DaemonOrigin(BulkClient(endpoint.address, endpoint.secret, endpoint.timeout_s), endpoint)
    # Loaded on first use: most processes need no protocols of other hosts.
    host = import_module("waypost.client.host").msmq(
        endpoint.address, timeout=endpoint.timeout_s, user=endpoint.user, password=endpoint.secret
    )
    opened: Origin = import_module("waypost.spark.host_origin").HostOrigin(host)
    return opened


def purge(queue: str, upto: int, *, epoch: str = "", **options: str) -> int:
    """Remove the messages of `queue` up to the arrival number `upto`. Returns the number of removed messages.

        messages = spark.read.format("msmq").option("queue", "orders;journal").load()
        messages.write.parquet("archive")
        waypost.spark.purge("orders;journal", messages.agg({"seq": "max"}).first()[0])

    A repeated call changes nothing. Locked messages stay in the queue. `options` are the options of the format that
    locate the queue, such as server and tokenFile. If you pass the `epoch` from an offset, and the queue has been
    deleted and created again since then, the call removes nothing from the new queue.
    """
    if not isinstance(upto, int) or upto < 0:
        raise InvalidParameter(f"`upto` must be the arrival number (seq) of the last message to remove, not {upto!r}")
    with closing(open_origin(read_options({"queue": queue, **options}).endpoint)) as origin:
        return origin.remove(RemoveRange(name=queue, up_to=upto, epoch=epoch)).count
