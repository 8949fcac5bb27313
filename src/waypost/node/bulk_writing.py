"""The operations on claims and stages.

An answer waits until all earlier work is durable, because it may show the work of another request.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from waypost.api.bodies import BYTES
from waypost.api.bulk import (
    Batches,
    BatchOfQuery,
    Claim,
    Claims,
    CommitStages,
    Committed,
    DropStages,
    KeepClaim,
    ListAllClaims,
    ListBatches,
    ListClaims,
    ReadClaim,
    RejectedRow,
    ReturnClaim,
    Returned,
    Stage,
    StagedMessages,
    TakeClaim,
)
from waypost.api.excerpt import excerpt
from waypost.api.message_attributes import message_like, varied_attributes
from waypost.api.names import check_can_be_sent_to, format_name
from waypost.api.new_bodies import body_of, encode_bodies, encode_body
from waypost.api.properties import MessageProperties, NewMessage
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import AccessType, Queue, ShareMode
from waypost.errors import DecodeError, InvalidParameter, TransactionSequence, WaypostError
from waypost.guid import NULL_GUID, parse_guid
from waypost.limits import MAX_LABEL_LENGTH
from waypost.node.bulk import find_target, rows_of
from waypost.node.committed_batches import BY_COLUMN
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.removals import Removals
from waypost.node.staged_delivery import Commit
from waypost.node.stages import FIRST_PLACE, Batch, Group, Place
from waypost.wire.message_class import MessageClass

_DEAD_LETTERS: Final = "system$;deadxact"
_LOST_CLAIM: Final = "begin another claim, which starts with the current messages of the queue"
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
            queue = self._opened(operation.name, operation.epoch, call.now)
            claimed = node.claims.claim(queue, operation, call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, claimed)

    def take_claim(self, call: Call, operation: TakeClaim) -> None:
        node = self._node
        node.kernel.check_store()
        with node.kernel.operation(call.now):
            queue = self._opened(operation.name, operation.epoch, call.now)
            taken = node.claims.take(queue, operation, call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, taken)

    def keep_claim(self, call: Call, operation: KeepClaim) -> None:
        node = self._node
        with _hint(_LOST_CLAIM), node.kernel.operation(call.now):
            node.claims.keep(find_target(node, operation.name, operation.epoch), operation, call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request)

    def read_claim(self, call: Call, operation: ReadClaim) -> None:
        """Read messages of a part, named by a claim and a number, by their places in the order of arrival."""
        node, start = self._node, operation.start
        run = _run(operation.run)
        if operation.query:
            node.kernel.check_store()
        with _hint(_LOST_CLAIM), node.kernel.operation(call.now):
            queue = find_target(node, operation.name, operation.epoch)
            part = node.claims.part(queue, operation, run, call.now)
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
            held = node.claims.held(call.now, find_target(node, operation.name))
            node.kernel.await_everything()
            node.kernel.reply(call.request, Claims(held))

    def list_all_claims(self, call: Call, _: ListAllClaims) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            held = node.claims.held(call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, Claims(held))

    # --- Stages

    def stage(self, call: Call, operation: Stage) -> None:
        groups = [self._group(each) for each in operation.groups]
        groups += [self._rejected(each) for each in operation.rejected]
        place = Place(operation.partition, operation.serial)
        self.stage_groups(call, self._batch(operation), groups, operation.lease_s, place)

    def stage_groups(
        self, call: Call, batch: Batch, groups: Sequence[Group], lease_s: float, place: Place = FIRST_PLACE
    ) -> None:
        """Stage messages of the core."""
        node = self._node
        node.kernel.check_room()
        with node.kernel.operation(call.now):
            node.claims.check_writer(batch.query, batch.run)
            staged = node.stages.stage(batch, groups, place, lease_s, call.now)
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
        """Commit the staged messages and remove others, in one step. Wait for the delivery, or as long as asked for."""
        node = self._node
        batch, identifiers = self._batch(operation), _identifiers(operation.stages)
        node.kernel.check_store()
        with _hint(_LOST_STAGE), node.kernel.operation(call.now):
            node.claims.check_writer(batch.query, batch.run)
            taken = Removals(node, operation.removes)
            committed, under_way = node.stages.commit(batch, identifiers, call.now, taken)
            node.claims.committed(batch.query, batch.number, is_whole=operation.is_whole)
            node.kernel.await_everything()
            if under_way is None or not operation.wait_s:
                node.kernel.reply(call.request, committed)
            else:
                self._await_delivery(call, committed, under_way, operation.wait_s)

    def _await_delivery(self, call: Call, committed: Committed, commit: Commit, wait_s: float) -> None:
        kernel, key = self._node.kernel, (BulkWriting, call.request)

        def answer(_now: Now | None = None) -> None:
            kernel.timers.stop(key)
            commit.when_done.pop(key, None)
            kernel.await_everything()
            kernel.reply(call.request, replace(committed, left=commit.left))

        commit.when_done[key] = answer
        kernel.timers.start(key, call.now.monotonic + wait_s, answer)

    def list_batches(self, call: Call, operation: ListBatches) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            found = node.stages.batches(operation.query)
            node.kernel.await_everything()
            node.kernel.reply(call.request, Batches(found))

    def _opened(self, name: str, epoch: str, now: Now) -> Queue:
        """A queue of this computer. As when it is opened, a missing subqueue is created."""
        manager = self._node.manager
        named = format_name(name, self._computer)
        descriptor = manager.open_queue(named, AccessType.PEEK, ShareMode.DENY_NONE, now)
        if descriptor.queue is not None and descriptor.queue.is_provisional:
            manager.collection.changed(descriptor.queue)
        manager.close_queue(descriptor)
        return find_target(self._node, name, epoch)

    def _batch(self, given: BatchOfQuery) -> Batch:
        to = given.destination
        destination = None if to is UNSET else format_name(to, self._computer) if to else BY_COLUMN
        return Batch(
            given.query,
            given.batch,
            destination,
            _run(given.run),
            write=given.write,
            is_version=given.is_version,
            is_anonymous=given.is_anonymous,
        )

    def _group(self, given: StagedMessages) -> Group:
        name = format_name(given.queue, self._computer)
        check_can_be_sent_to(name)
        if bool(given.bodies) != (given.like is not UNSET):
            raise InvalidParameter("`like` and `bodies` must be given together; otherwise give only `messages`")
        messages = [self._message(each) for each in given.messages]
        if given.like is UNSET:
            if given.varied:
                raise InvalidParameter("`varied` requires `like` and `bodies`: give them too")
            return Group(name, messages=messages)
        like = self._without_body(given.like)
        bodies, like.body_type = encode_bodies(given.bodies, given.like.body_type)
        return Group(name, like, bodies, varied_attributes(given.varied, len(bodies)), messages)

    def _rejected(self, given: RejectedRow) -> Group:
        """The dead-letter message of a row. Only the reason has to be whole."""
        try:
            name = format_name(given.queue, self._computer)
        except WaypostError:
            name = format_name(_DEAD_LETTERS, self._computer)
        label = given.label.replace("\0", "").encode("utf-16-le", "replace")[: 2 * (MAX_LABEL_LENGTH - 1)]
        message = Message(
            label=label.decode("utf-16-le", "ignore"),
            body=given.body,
            body_type=BYTES,
            extension=given.reason.encode("utf-8", "replace"),
            message_class=MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED,
        )
        return Group(name, dead_letters=[message])

    def _message(self, given: NewMessage) -> Message:
        message = self._without_body(given)
        message.body, message.body_type = encode_body(body_of(given), given.body_type)
        return message

    def _without_body(self, properties: MessageProperties) -> Message:
        return message_like(properties, computer=self._computer)


def _run(text: str) -> bytes:
    try:
        return parse_guid(text) if text else NULL_GUID
    except DecodeError as error:
        raise InvalidParameter(f"run must be a GUID, or empty if unknown: {excerpt(error)}") from None


def _identifiers(texts: Sequence[str]) -> list[bytes]:
    try:
        return [parse_guid(text) for text in texts]
    except DecodeError as error:
        raise InvalidParameter(
            f"a stage must be the GUID from the answer of the stage request: {excerpt(error)}"
        ) from None


@contextmanager
def _hint(hint: str) -> Iterator[None]:
    """Add this hint to an error about a claim or stage that has ended."""
    try:
        yield
    except TransactionSequence as error:
        error.add_note(hint)
        raise
