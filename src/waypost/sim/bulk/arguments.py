"""Arguments of the bulk interface: see waypost.sim.local.arguments."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET

from waypost.api.bulk import CommitStages
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.node import stages
from waypost.node.stages import Group
from waypost.sim.local.arguments import Draft, Drafts, format_name, key_of, name_of


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query as a run writes it. `to` is the key of a queue, "" for by column, None for any destination."""

    query: str
    number: int
    to: str | None = None
    run: bytes = NULL_GUID

    def to_engine(self) -> stages.Batch:
        return stages.Batch(self.query, self.number, format_name(self.to) if self.to else self.to, self.run)

    @classmethod
    def of(cls, commit: CommitStages) -> "Batch":
        to = None if commit.destination is UNSET else key_of(commit.destination)
        return cls(commit.query, commit.batch, to, parse_guid(commit.run) if commit.run else NULL_GUID)

    def commit(self, identifiers: Sequence[str]) -> CommitStages:
        """The operation that commits these stages of it."""
        to = UNSET if self.to is None else name_of(self.to)
        run = guid_text(self.run) if self.run != NULL_GUID else ""
        return CommitStages(query=self.query, batch=self.number, destination=to, run=run, stages=list(identifiers))

    def matches(self, other: "Batch") -> bool:
        """Whether both are the same, whichever runs write them."""
        ends = self.to, other.to
        return (self.query, self.number) == (other.query, other.number) and (self.to == other.to or None in ends)

    def __str__(self) -> str:
        to = "" if self.to is None else f" to {self.to or 'columns'}"
        return f"{self.query} {self.number}{to} by {self.run.hex()[:4]}"


@dataclass(slots=True, eq=False)
class Staging:
    """Messages for queues: some that are alike, then others. `stage` is the GUID that the engine gives them."""

    groups: tuple[tuple[str, Drafts | None, tuple[Draft, ...]], ...]
    stage: bytes = b""

    @property
    def drafts(self) -> list[tuple[str, Draft]]:
        """All of them, in their order, with the keys of their queues."""
        return [
            (key, draft)
            for key, alike, others in self.groups
            for draft in (*(() if alike is None else alike.drafts), *others)
        ]

    def to_engine(self) -> list[Group]:
        return [_group(*group) for group in self.groups]

    def __str__(self) -> str:
        return ", ".join(f"<{draft.uid}> for {key}" for key, draft in self.drafts) or "nothing"


def _group(key: str, alike: Drafts | None, others: tuple[Draft, ...]) -> Group:
    like, bodies = (None, []) if alike is None else alike.to_engine()
    return Group(format_name(key), like, bodies, [draft.to_engine() for draft in others])
