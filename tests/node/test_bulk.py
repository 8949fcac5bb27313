"""Sending and receiving many messages in one go is the same as doing it one by one."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.node.bulk import DEAD, ORDINARY, READABLE, TRANSACTIONAL, Bulk, Kind, Workshop
from tests.node.rig import EXPRESS, OTHER_TX, RECOVERABLE, TX, Rig
from waypost.store.port import Action
from waypost.wire.codec import INFINITE


@dataclass(frozen=True, slots=True)
class Send:
    """To a queue that is not transactional if there is no transaction."""

    name: str
    kind: Kind
    count: int
    tx: bytes | None
    external: bool
    in_bulk: bool

    def do(self, rig: Workshop, at: int) -> None:
        # Of different lengths, and no two alike.
        bodies = [b"%d,%d" % (at, number) + bytes(number % 3) for number in range(self.count)]
        how = type(rig) if self.in_bulk else Workshop
        how.send_all(rig, self.name, self.kind, bodies, rig.transaction(self.tx, external=self.external))


@dataclass(frozen=True, slots=True)
class Receive:
    name: str
    count: int
    tx: bytes | None
    external: bool
    in_bulk: bool

    def do(self, rig: Workshop, _at: int) -> None:
        how = type(rig) if self.in_bulk else Workshop
        how.receive_all(rig, self.name, self.count, rig.transaction(self.tx, external=self.external))


@dataclass(frozen=True, slots=True)
class Wait:
    name: str
    tx: bytes | None

    def do(self, rig: Workshop, _at: int) -> None:
        rig.wait(self.name, rig.transaction(self.tx, external=False))


@dataclass(frozen=True, slots=True)
class Move:
    tx: bytes | None

    def do(self, rig: Workshop, _at: int) -> None:
        rig.move_first(rig.transaction(self.tx, external=False))


@dataclass(frozen=True, slots=True)
class End:
    tx: bytes
    commits: bool

    def do(self, rig: Workshop, _at: int) -> None:
        rig.end(self.tx, commits=self.commits)


@dataclass(frozen=True, slots=True)
class Purge:
    name: str

    def do(self, rig: Workshop, _at: int) -> None:
        rig.done(rig.purge(self.name))


@dataclass(frozen=True, slots=True)
class Hold:
    """The first phase of a read in two."""

    name: str

    def do(self, rig: Workshop, _at: int) -> None:
        rig.hold_first(self.name)


@dataclass(frozen=True, slots=True)
class Pass:
    seconds: int

    def do(self, rig: Workshop, _at: int) -> None:
        rig.advance(self.seconds)


Step = Send | Receive | Wait | Move | End | Purge | Hold | Pass

kinds = st.builds(
    Kind,
    delivery_guarantee=st.sampled_from((RECOVERABLE, RECOVERABLE, EXPRESS)),
    time_to_be_received=st.sampled_from((INFINITE, INFINITE, 0, 5, 50)),
    priority=st.sampled_from((3, 3, 0, 7)),
    acknowledgements=st.sampled_from((0, 0, 0x0F)),
    positive_journaling=st.sampled_from((False, False, True)),
    negative_journaling=st.sampled_from((False, False, True)),
    application_deadletter_queue=st.sampled_from(("", "", DEAD)),
    allow_peek_when_locked=st.sampled_from((False, False, True)),
    sender_certificate=st.sampled_from((b"", b"", b"", b"certificate")),
)
quiet_kinds = st.builds(Kind, priority=st.sampled_from((3, 0, 7)))
some = st.integers(1, 5)
transactions = st.sampled_from((TX, OTHER_TX))
perhaps = st.none() | transactions
rarely = st.sampled_from((False, False, True))
mostly = st.sampled_from((True, True, False))
readable = st.sampled_from(READABLE)
sends = st.builds(
    Send, st.sampled_from(ORDINARY), kinds | quiet_kinds, some, tx=st.none(), external=st.just(False), in_bulk=mostly
)
sends_in_transactions = st.builds(
    Send, st.sampled_from(TRANSACTIONAL), kinds | quiet_kinds, some, tx=transactions, external=rarely, in_bulk=mostly
)
receives = st.builds(Receive, readable, some, tx=perhaps, external=rarely, in_bulk=mostly)
others = st.one_of(
    st.builds(Wait, readable, perhaps),
    st.builds(Move, perhaps),
    st.builds(Purge, readable),
    st.builds(Hold, readable),
    st.builds(Pass, st.sampled_from((1, 6, 60))),
)
ends = st.builds(End, transactions, mostly)
steps: st.SearchStrategy[Step] = st.one_of(
    sends, sends_in_transactions, sends_in_transactions, receives, receives, ends, others, others
)


@settings(max_examples=40)
@given(st.lists(steps, min_size=1, max_size=14), st.sampled_from([Rig.stop, Rig.crash]))
def test_in_bulk_is_the_same_as_one_by_one(scenario: list[Step], restart: Callable[[Rig], None]) -> None:
    rigs = bulk, single = Bulk(), Workshop()
    for at, step in enumerate(scenario):
        for rig in rigs:
            step.do(rig, at)
        assert bulk.everything() == single.everything()
    for rig in rigs:
        rig.settle()
        restart(rig)
    assert bulk.everything() == single.everything()
    for rig in rigs:
        rig.advance(100)
    assert bulk.everything() == single.everything()
