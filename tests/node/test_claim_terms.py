"""Terms of claims: the starts of a reader, the query that a claim belongs to, and what the query has committed."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from tests.node.bulk_rig import LEASE, BulkRig
from waypost.api.bulk import BatchRead
from waypost.errors import ClaimTaken, InvalidParameter, LimitReached, SharingViolation, TransactionSequence
from waypost.guid import guid_text
from waypost.limits import NAMED_COMMIT_SECONDS
from waypost.node import claims
from waypost.node.explain import explain_message
from waypost.store import keys
from waypost.store.bulk_records import ClaimRecord
from waypost.store.port import Batch, Table

if TYPE_CHECKING:
    from collections.abc import Callable

QUERY = "the query"
RUNS = [UUID(int=number).bytes_le for number in range(1, 20)]


@pytest.fixture
def rig() -> BulkRig:
    found = BulkRig()
    found.ledger()
    return found


def reads(term: int, run: bytes = RUNS[0], batch: int = 0, query: str = QUERY) -> dict[str, Any]:
    return {"term": term, "run": guid_text(run), "batch": batch, "query": query}


# Starts of a reader.


def test_each_start_of_a_reader_has_a_higher_term_that_ends_the_one_before(rig: BulkRig) -> None:
    rig.send_all("ab")
    assert rig.take("one").term == 1
    assert rig.claim(max_messages=1, term=1) == (1, 1)
    taken = rig.take("two")
    assert (taken.term, taken.given, taken.settled, taken.is_held) == (2, 1, 0, True)
    late: list[Callable[[], object]] = [
        lambda: rig.claim(0, term=1),
        lambda: rig.claimed(1, term=1),
        lambda: rig.keep(1),
        lambda: rig.claim(0),
    ]
    for use in late:
        with pytest.raises(ClaimTaken, match="a newer run of the reader has taken over the claim c, with the term"):
            use()
    assert rig.claim(0, term=2) == (1, 1)
    assert rig.claimed(1, term=2) == ["a"]


def test_a_term_outlives_the_process(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.take("one")
    rig.stop()
    assert rig.take("two").term == 2
    rig.stop()
    with pytest.raises(ClaimTaken):
        rig.claim(0, term=1)
    assert rig.claim(0, term=2) == (1, 1)


def test_readers_of_one_start_share_its_term_and_the_next_start_does_not(rig: BulkRig) -> None:
    # By the clock of the driver: both readers were made before the first of them asked.
    assert rig.take("d", started=1.0, asked=5.0).term == 1
    assert rig.take("d", started=2.0, asked=6.0).term == 1
    assert rig.take("d", started=1.0, asked=5.0).term == 1, "a request that is repeated"
    assert rig.take("d", started=7.0, asked=8.0).term == 2
    assert rig.take("e", started=1.0, asked=9.0).term == 3
    assert rig.take("d", started=7.5, asked=9.5).term == 4


def test_readers_of_one_start_get_the_same_parts_whenever_messages_arrive(rig: BulkRig) -> None:
    rig.take("d", started=1.0, asked=5.0)
    rig.take("d", started=2.0, asked=6.0)
    ask: dict[str, Any] = {"term": 1, "max_messages": 2}
    assert rig.claim(0, reader="a", **ask) == (0, 0)
    rig.send_all("abc")
    assert rig.claim(0, reader="b", **ask) == (0, 0), "only the first reader takes messages"
    rig.stop()
    assert rig.claim(0, reader="b", **ask) == (0, 0)
    assert rig.claim(0, reader="a", **ask) == rig.claim(0, reader="b", **ask) == (1, 2)
    assert rig.claim(1, reader="a", **ask) == rig.claim(1, reader="b", **ask) == (2, 1)
    assert rig.claim(2, reader="b", **ask) == (2, 0), "the other reader has not gone on yet"
    assert rig.labels() == ["c"]
    assert rig.claim(2, reader="a", **ask) == rig.claim(2, reader="b", **ask) == (2, 0)
    assert rig.labels() == []


def test_the_first_that_asks_in_the_next_term_takes_messages(rig: BulkRig) -> None:
    rig.take("one")
    assert rig.claim(0, reader="a", term=1) == (0, 0)
    rig.take("two")
    rig.send_all("a")
    assert rig.claim(0, reader="b", term=2) == (1, 1)


@pytest.mark.parametrize("wrong", [{"driver": ""}, {"driver": "x" * 256}, {"asked": float("nan")}, {"claim": ""}])
def test_a_start_with_invalid_values_is_refused(rig: BulkRig, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        rig.take(**wrong)
    assert rig.store.scan(Table.BULK) == []


def test_a_term_that_nobody_was_given_is_refused(rig: BulkRig) -> None:
    rig.take()
    with pytest.raises(ClaimTaken):
        rig.claim(0, term=7)


# Leases.


def test_to_keep_a_claim_puts_the_end_of_its_lease_off(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.take()
    rig.claim(0, term=1)
    for _ in range(3):
        rig.advance(LEASE - 1)
        rig.keep(1)
    assert rig.seen() == []
    rig.advance(LEASE)
    assert rig.seen() == ["a"]
    with pytest.raises(ClaimTaken, match=r"the claim c is lost, because .* sent nothing for 100 s"):
        rig.keep(1)
    with pytest.raises(TransactionSequence, match="this queue has no claim x"):
        rig.keep(1, claim="x")


def test_a_reader_that_comes_back_after_its_lease_goes_on_behind_its_part(rig: BulkRig) -> None:
    rig.send_all("ab")
    rig.take("one")
    rig.claim(0, max_messages=1, term=1)
    rig.claimed(1, **reads(1))
    rig.advance(LEASE)
    for use in (lambda: rig.claim(1, term=1), lambda: rig.claimed(1, **reads(1))):
        with pytest.raises(ClaimTaken, match="is lost"):
            use()
    rig.stop()
    taken = rig.take("two")
    assert (taken.term, taken.given, taken.settled, taken.is_held) == (2, 1, 0, False)
    with pytest.raises(TransactionSequence, match="part 1 of the claim c has ended"):
        rig.claimed(1, **reads(2, RUNS[1]))
    assert rig.claim(1, term=2) == (2, 2)
    assert rig.claimed(2, **reads(2, RUNS[1], batch=1)) == ["a", "b"]


def test_a_claim_that_is_released_is_lost_to_its_term(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.take()
    rig.claim(0, term=1)
    assert rig.return_claim() == 1
    assert rig.seen() == ["a"]
    with pytest.raises(ClaimTaken, match="it was released"):
        rig.claim(1, term=1)


# Queries and their runs.


def test_a_claim_belongs_to_the_first_query_that_reads_it(rig: BulkRig) -> None:
    rig.send_all("ab")
    rig.take("one")
    rig.claim(0, max_messages=1, term=1)
    assert rig.claimed(1, **reads(1)) == ["a"]
    with pytest.raises(ClaimTaken, match=r"belongs to the query the query: call load\(\) again .* claimId"):
        rig.claimed(1, **reads(1, query="another"))
    with pytest.raises(ClaimTaken, match="belongs to the query"):
        rig.take("two", is_new=True)
    rig.stop()
    with pytest.raises(ClaimTaken, match="belongs to the query"):
        rig.take("two", is_new=True)
    assert rig.claim(1, max_messages=1, term=1) == (2, 1)
    rig.advance(10 * LEASE)
    with pytest.raises(ClaimTaken, match="belongs to the query"):
        rig.take("two", is_new=True)
    assert rig.take("three").term == 2


def test_an_unread_claim_is_taken_by_a_reader_without_a_checkpoint(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.take("one")
    rig.claim(0, term=1)
    assert rig.take("two", is_new=True).term == 2
    assert rig.claim(0, term=2) == (1, 1)


def test_a_term_belongs_to_the_first_run_that_reads_in_it(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.take("one")
    rig.claim(0, term=1)
    rig.claimed(1, **reads(1, RUNS[0]))
    with pytest.raises(ClaimTaken, match="another run of the query the query reads the claim"):
        rig.claimed(1, **reads(1, RUNS[1]))
    rig.take("two")
    with pytest.raises(ClaimTaken, match="this run of the query the query has lost its claim c: a later run has taken"):
        rig.claimed(1, **reads(2, RUNS[0]))
    assert rig.claimed(1, **reads(2, RUNS[1])) == ["a"]


@pytest.mark.parametrize("loses", ["lease", "later start"])
def test_nothing_is_written_by_a_run_that_has_lost_its_claim(rig: BulkRig, loses: str) -> None:
    rig.send_all("a")
    rig.take("one")
    rig.claim(0, term=1)
    rig.claimed(1, **reads(1))
    of_run: dict[str, Any] = {"query": QUERY, "to": "ledger", "run": RUNS[0]}
    stage = rig.stage("x", **of_run)
    if loses == "lease":
        rig.advance(LEASE - 1)
        second = rig.stage("y", **of_run)
        rig.advance(1)
        stage = second
    else:
        rig.take("two")
    for restart in (False, True):
        if restart:
            rig.stop()
        with pytest.raises(ClaimTaken, match="this run of the query the query has lost its claim c"):
            rig.commit_stages(stage, **of_run)
        with pytest.raises(ClaimTaken, match="or its lease has expired; this run can no longer read or write"):
            rig.stage("z", **of_run)
    assert rig.labels(rig.queue("ledger"))[-1:] in ([], ["x"], ["y"])
    assert rig.seen("ledger") == []
    # The next run writes the batch.
    of_run["run"] = RUNS[1]
    assert rig.commit_stages(rig.stage("again", **of_run), **of_run).count == 1
    assert rig.seen("ledger") == ["again"]


def read_by_all(rig: BulkRig) -> None:
    """Each run takes the claim and reads it, one after the other."""
    rig.send_all("a")
    for number, run in enumerate(RUNS, 1):
        rig.take(f"start {number}")
        rig.claim(0, term=number)
        rig.claimed(1, **reads(number, run))


def test_all_runs_that_lost_a_claim_are_remembered(rig: BulkRig) -> None:
    read_by_all(rig)
    for restart in (False, True):
        if restart:
            rig.stop()
        for run in RUNS[:-1]:
            with pytest.raises(ClaimTaken, match="has lost its claim c"):
                rig.stage("x", query=QUERY, run=run)
        rig.stage("x", query=QUERY, run=RUNS[-1])


def test_a_lost_run_is_remembered_for_a_year_and_then_deleted(rig: BulkRig) -> None:
    read_by_all(rig)
    rig.advance(NAMED_COMMIT_SECONDS - 1)
    with pytest.raises(ClaimTaken):
        rig.stage("x", query=QUERY, run=RUNS[0])
    rig.advance(10)
    rig.stage("x", query=QUERY, run=RUNS[0])
    # Each run that loses its claim looks at a few of them.
    later = [UUID(int=number).bytes_le for number in range(100, 110)]
    for number, run in enumerate(later, len(RUNS) + 1):
        rig.take(f"start {number}")
        rig.claim(1, term=number)
        rig.claimed(2, **reads(number, run, batch=1))
    start, stop = keys.lost_run_range()
    assert [key[-16:] for key, _ in rig.store.scan(Table.BULK, start, stop)] == [RUNS[-1], *later[:-1]]


def test_the_earlier_runs_in_a_claim_of_the_old_form_stay_refused(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.take("one")
    rig.claim(0, term=1)
    rig.claimed(1, **reads(1, RUNS[0]))
    rig.settle()
    key, value = rig.store.scan(Table.BULK)[0]
    old = ClaimRecord.decode(value)
    old.past = (RUNS[5], RUNS[6])
    batch = Batch()
    batch.put(Table.BULK, key, old.encode())
    rig.store.commit(batch, 1_000)
    rig.stop()
    for run in (RUNS[5], RUNS[6]):
        with pytest.raises(ClaimTaken, match="has lost its claim c"):
            rig.stage("x", query=QUERY, run=run)
    rig.stage("x", query=QUERY, run=RUNS[0])


# The limit of claims.


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, rig: BulkRig) -> BulkRig:
    monkeypatch.setattr(claims, "MAX_CLAIMS", 2)
    return rig


def idle_claims(rig: BulkRig) -> None:
    """Two queries have read all messages, and ended long ago."""
    for number, name in enumerate(("one", "two")):
        rig.send_all("a")
        rig.take(claim=name)
        rig.claim(0, claim=name, term=1)
        rig.claimed(1, claim=name, **reads(1, RUNS[number], query=name))
        rig.claim(1, claim=name, term=1)
    rig.advance(100 * LEASE)


def test_one_claim_too_many_is_refused_and_no_query_is_forgotten(few: BulkRig) -> None:
    idle_claims(few)
    for ask in (lambda: few.take(claim="three"), lambda: few.claim(0, claim="three")):
        with pytest.raises(LimitReached, match=r"the limit of 2 claims is reached; .*waypost claim release --forget"):
            ask()
    few.stop()
    # Both can go on, and only the last start of each.
    few.send_all("b")
    assert few.take("d", started=8.0, asked=9.0, claim="one").term == 2
    with pytest.raises(ClaimTaken):
        few.stage("x", query="one", run=RUNS[0])
    assert few.claim(1, claim="one", term=2) == (2, 1)


def test_a_claim_that_is_forgotten_on_request_makes_room_and_its_run_stays_refused(few: BulkRig) -> None:
    idle_claims(few)
    assert [(each.claim, each.count) for each in few.held_anywhere(idle=True)] == [("one", 0), ("two", 0)]
    assert few.held_anywhere() == []
    assert few.return_claim(claim="one", forget=True) == 0
    assert [each.claim for each in few.held_anywhere(idle=True)] == ["two"]
    assert few.take(claim="three").term == 1
    few.stop()
    with pytest.raises(ClaimTaken, match="has lost its claim one"):
        few.stage("x", query="one", run=RUNS[0])
    with pytest.raises(TransactionSequence, match="this queue has no claim one"):
        few.claim(1, claim="one", term=1)
    with pytest.raises(TransactionSequence, match="this queue has no claim one"):
        few.claim(0, claim="one", term=1)


def test_a_claim_in_use_is_not_forgotten(rig: BulkRig) -> None:
    rig.send_all("ab")
    rig.take()
    rig.claim(0, term=1)
    rig.advance(LEASE - 1)
    with pytest.raises(SharingViolation, match="a reader used the claim c 99 s ago, so it is not deleted"):
        rig.return_claim(forget=True)
    rig.stop()
    with pytest.raises(SharingViolation):
        rig.return_claim(forget=True)
    assert rig.seen() == []
    # A release ends its use.
    assert rig.return_claim() == 2
    assert rig.return_claim(forget=True) == 0
    assert rig.return_claim(forget=True) == 0
    assert rig.seen() == ["a", "b"]
    assert rig.store.scan(Table.BULK) == []


def test_a_claim_that_promises_nothing_makes_room(few: BulkRig) -> None:
    few.send_all("a")
    few.claim(0, claim="done")
    few.claim(1, claim="done")
    few.take(claim="unread")
    with pytest.raises(LimitReached):
        few.take(claim="three")
    few.advance(LEASE)
    few.take(claim="three")
    few.take(claim="four")
    assert [each.claim for each in few.held_anywhere(idle=True)] == ["three", "four"]


# The end of a lease, after commits of the query.


def processing(rig: BulkRig) -> dict[str, Any]:
    """A claim of two messages that batch 7 of the query reads. The name under which the batch is written."""
    rig.send_all("abc")
    rig.take("one")
    rig.claim(0, max_messages=2, term=1)
    rig.claimed(1, **reads(1, batch=7))
    return {"query": QUERY, "batch": 7, "to": "ledger", "run": RUNS[0]}


def test_messages_whose_batch_is_committed_are_removed_at_the_end_of_the_lease(rig: BulkRig) -> None:
    batch = processing(rig)
    rig.commit_stages(rig.stage("x", **batch), is_whole=True, **batch)
    assert rig.labels() == ["a", "b", "c"]
    rig.stop()
    rig.advance(LEASE)
    assert rig.labels() == ["c"]
    rig.stop()
    assert rig.labels() == ["c"]
    taken = rig.take("two")
    assert (taken.settled, taken.is_held) == (1, False)
    assert rig.claim(1, term=2) == (2, 1)


def test_messages_of_a_batch_that_is_committed_in_part_wait_for_their_query(rig: BulkRig) -> None:
    batch = processing(rig)
    rig.commit_stages(rig.stage("x", **batch), **batch)
    assert rig.held_anywhere()[0].held_by == ""
    rig.stop()
    rig.advance(100 * LEASE)
    (held,) = rig.held_anywhere()
    assert (held.claim, held.count, held.query, held.batch, held.term) == ("c", 2, QUERY, 7, 1)
    assert held.lease_left_s == 0
    assert "has committed some of batch 7" in held.held_by
    assert rig.seen() == ["c"]
    message = rig.contents()[0]
    told = explain_message(rig.node, message.identifier, rig.now)
    assert any("still locks the message after the end of the lease" in sentence for sentence in told.sentences), (
        told.sentences
    )
    rig.take("two")
    assert rig.claim(0, term=2) == (1, 2)
    assert rig.claimed(1, **reads(2, RUNS[1], batch=7)) == ["a", "b"]
    assert rig.claim(1, term=2) == (2, 1)
    assert rig.labels() == ["c"]


def test_a_commit_of_the_rest_after_the_lease_removes_the_messages_at_once(rig: BulkRig) -> None:
    batch = processing(rig)
    rig.commit_stages(rig.stage("x", **batch), **batch)
    rig.advance(100 * LEASE)
    assert rig.held_anywhere()[0].held_by
    rest = batch | {"to": "", "is_whole": True}
    rig.commit_stages(**rest)
    assert rig.held_anywhere() == []
    assert rig.labels() == ["c"]
    rig.stop()
    assert (rig.labels(), rig.held_anywhere()) == (["c"], [])
    # The reader goes on behind the part.
    assert rig.claim(1, term=1) == (2, 1)


def test_a_claim_that_waits_for_its_query_can_be_released(rig: BulkRig) -> None:
    batch = processing(rig)
    rig.commit_stages(rig.stage("x", **batch), **batch)
    rig.advance(LEASE)
    assert rig.return_claim() == 2
    assert rig.seen() == ["a", "b", "c"]
    assert rig.held_anywhere() == []
    assert rig.take("two").is_held is False
    assert rig.claim(1, term=2) == (2, 3)


def test_a_commit_under_another_name_counts_for_the_batch_that_it_belongs_to(rig: BulkRig) -> None:
    processing(rig)
    within = BatchRead(query=QUERY, batch=7, run=guid_text(RUNS[0]))
    named: dict[str, Any] = {"query": "application", "batch": 3, "to": "ledger", "is_version": True}
    stage = rig.stage("x", within=within, **named)
    rig.commit_stages(stage, within=within, **named)
    rig.advance(LEASE)
    (held,) = rig.held_anywhere()
    assert "has committed some of batch 7" in held.held_by
    # A later run takes the claim, so that the first one writes nothing more, under any name.
    rig.take("two")
    named["batch"] = 4
    with pytest.raises(ClaimTaken, match="this run of the query the query has lost its claim c"):
        rig.stage("y", within=within, **named)
    with pytest.raises(ClaimTaken, match="this run of the query the query has lost its claim c"):
        rig.commit_stages(within=within, **named)
    assert rig.labels(rig.queue("ledger")) == ["x"]


@pytest.mark.parametrize("other", [{"batch": 6}, {"query": "another"}])
def test_commits_of_other_batches_and_queries_do_not_count(rig: BulkRig, other: dict[str, Any]) -> None:
    batch = processing(rig) | other
    rig.commit_stages(rig.stage("x", **batch), is_whole=True, **batch)
    rig.advance(LEASE)
    assert rig.seen() == ["a", "b", "c"]


def test_the_next_part_begins_with_nothing_committed(rig: BulkRig) -> None:
    batch = processing(rig)
    rig.commit_stages(rig.stage("x", **batch), is_whole=True, **batch)
    assert rig.claim(1, term=1) == (2, 1)
    rig.advance(LEASE)
    assert rig.seen() == ["c"]


def test_claims_of_all_queues_are_listed_with_their_queues(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.create("returns")
    rig.send_all(["bb"], name="returns")
    rig.claim()
    rig.claim(name="returns", claim="x")
    found = rig.held_anywhere()
    assert [(each.queue.rpartition("\\")[2], each.claim, each.count) for each in found] == [
        ("orders", "c", 1),
        ("returns", "x", 1),
    ]
    assert all(each.bytes > 0 for each in found)
    assert rig.held("returns") == found[1:]


def test_a_claim_of_the_first_format_is_read(rig: BulkRig) -> None:
    value = bytes.fromhex(
        "01000000000000594005000000010000000000000002000000000000004d00000000000000070000000000000002000000"
    )
    assert ClaimRecord.decode(value) == ClaimRecord(100.0, 5, 1, 2, 77, [range(7, 9)])
