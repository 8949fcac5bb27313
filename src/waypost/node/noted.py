"""An operation on its way into the audit trail."""

from collections.abc import Callable
from typing import Final

from waypost.api.operations import Operation
from waypost.clock import Now
from waypost.errors import WaypostError
from waypost.security.callers import Caller

OK: Final = "ok"


class Noted:
    """An audited operation under way. Its handler may set `count` and `object`, and an error becomes its `result`.

    `end` makes the entry of an operation that had to wait, in the frame of its end.
    """

    __slots__ = ("caller", "count", "end", "object", "result", "what")

    end: Callable[[WaypostError | None, Now], None]

    def __init__(self, caller: Caller, what: str, subject: str) -> None:
        self.caller: Final = caller
        self.what: Final = what
        self.object = subject
        self.count = 1
        self.result = OK


def audited_words(operation: Operation[object]) -> str:
    """The words of an operation for people; a record that a shell has prepared has its own."""
    return getattr(operation, "words", None) or _WORDS.get(operation.row.name, operation.row.words)


def audited_object(operation: Operation[object]) -> str:
    """The object that an operation is about: a queue, a user, a handle, a host, a certificate or a kind of key."""
    for field in _SUBJECTS:
        found = getattr(operation, field, None)
        if isinstance(found, str) and found:
            return found
    return ""


_WORDS: Final = {"store_password": "set password", "store_token": "create token"}
_SUBJECTS: Final = ("name", "queue", "source", "guid", "identifier", "address", "who", "digest", "user", "kind")
