"""Checkpoints of bulk clients, on separate disks, which a crash of the host does not touch."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Stream:
    """Checkpoint of a reader of ranges: it has processed the queue with this key and epoch up to number `after`."""

    key: str
    is_draining: bool
    after: int = 0
    epoch: str = ""

    def begin_again(self, key: str) -> None:
        self.key, self.after, self.epoch = key, 0, ""


@dataclass(slots=True)
class Claiming:
    """Checkpoint of a reader with a claim: it has processed the parts of the claim up to number `after`."""

    owner: str
    key: str
    number: int = 0
    after: int = 0
    epoch: str = ""

    @property
    def claim(self) -> str:
        return f"{self.owner}-{self.number}"

    def begin_again(self, key: str) -> None:
        self.key, self.number, self.after, self.epoch = key, self.number + 1, 0, ""


@dataclass(slots=True)
class Reading:
    """Checkpoint of a query that reads a claim in terms. Several programs may work with it, of which one can.

    The claim has the name of the query.
    """

    owner: str
    key: str
    number: int = 0
    after: int = 0
    batch: int = 0
    epoch: str = ""

    @property
    def query(self) -> str:
        return f"{self.owner}-{self.number}"

    def begin_again(self, key: str) -> None:
        self.key, self.number, self.after, self.batch, self.epoch = key, self.number + 1, 0, 0, ""


@dataclass(slots=True)
class Query:
    """Checkpoint of a writer: the batch to commit. `stages` are those with a commit request that has no answer yet.

    `to` is its destination, and `run` its present run.
    """

    to: str | None
    run: bytes
    batch: int = 0
    stages: list[str] = field(default_factory=list)
    # Writes of a batch, the number of the present one, and its name in this run; no name if there is only one.
    writes: int = 1
    at: int = 0
    write: str = ""

    def begin_again(self, run: bytes) -> None:
        """Start another run, which does not know the stages of the last run, and repeats all writes of the batch."""
        self.run, self.stages, self.at, self.write = run, [], 0, ""

    def end_write(self) -> None:
        """Go on with the next write, of this batch or of the next one."""
        self.at, self.write = (self.at + 1) % self.writes, ""
        self.batch += not self.at


@dataclass(slots=True)
class Checkpoints:
    """The checkpoints of all clients, by the names of the clients."""

    streams: dict[str, Stream] = field(default_factory=dict)
    claims: dict[str, Claiming] = field(default_factory=dict)
    claimants: dict[str, Reading] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
