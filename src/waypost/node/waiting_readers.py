"""Callers of waiting reads: a read ends when its caller may not read any more, and takes nothing.

The rights of a caller are those of the moment when a message comes, not of the moment when the wait began. Changes of
users and rights are rare, so that all waits are looked through with each of them. Tokens expire without a change: the
offer of a message looks again.
"""

from typing import Final

from waypost.core.queues import WaitingMessageReadOperation
from waypost.core.reading import Reading
from waypost.errors import AccessDenied
from waypost.node.access import Access
from waypost.node.kernel import Kernel
from waypost.node.users import Users
from waypost.wire.access_masks import QueueAccess


class WaitingReaders:
    """The checks of the waiting reads of one node."""

    __slots__ = ("_access", "_kernel", "_reading", "_users")

    def __init__(self, kernel: Kernel, reading: Reading, users: Users, access: Access) -> None:
        self._kernel: Final = kernel
        self._reading: Final = reading
        self._users: Final = users
        self._access: Final = access
        reading.admits = self._admits
        users.changed = self.look_again

    def look_again(self) -> None:
        """End the reads of callers that may not read any more, after a change of users or rights."""
        self._reading.end_refused_waits()

    def _admits(self, wait: WaitingMessageReadOperation) -> bool:
        caller, queue = self._kernel.reader(wait.wait_id), wait.descriptor.queue
        if caller is None or queue is None:
            return True
        right = QueueAccess.MQSEC_RECEIVE_MESSAGE if wait.destructive_read else QueueAccess.MQSEC_PEEK_MESSAGE
        try:
            self._access.check(self._users.current(caller, self._kernel.now.wall), queue, right)
        except AccessDenied as error:
            self._kernel.refuse_read(wait.wait_id, error)
            return False
        return True
