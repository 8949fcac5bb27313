"""The report of `waypost store salvage`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class SalvagedQueue:
    """The messages of one queue.

    `counted` is the number of messages that was recorded for the queue in the old folder, or None if this record is
    lost. `missing` is the number of counted messages that were not recovered. `uncertain` is the number of recovered
    messages that might already have been received.
    """

    queue: str
    brought_back: int
    counted: int | None = None
    missing: int = 0
    uncertain: int = 0
    # True if its record is lost: the queue was created for its messages.
    is_made: bool = False


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """The result of a salvage: the content of the new folder, and the lost data.

    `records` contains the number of recovered records of each table. `lost` lists the first thousand damaged records,
    and `lost_count` is the number of all damaged records. `damage` lists the first thousand damaged pages, and
    `damage_count` is the number of all damaged pages.
    """

    path: str
    new_path: str
    format: int
    # True if the new folder has the GUID of the old one: it is the same queue manager.
    same_identity: bool
    records: Mapping[str, int] = field(default_factory=dict)
    queues: tuple[SalvagedQueue, ...] = ()
    damage: tuple[str, ...] = ()
    damage_count: int = 0
    lost: tuple[str, ...] = ()
    lost_count: int = 0
    # True if the list of free pages was found: otherwise messages that were received already may be back.
    knows_free_pages: bool = True
    # True if users or groups may be lost: then a daemon does not start in the new folder before `forget_lost_users`.
    has_lost_users: bool = False
    # True if the old folder has a key folder, which is not copied.
    has_keys: bool = False

    @property
    def brought_back(self) -> int:
        """Number of recovered messages."""
        return sum(queue.brought_back for queue in self.queues)

    @property
    def missing(self) -> int:
        """Number of messages that were counted in the old folder but are missing in the new folder."""
        return sum(queue.missing for queue in self.queues)

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict, with the keys of the JSON output of the command line."""
        return {**asdict(self), "brought_back": self.brought_back, "missing": self.missing}
