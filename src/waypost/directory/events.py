"""The directory events: MS-MQDMPR 3.1.7.1.18 to 3.1.7.1.25, and its timers.

The caller of an event takes its effects with `take_effects`. In workgroup mode nothing but local objects is looked
at (readings MQDMPR 3.X): a read finds the queues of this computer and the queue manager itself and nothing else, every
change is DirectoryNotConnected, and neither DirectoryOffline nor a timer moves.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from waypost.clock import Now
from waypost.directory.effects import (
    ChangeOperation,
    Effect,
    FindDirectoryServers,
    LocalQueueManagerRefreshed,
    LocalQueueRefreshed,
    SendChangeNotification,
)
from waypost.directory.local import LocalQueueManager
from waypost.directory.objects import DirectoryObject, Queue, QueueManager
from waypost.directory.port import Access, DirectoryBackEnd
from waypost.directory.queries import Query, by_identifier, check_attributes, only
from waypost.directory.results import DirectoryOperationResult, DirectoryResult
from waypost.directory.timers import DirectoryTimers, Periods, Timer
from waypost.directory.topology import ConnectedNetwork, Site
from waypost.timers import Timers
from waypost.wire.format_names import DistributionListFormatName, FormatName
from waypost.wire.path_names import QueueKind
from waypost.wire.sid import Sid

T = TypeVar("T", bound=DirectoryObject)

_SUCCESS: Final = DirectoryOperationResult.SUCCESS
_NOT_CONNECTED: Final = DirectoryOperationResult.DIRECTORY_NOT_CONNECTED
_NOT_FOUND: Final = DirectoryOperationResult.OBJECT_NOT_FOUND


class DirectoryEvents:
    """The directory as one queue manager sees it. `local_queues` gives its QueueCollection as directory objects.

    `caller` is the user on whose behalf an event is raised; None is the queue manager itself.
    """

    __slots__ = ("_back_end", "_effects", "_last_handle", "_queries", "local", "local_queues", "timers")

    def __init__(
        self,
        local: LocalQueueManager,
        back_end: DirectoryBackEnd,
        local_queues: Callable[[], Iterable[Queue]],
        timers: Timers,
        periods: Periods | None = None,
    ) -> None:
        self.local: Final = local
        self.timers: Final = DirectoryTimers(periods or Periods(), timers, self._expired)
        self._back_end: Final = back_end
        self.local_queues: Final = local_queues
        self._queries: Final[dict[int, Iterator[DirectoryResult[DirectoryObject]]]] = {}
        self._last_handle = 0
        self._effects: list[Effect] = []

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def create_directory_object(
        self,
        item: DirectoryObject,
        now: Now,
        *,
        attribute_list: tuple[str, ...] | None = None,
        caller: Sid | None = None,
    ) -> DirectoryResult[bytes]:
        """MS-MQDMPR 3.1.7.1.18. The value is rObjectGUID. Raises InvalidParameter for an unknown attribute."""
        check_attributes(type(item), attribute_list or ())
        if not self.local.directory_integrated:
            return DirectoryResult(_NOT_CONNECTED)
        if _is_public_queue(item):
            self._notify(ChangeOperation.QUEUE_CREATION, item)
        result = self._back_end.create(item, attribute_list, self._access(caller, now))
        self._look_at(result.status, now)
        return result

    def delete_directory_object(
        self, item: DirectoryObject, now: Now, *, caller: Sid | None = None
    ) -> DirectoryOperationResult:
        """MS-MQDMPR 3.1.7.1.19."""
        if not self.local.directory_integrated:
            return _NOT_CONNECTED
        if _is_public_queue(item):
            self._notify(ChangeOperation.QUEUE_DELETION, item)
        status = self._back_end.delete(item, self._access(caller, now))
        self._look_at(status, now)
        return status

    def read_directory(
        self, query: Query[T], now: Now, *, force_directory_read: bool = False, caller: Sid | None = None
    ) -> DirectoryResult[T]:
        """MS-MQDMPR 3.1.7.1.20. The value is rDirectoryObject."""
        if not self.local.directory_integrated:
            return next(self._read_local(query), DirectoryResult(_NOT_FOUND))
        if self.local.directory_offline and not force_directory_read:
            is_about_queues = query.object_type is Queue
            return next(self._read_local(query), DirectoryResult(_NOT_FOUND if is_about_queues else _NOT_CONNECTED))
        result = self._back_end.read(query, self._access(caller, now))
        if not force_directory_read:
            self._look_at(result.status, now)
        return result

    def read_directory_begin(self, query: Query[T], now: Now, *, caller: Sid | None = None) -> DirectoryResult[int]:
        """MS-MQDMPR 3.1.7.1.21. The value is rQueryHandle."""
        if self.local.directory_integrated:
            result = self._back_end.enumerate(query, self._access(caller, now))
        else:
            result = DirectoryResult(_SUCCESS, self._read_local(query))
        if result.value is None:
            return DirectoryResult(result.status)
        self._last_handle += 1
        self._queries[self._last_handle] = result.value
        return DirectoryResult(_SUCCESS, self._last_handle)

    def read_directory_next(self, query_handle: int) -> DirectoryResult[DirectoryObject]:
        """MS-MQDMPR 3.1.7.1.22. MS-MQDSSM 3.1.6.5: a handle that is not open is GenericError."""
        if query_handle not in self._queries:
            return DirectoryResult(DirectoryOperationResult.GENERIC_ERROR)
        return next(self._queries[query_handle], DirectoryResult(DirectoryOperationResult.END_OF_DATA))

    def read_directory_end(self, query_handle: int) -> DirectoryOperationResult:
        """MS-MQDMPR 3.1.7.1.23."""
        is_open = self._queries.pop(query_handle, None) is not None
        return _SUCCESS if is_open else DirectoryOperationResult.GENERIC_ERROR

    def write_directory(
        self,
        item: DirectoryObject,
        now: Now,
        *,
        attribute_list: tuple[str, ...] | None = None,
        caller: Sid | None = None,
    ) -> DirectoryOperationResult:
        """MS-MQDMPR 3.1.7.1.24. Raises InvalidParameter for an unknown attribute."""
        check_attributes(type(item), attribute_list or ())
        if not self.local.directory_integrated:
            return _NOT_CONNECTED
        status = self._back_end.write(item, attribute_list, self._access(caller, now))
        self._look_at(status, now)
        if status is _SUCCESS:
            if _is_public_queue(item):
                self._notify(ChangeOperation.QUEUE_UPDATE, item)
            elif isinstance(item, QueueManager):
                self._notify(ChangeOperation.QUEUE_MANAGER_UPDATE, item)
        return status

    def check_directory_online(self, now: Now) -> None:
        """MS-MQDMPR 3.1.7.1.25."""
        own = self.read_directory(
            Query(QueueManager, by_identifier(self.local.identifier)), now, force_directory_read=True
        )
        if own.value is None:
            self.timers.start(Timer.DIRECTORY_ONLINE, now)
            return
        self.local.go_online()
        self.refresh_local_queue_manager(own.value, now)
        for queue in tuple(self.local_queues()):
            if queue.queue_type is QueueKind.PUBLIC:
                read = self.read_directory(Query(Queue, by_identifier(queue.identifier)), now)
                if read.value is not None:
                    self._effects.append(LocalQueueRefreshed(read.value))

    def resolve_distribution_list(
        self, name: DistributionListFormatName, now: Now, *, caller: Sid | None = None
    ) -> DirectoryResult[tuple[FormatName, ...]]:
        """MS-MQDSSM 3.1.6.9, but for the lists among the members: Expand Format Name takes those."""
        if not self.local.directory_integrated:
            return DirectoryResult(_NOT_FOUND)
        return self._back_end.resolve_distribution_list(name, self._access(caller, now))

    def refresh_local_queue_manager(self, read: QueueManager, now: Now) -> None:
        """Take over what the directory has of this queue manager, and the networks that it is in."""
        for identifier in read.connected_network_identifier_list:
            network = self.read_directory(Query(ConnectedNetwork, by_identifier(identifier)), now).value
            if network is not None:
                self.local.connect(network)
        self.local.refresh(read)
        self._effects.append(LocalQueueManagerRefreshed(self.local.queue_manager))

    def directory_sites_update(self, now: Now) -> None:
        """MS-MQDMPR 3.1.6.1."""
        for site in tuple(self.local.site_collection.values()):
            read = self.read_directory(Query(Site, by_identifier(site.identifier)), now).value
            if read is not None:
                self.local.add_site(replace(read, site_gate_collection=site.site_gate_collection))

    def directory_site_gates_update(self, now: Now) -> None:
        """MS-MQDMPR 3.1.6.2."""
        for site in tuple(self.local.site_collection.values()):
            gates = tuple(
                self.read_directory(Query(QueueManager, by_identifier(gate.identifier)), now).value or gate
                for gate in site.site_gate_collection
            )
            self.local.add_site(replace(site, site_gate_collection=gates))

    def _expired(self, timer: Timer, now: Now) -> None:
        """A timer has come to its end. All but the Directory Online Timer start again."""
        match timer:
            case Timer.DIRECTORY_ONLINE:
                self.check_directory_online(now)
                return
            case Timer.DIRECTORY_SITES_UPDATE:
                self.directory_sites_update(now)
            case Timer.DIRECTORY_SITE_GATES_UPDATE:
                self.directory_site_gates_update(now)
            case Timer.DIRECTORY_SERVER_LIST_UPDATE:
                self._effects.append(FindDirectoryServers())
        self.timers.start(timer, now)

    def _access(self, caller: Sid | None, now: Now) -> Access:
        return Access(now, self.local.security_context(caller))

    def _look_at(self, status: DirectoryOperationResult, now: Now) -> None:
        if status is _NOT_CONNECTED:
            self.local.go_offline()
            self.timers.start(Timer.DIRECTORY_ONLINE, now)

    def _read_local(self, query: Query[T]) -> Iterator[DirectoryResult[T]]:
        """The attributes that need no directory, in the order of the query."""
        known: Iterable[DirectoryObject] = (*self.local_queues(), self.local.queue_manager)
        items = [item for item in known if isinstance(item, query.object_type) and query.matches(item)]
        query.sort(items)
        for item in items:
            answer = item if query.attribute_list is None else only(item, query.attribute_list)
            yield DirectoryResult(_SUCCESS, answer)

    def _notify(self, operation: ChangeOperation, item: DirectoryObject) -> None:
        if self.local.notifies_of_changes:
            self._effects.append(SendChangeNotification(operation, item))


def _is_public_queue(item: DirectoryObject) -> bool:
    return isinstance(item, Queue) and item.queue_type is QueueKind.PUBLIC
