"""What is asked of a node to stage messages, beside the operations that are records."""

from typing import Final

from waypost.node.bulk_writing import BulkWriting
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.sim.bulk.arguments import Batch, Staging
from waypost.sim.operations import Operations


class BulkOperations(Operations):
    """See waypost.sim.operations."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._writing: Final = BulkWriting(node)

    def stage(self, call: Call, batch: Batch, staging: Staging, lease_s: float) -> None:
        """The model is told the GUID: it has to be the same when the answer comes, which may be never."""
        stages = self._node.stages._stages  # noqa: SLF001
        before = next(reversed(stages), b"")
        self._writing.stage_groups(call, batch.to_engine(), staging.to_engine(), lease_s)
        last = next(reversed(stages), b"")
        staging.stage = last if last != before else b""
