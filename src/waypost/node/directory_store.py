"""The objects of the embedded directory in the store."""

from collections.abc import Iterable, Iterator

from waypost.directory.records import DirectoryRecord, Entry, ObjectType
from waypost.errors import StoreDamaged
from waypost.node import scans
from waypost.store import keys
from waypost.store.port import Batch, Reader, Table


def read(reader: Reader) -> Iterator[DirectoryRecord]:
    for key, value in scans.whole_table(reader, Table.DIRECTORY):
        try:
            object_type = _type_of(key)
            Entry.decode(object_type, keys.object_identifier_of(key), value)
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.DIRECTORY, key, error) from error
        yield DirectoryRecord(object_type, keys.object_identifier_of(key), value)


def _type_of(key: bytes) -> ObjectType:
    try:
        return ObjectType(keys.object_type_of(key))
    except ValueError:
        raise StoreDamaged(f"the store has a directory object of the unknown type {key[0]}") from None


def write(batch: Batch, changes: Iterable[DirectoryRecord]) -> None:
    for change in changes:
        key = keys.directory_key(change.object_type, change.identifier)
        if change.value is None:
            batch.delete(Table.DIRECTORY, key)
        else:
            batch.put(Table.DIRECTORY, key, change.value)
