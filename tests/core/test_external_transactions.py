"""MS-MQDMPR 3.1.4.6 to 3.1.4.11, and what 3.1.3 has to do with transactions of a coordinator."""

import pytest

from tests.core.engine import ME, OTHER_TX, TX, Rig
from waypost.core.external_transactions import (
    AbortRequestDone,
    CommitRequestDone,
    EnlistResourceManager,
    EnlistTransaction,
    ExternalTransactions,
    PrepareRequestDone,
    Recovery,
    ReenlistmentFailed,
    ReenlistTransaction,
)
from waypost.core.ports import TransactionEnded, TransactionPrepared
from waypost.core.positions import PositionState
from waypost.core.queues import ReadRequest
from waypost.errors import TransactionEnlistFailed, TransactionSequence
from waypost.hresult import HResult

THIRD_TX = b"\x73" * 16
IN_TX = ReadRequest(0, transaction=TX)


class External(Rig):
    """A queue manager whose transactions belong to a coordinator, which is the test."""

    def __init__(self) -> None:
        super().__init__()
        self.external = ExternalTransactions(self.manager.transactions)

    def ready(self) -> "External":
        """Started with nothing in doubt, and enlisted in TX."""
        self.external.initialize(ME)
        self.external.enlist(TX)
        self.external.take_messages()
        return self

    def prepare(self, identifier: bytes = TX, f_single_phase: int = 0) -> None:
        self.external.dtc_transaction_prepare(identifier, f_single_phase, self.now.wall)

    def restarted(self) -> ExternalTransactions:
        """The state that a start finds when the transactions are back in the collection as they were prepared."""
        self.external = ExternalTransactions(self.manager.transactions)
        self.external.initialize(ME)
        return self.external

    def recovery(self) -> Recovery:
        return self.external.recovery

    def under_way(self) -> set[bytes]:
        return set(self.manager.transactions.collection)


@pytest.fixture
def rig() -> External:
    return External().ready()


def in_doubt(*identifiers: bytes) -> External:
    """One message in each of the transactions, which were prepared before the queue manager stopped."""
    rig = External()
    rig.external.initialize(ME)
    for identifier in identifiers:
        rig.external.enlist(identifier)
        rig.send(identifier[:1].decode(), tx=identifier)
        rig.prepare(identifier)
    rig.manager.take_events()
    rig.restarted()
    return rig


@pytest.mark.spec("MQDMPR-3.1.4.6-01")
def test_a_prepare_request_prepares_for_two_phases(rig: External) -> None:
    rig.send("a", tx=TX)
    rig.manager.take_events()
    rig.prepare()
    transaction = rig.manager.transactions.collection[TX]
    assert transaction.is_prepared
    assert not transaction.single_phase
    assert rig.events(TransactionPrepared) == [TransactionPrepared(transaction)]
    with pytest.raises(TransactionSequence):
        rig.send("too late", tx=TX)


@pytest.mark.spec("MQDMPR-3.1.4.6-02")
def test_a_prepare_request_for_two_phases_is_answered_and_leaves_the_outcome_open(rig: External) -> None:
    lookup_id = rig.send("a", tx=TX)
    rig.prepare()
    assert rig.external.take_messages() == [PrepareRequestDone(TX)]
    assert rig.state(lookup_id) is PositionState.LOCKED
    assert rig.under_way() == {TX}


@pytest.mark.spec("MQDMPR-3.1.4.6-02")
@pytest.mark.parametrize("f_single_phase", [1, 0xFFFF_FFFF])
def test_a_prepare_request_for_a_single_phase_commits_at_once(rig: External, f_single_phase: int) -> None:
    lookup_id = rig.send("a", tx=TX)
    rig.prepare(f_single_phase=f_single_phase)
    assert rig.external.take_messages() == [CommitRequestDone(TX)]
    assert rig.state(lookup_id) is PositionState.AVAILABLE
    assert rig.under_way() == set()
    told = [type(event) for event in rig.manager.take_events()]
    assert told.index(TransactionPrepared) < told.index(TransactionEnded)


@pytest.mark.spec("MQDMPR-3.1.4.6-03")
@pytest.mark.parametrize("f_single_phase", [0, 1])
def test_a_prepare_that_fails_aborts(rig: External, f_single_phase: int) -> None:
    rig.prepare(OTHER_TX, f_single_phase)
    assert rig.external.take_messages() == [AbortRequestDone(OTHER_TX)]
    assert rig.under_way() == {TX}


@pytest.mark.spec("MQDMPR-3.1.4.7-01")
def test_a_commit_request_commits_and_is_answered(rig: External) -> None:
    rig.send("taken")
    rig.receive(rig.open(), IN_TX)
    sent = rig.send("sent", tx=TX)
    rig.prepare()
    rig.external.take_messages()
    rig.manager.take_events()
    rig.external.dtc_transaction_commit(TX, rig.now.wall)
    assert rig.external.take_messages() == [CommitRequestDone(TX)]
    assert rig.labels() == ["sent"]
    assert rig.state(sent) is PositionState.AVAILABLE
    assert rig.events(TransactionEnded) == [TransactionEnded(TX)]


def test_a_repeated_commit_request_is_answered_again_and_changes_nothing(rig: External) -> None:
    rig.send("a", tx=TX)
    rig.prepare()
    rig.external.dtc_transaction_commit(TX, rig.now.wall)
    rig.external.take_messages()
    rig.manager.take_events()
    rig.external.dtc_transaction_commit(TX, rig.now.wall)
    assert rig.external.take_messages() == [CommitRequestDone(TX)]
    assert rig.manager.take_events() == []


@pytest.mark.spec("MQDMPR-3.1.4.8-01")
@pytest.mark.parametrize("prepares", [0, 1])
def test_an_abort_request_aborts_and_is_answered(rig: External, prepares: int) -> None:
    taken = rig.send("taken")
    rig.receive(rig.open(), IN_TX)
    rig.send("sent", tx=TX)
    for _ in range(prepares):
        rig.prepare()
    rig.external.take_messages()
    rig.manager.take_events()
    rig.external.dtc_transaction_abort(TX)
    assert rig.external.take_messages() == [AbortRequestDone(TX)]
    assert rig.labels() == ["taken"]
    assert rig.state(taken) is PositionState.AVAILABLE
    assert rig.events(TransactionEnded) == [TransactionEnded(TX)] * prepares


def test_the_coordinator_has_no_say_in_a_transaction_of_the_queue_manager_alone(rig: External) -> None:
    rig.start(OTHER_TX)
    lookup_id = rig.send("a", tx=OTHER_TX)
    rig.manager.take_events()
    rig.prepare(OTHER_TX)
    rig.external.dtc_transaction_commit(OTHER_TX, rig.now.wall)
    rig.external.dtc_transaction_abort(OTHER_TX)
    assert rig.state(lookup_id) is PositionState.LOCKED
    assert rig.manager.transactions.is_open(OTHER_TX)
    assert rig.manager.take_events() == []


def test_the_queue_manager_tells_the_coordinator_that_it_takes_part() -> None:
    rig = External()
    with pytest.raises(TransactionEnlistFailed):
        rig.external.enlist(TX)
    rig.external.initialize(ME)
    rig.external.take_messages()
    rig.external.enlist(TX)
    assert rig.external.take_messages() == [EnlistTransaction(TX)]
    rig.send("a", tx=TX)
    with pytest.raises(TransactionSequence):
        rig.external.enlist(TX)
    assert len(rig.manager.transactions.collection[TX].operations) == 1


@pytest.mark.spec("MQDMPR-3.1.3-17")
def test_a_start_enlists_the_resource_manager_and_asks_for_every_outcome_in_doubt() -> None:
    rig = in_doubt(TX, OTHER_TX, THIRD_TX)
    rig.start(b"\x01" * 16)
    recovering = rig.restarted()
    assert recovering.take_messages() == [
        EnlistResourceManager(ME),
        ReenlistTransaction(TX),
        ReenlistTransaction(OTHER_TX),
        ReenlistTransaction(THIRD_TX),
    ]
    recovering.dtc_reenlistment_commit(THIRD_TX, rig.now.wall)
    recovering.dtc_reenlistment_abort(TX)
    assert rig.recovery() is Recovery.RECOVERING
    with pytest.raises(TransactionEnlistFailed):
        recovering.enlist(b"\x02" * 16)
    recovering.dtc_reenlistment_commit(OTHER_TX, rig.now.wall)
    assert rig.recovery() is Recovery.RECOVERED
    assert rig.labels() == ["r", "s"]
    assert rig.under_way() == {b"\x01" * 16}


def test_a_start_with_nothing_in_doubt_is_through() -> None:
    rig = External()
    rig.external.initialize(ME)
    assert rig.external.take_messages() == [EnlistResourceManager(ME)]
    assert rig.recovery() is Recovery.RECOVERED


@pytest.mark.spec("MQDMPR-3.1.4.9-01")
def test_a_committed_outcome_commits_the_recovered_transaction() -> None:
    rig = in_doubt(TX, OTHER_TX)
    rig.external.take_messages()
    rig.external.dtc_reenlistment_commit(TX, rig.now.wall)
    states = {label: rig.state(at) for label, at in zip(rig.labels(), rig.orders.positions, strict=True)}
    assert states == {"q": PositionState.AVAILABLE, "r": PositionState.LOCKED}
    assert rig.events(TransactionEnded) == [TransactionEnded(TX)]
    assert rig.external.take_messages() == []


@pytest.mark.spec("MQDMPR-3.1.4.10-01")
def test_an_aborted_outcome_aborts_the_recovered_transaction() -> None:
    rig = in_doubt(TX, OTHER_TX)
    rig.external.take_messages()
    rig.external.dtc_reenlistment_abort(TX)
    assert rig.labels() == ["r"]
    assert rig.under_way() == {OTHER_TX}
    assert rig.events(TransactionEnded) == [TransactionEnded(TX)]
    assert rig.external.take_messages() == []


def test_an_outcome_that_comes_twice_or_for_what_is_not_in_doubt_changes_nothing() -> None:
    rig = in_doubt(TX)
    rig.start(OTHER_TX)
    rig.send("internal", tx=OTHER_TX)
    rig.external.dtc_reenlistment_commit(TX, rig.now.wall)
    rig.manager.take_events()
    rig.external.dtc_reenlistment_abort(TX)
    rig.external.dtc_reenlistment_timeout(TX)
    rig.external.dtc_reenlistment_commit(OTHER_TX, rig.now.wall)
    assert rig.manager.take_events() == []
    assert rig.under_way() == {OTHER_TX}
    assert rig.recovery() is Recovery.RECOVERED


def test_a_request_of_the_coordinator_settles_what_is_in_doubt_too() -> None:
    rig = in_doubt(TX)
    rig.external.take_messages()
    rig.external.dtc_transaction_commit(TX, rig.now.wall)
    assert rig.external.take_messages() == [CommitRequestDone(TX)]
    assert rig.recovery() is Recovery.RECOVERED


@pytest.mark.spec("MQDMPR-3.1.4.11-01")
def test_an_outcome_that_does_not_come_in_time_stops_the_start_with_an_error() -> None:
    rig = in_doubt(TX, OTHER_TX)
    rig.external.take_messages()
    rig.external.dtc_reenlistment_timeout(TX)
    assert rig.external.take_messages() == [ReenlistmentFailed(TX, HResult.MQ_ERROR_DTC_CONNECT)]
    assert rig.recovery() is Recovery.FAILED
    rig.external.dtc_reenlistment_commit(TX, rig.now.wall)
    rig.external.dtc_reenlistment_abort(OTHER_TX)
    rig.external.dtc_reenlistment_timeout(OTHER_TX)
    assert rig.recovery() is Recovery.FAILED
    assert rig.external.take_messages() == []
    assert rig.manager.take_events() == []
    with pytest.raises(TransactionEnlistFailed):
        rig.external.enlist(THIRD_TX)
    assert rig.restarted().take_messages()[1:] == [ReenlistTransaction(TX), ReenlistTransaction(OTHER_TX)]
