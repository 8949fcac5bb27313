"""A queue manager with the embedded directory behind a line that can be cut."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

from waypost.clock import Now
from waypost.directory.effects import ChangeOperation, SendChangeNotification
from waypost.directory.embedded import EmbeddedDirectory
from waypost.directory.events import DirectoryEvents
from waypost.directory.local import LocalQueueManager
from waypost.directory.objects import DirectoryObject, Queue, QueueManager
from waypost.directory.port import Access
from waypost.directory.queries import AttributeFilter, Operator, Query, by_identifier
from waypost.directory.results import DirectoryOperationResult, DirectoryResult
from waypost.directory.timers import Periods
from waypost.directory.topology import Enterprise
from waypost.timers import Timers
from waypost.wire.format_names import DistributionListFormatName, FormatName

T = TypeVar("T", bound=DirectoryObject)
Attributes = tuple[str, ...] | None

ME = b"\x11" * 16
SOMEBODY = b"\x12" * 16
START = Now(monotonic=100.0, wall=1_000_000.0)

OK = DirectoryOperationResult.SUCCESS
GENERIC_ERROR = DirectoryOperationResult.GENERIC_ERROR
NOT_CONNECTED = DirectoryOperationResult.DIRECTORY_NOT_CONNECTED
NOT_FOUND = DirectoryOperationResult.OBJECT_NOT_FOUND
NO_ATTRIBUTE = DirectoryOperationResult.ATTRIBUTE_NOT_FOUND
END_OF_DATA = DirectoryOperationResult.END_OF_DATA
EXISTS = DirectoryOperationResult.OBJECT_ALREADY_EXISTS


def guids() -> Iterator[bytes]:
    return (number.to_bytes(16, "big") for number in count(0x1000))


def guid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def embedded() -> EmbeddedDirectory:
    new_guid = guids()
    return EmbeddedDirectory(lambda: next(new_guid))


def equals(attribute: str, value: object) -> tuple[AttributeFilter]:
    return (AttributeFilter(attribute, Operator.EQUALS, value),)


class Line:
    """A DirectoryBackEnd in front of the embedded directory. It notes what came over it, and from whom."""

    def __init__(self) -> None:
        self.directory = embedded()
        self.is_cut = False
        self.calls: list[tuple[str, Access]] = []
        self.on_call: Callable[[], None] = lambda: None

    def create(self, item: DirectoryObject, attributes: Attributes, access: Access) -> DirectoryResult[bytes]:
        if self._is_lost("create", access):
            return DirectoryResult(NOT_CONNECTED)
        return self.directory.create(item, attributes, access)

    def delete(self, item: DirectoryObject, access: Access) -> DirectoryOperationResult:
        return NOT_CONNECTED if self._is_lost("delete", access) else self.directory.delete(item, access)

    def read(self, query: Query[T], access: Access) -> DirectoryResult[T]:
        if self._is_lost("read", access):
            return DirectoryResult(NOT_CONNECTED)
        return self.directory.read(query, access)

    def enumerate(self, query: Query[T], access: Access) -> DirectoryResult[Iterator[DirectoryResult[T]]]:
        if self._is_lost("enumerate", access):
            return DirectoryResult(NOT_CONNECTED)
        return self.directory.enumerate(query, access)

    def write(self, item: DirectoryObject, attributes: Attributes, access: Access) -> DirectoryOperationResult:
        return NOT_CONNECTED if self._is_lost("write", access) else self.directory.write(item, attributes, access)

    def resolve_distribution_list(
        self, name: DistributionListFormatName, access: Access
    ) -> DirectoryResult[tuple[FormatName, ...]]:
        if self._is_lost("resolve", access):
            return DirectoryResult(NOT_CONNECTED)
        return self.directory.resolve_distribution_list(name, access)

    def _is_lost(self, call: str, access: Access) -> bool:
        self.calls.append((call, access))
        self.on_call()
        return self.is_cut

    def took(self) -> list[str]:
        """The events since the last call."""
        calls, self.calls = self.calls, []
        return [call for call, _ in calls]


class Rig:
    """The queue manager `host` in an enterprise that notifies of changes. Its queues are in `queues`."""

    def __init__(self, *, integrated: bool = True, periods: Periods | None = None) -> None:
        self.now = START
        self.line = Line()
        self.queues: list[Queue] = []
        own = QueueManager(identifier=ME, computer_name="host", qualified_computer_name="host.example.org")
        self.local = LocalQueueManager(own, directory_integrated=integrated)
        self.local.enterprise_reference = Enterprise(non_ldap_capable_queue_manager_notification=True)
        self.timers = Timers()
        self.events = DirectoryEvents(self.local, self.line, lambda: self.queues, self.timers, periods)

    def put(self, item: DirectoryObject, attributes: Attributes = None) -> bytes:
        """Create an object behind the queue manager's back."""
        result = self.line.directory.create(item, attributes, Access(self.now))
        assert result.value is not None
        return result.value

    def set(self, item: DirectoryObject) -> None:
        assert self.line.directory.write(item, None, Access(self.now)) is OK

    def read(self, object_type: type[T], identifier: bytes) -> DirectoryResult[T]:
        return self.events.read_directory(Query(object_type, by_identifier(identifier)), self.now)

    def notifications(self) -> list[tuple[ChangeOperation, DirectoryObject]]:
        """Those since the last call."""
        effects = self.events.take_effects()
        return [(each.operation, each.item) for each in effects if isinstance(each, SendChangeNotification)]

    def advance(self, seconds: float) -> None:
        self.now = Now(self.now.monotonic + seconds, self.now.wall + seconds)
        self.timers.fire(self.now)
