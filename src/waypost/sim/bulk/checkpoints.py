"""Checkpoints of bulk clients, on disks of their own, so that a crash of the host takes nothing of them."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Stream:
    """A reader of ranges has processed everything up to number `after` of the queue with this key and epoch."""

    key: str
    is_draining: bool
    after: int = 0
    epoch: str = ""

    def begin_again(self, key: str) -> None:
        self.key, self.after, self.epoch = key, 0, ""


@dataclass(slots=True)
class Claiming:
    """A reader has processed the parts of a claim up to number `after`."""

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
class Query:
    """A writer has to have this batch committed. `stages` are those whose commit it has asked for without an answer.

    `to` is where it writes, and `run` the present run of it.
    """

    to: str | None
    run: bytes
    batch: int = 0
    stages: list[str] = field(default_factory=list)

    def begin_again(self, run: bytes) -> None:
        """In another run, which knows nothing of the stages of the last."""
        self.run, self.stages = run, []


@dataclass(slots=True)
class Checkpoints:
    """By the names of clients."""

    streams: dict[str, Stream] = field(default_factory=dict)
    claims: dict[str, Claiming] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
