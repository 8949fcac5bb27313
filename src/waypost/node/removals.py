"""Messages that the commit of a batch removes from their queues, in the same batch of the store.

All of them are Available, or the commit is refused before anything has changed: of two programs that send the same
messages on, one finds that they are gone. A repetition of the commit does not look at them again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from waypost.api.bulk import MessagesToRemove
from waypost.core.message import Message
from waypost.core.positions import PositionState
from waypost.core.queues import OutgoingQueue, Queue
from waypost.errors import InvalidParameter, MessageNotFound, SharingViolation
from waypost.guid import NULL_GUID
from waypost.limits import MAX_BULK_REMOVED
from waypost.node.bulk import find_target
from waypost.node.node import Node
from waypost.security.callers import Caller
from waypost.wire.access_masks import QueueAccess


@dataclass(frozen=True, slots=True)
class Removals:
    """The messages that a commit removes, as the request names them."""

    node: Node
    removes: Sequence[MessagesToRemove]
    caller: Caller

    @property
    def digest(self) -> list[bytes]:
        """A digest of the messages, which shows a repetition; nothing without messages."""
        return digest_of_removals(self.removes)

    def find(self) -> list[tuple[Queue, list[Message]]]:
        """All messages, by their queues.

        Raises MessageNotFound for a message that is gone, and SharingViolation for one that is held.
        """
        count = sum(len(each.lookup_ids) for each in self.removes)
        if count > MAX_BULK_REMOVED:
            raise InvalidParameter(
                f"a commit can remove at most {MAX_BULK_REMOVED} messages, not {count}; use several commits"
            )
        found = [self._of_queue(each) for each in self.removes if each.lookup_ids]
        _check_once(found, count)
        return found

    def _of_queue(self, given: MessagesToRemove) -> tuple[Queue, list[Message]]:
        queue = find_target(self.node, given.queue, given.epoch)
        self.node.access.check(self.caller, queue, QueueAccess.MQSEC_RECEIVE_MESSAGE)
        if isinstance(queue, OutgoingQueue):
            raise InvalidParameter(f"{queue} is an outgoing queue, and a commit removes only messages of local queues")
        if queue.deniers:
            raise SharingViolation(f"a reader has {queue} open exclusively; close the queue in that reader first")
        for lookup_id in given.lookup_ids:
            state = queue.positions.state(lookup_id)
            if state is PositionState.DELETED:
                raise _gone(queue, lookup_id)
            if state is not PositionState.AVAILABLE:
                raise SharingViolation(
                    f"another reader has locked the message {lookup_id} of {queue}, so nothing is committed or "
                    "removed; try again when that reader has finished"
                )
        messages = self.node.manager.positions.find_all(queue, given.lookup_ids)
        if len(messages) < len(given.lookup_ids):
            # A damaged message was set aside just now.
            raise _gone(queue, next(each for each in given.lookup_ids if each not in queue.positions))
        return queue, messages


def _gone(queue: Queue, lookup_id: int) -> MessageNotFound:
    return MessageNotFound(
        f"the message {lookup_id} is no longer in {queue}, so nothing is committed or removed; read the queue again"
    )


def _check_once(found: Sequence[tuple[Queue, Sequence[Message]]], count: int) -> None:
    """Raise InvalidParameter if a message is named twice: a queue has several names."""
    if len({(queue.number, message.lookup_identifier) for queue, messages in found for message in messages}) < count:
        raise InvalidParameter("a commit must not remove the same message twice")


def digest_of_removals(removes: Sequence[MessagesToRemove]) -> list[bytes]:
    """A digest of the messages to remove, which shows a repetition; nothing without such messages."""
    named = sorted((each.queue, sorted(each.lookup_ids)) for each in removes if each.lookup_ids)
    return [blake2b(repr(named).encode(), digest_size=len(NULL_GUID)).digest()] if named else []
