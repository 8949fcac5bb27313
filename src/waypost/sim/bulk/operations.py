"""Operations of the bulk interface of a node, with one form: the Call, then the rest."""

from typing import Final

from waypost.node.application import Call
from waypost.node.bulk import BulkReading, Range, Target
from waypost.node.bulk_writing import BulkWriting
from waypost.node.claims import NewClaim
from waypost.node.node import Node
from waypost.node.stages import Batch, Group
from waypost.sim.bulk.arguments import Staging

OPERATIONS: Final = frozenset(
    {
        *("describe", "plan", "read_range", "seq_at", "remove", "claim", "read_claim", "return_claim"),
        *("list_claims", "stage", "drop_stages", "commit_stages", "list_batches"),
    }
)


class BulkOperations:
    """See waypost.sim.operations."""

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._reading: Final = BulkReading(node)
        self._writing: Final = BulkWriting(node)

    def describe(self, call: Call, at: Target) -> None:
        self._reading.describe(call, [at])

    def plan(self, call: Call, at: Target, wanted: Range, parts: int) -> None:
        self._reading.plan(call, at, wanted, parts)

    def read_range(self, call: Call, at: Target, wanted: Range) -> None:
        self._reading.read(call, at, wanted)

    def seq_at(self, call: Call, at: Target, time: float) -> None:
        self._reading.seq_at(call, at, time)

    def remove(self, call: Call, at: Target, up_to: int, max_messages: int) -> None:
        self._reading.remove(call, at, up_to, max_messages)

    def claim(self, call: Call, at: Target, wish: NewClaim) -> None:
        self._writing.claim(call, at, wish)

    def read_claim(self, call: Call, at: Target, part: tuple[str, int], places: range, max_bytes: int) -> None:
        self._writing.read_claim(call, at, part, places, max_bytes)

    def return_claim(self, call: Call, at: Target, claim: str) -> None:
        self._writing.return_claim(call, at, claim)

    def list_claims(self, call: Call, at: Target) -> None:
        self._writing.claims(call, at)

    def stage(self, call: Call, batch: Batch, staging: tuple[Staging, list[Group]], lease_s: float) -> None:
        """The model is told the GUID: it has to be the same when the answer comes, which may be never."""
        words, groups = staging
        stages = self._node.stages._stages  # noqa: SLF001
        before = next(reversed(stages), b"")
        self._writing.stage(call, batch, groups, lease_s)
        last = next(reversed(stages), b"")
        words.stage = last if last != before else b""

    def drop_stages(self, call: Call, stages: tuple[bytes, ...]) -> None:
        self._writing.drop(call, stages)

    def commit_stages(self, call: Call, batch: Batch, stages: tuple[bytes, ...]) -> None:
        self._writing.commit(call, batch, stages)

    def list_batches(self, call: Call, query: str) -> None:
        self._writing.batches(call, query)
