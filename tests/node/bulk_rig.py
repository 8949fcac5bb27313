"""A node with a transactional queue `ledger` beside `orders`, and the words for claims and stages."""

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict
from msgspec.structs import replace as changed

from tests.node.rig import Rig, direct, letter
from waypost.api.bulk import BatchOfQuery, BatchRead, CommitStages, Committed, DropStages, ListBatches, Staged
from waypost.api.claims import (
    Claim,
    Claimed,
    ClaimObject,
    KeepClaim,
    ListAllClaims,
    ListClaims,
    ReadClaim,
    ReturnClaim,
    TakeClaim,
    Taken,
)
from waypost.api.frames import Frame
from waypost.api.operations import Operation
from waypost.core.positions import PositionState
from waypost.core.queues import Queue
from waypost.core.stored_message import stored_message
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.node.bulk_writing import BulkWriting
from waypost.node.committed_batches import BY_COLUMN
from waypost.node.stages import FIRST_PLACE, Batch, Group, Place
from waypost.wire.format_names import FormatName

LEASE = 100.0


R = TypeVar("R")


class BulkRig(Rig):
    """Every word is asked for and awaited, but for those that end with `_request`."""

    def ledger(self) -> Queue:
        return self.create("ledger", transactional=True)

    def ask_for(self, operation: Operation[R]) -> R:
        found = self.done(self.do(operation))
        assert isinstance(found, operation.row.reply)
        return cast("R", found)

    # Claims.

    def claim_request(self, after: int = 0, name: str = "orders", claim: str = "c", **wish: Any) -> int:
        wished = {"lease_s": LEASE, **wish}
        return self.do(Claim(name=str(direct(name)), claim=claim, after=after, **wished))

    def claim(self, after: int = 0, name: str = "orders", claim: str = "c", **wish: Any) -> tuple[int, int]:
        """The number of the part, and how many messages it has."""
        claimed = self.asked_claim(after, name=name, claim=claim, **wish)
        return claimed.number, claimed.count

    def asked_claim(self, after: int = 0, **wish: Any) -> Claimed:
        return cast("Claimed", self.done(self.claim_request(after, **wish)))

    def take(self, driver: str = "d", started: float = 1.0, asked: float = 2.0, **wish: Any) -> Taken:
        wished = {"name": str(direct("orders")), "claim": "c", **wish}
        return self.ask_for(TakeClaim(driver=driver, started=started, asked=asked, **wished))

    def keep(self, term: int, name: str = "orders", claim: str = "c") -> None:
        self.done(self.do(KeepClaim(name=str(direct(name)), claim=claim, term=term)))

    def read_claim(
        self,
        number: int,
        places: range = range(100),
        name: str = "orders",
        claim: str = "c",
        max_bytes: int = 1 << 20,
        **of: Any,
    ) -> Frame:
        wanted = ReadClaim(
            name=str(direct(name)),
            claim=claim,
            number=number,
            start=places.start,
            stop=places.stop,
            max_bytes=max_bytes,
            **of,
        )
        return self.ask_for(wanted)

    def claimed(
        self, number: int, places: range = range(100), name: str = "orders", claim: str = "c", **of: Any
    ) -> list[str]:
        packets = self.read_claim(number, places, name, claim, **of).each_packet()
        return [stored_message(packet).label for packet in packets]

    def return_claim(self, name: str = "orders", claim: str = "c", *, forget: bool = False) -> int:
        return self.ask_for(ReturnClaim(name=str(direct(name)), claim=claim, forget=forget)).count

    def held(self, name: str = "orders") -> list[ClaimObject]:
        return self.ask_for(ListClaims(name=str(direct(name)))).claims

    def held_anywhere(self, *, idle: bool = False) -> list[ClaimObject]:
        return self.ask_for(ListAllClaims(idle=idle)).claims

    # Stages, known by the bytes of their GUIDs.

    def stage_request(
        self,
        *groups: Group,
        lease_s: float = LEASE,
        place: Place = FIRST_PLACE,
        within: BatchRead | UnsetType = UNSET,
        **batch: Any,
    ) -> int:
        call = self.call()
        BulkWriting(self.node).stage_groups(call, batch_of(**batch), groups, lease_s, place, within)
        return call.request

    def stage(self, *labels: str, name: str = "ledger", **batch: Any) -> bytes:
        """The GUID of a stage with these messages; nothing if the batch is committed."""
        return self.stage_of(group(*labels, name=name), **batch)

    def stage_of(self, *groups: Group, **batch: Any) -> bytes:
        stage = self.staged(*groups, **batch).stage
        return parse_guid(stage) if stage else b""

    def staged(self, *groups: Group, **batch: Any) -> Staged:
        return cast("Staged", self.done(self.stage_request(*groups, **batch)))

    def drop(self, *stages: bytes, batch: Batch | None = None) -> None:
        of = UNSET if batch is None else query_batch(batch)
        self.done(self.do(DropStages(stages=list(map(guid_text, stages)), batch=of)))

    def commit_request(
        self, *stages: bytes, is_whole: bool = False, within: BatchRead | UnsetType = UNSET, **batch: Any
    ) -> int:
        return self.do(changed(commit_of(stages, batch_of(**batch)), is_whole=is_whole, within=within))

    def commit_stages(self, *stages: bytes, **batch: Any) -> Committed:
        return cast("Committed", self.done(self.commit_request(*stages, **batch)))

    def batches(self, query: str = "q") -> list[int]:
        return self.ask_for(ListBatches(query=query)).batches

    # State.

    @property
    def staged_bytes(self) -> int:
        return self.node.manager.positions.staged_bytes

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
    batch: int = 0, query: str = "q", to: FormatName | str | None = None, run: bytes = NULL_GUID, **rest: Any
) -> Batch:
    """`to` is the short name of a queue, a format name, BY_COLUMN, or None."""
    return Batch(query, batch, direct(to) if isinstance(to, str) and to != BY_COLUMN else to, run, **rest)


def query_batch(batch: Batch) -> BatchOfQuery:
    to, run = batch.destination, batch.run
    return BatchOfQuery(
        query=batch.query,
        batch=batch.number,
        destination=UNSET if to is None else str(to),
        run="" if run == NULL_GUID else guid_text(run),
        write=batch.write,
        is_version=batch.is_version,
        is_anonymous=batch.is_anonymous,
    )


def commit_of(stages: Sequence[bytes], batch: Batch, wait_s: float = 0.0) -> CommitStages:
    return CommitStages(**asdict(query_batch(batch)), stages=list(map(guid_text, stages)), wait_s=wait_s)


def group(*labels: str, name: str = "ledger") -> Group:
    return Group(direct(name), messages=[letter(label) for label in labels])
