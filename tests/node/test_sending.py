"""Attributes that the queue manager gives a message of an application."""

from dataclasses import replace

import pytest

from tests.node.directory_rig import EMBEDDED, DirectoryRig, public_name
from tests.node.hosts import Net
from tests.node.rig import IN_TX, OTHER_TX, SETTINGS, TX, Rig, direct, letter
from waypost.clock import Now
from waypost.core.delivery import STATUS_CLASSES
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements
from waypost.core.writing import EnqueueStatus
from waypost.directory import objects
from waypost.directory.queries import Query
from waypost.directory.topology import Enterprise
from waypost.errors import UnsupportedFormatName
from waypost.guid import NULL_GUID, guid_text
from waypost.wire.codec import INFINITE
from waypost.wire.message_class import MessageClass
from waypost.wire.propid import EnterpriseProperty
from waypost.wire.variant_types import VarType

FOUR_DAYS = 345_600
ADMIN = "DIRECT=OS:host\\private$\\admin"
SOMEBODY = b"\x5b" * 16
TOO_LATE = MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT


def in_transit(rig: Rig, seconds: int) -> Message:
    """A message from elsewhere that was sent now, and may take these many seconds."""
    message = letter("late", sent_time=int(rig.now.wall), time_to_reach_queue=seconds)
    message.identifier = rig.node.manager.message_identifier()
    message.destination_queue_format_name = direct("orders")
    message.administration_queue_format_name = direct(ADMIN)
    message.acknowledgements_requested = Acknowledgements.ACK_NEG_ARRIVAL
    return message


def arrive(rig: Rig, message: Message) -> EnqueueStatus:
    """Do with a message what transfer does with one from others."""
    with rig.node.kernel.operation(rig.now):
        status = rig.node.manager.writing.enqueue_message(rig.queue(), message, None, rig.now)
        if status is not EnqueueStatus.ACCEPTED:
            rig.node.delivery.rejected(message, STATUS_CLASSES[status], rig.now)
    rig.settle()
    return status


@pytest.mark.spec("MQDMPR-3.1.1.12-33")
def test_a_message_has_its_time_from_when_it_was_sent_until_it_is_in_its_queue() -> None:
    rig = Rig()
    rig.create("admin")
    rig.now = Now(rig.now.monotonic, 1_000_000.75)
    assert rig.message(rig.send(letter("x", sent_time=7))).sent_time == 1_000_000
    rig.done(rig.purge())
    in_time, too_late, forever = (in_transit(rig, seconds) for seconds in (60, 59, INFINITE))
    rig.now = Now(rig.now.monotonic, 1_000_060.0)
    assert arrive(rig, in_time) is EnqueueStatus.ACCEPTED
    assert arrive(rig, too_late) is EnqueueStatus.TIMED_OUT
    assert arrive(rig, forever) is EnqueueStatus.ACCEPTED
    assert [message.identifier for message in rig.contents()] == [in_time.identifier, forever.identifier]
    (answer,) = rig.contents(rig.queue("admin"))
    assert (answer.message_class, answer.correlation_identifier) == (TOO_LATE, too_late.identifier)
    rig.advance(1_000_000)
    assert len(rig.contents()) == 2


@pytest.mark.spec("MQDMPR-3.1.1.12-34")
def test_a_message_has_four_days_to_reach_its_queue_and_never_more_than_is_configured() -> None:
    assert sent_with(Rig(), letter("x")) == FOUR_DAYS == 0x54600
    assert sent_with(Rig(), letter("x", time_to_reach_queue=10)) == 10
    configured = Rig(settings=replace(SETTINGS, long_live_time=600))
    assert sent_with(configured, letter("x")) == 600
    assert sent_with(configured, letter("x", time_to_reach_queue=601)) == 600
    assert sent_with(configured, letter("x", time_to_reach_queue=INFINITE)) == 600
    assert sent_with(configured, letter("x", time_to_reach_queue=599)) == 599


def sent_with(rig: Rig, message: Message) -> int:
    """TimeToReachQueue as the queue has it after a restart."""
    lookup_id = rig.message(rig.send(message)).lookup_identifier
    rig.crash()
    return rig.node.messages.get(rig.queue().number, lookup_id).time_to_reach_queue


@pytest.mark.spec("MQMQ-2.3.5.15-01")
def test_the_enterprise_says_how_long_a_message_has_by_default() -> None:
    long_live = EnterpriseProperty.PROPID_E_LONG_LIVE
    assert (int(long_live), long_live.vt) == (616, VarType.VT_UI4)
    rig = DirectoryRig()
    enterprise = rig.node.directory.events.read_directory(Query(Enterprise), rig.now).value
    assert enterprise is not None
    rig.set(replace(enterprise, default_time_to_live=700), "default_time_to_live")
    rig.stop()
    assert sent_with(rig, letter("x")) == 700
    assert sent_with(rig, letter("x", time_to_reach_queue=60)) == 60


@pytest.mark.spec("MQDMPR-3.1.1.12-39")
def test_a_message_names_the_queue_manager_that_it_goes_to() -> None:
    rig = DirectoryRig(EMBEDDED)
    me = rig.node.manager.identity.identifier
    here = public_name(rig.publish().identifier)
    rig.put(objects.QueueManager(identifier=SOMEBODY, computer_name="Other"))
    there = public_name(rig.put(objects.Queue(pathname="other\\orders")))
    private = f"PRIVATE={guid_text(SOMEBODY)}\\5"
    names = {here: me, there: SOMEBODY, private: SOMEBODY, "orders": NULL_GUID}
    for name, host in names.items():
        sent = rig.message(rig.send(letter("x"), name))
        assert sent.queue_manager_address == host
    rig.crash()
    outgoing = rig.node.manager.collection.outgoing.values()
    found = [message for queue in (rig.public(), *outgoing, rig.queue()) for message in rig.contents(queue)]
    assert [message.queue_manager_address for message in found] == list(names.values())
    assert [message.destination_queue_manager_identifier for message in found] == list(names.values())


@pytest.mark.spec("MQMQ-2.2.20.5-06")
def test_the_messages_of_a_transaction_have_its_number_which_no_other_has() -> None:
    rig = Rig()
    rig.create("ledger", transactional=True)
    rig.create("books", transactional=True)
    seen: list[int | None] = []
    for restart in (Rig.stop, Rig.crash, Rig.settle):
        for tx in (TX, OTHER_TX):
            rig.done(rig.begin(tx))
        numbers: dict[bytes, set[int | None]] = {TX: set(), OTHER_TX: set()}
        for tx in (TX, OTHER_TX, TX):
            for name in ("ledger", "books"):
                numbers[tx].add(rig.message(rig.send("x", name, tx)).transaction_identifier)
                many = rig.done(rig.send_many([b"1", b"2"], name, tx))
                assert isinstance(many, list)
                numbers[tx] |= {message.transaction_identifier for message in many}
        for tx in (TX, OTHER_TX):
            rig.done(rig.commit(tx))
            (number,) = numbers[tx]
            seen.append(number)
        restart(rig)
    assert None not in seen
    assert len(set(seen)) == len(seen) == 6
    stored = {message.transaction_identifier for message in rig.contents(rig.queue("ledger"))}
    assert stored == set(seen)


def test_the_number_of_a_transaction_that_only_received_is_not_given_again() -> None:
    rig = Rig()
    rig.create("ledger", transactional=True)
    rig.done(rig.send("x"))
    rig.done(rig.begin())
    rig.done(rig.receive(options=IN_TX))
    rig.crash()
    rig.done(rig.begin())
    assert rig.message(rig.send("a", "ledger", TX)).transaction_identifier != 1


def test_a_message_that_has_no_time_can_still_reach_a_queue_of_this_computer() -> None:
    rig = Rig()
    rig.now = Now(rig.now.monotonic, 1_000_000.75)
    rig.done(rig.send(letter("at once", time_to_reach_queue=0)))
    assert rig.labels() == ["at once"]


@pytest.mark.parametrize("written", [0, 1])
@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_message_is_taken_and_sent_again_in_one_batch(written: int, *, is_transactional: bool) -> None:
    rig = Rig()
    for name in ("from", "to"):
        rig.create(name, transactional=is_transactional)
    tx = TX if is_transactional else None
    if tx:
        rig.done(rig.begin())
    sent = rig.send("order", "from", tx)
    if tx:
        rig.done(rig.commit())
    lookup_id = rig.message(sent).lookup_identifier
    handle = rig.open("from")
    rig.hold_disk()
    call = rig.call()
    rig.handlers.messages.resend_message(call, handle, lookup_id, direct("to"), OTHER_TX)
    rig.turn()
    assert not rig.is_answered(call.request)
    assert rig.pending == 1
    rig.crash(written=written)
    contents = [rig.labels(rig.queue(name)) for name in ("from", "to")]
    assert contents == ([[], ["order"]] if written else [["order"], []])
    assert not rig.node.manager.transactions.collection


@pytest.mark.parametrize("suffix", ["", ";XACTONLY"])
def test_a_name_that_no_packet_can_carry_leaves_no_outgoing_queue_behind(suffix: str) -> None:
    net = Net()
    a = net.add("a")
    name = f"CONNECTOR=00000000-0000-0000-0000-000000000001{suffix}"
    for _ in range(2):
        with pytest.raises(UnsupportedFormatName):
            a.send(name, "m")
        assert a.node.manager.collection.outgoing == {}
    a.crash_and_start()
    assert a.node.manager.collection.outgoing == {}
