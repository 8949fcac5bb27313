"""The operations on claims and stages.

An answer waits until all earlier work is durable, because it may show the work of another request.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from waypost.api.bodies import BYTES
from waypost.api.bulk import (
    Batches,
    BatchOfQuery,
    BatchRead,
    CommitStages,
    Committed,
    DropStages,
    ListBatches,
    RejectedRow,
    Stage,
    StagedMessages,
)
from waypost.api.claims import (
    Claim,
    ClaimObject,
    Claims,
    KeepClaim,
    ListAllClaims,
    ListClaims,
    ReadClaim,
    ReturnClaim,
    Returned,
    TakeClaim,
)
from waypost.api.excerpt import excerpt
from waypost.api.message_attributes import message_like, varied_attributes
from waypost.api.names import check_can_be_sent_to, format_name
from waypost.api.new_bodies import body_of, encode_bodies, encode_body
from waypost.api.properties import MessageProperties, NewMessage
from waypost.api.protection import ProtectionRequest
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
from waypost.node.opened_queues import OpenedQueues
from waypost.node.protected_sending import ProtectedSending
from waypost.node.removals import Removals
from waypost.node.staged_delivery import Commit
from waypost.node.stages import FIRST_PLACE, Batch, Group, Place
from waypost.wire.access_masks import QueueAccess
from waypost.wire.message_class import MessageClass

C = TypeVar("C", Claim, TakeClaim, KeepClaim, ReadClaim)

_DEAD_LETTERS: Final = "system$;deadxact"
_LOST_CLAIM: Final = "begin another claim, which starts with the current messages in the queue"
_LOST_STAGE: Final = "GET /api/bulk/commits lists the committed batches; stage the other batches again"


class BulkWriting:
    """Claims and stages on one node."""

    __slots__ = ("_computer", "_node", "_protected")

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._protected: Final = ProtectedSending(node, OpenedQueues(node))
        self._computer: Final = node.manager.identity.computer_name

    # --- Claims

    def claim(self, call: Call, operation: Claim) -> None:
        node = self._node
        node.kernel.check_store()
        with _hint(_LOST_CLAIM), node.kernel.operation(call.now):
            queue = self._opened(call, operation.name, operation.epoch)
            claimed = node.claims.claim(queue, self._owned(call, operation), call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, claimed)

    def take_claim(self, call: Call, operation: TakeClaim) -> None:
        node = self._node
        node.kernel.check_store()
        with node.kernel.operation(call.now):
            queue = self._opened(call, operation.name, operation.epoch)
            taken = node.claims.take(queue, self._owned(call, operation), call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, taken)

    def keep_claim(self, call: Call, operation: KeepClaim) -> None:
        node = self._node
        with _hint(_LOST_CLAIM), node.kernel.operation(call.now):
            queue = self._found(call, operation.name, operation.epoch)
            node.claims.keep(queue, self._owned(call, operation), call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request)

    def read_claim(self, call: Call, operation: ReadClaim) -> None:
        """Read messages of a part, named by a claim and a number, by their places in the order of arrival."""
        node, start = self._node, operation.start
        run = _run(operation.run)
        if operation.query:
            node.kernel.check_store()
        with _hint(_LOST_CLAIM), node.kernel.operation(call.now):
            queue = self._found(call, operation.name, operation.epoch)
            wished = replace(self._owned(call, operation), query=self._name(call, operation.query))
            part = node.claims.part(queue, wished, run, call.now)
            wanted = part.some(range(start, operation.stop))
            found = rows_of(node, queue, wanted, operation.max_bytes)
            seen = len(wanted) if found.are_all else wanted.index(found.lookup_ids[-1]) + 1
            node.kernel.await_everything()
            node.kernel.reply(call.request, found.frame(queue, start + seen, is_last=found.are_all))

    def return_claim(self, call: Call, operation: ReturnClaim) -> None:
        node = self._node
        node.kernel.check_store()
        with node.kernel.operation(call.now):
            queue = self._found(call, operation.name)
            end = node.claims.end if operation.forget else node.claims.give_back
            count = end(queue, self._name(call, operation.claim), call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, Returned(count))

    def list_claims(self, call: Call, operation: ListClaims) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            queue = find_target(node, operation.name)
            node.access.check(call.caller, queue, QueueAccess.MQSEC_GET_QUEUE_PROPERTIES)
            held = node.claims.held(call.now, queue, idle=operation.idle)
            node.kernel.await_everything()
            node.kernel.reply(call.request, Claims(self._shown(call, held)))

    def list_all_claims(self, call: Call, operation: ListAllClaims) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            held = node.claims.held(call.now, idle=operation.idle)
            node.kernel.await_everything()
            node.kernel.reply(call.request, Claims(self._shown(call, held)))

    # --- Stages

    def stage(self, call: Call, operation: Stage) -> None:
        groups = [self._group(each) for each in operation.groups]
        groups += [self._rejected(each) for each in operation.rejected]
        place, batch = Place(operation.partition, operation.serial), self._batch(call, operation)
        within = self._within(call, operation)
        requests = [self._requests(each) for each in operation.groups]
        if not any(requests):
            self.stage_groups(call, batch, groups, operation.lease_s, place, within)
            return
        for at, wanted in enumerate(requests):
            if wanted:
                groups[at] = _single(groups[at])
        protected = [
            (group.name, message, request)
            for group, wanted in zip(groups, requests, strict=False)
            for message, request in zip(group.messages, wanted, strict=False)
            if request is not None
        ]
        self._protected.protect(
            call, protected, lambda call: self.stage_groups(call, batch, groups, operation.lease_s, place, within)
        )

    def _requests(self, given: StagedMessages) -> list[ProtectionRequest | None]:
        """The requests to sign or encrypt of each message of a group; empty if there are none."""
        alike = given.like if given.like is not UNSET else None
        properties = [alike] * len(given.bodies) if alike is not None else []
        if not any(each.sign or each.encrypt for each in (*properties[:1], *given.messages) if each is not None):
            return []
        name = format_name(given.queue, self._computer)
        return [self._protected.request(each, name) for each in (*properties, *given.messages) if each is not None]

    def stage_groups(
        self,
        call: Call,
        batch: Batch,
        groups: Sequence[Group],
        lease_s: float,
        place: Place = FIRST_PLACE,
        within: BatchRead | UnsetType = UNSET,
    ) -> None:
        """Stage messages of the core."""
        node = self._node
        node.kernel.check_room()
        with node.kernel.operation(call.now):
            self._check_writer(batch, within)
            staged = node.stages.stage(batch, groups, place, lease_s, call.now)
            if staged.is_committed:
                node.kernel.await_everything()
            node.kernel.reply(call.request, staged)

    def drop(self, call: Call, operation: DropStages) -> None:
        node = self._node
        identifiers = _identifiers(operation.stages)
        batch = None if operation.batch is UNSET else self._batch(call, operation.batch)
        node.kernel.check_store()
        with node.kernel.operation(call.now):
            node.stages.drop(self._own_stages(call, identifiers))
            if batch is not None:
                node.stages.drop_batch(batch)
            node.kernel.await_everything()
            node.kernel.reply(call.request)

    def commit(self, call: Call, operation: CommitStages) -> None:
        """Commit the staged messages and remove others, in one step. Wait for the delivery, or as long as asked for."""
        node = self._node
        batch, identifiers = self._batch(call, operation), _identifiers(operation.stages)
        within = self._within(call, operation)
        node.kernel.check_store()
        with _hint(_LOST_STAGE), node.kernel.operation(call.now):
            self._check_writer(batch, within)
            taken = Removals(node, operation.removes, call.caller)
            committed, under_way = node.stages.commit(batch, identifiers, call.now, taken)
            node.claims.committed(batch.query, batch.number, call.now, is_whole=operation.is_whole)
            if within is not UNSET:
                node.claims.committed(within.query, within.batch, call.now, is_whole=False)
            node.kernel.await_everything()
            if under_way is None or not operation.wait_s:
                node.kernel.reply(call.request, committed)
            else:
                self._await_delivery(call, committed, under_way, operation.wait_s)

    def _check_writer(self, batch: Batch, within: BatchRead | UnsetType) -> None:
        """Raises ClaimTaken if the run that writes, or the one that has read, has lost a claim."""
        self._node.claims.check_writer(batch.query, batch.run)
        if within is not UNSET:
            self._node.claims.check_writer(within.query, _run(within.run))

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
            query = self._name(call, operation.query)
            found = Batches(node.stages.batches(query), node.stages.commits.whole(query))
            node.kernel.await_everything()
            node.kernel.reply(call.request, found)

    def _opened(self, call: Call, name: str, epoch: str) -> Queue:
        """A queue of this computer that the caller may receive from. As when it is opened, a subqueue is created."""
        manager = self._node.manager
        named = format_name(name, self._computer)
        self._node.access.check_open(call.caller, named, AccessType.RECEIVE)
        descriptor = manager.open_queue(named, AccessType.PEEK, ShareMode.DENY_NONE, call.now)
        if descriptor.queue is not None and descriptor.queue.is_provisional:
            manager.collection.changed(descriptor.queue)
        manager.close_queue(descriptor)
        return self._found(call, name, epoch)

    def _found(self, call: Call, name: str, epoch: str = "") -> Queue:
        """A queue that the caller may receive from."""
        queue = find_target(self._node, name, epoch)
        self._node.access.check(call.caller, queue, QueueAccess.MQSEC_RECEIVE_MESSAGE)
        return queue

    def _name(self, call: Call, name: str) -> str:
        return self._node.access.own_name(call.caller, name)

    def _owned(self, call: Call, operation: C) -> C:
        """The operation with the name under which the claim of the caller is kept."""
        name = self._name(call, operation.claim)
        return operation if name == operation.claim else replace(operation, claim=name)

    def _shown(self, call: Call, held: Sequence[ClaimObject]) -> list[ClaimObject]:
        """The claims that exist for the caller, with their names."""
        shown = []
        for each in held:
            name = self._node.access.shown_name(call.caller, each.claim)
            if name is not None:
                query = self._node.access.shown_name(call.caller, each.query)
                shown.append(replace(each, claim=name, query=query or ""))
        return shown

    def _own_stages(self, call: Call, identifiers: Sequence[bytes]) -> list[bytes]:
        """The stages that exist for the caller."""
        keys = ((identifier, self._node.stages.key_of(identifier)) for identifier in identifiers)
        access = self._node.access
        return [
            identifier
            for identifier, key in keys
            if key is None or access.shown_name(call.caller, key.query) is not None
        ]

    def _within(self, call: Call, given: BatchOfQuery) -> BatchRead | UnsetType:
        """The batch that has read the messages, with the name under which its query is kept."""
        within = given.within
        return within if within is UNSET else replace(within, query=self._name(call, within.query))

    def _batch(self, call: Call, given: BatchOfQuery) -> Batch:
        to = given.destination
        destination = None if to is UNSET else format_name(to, self._computer) if to else BY_COLUMN
        return Batch(
            self._name(call, given.query),
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
            raise InvalidParameter("set either `like` and `bodies` together, or only `messages`")
        messages = [self._message(each) for each in given.messages]
        if given.like is UNSET:
            if given.varied:
                raise InvalidParameter("`varied` requires `like` and `bodies`")
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


def _single(group: Group) -> Group:
    """The messages of a group one by one."""
    if group.like is None:
        return group
    like, varied = group.like, group.varied
    messages = [
        dataclasses.replace(like, body=body, **{name: values[at] for name, values in varied.items()})  # type: ignore[arg-type]
        for at, body in enumerate(group.bodies)
    ]
    return Group(group.name, messages=[*messages, *group.messages])


def _run(text: str) -> bytes:
    try:
        return parse_guid(text) if text else NULL_GUID
    except DecodeError as error:
        raise InvalidParameter(f"`run` must be a GUID or empty: {excerpt(error)}") from None


def _identifiers(texts: Sequence[str]) -> list[bytes]:
    try:
        return [parse_guid(text) for text in texts]
    except DecodeError as error:
        raise InvalidParameter(
            f"`stages` must contain GUIDs from answers to stage requests: {excerpt(error)}"
        ) from None


@contextmanager
def _hint(hint: str) -> Iterator[None]:
    """Add this hint to an error about a claim or stage that has ended."""
    try:
        yield
    except TransactionSequence as error:
        error.add_note(hint)
        raise
