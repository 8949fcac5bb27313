"""The operations on claims and stages. They are asked for like those of waypost.node.application.

An answer waits until everything is durable that was done before, because it may tell of what another request has done.
"""

from collections.abc import Sequence
from typing import Final

from waypost.clock import Now
from waypost.core.queues import AccessType, Queue, ShareMode
from waypost.node.application import Call
from waypost.node.bulk import Target, epoch_of, find_target, rows_of
from waypost.node.claims import NewClaim
from waypost.node.node import Node
from waypost.node.stages import Batch, Group


class BulkWriting:
    """The operations on one node."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node: Final = node

    def claim(self, call: Call, target: Target, wish: NewClaim) -> None:
        """The answer is the epoch of the queue and what is Claimed."""
        node = self._node
        node.check_store()
        with node.operation(call.now):
            queue = self._opened(target, call.now)
            claimed = node.claims.claim(queue, wish, call.now)
            node.await_everything()
            node.reply(call.request, (epoch_of(queue), claimed))

    def read_claim(self, call: Call, target: Target, part: tuple[str, int], places: range, max_bytes: int) -> None:
        """Messages of a part, which is the name of a claim and a number, by their places in the order of arrival.

        The answer is Rows.
        """
        node = self._node
        with node.operation(call.now):
            queue = find_target(node, target)
            wanted = node.claims.part(queue, *part, call.now).some(places)
            found = rows_of(node, queue, wanted, max_bytes)
            seen = len(wanted) if found.are_all else wanted.index(found.lookup_ids[-1]) + 1
            node.await_everything()
            node.reply(call.request, found.rows(queue, places.start + seen, is_last=found.are_all))

    def return_claim(self, call: Call, target: Target, claim: str) -> None:
        """The answer is how many messages are for others again."""
        node = self._node
        node.check_store()
        with node.operation(call.now):
            count = node.claims.give_back(find_target(node, target), claim, call.now)
            node.await_everything()
            node.reply(call.request, count)

    def claims(self, call: Call, target: Target) -> None:
        """The answer is a list of the parts of the queue that are Held."""
        node = self._node
        with node.operation(call.now):
            held = node.claims.held(find_target(node, target), call.now)
            node.await_everything()
            node.reply(call.request, held)

    def stage(self, call: Call, batch: Batch, groups: Sequence[Group], lease_s: float) -> None:
        """Stage messages for a batch. The answer is what is Staged."""
        node = self._node
        node.check_room()
        with node.operation(call.now):
            staged = node.stages.stage(batch, groups, lease_s, call.now)
            if not staged.stage:
                node.await_everything()
            node.reply(call.request, staged)

    def drop(self, call: Call, stages: Sequence[bytes], batch: Batch | None = None) -> None:
        """Let nothing be left of stages, whether they are there or not, and of what a run has staged for a batch."""
        node = self._node
        node.check_store()
        with node.operation(call.now):
            node.stages.drop(stages)
            if batch is not None:
                node.stages.drop_batch(batch)
            node.await_everything()
            node.reply(call.request)

    def commit(self, call: Call, batch: Batch, stages: Sequence[bytes]) -> None:
        """Make what is staged seen, and the batch done, in one moment. The answer is what is Committed."""
        node = self._node
        node.check_store()
        with node.operation(call.now):
            committed = node.stages.commit(batch, stages, call.now)
            node.await_everything()
            node.reply(call.request, committed)

    def batches(self, call: Call, query: str) -> None:
        """The answer is the last batches of the query that were committed, ascending."""
        node = self._node
        with node.operation(call.now):
            found = node.stages.batches(query)
            node.await_everything()
            node.reply(call.request, found)

    def _opened(self, target: Target, now: Now) -> Queue:
        """A queue of this computer, as for who opens it: a subqueue is there when it is wanted."""
        manager = self._node.manager
        descriptor = manager.open_queue(target.name, AccessType.PEEK, ShareMode.DENY_NONE, now)
        if descriptor.queue is not None and descriptor.queue.is_provisional:
            manager.collection.changed(descriptor.queue)
        manager.close_queue(descriptor)
        return find_target(self._node, target)
