"""Arguments of the bulk interface: see waypost.sim.local.arguments."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from waypost.api.bulk import BatchOfQuery, CommitStages, MessagesToRemove, Stage, StagedMessages
from waypost.api.properties import NewMessage
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.sim.local.arguments import Draft, drafts_of, key_of, name_of


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch of a query as a run writes it. `to` is the key of a queue, "" for by column, None for any destination."""

    query: str
    number: int
    to: str | None = None
    run: bytes = NULL_GUID
    # The name of one of several writes: its number among them, a colon, and more.
    write: str = ""

    @classmethod
    def of(cls, given: BatchOfQuery) -> "PlannedBatch":
        to = None if given.destination is UNSET else key_of(given.destination)
        return cls(given.query, given.batch, to, parse_guid(given.run) if given.run else NULL_GUID, given.write)

    @property
    def writer(self) -> tuple[bytes, str]:
        return self.run, self.write

    @property
    def number_of_write(self) -> str:
        return self.write.partition(":")[0]

    def stage(self, groups: list[StagedMessages], lease_s: float, partition: int = 0) -> Stage:
        query, batch, to, run = self._given
        return Stage(
            query=query,
            batch=batch,
            destination=to,
            run=run,
            write=self.write,
            groups=groups,
            lease_s=lease_s,
            partition=partition,
        )

    def commit(self, identifiers: Sequence[str], removes: Sequence[MessagesToRemove] = ()) -> CommitStages:
        """The operation that commits these stages of the batch, and removes these messages.

        Its answer does not wait for the delivery.
        """
        query, batch, to, run = self._given
        return CommitStages(
            query=query,
            batch=batch,
            destination=to,
            run=run,
            write=self.write,
            stages=list(identifiers),
            removes=list(removes),
            wait_s=0.0,
        )

    @property
    def _given(self) -> tuple[str, int, str | UnsetType, str]:
        to = UNSET if self.to is None else name_of(self.to)
        return self.query, self.number, to, guid_text(self.run) if self.run != NULL_GUID else ""

    def matches(self, other: "PlannedBatch") -> bool:
        """Whether both are the same batch, in whatever runs."""
        ends = self.to, other.to
        return (self.query, self.number) == (other.query, other.number) and (self.to == other.to or None in ends)

    def __str__(self) -> str:
        to = "" if self.to is None else f" to {self.to or 'columns'}"
        return f"{self.query} {self.number}{to} by {self.run.hex()[:4]}"


def group_of(key: str, alike: Sequence[Draft], others: Sequence[Draft]) -> StagedMessages:
    """Messages for a queue: some that differ in their bodies alone, then others."""
    return StagedMessages(
        queue=name_of(key),
        like=alike[0].properties if alike else UNSET,
        bodies=[draft.body for draft in alike],
        messages=[NewMessage(**asdict(draft.properties), body=draft.body) for draft in others],
    )


def groups_in(stage: Stage) -> list[tuple[str, list[tuple[Draft, ...]]]]:
    """The messages of a stage: for each group the key of its queue, and those that are alike together."""
    return [
        (
            key_of(group.queue),
            [
                *([drafts_of(group.like, group.bodies)] if group.bodies else []),
                *(drafts_of(each, [_body(each)]) for each in group.messages),
            ],
        )
        for group in stage.groups
    ]


def drafts_in(stage: Stage) -> list[tuple[str, Draft]]:
    """The messages of a stage, with the keys of their queues."""
    return [(key, draft) for key, groups in groups_in(stage) for drafts in groups for draft in drafts]


def _body(message: NewMessage) -> bytes:
    assert isinstance(message.body, bytes)
    return message.body
