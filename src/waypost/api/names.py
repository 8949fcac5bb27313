"""NAME: the text for a queue everywhere, as a short name, a path name or a format name.

orders                  the private queue of this computer, also private$\\orders or .\\private$\\orders
orders;retry            its subqueue
orders;journal          its journal
system$;deadletter      a queue of the queue manager itself, also system$;deadxact and system$;journal
HOST\\private$\\orders    a path name, on this computer or another
DIRECT=..., PUBLIC=...  any format name
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol, TypeAlias

from waypost.api.excerpt import excerpt
from waypost.errors import IllegalFormatName, InvalidParameter, UnsupportedFormatName
from waypost.limits import MAX_ANSWER_QUEUES
from waypost.wire.direct_names import DEFAULT_PORTS
from waypost.wire.format_names import (
    DirectFormatName,
    FormatName,
    MulticastFormatName,
    MultipleElementFormatName,
    Suffix,
)
from waypost.wire.path_names import PathName, QueueKind

_FORMAT_NAME: Final = re.compile("(?:direct|public|private|dl|machine|connector|multicast)=", re.IGNORECASE)
_LOCAL: Final = re.compile(r"private\$\\|system\$;", re.IGNORECASE)


class HasFormatName(Protocol):
    """A queue object, or a record of a queue."""

    @property
    def format_name(self) -> str: ...


Name: TypeAlias = str | HasFormatName
# Where several queues can be named.
Names: TypeAlias = Name | Sequence[Name]


def format_name(name: Name, computer: str) -> FormatName:
    """The queue that `name` means on this computer. Raises IllegalFormatName; InvalidParameter if it is not text."""
    text = name if isinstance(name, str) else getattr(name, "format_name", None)
    if not isinstance(text, str):
        raise InvalidParameter(f"a queue name must be text or a queue object, not {type(name).__name__}")
    return _parsed(text, computer)


def format_names(names: Names, computer: str) -> tuple[FormatName, ...]:
    """The queues of an argument that may name several: one name, names joined with commas, or a list.

    Duplicates are removed. Raises the errors of `format_name`, and InvalidParameter for none or too many.
    """
    given = names if isinstance(names, Sequence) and not isinstance(names, str) else (names,)
    found: dict[FormatName, None] = {}
    for name in given:
        parsed = format_name(name, computer)
        found.update(dict.fromkeys(parsed.elements if isinstance(parsed, MultipleElementFormatName) else (parsed,)))
    if not 0 < len(found) <= MAX_ANSWER_QUEUES:
        raise InvalidParameter(f"the number of queues must be from 1 to {MAX_ANSWER_QUEUES}, not {len(found)}")
    return tuple(found)


def path_name(name: Name, computer: str) -> PathName:
    """The path of a queue to create under this name. Raises the errors of `format_name`."""
    found = format_name(name, computer)
    if not isinstance(found, DirectFormatName) or found.is_read_only or found.kind is QueueKind.SYSTEM:
        raise InvalidParameter(f"{name} is not a valid name for a new queue; use a name such as 'orders'")
    return PathName(found.host, found.kind, found.queue, found.subqueue)


def short_name(name: FormatName, computer: str) -> str:
    """The shortest NAME that means the same on this computer."""
    text = str(name)
    for prefix in (f"DIRECT=OS:{computer}\\PRIVATE$\\", f"DIRECT=OS:{computer}\\"):
        if text.lower().startswith(prefix.lower()):
            rest = text[len(prefix) :]
            is_short = "PRIVATE$" in prefix or rest.startswith("SYSTEM$;")
            return rest.lower() if rest.startswith("SYSTEM$;") else rest if is_short else f".\\{rest}"
    return text


def journal_name(name: FormatName) -> FormatName:
    """The journal of the queue. Raises InvalidParameter if its kind of name has none."""
    if isinstance(name, DirectFormatName) and name.suffix is Suffix.NONE:
        return DirectFormatName(name.protocol, name.address, name.kind, name.queue, suffix=Suffix.JOURNAL)
    raise InvalidParameter(f"{name} has no journal")


def subqueue_name(name: FormatName, subqueue: str) -> FormatName:
    """The subqueue of that name. Raises IllegalFormatName; InvalidParameter if the queue has no subqueues."""
    if isinstance(name, DirectFormatName) and name.suffix is Suffix.NONE and isinstance(subqueue, str):
        return FormatName.parse(f"{name};{subqueue}")
    raise InvalidParameter(f"{name} has no subqueue {excerpt(subqueue)}")


def check_can_be_sent_to(name: FormatName) -> None:
    """Raises UnsupportedFormatName for a multicast address or a URL: Waypost does not transfer messages there."""
    for each in name.elements if isinstance(name, MultipleElementFormatName) else (name,):
        if isinstance(each, MulticastFormatName):
            raise UnsupportedFormatName(f"cannot send to {each}: multicast is not supported yet")
        if isinstance(each, DirectFormatName) and each.protocol in DEFAULT_PORTS:
            raise UnsupportedFormatName(f"cannot send to {each}: messages over HTTP are not supported yet")


# Programs use few names again and again, and parsing a name takes longer than sending a message.
@lru_cache(maxsize=512)
def _parsed(text: str, computer: str) -> FormatName:
    return FormatName.parse(text) if _FORMAT_NAME.match(text) else _direct_name(text, computer)


def _direct_name(text: str, computer: str) -> DirectFormatName:
    if _LOCAL.match(text):
        prefix = f"OS:{computer}\\"
    elif "\\" not in text:
        prefix = f"OS:{computer}\\private$\\"
    elif text.startswith(".\\"):
        prefix = f"OS:{computer}"
        text = text[1:]
    else:
        prefix = "OS:"
    try:
        return DirectFormatName.parse_direct(prefix + text)
    except IllegalFormatName as error:
        at = max(error.offset - len(prefix), 0)
        raise IllegalFormatName(error.section, error.field, at, f"{error.reason}, in {text[:80]!r}") from None
