"""What `waypost store verify` has to say."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import msgspec


@dataclass(frozen=True, slots=True)
class StoreDamage:
    """One thing that is wrong: `reason` is the sentence. `page` is None for what is not about a page of the file.

    `queue` and `lookup_id` are those of the message that it is about, if there is one.
    """

    table: str
    reason: str
    page: int | None = None
    queue: str | None = None
    lookup_id: str | None = None

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The result of a verification: `size` is that of the file in bytes, `records` how many each table holds.

    `damage` has the first thousand things that are wrong, and `damage_count` how many there are.
    """

    path: str
    format: int
    size: int
    pages: int
    free_pages: int
    records: Mapping[str, int] = field(default_factory=dict)
    damage: tuple[StoreDamage, ...] = ()
    damage_count: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damage_count

    def to_dict(self) -> dict[str, object]:
        """The keys and values of the JSON of the command line and of HTTP."""
        return {"is_whole": self.is_whole, **asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> "StoreReport":
        """The report whose `to_dict` this is."""
        return msgspec.convert({key: value for key, value in values.items() if key != "is_whole"}, cls)
