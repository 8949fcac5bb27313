"""Sent and arrived messages: every message once in every destination, and no other."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Difference:
    """Messages of a destination: missing ones, second copies, and ones that nobody has sent."""

    lost: Counter[bytes]
    doubled: Counter[bytes]
    foreign: Counter[bytes]

    def sentences(self, destination: str) -> Iterator[str]:
        for kind, bodies in (("lost", self.lost), ("doubled", self.doubled), ("foreign", self.foreign)):
            if bodies:
                yield f"{destination}: {bodies.total()} messages are {kind}, such as {min(bodies)[:_SHOWN]!r}"


def difference(sent: Iterable[bytes], arrived: Iterable[bytes]) -> Difference:
    """`sent` has every body once."""
    once, found = Counter(sent), Counter(arrived)
    known = Counter({body: times for body, times in found.items() if body in once})
    return Difference(once - known, known - once, found - known)


@dataclass(slots=True)
class Ledger:
    """The messages of one leg of the campaign."""

    destinations: tuple[str, ...]
    sent: list[bytes] = field(default_factory=list)

    def bodies(self, count: int) -> list[bytes]:
        """Bodies that no other message has."""
        first = len(self.sent)
        return [f"message {number} ".encode() * 10 for number in range(first, first + count)]

    def compare(self, arrived: Mapping[str, Iterable[bytes]]) -> dict[str, Difference]:
        return {name: difference(self.sent, arrived.get(name, ())) for name in self.destinations}
