"""Handles of the model: those that operations share, by the names of queues, and those of a single client."""

from collections.abc import Callable
from typing import Final

from waypost.core.queues import AccessType, ShareMode
from waypost.hresult import HResult
from waypost.sim.model.cursor import ModelCursor
from waypost.sim.model.readers import Readers
from waypost.sim.model.records import ModelHandle, ModelQueue, Refused

# A shared handle with one of these results is opened again: the name may belong to another queue now.
_GONE: Final = (HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE, HResult.MQ_ERROR_INVALID_HANDLE)


class ModelOpenedQueues:
    """All handles. `next_turn` ends one operation of the kernel and begins the next."""

    def __init__(
        self, readers: Readers, find: Callable[[str, AccessType], ModelQueue], next_turn: Callable[[], None]
    ) -> None:  # fmt: skip
        self._readers: Final = readers
        self._find: Final = find
        self._next_turn: Final = next_turn
        self._opened = 0
        self.shared: Final[dict[str, dict[AccessType, ModelHandle]]] = {}
        self.exclusive: Final[dict[str, ModelHandle]] = {}
        self._cursors: Final[dict[str, ModelHandle]] = {}
        # Queues that are being deleted, whose handles close when they are gone.
        self._deleted: list[ModelQueue] = []

    def use(self, key: str, access: AccessType, work: Callable[[ModelHandle], None]) -> None:
        """Work on a queue through the shared handle."""
        handle = self.shared.get(key, {}).get(access)
        if handle is not None:
            try:
                work(handle)
            except Refused as refused:
                if refused.status not in _GONE:
                    raise
                self._next_turn()
                self.close(key)
            else:
                return
        self._close_deleted()
        handle = self.shared.setdefault(key, {})[access] = self.open(key, access)
        try:
            work(handle)
        except Refused:
            # A send that is refused leaves nothing open.
            if access is AccessType.SEND:
                self._next_turn()
                self._close_shared(key, access)
            raise

    def open(self, key: str, access: AccessType, share: ShareMode = ShareMode.DENY_NONE) -> ModelHandle:
        self._opened -= 1
        handle = ModelHandle(self._opened, self._find(key, access), access, share)
        self._readers.check_sharing(handle)
        self._readers.open_queue(handle).handles[handle.opened_by] = handle
        self._next_turn()
        return handle

    def close(self, key: str, *, keeps_sending: bool = False) -> None:
        """Close all shared handles of a queue."""
        for access in tuple(self.shared.get(key, ())):
            if not (keeps_sending and access is AccessType.SEND):
                self._close_shared(key, access)

    def close_handle(self, handle: ModelHandle) -> None:
        for identifier in [key for key, each in self._cursors.items() if each is handle]:
            del self._cursors[identifier]
        handle.is_closed = True
        self._readers.close(handle)
        self._next_turn()

    def deleted(self, queue: ModelQueue) -> None:
        """The queue is being deleted, which may take a while."""
        self._close_deleted()
        self._deleted.append(queue)

    def own(self, identifier: str) -> ModelHandle:
        handle = self.exclusive.get(identifier)
        if handle is None:
            raise Refused(HResult.MQ_ERROR_INVALID_HANDLE)
        return handle

    def add_cursor(self, identifier: str, handle: ModelHandle, pointer: ModelCursor) -> None:
        """Set the id of a handle, which may have been closed meanwhile."""
        if not handle.is_closed:
            handle.pointers[identifier] = pointer
            self._cursors[identifier] = handle

    def cursor(self, identifier: str) -> tuple[ModelHandle, ModelCursor]:
        handle = self._cursors.get(identifier)
        if handle is None or identifier not in handle.pointers:
            raise Refused(HResult.MQ_ERROR_INVALID_HANDLE)
        return handle, handle.pointers[identifier]

    def close_cursor(self, identifier: str) -> None:
        handle, _ = self.cursor(identifier)
        del self._cursors[identifier]
        self._readers.close_pointer(handle, identifier)

    def _close_shared(self, key: str, access: AccessType) -> None:
        handle = self.shared[key].pop(access, None)
        if handle is not None:
            self.close_handle(handle)

    def _close_deleted(self) -> None:
        """Close the handles of subqueues and journals too, once one of the queues is gone."""
        left = [queue for queue in self._deleted if not queue.is_deleted]
        if len(left) == len(self._deleted):
            return
        self._deleted = left
        for key, handles in tuple(self.shared.items()):
            for access in [access for access, handle in handles.items() if handle.queue is None]:
                self._close_shared(key, access)
