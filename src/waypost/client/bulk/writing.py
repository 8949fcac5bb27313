"""Claims and stages of a daemon, as its clients ask for them: see waypost.client.bulk.schema for what they mean."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import NoneType
from typing import TypeVar
from urllib.parse import urlencode

from msgspec import UNSET, Struct

from waypost.client.bulk.frame import Frame
from waypost.client.bulk.paging import frames_ahead
from waypost.client.bulk.schema import (
    Batches,
    BatchOfQuery,
    Claimed,
    ClaimObject,
    Claims,
    Commit,
    Committed,
    DropStages,
    NewClaim,
    ReadClaim,
    ReturnClaim,
    Returned,
    Stage,
    Staged,
    StagedMessages,
)
from waypost.client.transports.http.exchanges import path_part

A = TypeVar("A")


class BulkWriting(ABC):
    """What a client of the bulk interface can claim, stage and commit."""

    __slots__ = ()

    @abstractmethod
    def call(self, method: str, path: str, content: Struct | None, answer: type[A]) -> A:
        """Ask for anything that is answered by a structure, or by nothing: then `answer` is NoneType."""

    @abstractmethod
    def frame(self, path: str, content: Struct) -> Frame:
        """Ask for anything that is answered by a frame."""

    def claim(self, name: str, wish: NewClaim) -> Claimed:
        """Say which parts are processed, and get the next one; its number is that of the answer, whichever it is.

        Raises TransactionSequence if the part that was processed is not claimed any more: its messages are for others.
        """
        return self.call("POST", _path(name), wish, Claimed)

    def settle(self, name: str, claim: str, after: int, *, epoch: str = "") -> None:
        """Take the parts up to number `after` out of the queue for good, and claim nothing more.

        If there is a part behind them already, it stays claimed.
        """
        self.claim(name, NewClaim(claim=claim, after=after, max_messages=0, epoch=epoch))

    def read_claim(self, name: str, wanted: ReadClaim) -> Frame:
        return self.frame(_path(name, "read"), wanted)

    def read_claim_all(self, name: str, wanted: ReadClaim) -> Iterator[Frame]:
        """All of the places, in frames that have one message at least."""
        return frames_ahead(partial(self.read_claim, name), wanted)

    def return_claim(self, name: str, claim: str) -> int:
        """Give back what is claimed; how many messages that were."""
        return self.call("POST", _path(name, "return"), ReturnClaim(claim=claim), Returned).count

    def claims(self, name: str) -> list[ClaimObject]:
        """The parts of the queue that readers have."""
        return self.call("GET", _path(name), None, Claims).claims

    def stage(
        self,
        query: str,
        batch: int,
        groups: Iterable[StagedMessages],
        *,
        destination: str | None = None,
        run: str = "",
        lease_s: float = 3600,
    ) -> str:
        """Write messages that nobody sees yet; the id of the stage, or "" if another run has committed the batch.

        A request whose answer was lost leaves a stage behind that nobody knows, and that goes with the commit of the
        batch, or after its lease. Raises TransactionSequence if the batch is committed by this run, or this one has no
        name.
        """
        to = UNSET if destination is None else destination
        wish = Stage(query=query, batch=batch, destination=to, run=run, groups=list(groups), lease_s=lease_s)
        return self.staged(wish).stage

    def staged(self, wish: Stage) -> Staged:
        """The same, with how many messages the stage has."""
        return self.call("POST", "/stages", wish, Staged)

    def drop(self, stages: Sequence[str], batch: BatchOfQuery | None = None) -> None:
        """Let nothing be left of stages, whether they are there or not, and of others that a run has for its batch."""
        wish = DropStages(stages=list(stages), batch=UNSET if batch is None else batch)
        self.call("POST", "/stages/drop", wish, NoneType)

    def commit(
        self, query: str, batch: int, stages: Sequence[str], *, destination: str | None = None, run: str = ""
    ) -> Committed:
        """Make stages seen in one moment, unless the batch was committed before; drop its other stages.

        Raises QueueDeleted if messages went with their queue, and TransactionSequence for a second write of the batch.
        """
        to = UNSET if destination is None else destination
        wish = Commit(query=query, batch=batch, destination=to, run=run, stages=list(filter(None, stages)))
        return self.call("POST", "/commits", wish, Committed)

    def batches(self, query: str) -> list[int]:
        """The last batches of the query that were committed, ascending."""
        return self.call("GET", f"/commits?{urlencode({'query': query})}", None, Batches).batches


def _path(name: str, action: str = "") -> str:
    path = f"/queues/{path_part(name)}/claims"
    return f"{path}/{action}" if action else path
