"""Transactions in which remote readers enlist the queue manager: MS-MQRR 3.1.4.12, with Waypost's own coordinator."""

from typing import Final

from waypost.clock import Now
from waypost.hresult import HResult
from waypost.sim.model.books import Books
from waypost.sim.model.letters import Answer, Refused
from waypost.sim.model.works import Work, Works

ENLISTED: Final = "EnlistTransaction"
ABORTED: Final = "AbortRequestDone"
# The same message, for a transaction that took too long.
TIMED_OUT: Final = "AbortRequestDone, unasked"


class Enlistments:
    def __init__(self, books: Books, works: Works, timeout: float) -> None:
        self._books: Final = books
        self._works: Final = works
        self._timeout: Final = timeout
        self._begun: list[tuple[float, Work]] = []
        # Those that were aborted unasked.
        self.given_up: Final[set[bytes]] = set()

    def enlist(self, identifier: bytes) -> None:
        if self._works.is_open(identifier):
            return
        if identifier in self._works.works or self._works.in_doubt or identifier in self.given_up:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_ENLIST)
        work = self._works.begin(identifier)
        work.is_external = True
        self._books.answer((ENLISTED, identifier), Answer(is_notice=True))
        self._begun.append((self._books.now.monotonic + self._timeout, work))

    def tick(self, now: Now) -> None:
        for deadline, work in self._running():
            if deadline <= now.monotonic:
                self._books.marks.sometimes("a transaction of a remote reader that takes too long")
                self._works.abort(work.identifier)
                self.given_up.add(work.identifier)
                self._books.answer((TIMED_OUT, work.identifier), Answer(is_notice=True))

    @property
    def next_deadline(self) -> float | None:
        return min((deadline for deadline, _ in self._running()), default=None)

    def _running(self) -> list[tuple[float, Work]]:
        self._begun = [
            (deadline, work)
            for deadline, work in self._begun
            if self._works.works.get(work.identifier) is work and not work.is_prepared
        ]
        return self._begun
