"""The embedded directory: all objects in memory, every change as a record for the store.

It is deterministic: objects of a type stand in the order of their identifiers, also after a restart. As a directory
server does, it gives an object its Identifier (unless it comes with one), CreateTime, ModifyTime, FullPath and
DirectoryPath, and overwrites what a caller wrote there. Access is checked before (readings MQDMPR 3.BB).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from waypost.directory.attributes import codecs_of
from waypost.directory.distinguished_names import distinguished_name
from waypost.directory.objects import ASSIGNED, DirectoryObject
from waypost.directory.port import Access
from waypost.directory.queries import Query, by_identifier, only
from waypost.directory.records import DirectoryRecord, Entry
from waypost.directory.results import DirectoryOperationResult, DirectoryResult
from waypost.directory.topology import DistributionList, User
from waypost.errors import WaypostError
from waypost.guid import NULL_GUID, guid_text
from waypost.wire.format_names import DistributionListFormatName, FormatName
from waypost.wire.sid import Sid

T = TypeVar("T", bound=DirectoryObject)

DEFAULT_ROOT: Final = "DC=waypost"


@dataclass(slots=True)
class _Objects:
    """The objects of one type, and their identifiers in order."""

    entries: dict[bytes, Entry] = field(default_factory=dict)
    order: list[bytes] = field(default_factory=list)


class EmbeddedDirectory:
    """A DirectoryBackEnd."""

    __slots__ = ("_changes", "_names", "_new_guid", "_objects", "_root")

    def __init__(
        self, new_guid: Callable[[], bytes], records: Iterable[DirectoryRecord] = (), root: str = DEFAULT_ROOT
    ) -> None:
        """`records` are what earlier changes have left in the store. Raises StoreDamaged and StoreTooNew."""
        self._new_guid: Final = new_guid
        self._root: Final = root
        self._objects: Final[dict[type[DirectoryObject], _Objects]] = {}
        # By distinguished name, without regard to case.
        self._names: Final[dict[str, bytes]] = {}
        self._changes: list[DirectoryRecord] = []
        for record in records:
            assert record.value is not None
            self._put(Entry.decode(record.object_type, record.identifier, record.value))

    def take_changes(self) -> list[DirectoryRecord]:
        """The records to write or delete since the last call, in order."""
        changes, self._changes = self._changes, []
        return changes

    def create(
        self, item: DirectoryObject, attribute_list: tuple[str, ...] | None, access: Access
    ) -> DirectoryResult[bytes]:
        identifier = item.identifier if item.identifier != NULL_GUID else self._new_guid()
        time = int(access.now.wall)
        item = self._assign(replace(item, identifier=identifier), time, time)
        is_taken = any(identifier in objects.entries for objects in self._objects.values())
        if is_taken or self._name_of(item) in self._names:
            return DirectoryResult(DirectoryOperationResult.OBJECT_ALREADY_EXISTS)
        names = codecs_of(type(item)) if attribute_list is None else attribute_list
        self._keep(item, {*names, *item.naming_attributes})
        return DirectoryResult(DirectoryOperationResult.SUCCESS, identifier)

    def delete(self, item: DirectoryObject, _access: Access) -> DirectoryOperationResult:
        entry = self._find(item)
        if entry is None:
            return DirectoryOperationResult.OBJECT_NOT_FOUND
        objects, identifier = self._of(type(item)), entry.item.identifier
        del objects.entries[identifier]
        del objects.order[bisect_left(objects.order, identifier)]
        del self._names[self._name_of(entry.item)]
        self._changes.append(DirectoryRecord(entry.object_type, identifier, None))
        return DirectoryOperationResult.SUCCESS

    def read(self, query: Query[T], _access: Access) -> DirectoryResult[T]:
        for item in self._matching(query):
            return self._answer(query, item)
        return DirectoryResult(DirectoryOperationResult.OBJECT_NOT_FOUND)

    def enumerate(self, query: Query[T], _access: Access) -> DirectoryResult[Iterator[DirectoryResult[T]]]:
        items = list(self._matching(query))
        query.sort(items)
        return DirectoryResult(DirectoryOperationResult.SUCCESS, iter([self._answer(query, item) for item in items]))

    def write(
        self, item: DirectoryObject, attribute_list: tuple[str, ...] | None, access: Access
    ) -> DirectoryOperationResult:
        entry = self._find(item)
        if entry is None:
            return DirectoryOperationResult.OBJECT_NOT_FOUND
        old = entry.item
        names = codecs_of(type(item)) if attribute_list is None else attribute_list
        try:
            new = replace(old, **{name: getattr(item, name) for name in names if name not in ASSIGNED})
        except WaypostError:
            # Each attribute is legal, but not beside those that are there.
            return DirectoryOperationResult.GENERIC_ERROR
        new = self._assign(new, getattr(old, "create_time", 0), int(access.now.wall))
        if self._names.get(self._name_of(new), old.identifier) != old.identifier:
            return DirectoryOperationResult.OBJECT_ALREADY_EXISTS
        del self._names[self._name_of(old)]
        self._keep(new, {*entry.present, *names})
        return DirectoryOperationResult.SUCCESS

    def resolve_distribution_list(
        self, name: DistributionListFormatName, access: Access
    ) -> DirectoryResult[tuple[FormatName, ...]]:
        found = self.read(Query(DistributionList, by_identifier(name.guid)), access)
        return DirectoryResult(found.status, None if found.value is None else found.value.elements)

    def _of(self, object_type: type[DirectoryObject]) -> _Objects:
        return self._objects.setdefault(object_type, _Objects())

    def _name_of(self, item: DirectoryObject) -> str:
        return distinguished_name(item, self._root).casefold()

    def _find(self, item: DirectoryObject) -> Entry | None:
        """The object with the Identifier of `item`, or with its name if it has no Identifier."""
        identifier = (
            item.identifier if item.identifier != NULL_GUID else self._names.get(self._name_of(item), NULL_GUID)
        )
        return self._of(type(item)).entries.get(identifier)

    def _matching(self, query: Query[T]) -> Iterator[T]:
        objects = self._of(query.object_type)
        for identifier in self._candidates(query, objects):
            entry = objects.entries.get(identifier)
            if entry is not None and entry.present.issuperset(each.attribute for each in query.filters):
                assert isinstance(entry.item, query.object_type)
                if query.matches(entry.item):
                    yield entry.item

    def _candidates(self, query: Query[T], objects: _Objects) -> Sequence[bytes]:
        """Identifiers, in order, among which are those of all matching objects."""
        identifier = query.identifier
        if identifier is not None:
            return (identifier,)
        if query.object_type is User:
            # Strangers cause such queries, with any SID. The SID makes the name.
            sid = query.value_of("security_identifier", Sid)
            if sid is not None:
                found = self._names.get(self._name_of(User(security_identifier=sid)))
                return () if found is None else (found,)
        return objects.order

    def _answer(self, query: Query[T], item: T) -> DirectoryResult[T]:
        if query.attribute_list is None:
            return DirectoryResult(DirectoryOperationResult.SUCCESS, item)
        if not self._of(query.object_type).entries[item.identifier].present.issuperset(query.attribute_list):
            return DirectoryResult(DirectoryOperationResult.ATTRIBUTE_NOT_FOUND)
        return DirectoryResult(DirectoryOperationResult.SUCCESS, only(item, query.attribute_list))

    def _assign(self, item: T, create_time: int, modify_time: int) -> T:
        values: dict[str, Any] = {
            "create_time": create_time,
            "modify_time": modify_time,
            "full_path": distinguished_name(item, self._root),
            "directory_path": f"<GUID={guid_text(item.identifier)}>",
        }
        names = codecs_of(type(item))
        return replace(item, **{name: value for name, value in values.items() if name in names})

    def _keep(self, item: DirectoryObject, names: set[str]) -> None:
        """The attributes that are set: not None."""
        published = (names | ASSIGNED).intersection(codecs_of(type(item)))
        present = frozenset(name for name in published if getattr(item, name) is not None)
        entry = Entry(only(item, present), present)
        self._put(entry)
        self._changes.append(DirectoryRecord(entry.object_type, item.identifier, entry.encode()))

    def _put(self, entry: Entry) -> None:
        objects, identifier = self._of(type(entry.item)), entry.item.identifier
        if identifier not in objects.entries:
            insort(objects.order, identifier)
        objects.entries[identifier] = entry
        self._names[self._name_of(entry.item)] = identifier
