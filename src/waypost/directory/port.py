"""The port of the directory events to a directory, such as that of MS-MQDSSM 3.1.6.1 to 3.1.6.9."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from waypost.clock import Now
from waypost.directory.objects import DirectoryObject
from waypost.directory.queries import Query
from waypost.directory.results import DirectoryOperationResult, DirectoryResult
from waypost.wire.format_names import DistributionListFormatName, FormatName
from waypost.wire.sid import Sid

T = TypeVar("T", bound=DirectoryObject)


@dataclass(frozen=True, slots=True)
class Access:
    """On whose behalf the directory is used, and when. Without a `user`, the queue manager acts for itself."""

    now: Now
    user: Sid | None = None


class DirectoryBackEnd(Protocol):
    """Every operation answers with a status and raises nothing. An `attribute_list` of None means all attributes."""

    def create(
        self, item: DirectoryObject, attribute_list: tuple[str, ...] | None, access: Access, /
    ) -> DirectoryResult[bytes]:
        """The value is the Identifier of the new object."""

    def delete(self, item: DirectoryObject, access: Access, /) -> DirectoryOperationResult: ...

    def read(self, query: Query[T], access: Access, /) -> DirectoryResult[T]:
        """The first object that matches."""

    def enumerate(self, query: Query[T], access: Access, /) -> DirectoryResult[Iterator[DirectoryResult[T]]]:
        """All objects that match, in the order of the query. One that lacks an attribute is AttributeNotFound."""

    def write(
        self, item: DirectoryObject, attribute_list: tuple[str, ...] | None, access: Access, /
    ) -> DirectoryOperationResult: ...

    def resolve_distribution_list(
        self, name: DistributionListFormatName, access: Access, /
    ) -> DirectoryResult[tuple[FormatName, ...]]:
        """The members of a list; lists among them stay names."""
