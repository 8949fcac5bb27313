"""Operations of the bulk interface of a node, with one form: the Call, then the rest.

Those on ranges and claims are records, in which a queue has its key for a name.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from waypost.api.bulk import (
    BULK_OPERATIONS,
    Claim,
    DropStages,
    FindSeq,
    ListBatches,
    ListClaims,
    PlanRange,
    ReadClaim,
    ReadRange,
    RemoveRange,
    ReturnClaim,
    ShowBulkQueue,
)
from waypost.api.operations import Operation
from waypost.node.bulk_writing import BulkWriting
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.sim.bulk.arguments import Batch, Staging
from waypost.sim.local.arguments import format_name

OnQueue = (
    ShowBulkQueue | PlanRange | ReadRange | FindSeq | RemoveRange | Claim | ReadClaim | ReturnClaim | ListClaims
)  # fmt: skip

# A queue is shown by itself: to list them all is to show each.
OPERATIONS: Final = frozenset(kind.row.name for kind in BULK_OPERATIONS) - {"list_bulk_queues"}


class BulkOperations:
    """See waypost.sim.operations."""

    def __init__(self, node: Node, do: Callable[[Call, Operation[object]], None]) -> None:
        """`do` has an operation done that is a record."""
        self._node: Final = node
        self._do: Final = do
        self._writing: Final = BulkWriting(node)

    def _on_queue(self, call: Call, operation: OnQueue) -> None:
        self._do(call, replace(operation, name=str(format_name(operation.name))))

    show_bulk_queue = plan_range = read_range = find_seq = remove_range = _on_queue
    claim = read_claim = return_claim = list_claims = _on_queue

    def stage(self, call: Call, batch: Batch, staging: Staging, lease_s: float) -> None:
        """The model is told the GUID: it has to be the same when the answer comes, which may be never."""
        stages = self._node.stages._stages  # noqa: SLF001
        before = next(reversed(stages), b"")
        self._writing.stage_groups(call, batch.to_engine(), staging.to_engine(), lease_s)
        last = next(reversed(stages), b"")
        staging.stage = last if last != before else b""

    def drop_stages(self, call: Call, stages: tuple[str, ...]) -> None:
        self._do(call, DropStages(stages=list(stages)))

    def commit_stages(self, call: Call, batch: Batch, stages: tuple[str, ...]) -> None:
        self._do(call, batch.commit(stages))

    def list_batches(self, call: Call, query: str) -> None:
        self._do(call, ListBatches(query=query))
