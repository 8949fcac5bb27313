"""Limits of the bulk interface in a simulation: so small that they are reached."""

from dataclasses import dataclass

from waypost.limits import MAX_BATCHES, MAX_BULK_REMOVED, MAX_CLAIMS, MAX_STAGES
from waypost.node import bulk, claims, committed_batches, stages, stored_messages
from waypost.sim.patches import Patch


@dataclass(frozen=True, slots=True)
class BulkLimits:
    """Claims, stages, batches that are remembered of a query, messages removed with one request.

    `some` is how many messages beyond the expected ones are looked at for a frame, `part` how many are read together.
    """

    claims: int = MAX_CLAIMS
    stages: int = MAX_STAGES
    batches: int = MAX_BATCHES
    removed: int = MAX_BULK_REMOVED
    some: int = 100
    part: int = 128

    def patches(self) -> tuple[Patch, ...]:
        return (
            Patch(claims, "MAX_CLAIMS", self.claims),
            Patch(stages, "MAX_STAGES", self.stages),
            Patch(committed_batches, "MAX_BATCHES", self.batches),
            Patch(bulk, "MAX_BULK_REMOVED", self.removed),
            Patch(bulk, "_SOME", self.some),
            Patch(stored_messages, "_PART", self.part),
        )
