"""What clients of the bulk interface say to a queue manager and to the model of it."""

from dataclasses import dataclass

from waypost.node.bulk import Target
from waypost.node.node import Node
from waypost.node.stages import Group
from waypost.sim.words import Draft, Drafts, Word, format_name

# A query and the number of one of its batches.
Batch = tuple[str, int]


@dataclass(frozen=True, slots=True)
class At(Word):
    """A queue by its key, and the epoch that it has to have, or nothing."""

    key: str
    epoch: bytes = b""

    def to_engine(self, node: Node) -> Target:  # noqa: ARG002
        return Target(format_name(self.key), self.epoch)

    def __str__(self) -> str:
        return f"{self.key} {self.epoch.hex()[:4]}".strip()


@dataclass(slots=True, eq=False)
class Staging(Word):
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

    def to_engine(self, node: Node) -> "tuple[Staging, list[Group]]":
        return self, [_group(node, *group) for group in self.groups]

    def __str__(self) -> str:
        return ", ".join(f"<{draft.uid}> for {key}" for key, draft in self.drafts) or "nothing"


def _group(node: Node, key: str, alike: Drafts | None, others: tuple[Draft, ...]) -> Group:
    like, bodies = (None, []) if alike is None else alike.to_engine(node)
    return Group(format_name(key), like, bodies, [draft.to_engine(node) for draft in others])
