"""Results of directory operations: DirectoryOperationResult of MS-MQDMPR 3.1.1.17, with the objects read."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Generic, TypeVar

from waypost.errors import (
    DirectoryAttributeNotFound,
    DirectoryError,
    DirectoryNotConnected,
    DirectoryObjectExists,
    DirectoryObjectNotFound,
)

T_co = TypeVar("T_co", covariant=True)


class DirectoryOperationResult(Enum):
    """The rStatus of the directory events."""

    SUCCESS = auto()
    GENERIC_ERROR = auto()
    DIRECTORY_NOT_CONNECTED = auto()
    OBJECT_NOT_FOUND = auto()
    ATTRIBUTE_NOT_FOUND = auto()
    END_OF_DATA = auto()
    OBJECT_ALREADY_EXISTS = auto()


_ERRORS: Final[dict[DirectoryOperationResult, type[DirectoryError]]] = {
    DirectoryOperationResult.DIRECTORY_NOT_CONNECTED: DirectoryNotConnected,
    DirectoryOperationResult.OBJECT_NOT_FOUND: DirectoryObjectNotFound,
    DirectoryOperationResult.ATTRIBUTE_NOT_FOUND: DirectoryAttributeNotFound,
    DirectoryOperationResult.OBJECT_ALREADY_EXISTS: DirectoryObjectExists,
}


def directory_error(status: DirectoryOperationResult, action: str) -> DirectoryError:
    """The error for those who are told with exceptions."""
    words = status.name.lower().replace("_", " ")
    return _ERRORS.get(status, DirectoryError)(f"the directory does not {action}: {words}")


@dataclass(frozen=True, slots=True)
class DirectoryResult(Generic[T_co]):
    """A status, and on Success a value."""

    status: DirectoryOperationResult
    value: T_co | None = None
