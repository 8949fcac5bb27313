"""A node with a transactional queue `ledger` beside `orders`, and the words for claims and stages."""

from collections.abc import Sequence
from typing import Any, cast

from tests.node.rig import Rig, direct, letter
from waypost.core.positions import PositionState
from waypost.core.queues import Queue
from waypost.core.stored_message import stored_message
from waypost.guid import NULL_GUID
from waypost.node.bulk import Rows, Target
from waypost.node.bulk_writing import BulkWriting
from waypost.node.claims import Claimed, Held, NewClaim
from waypost.node.commits import BY_COLUMN
from waypost.node.stages import Batch, Committed, Group, Staged
from waypost.wire.format_names import FormatName

LEASE = 100.0


class BulkRig(Rig):
    """Every word is asked for and awaited, but for those that end with `_request`."""

    def _start(self) -> None:
        super()._start()
        self.writing = BulkWriting(self.node)

    def ledger(self) -> Queue:
        return self.create("ledger", transactional=True)

    # Claims.

    def claim_request(self, after: int = 0, name: str = "orders", claim: str = "c", **wish: object) -> int:
        call = self.call()
        wished = NewClaim(claim, after, **{"lease_s": LEASE, **wish})  # type: ignore[arg-type]
        self.writing.claim(call, Target(direct(name)), wished)
        return call.request

    def claim(self, after: int = 0, name: str = "orders", claim: str = "c", **wish: object) -> tuple[int, int]:
        """The number of the part, and how many messages it has."""
        _, claimed = cast("tuple[bytes, Claimed]", self.done(self.claim_request(after, name, claim, **wish)))
        return claimed.number, claimed.count

    def read_claim(
        self, number: int, places: range = range(100), name: str = "orders", claim: str = "c", max_bytes: int = 1 << 20
    ) -> Rows:
        call = self.call()
        self.writing.read_claim(call, Target(direct(name)), (claim, number), places, max_bytes)
        return cast("Rows", self.done(call.request))

    def claimed(self, number: int, places: range = range(100), name: str = "orders", claim: str = "c") -> list[str]:
        return [stored_message(packet).label for packet in self.read_claim(number, places, name, claim).packets]

    def return_claim(self, name: str = "orders", claim: str = "c") -> int:
        call = self.call()
        self.writing.return_claim(call, Target(direct(name)), claim)
        return cast("int", self.done(call.request))

    def held(self, name: str = "orders") -> list[Held]:
        call = self.call()
        self.writing.claims(call, Target(direct(name)))
        return cast("list[Held]", self.done(call.request))

    # Stages.

    def stage_request(self, *groups: Group, lease_s: float = LEASE, **batch: Any) -> int:
        call = self.call()
        self.writing.stage(call, batch_of(**batch), groups, lease_s)
        return call.request

    def stage(self, *labels: str, name: str = "ledger", **batch: Any) -> bytes:
        """The GUID of a stage with these messages; nothing if the batch is committed."""
        return self.staged(group(*labels, name=name), **batch).stage

    def staged(self, *groups: Group, **batch: Any) -> Staged:
        return cast("Staged", self.done(self.stage_request(*groups, **batch)))

    def drop(self, *stages: bytes) -> None:
        call = self.call()
        self.writing.drop(call, stages)
        self.done(call.request)

    def commit_request(self, *stages: bytes, **batch: Any) -> int:
        call = self.call()
        self.writing.commit(call, batch_of(**batch), stages)
        return call.request

    def commit_stages(self, *stages: bytes, **batch: Any) -> Committed:
        return cast("Committed", self.done(self.commit_request(*stages, **batch)))

    def batches(self, query: str = "q") -> list[int]:
        call = self.call()
        self.writing.batches(call, query)
        return cast("list[int]", self.done(call.request))

    # What is there.

    def seen(self, name: str = "orders") -> list[str]:
        """The labels of the messages that a reader could take now, in list order."""
        queue = self.queue(name)
        return [
            message.label
            for message in self.contents(queue)
            if queue.positions.state(message.lookup_identifier) is PositionState.AVAILABLE
        ]

    def send_all(self, labels: Sequence[str], name: str = "orders") -> None:
        for label in labels:
            self.done(self.send(label, name))

    def poison(self, name: str = "orders") -> list[str]:
        subqueue = self.queue(name).subqueues.get("poison")
        return [] if subqueue is None else self.labels(subqueue)


def batch_of(
    batch: int = 0, query: str = "q", to: FormatName | str | None = None, run: bytes = NULL_GUID
) -> Batch:  # fmt: skip
    """`to` is the short name of a queue, a format name, BY_COLUMN, or None."""
    return Batch(query, batch, direct(to) if isinstance(to, str) and to != BY_COLUMN else to, run)


def group(*labels: str, name: str = "ledger") -> Group:
    return Group(direct(name), messages=[letter(label) for label in labels])
