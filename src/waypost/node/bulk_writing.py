"""The operations on claims and stages.

An answer waits until all earlier work is durable, because it may show the work of another request.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import UNSET

from waypost.api.bulk import (
    Batches,
    BatchOfQuery,
    Claim,
    Claims,
    CommitStages,
    DropStages,
    ListBatches,
    ListClaims,
    ReadClaim,
    ReturnClaim,
    Returned,
    Stage,
    StagedMessages,
)
from waypost.api.excerpt import excerpt
from waypost.api.message_attributes import message_like
from waypost.api.names import check_can_be_sent_to, format_name
from waypost.api.new_bodies import body_of, encode_bodies, encode_body
from waypost.api.properties import MessageProperties, NewMessage
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import AccessType, Queue, ShareMode
from waypost.errors import DecodeError, InvalidParameter, TransactionSequence
from waypost.guid import NULL_GUID, parse_guid
from waypost.node.bulk import find_target, rows_of
from waypost.node.committed_batches import BY_COLUMN
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.stages import Batch, Group

_LOST_CLAIM: Final = "begin another claim, which starts with the messages now in the queue"
_LOST_STAGE: Final = "GET /api/bulk/commits lists the committed batches; stage the others again"


class BulkWriting:
    """Claims and stages on one node."""

    __slots__ = ("_computer", "_node")

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._computer: Final = node.manager.identity.computer_name

    # --- Claims

    def claim(self, call: Call, operation: Claim) -> None:
        node = self._node
        node.kernel.check_store()
        with _hint(_LOST_CLAIM), node.kernel.operation(call.now):
            claimed = node.claims.claim(self._opened(operation, call.now), operation, call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, claimed)

    def read_claim(self, call: Call, operation: ReadClaim) -> None:
        """Read messages of a part, named by a claim and a number, by their places in the order of arrival."""
        node, start = self._node, operation.start
        with _hint(_LOST_CLAIM), node.kernel.operation(call.now):
            queue = find_target(node, operation.name, operation.epoch)
            part = node.claims.part(queue, operation.claim, operation.number, call.now)
            wanted = part.some(range(start, operation.stop))
            found = rows_of(node, queue, wanted, operation.max_bytes)
            seen = len(wanted) if found.are_all else wanted.index(found.lookup_ids[-1]) + 1
            node.kernel.await_everything()
            node.kernel.reply(call.request, found.frame(queue, start + seen, is_last=found.are_all))

    def return_claim(self, call: Call, operation: ReturnClaim) -> None:
        node = self._node
        node.kernel.check_store()
        with node.kernel.operation(call.now):
            count = node.claims.give_back(find_target(node, operation.name), operation.claim, call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, Returned(count))

    def list_claims(self, call: Call, operation: ListClaims) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            held = node.claims.held(find_target(node, operation.name), call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, Claims(held))

    # --- Stages

    def stage(self, call: Call, operation: Stage) -> None:
        groups = [self._group(each) for each in operation.groups]
        self.stage_groups(call, self._batch(operation), groups, operation.lease_s)

    def stage_groups(self, call: Call, batch: Batch, groups: Sequence[Group], lease_s: float) -> None:
        """Stage messages of the core."""
        node = self._node
        node.kernel.check_room()
        with node.kernel.operation(call.now):
            staged = node.stages.stage(batch, groups, lease_s, call.now)
            if staged.is_committed:
                node.kernel.await_everything()
            node.kernel.reply(call.request, staged)

    def drop(self, call: Call, operation: DropStages) -> None:
        node = self._node
        identifiers = _identifiers(operation.stages)
        batch = None if operation.batch is UNSET else self._batch(operation.batch)
        node.kernel.check_store()
        with node.kernel.operation(call.now):
            node.stages.drop(identifiers)
            if batch is not None:
                node.stages.drop_batch(batch)
            node.kernel.await_everything()
            node.kernel.reply(call.request)

    def commit(self, call: Call, operation: CommitStages) -> None:
        """Make the staged messages visible and the batch committed, in one step."""
        node = self._node
        batch, identifiers = self._batch(operation), _identifiers(operation.stages)
        node.kernel.check_store()
        with _hint(_LOST_STAGE), node.kernel.operation(call.now):
            committed = node.stages.commit(batch, identifiers, call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, committed)

    def list_batches(self, call: Call, operation: ListBatches) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            found = node.stages.batches(operation.query)
            node.kernel.await_everything()
            node.kernel.reply(call.request, Batches(found))

    def _opened(self, operation: Claim, now: Now) -> Queue:
        """A queue of this computer. As when it is opened, a missing subqueue is created."""
        manager = self._node.manager
        name = format_name(operation.name, self._computer)
        descriptor = manager.open_queue(name, AccessType.PEEK, ShareMode.DENY_NONE, now)
        if descriptor.queue is not None and descriptor.queue.is_provisional:
            manager.collection.changed(descriptor.queue)
        manager.close_queue(descriptor)
        return find_target(self._node, operation.name, operation.epoch)

    def _batch(self, given: BatchOfQuery) -> Batch:
        to = given.destination
        destination = None if to is UNSET else format_name(to, self._computer) if to else BY_COLUMN
        try:
            run = parse_guid(given.run) if given.run else NULL_GUID
        except DecodeError as error:
            raise InvalidParameter(f"run must be a GUID, or empty if unknown: {excerpt(error)}") from None
        return Batch(given.query, given.batch, destination, run)

    def _group(self, given: StagedMessages) -> Group:
        name = format_name(given.queue, self._computer)
        check_can_be_sent_to(name)
        if bool(given.bodies) != (given.like is not UNSET):
            raise InvalidParameter("`like` has what all `bodies` share: give both, or only `messages`")
        messages = [self._message(each) for each in given.messages]
        if given.like is UNSET:
            return Group(name, messages=messages)
        like = self._without_body(given.like)
        bodies, like.body_type = encode_bodies(given.bodies, given.like.body_type)
        return Group(name, like, bodies, messages)

    def _message(self, given: NewMessage) -> Message:
        message = self._without_body(given)
        message.body, message.body_type = encode_body(body_of(given), given.body_type)
        return message

    def _without_body(self, properties: MessageProperties) -> Message:
        return message_like(properties, computer=self._computer)


def _identifiers(texts: Sequence[str]) -> list[bytes]:
    try:
        return [parse_guid(text) for text in texts]
    except DecodeError as error:
        raise InvalidParameter(f"a stage must be the GUID that staging returned: {excerpt(error)}") from None


@contextmanager
def _hint(hint: str) -> Iterator[None]:
    """Add this hint to an error about a claim or stage that has ended."""
    try:
        yield
    except TransactionSequence as error:
        error.add_note(hint)
        raise
