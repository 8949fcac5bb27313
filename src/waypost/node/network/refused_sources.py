"""Queue managers with messages that were refused because Waypost cannot verify or decrypt them."""

from collections import Counter
from dataclasses import dataclass, field

from waypost.limits import MAX_REFUSED_SOURCES
from waypost.wire.message_class import MessageClass


@dataclass(slots=True)
class RefusedSource:
    """One such source: the address that its messages came from last, and their number for each class."""

    peer: str = ""
    classes: Counter[MessageClass] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return self.classes.total()


class RefusedSources:
    """The refused sources. `others` counts the messages of sources beyond the limit."""

    __slots__ = ("by_guid", "others")

    def __init__(self) -> None:
        self.by_guid: dict[bytes, RefusedSource] = {}
        self.others = 0

    def add(self, guid: bytes, peer: str, message_class: MessageClass) -> None:
        source = self.by_guid.get(guid)
        if source is None:
            if len(self.by_guid) >= MAX_REFUSED_SOURCES:
                self.others += 1
                return
            source = self.by_guid[guid] = RefusedSource()
        source.peer = peer
        source.classes[message_class] += 1

    @property
    def count(self) -> int:
        return self.others + sum(source.count for source in self.by_guid.values())
