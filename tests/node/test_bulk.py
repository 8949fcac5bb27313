"""Sending and receiving many messages in one go is the same as doing it one by one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.node.bulk import DEAD, ORDINARY, READABLE, TRANSACTIONAL, Bulk, Kind, Workshop
from tests.node.rig import EXPRESS, IN_TX, OTHER_TX, RECOVERABLE, SEND, TX, ReadOptions, Rig, direct, letter
from waypost.errors import InsufficientResources, InvalidParameter, TransactionUsage
from waypost.store.port import Action
from waypost.wire.codec import INFINITE


@dataclass(frozen=True, slots=True)
class Send:
    """To a queue that is not transactional if the transaction is None."""

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


@dataclass(frozen=True, slots=True)
class Delete:
    name: str

    def do(self, rig: Workshop, _at: int) -> None:
        rig.done(rig.delete(self.name))


Step = Send | Receive | Wait | Move | End | Purge | Hold | Pass | Delete

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
    sends, sends_in_transactions, sends_in_transactions, receives, receives, ends, ends, others
)


@settings(max_examples=100)
@given(st.lists(steps, min_size=1, max_size=14), st.sampled_from([Rig.stop, Rig.crash]))
def test_in_bulk_is_the_same_as_one_by_one(scenario: list[Step], restart: Callable[[Rig], None]) -> None:
    compare(scenario, restart)


def compare(scenario: Sequence[Step], restart: Callable[[Rig], None]) -> None:
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


def sent(name: str, kind: Kind, count: int = 3, *, external: bool = False, in_bulk: bool = True) -> Send:
    return Send(name, kind, count, TX if name in TRANSACTIONAL else None, external, in_bulk)


def received(name: str, count: int = 3) -> Receive:
    return Receive(name, count, TX, external=False, in_bulk=True)


COMMIT, ABORT = End(TX, commits=True), End(TX, commits=False)
QUIET = Kind()
SHORT = Kind(time_to_be_received=5)
ASKING = Kind(acknowledgements=0x0F, positive_journaling=True)
SHORT_AND_ASKING = replace(ASKING, time_to_be_received=5, negative_journaling=True)
SHOWN = Kind(allow_peek_when_locked=True)
IN_MEMORY = Kind(EXPRESS)
MIXED = (
    sent("orders", QUIET, 5),
    sent("ledger", QUIET, 2),
    sent("books", QUIET, 2, in_bulk=False),
    received("orders", 2),
    sent("ledger", ASKING, 2),
    Move(TX),
    sent("ledger", QUIET, 1, in_bulk=False),
    received("orders", 2),
    sent("books", QUIET, 2),
)
# Each takes a separate way: messages that are shown, awaited, expired, purged, deleted or journaled go one by one.
SCENARIOS: dict[str, tuple[Step, ...]] = {
    "shown": (sent("orders", SHOWN), received("orders", 2)),
    "shown and released": (sent("orders", SHOWN), received("orders", 2), ABORT),
    "shown and gone": (sent("orders", SHOWN), received("orders", 2), COMMIT),
    "awaited": (Wait("ledger", None), Wait("ledger", None), sent("ledger", QUIET), COMMIT),
    "awaited by the same transaction": (Wait("ledger", TX), sent("ledger", QUIET), COMMIT),
    "expired before its commit": (sent("ledger", SHORT), Pass(6), COMMIT),
    "expired and asked for": (sent("ledger", SHORT_AND_ASKING), Pass(6), COMMIT),
    "expired after its commit": (sent("ledger", SHORT), COMMIT, Pass(6)),
    "expired while it was received": (sent("orders", SHORT), received("orders"), Pass(6), COMMIT),
    "expired while it was received in vain": (sent("orders", SHORT), received("orders"), Pass(6), ABORT),
    "expired in another queue": (sent("orders", SHORT), received("orders"), sent("books", QUIET), Pass(6), COMMIT),
    "journaled": (sent("books", QUIET), COMMIT, received("books"), COMMIT),
    "journaled and awaited": (Wait("journaled", None), Wait("journaled", None), sent("journaled", QUIET)),
    "asked for": (sent("ledger", ASKING), COMMIT, received("ledger"), COMMIT),
    "purged while it was received": (sent("orders", QUIET, 4), received("orders"), Purge("orders"), COMMIT),
    "purged while it was received in vain": (sent("orders", QUIET, 4), received("orders"), Purge("orders"), ABORT),
    "purged before its commit": (sent("ledger", QUIET), Purge("ledger"), COMMIT),
    "purged before its abort": (sent("ledger", QUIET), Purge("ledger"), ABORT),
    "purged while it was prepared": (sent("ledger", QUIET, external=True), Purge("ledger"), COMMIT),
    "deleted before its commit": (sent("ledger", QUIET), sent("books", QUIET), Delete("ledger"), COMMIT),
    "deleted while it was received": (sent("orders", QUIET), received("orders"), Delete("orders"), COMMIT),
    "express": (sent("orders", IN_MEMORY), received("orders", 2), ABORT, received("orders"), COMMIT),
    "too late at once": (sent("orders", replace(SHORT_AND_ASKING, time_to_be_received=0)), Pass(1)),
    "prepared": (sent("ledger", QUIET, external=True), sent("ledger", ASKING), COMMIT, received("ledger", 6)),
    "mixed": (*MIXED, COMMIT, received("ledger", 9), COMMIT),
    "mixed in vain": (*MIXED, ABORT),
    "mixed and prepared": (sent("books", QUIET, external=True), *MIXED, COMMIT),
    "mixed and lost": MIXED,
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_nothing_special_is_lost_in_bulk(scenario: tuple[Step, ...]) -> None:
    compare(scenario, Rig.crash)


def limit_queue(rig: Rig, kilobytes: int) -> None:
    rig.modify("orders", quota=kilobytes)


def limit_machine(rig: Rig, kilobytes: int) -> None:
    rig.node.manager.set_quota(kilobytes)


@settings(max_examples=30)
@given(
    kinds,
    st.lists(st.integers(0, 400), min_size=1, max_size=6),
    st.integers(1, 3),
    st.sampled_from([limit_queue, limit_machine]),
)
def test_a_quota_takes_all_of_them_or_none(
    kind: Kind, sizes: list[int], kilobytes: int, limit: Callable[[Rig, int], None]
) -> None:
    rig, roomy = Bulk(), Bulk()
    bodies = [b"%d" % number + bytes(size) for number, size in enumerate(sizes)]
    for each in (rig, roomy):
        each.send_all("orders", Kind(), [b"there"], None)
    limit(rig, kilobytes)
    forever = replace(kind, time_to_be_received=INFINITE)
    roomy.send_all("orders", forever, bodies, None)
    before = rig.everything()
    if roomy.queue().total_bytes <= kilobytes * 1024:
        rig.send_all("orders", forever, bodies, None)
        assert len(rig.queue().positions) == 1 + len(bodies)
    else:
        with pytest.raises(InsufficientResources):
            rig.send_all("orders", kind, bodies, None)
        assert rig.everything() == before


def test_there_is_no_bulk_of_nothing() -> None:
    rig = Rig()
    rig.done(rig.send("there"))
    with pytest.raises(InvalidParameter):
        rig.send_many([])
    with pytest.raises(InvalidParameter):
        rig.receive_many(0)
    assert rig.labels() == ["there"]


def test_many_are_not_received_at_a_cursor() -> None:
    rig = Rig()
    cursor = rig.open_cursor()
    with pytest.raises(InvalidParameter):
        rig.receive_many(1, options=ReadOptions(cursor=cursor))


def test_the_bytes_of_a_batch_are_counted() -> None:
    rig = Rig()
    rig.create("ledger", transactional=True)
    rig.done(rig.send_many([b"1", b"22"]))
    rig.begin()
    rig.send_many([b"1", b"22"], "ledger", TX)
    rig.done(rig.commit())
    for batch in rig.submitted:
        assert batch.size == sum(len(value) for action, _, _, value in batch.operations if action is Action.PUT)


def test_an_answer_to_a_bulk_receive_waits_for_what_it_shows() -> None:
    """Also for one that is durable later than the others."""
    rig = Rig()
    rig.open(access=SEND)
    rig.open()
    rig.done(rig.begin())
    rig.hold_disk()
    for bodies in ([b"1"], [b"2", b"3"]):
        rig.send_many(bodies)
        rig.turn()
    request = rig.receive_many(3, options=IN_TX)
    rig.write()
    assert not rig.is_answered(request)
    rig.write()
    assert rig.is_answered(request)


def test_a_message_that_was_looked_at_before_the_commit_is_committed_whole() -> None:
    rig = Rig()
    rig.create("ledger", transactional=True)
    rig.begin()
    messages = rig.done(rig.send_many([b"1", b"2"], "ledger", TX))
    assert isinstance(messages, list)
    assert [message.body for message in messages] == [b"1", b"2"]
    rig.done(rig.commit())
    rig.crash()
    assert [message.body for message in rig.contents(rig.queue("ledger"))] == [b"1", b"2"]


@pytest.mark.parametrize("tx", [None, TX])
def test_a_message_that_was_received_is_sent_as_what_it_is_now(tx: bytes | None) -> None:
    rig = Rig()
    name = "ledger" if tx else "other"
    rig.create(name, transactional=tx is not None)
    rig.done(rig.send("first"))
    received = rig.message(rig.receive())
    rig.advance(10)
    rig.begin()
    sent = rig.message(rig.send(replace(received), name, tx))
    rig.done(rig.commit())
    rig.crash()
    (found,) = rig.contents(rig.queue(name))
    assert found.identifier == sent.identifier != received.identifier
    assert found.destination_queue_format_name == direct(name)
    assert found.sent_time == int(rig.now.wall)
    assert found.is_transactional == (tx is not None)


def test_nobody_can_pretend_that_a_message_is_sent_in_a_transaction() -> None:
    rig = Rig()
    rig.create("ledger", transactional=True)
    with pytest.raises(TransactionUsage):
        rig.send(letter("x", transaction_identifier=7), "ledger")


def test_a_bulk_receive_sees_the_last_state_of_a_message() -> None:
    rig = Rig()
    rig.done(rig.send("x"))
    rig.done(rig.begin())
    rig.open()
    rig.hold_disk()
    rig.receive_many(1, options=IN_TX)
    rig.abort()
    rig.begin()
    request = rig.receive_many(1, options=IN_TX)
    assert not rig.is_answered(request)
    rig.release_disk()
    messages = rig.done(request)
    assert isinstance(messages, list)
    assert [message.abort_count for message in messages] == [1]


@pytest.mark.parametrize("tx", [None, OTHER_TX])
def test_who_waits_for_several_takes_those_that_come_together(tx: bytes | None) -> None:
    rig = Rig()
    if tx is not None:
        rig.done(rig.begin(tx))
    first = rig.receive_many(3, options=ReadOptions(timeout_ms=None, transaction=tx))
    second = rig.receive_many(9, options=ReadOptions(timeout_ms=None, transaction=tx))
    rig.done(rig.send_many([b"%d" % number for number in range(6)]))
    bodies = [[message.body for message in rig.done(request)] for request in (first, second)]  # type: ignore[attr-defined]
    assert bodies == [[b"0", b"2", b"3"], [b"1", b"4", b"5"]]
    alone = rig.receive_many(9, options=ReadOptions(timeout_ms=None, transaction=tx))
    rig.done(rig.send("one"))
    assert [message.label for message in rig.done(alone)] == ["one"]  # type: ignore[attr-defined]
