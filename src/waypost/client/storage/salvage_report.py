"""What `waypost store salvage` has to say."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class SalvagedQueue:
    """The messages of one queue.

    `counted` is how many the old folder says it had, None if that is lost. `missing` is how many of these were not
    brought back. `uncertain` of those that were may have been received already.
    """

    queue: str
    brought_back: int
    counted: int | None = None
    missing: int = 0
    uncertain: int = 0
    # Whether its record is lost: the queue has been made for its messages.
    is_made: bool = False


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """The result of a salvage: what is in the new folder, and what is not.

    `records` has how many records of each table were brought back. `lost` names records that were found and are not
    whole, and `damage` pages: the first thousand of each, with how many there are.
    """

    path: str
    new_path: str
    format: int
    # Whether the new folder is the queue manager that the old one was: with its GUID.
    same_identity: bool
    records: Mapping[str, int] = field(default_factory=dict)
    queues: tuple[SalvagedQueue, ...] = ()
    damage: tuple[str, ...] = ()
    damage_count: int = 0
    lost: tuple[str, ...] = ()
    lost_count: int = 0
    # Whether the list of free pages was found: else messages that were received already may be back.
    knows_free_pages: bool = True

    @property
    def brought_back(self) -> int:
        """How many messages."""
        return sum(queue.brought_back for queue in self.queues)

    @property
    def missing(self) -> int:
        """How many messages are counted in the old folder and are not in the new one."""
        return sum(queue.missing for queue in self.queues)

    def to_dict(self) -> dict[str, object]:
        """The keys and values of the JSON of the command line."""
        return {**asdict(self), "brought_back": self.brought_back, "missing": self.missing}
