"""Messages that a queue accepts, and answers to senders: MS-MQQB 3.1.5.8.2, 3.1.5.8.10, 3.1.7.2.1 and 3.1.7.15."""

from dataclasses import replace

import pytest

from tests.core.engine import ME
from tests.core.messages import SID
from tests.core.office import (
    ADMIN,
    ARRIVED,
    BAD_ENCRYPTION,
    BAD_QUEUE,
    BAD_SIGNATURE,
    DELETED,
    ENDS,
    EXPIRED,
    NOT_TRANSACTIONAL_MSG,
    NOT_TRANSACTIONAL_Q,
    QUOTA,
    RECEIVED,
    THEM,
    TOO_LATE,
    Office,
)
from waypost.core.delivery import STATUS_CLASSES
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements, AuthenticationLevel
from waypost.core.ports import MessageArrived
from waypost.core.queues import QueueAttributes, ReadRequest
from waypost.core.serialization import deserialize_message_from_buffer, packet_of, serialize_message_to_buffer
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.format_names import FormatName, PrivateFormatName, PublicFormatName
from waypost.wire.message_class import MessageClass, is_arrival_nack
from waypost.wire.path_names import PathName
from waypost.wire.property_values import QueuePrivacy
from waypost.wire.user_message import UserMessage

EVERYTHING = 0x0F
FAR_ADMIN = FormatName.parse("DIRECT=OS:far\\private$\\admin")


@pytest.fixture
def office() -> Office:
    return Office()


# MS-MQDMPR 3.1.1.12: what each value asks to be told of.
REQUESTS = {
    "NONE": (),
    "ACK_POS_ARRIVAL": ("arrival",),
    "ACK_POS_RECEIVE": ("receipt",),
    "ACK_NEG_ARRIVAL": ("no arrival",),
    "ACK_NACK_REACH_QUEUE": ("no arrival",),
    "ACK_NEG_RECEIVE": ("no receipt",),
    "ACK_FULL_REACH_QUEUE": ("arrival", "no arrival"),
    "ACK_NACK_RECEIVE": ("no arrival", "no receipt"),
    "ACK_FULL_RECEIVE": ("no arrival", "receipt", "no receipt"),
}


@pytest.mark.spec(
    *(f"MQDMPR-3.1.1.12-{number}" for number in (26, 27, 28, 29, 30, 31)),
    *(f"MQMQ-2.2.19.3-0{number}" for number in (2, 3, 4, 5)),
    *("MQQB-3.1.5.8.10-01", "MQQB-3.1.7.2-01", "MQQB-3.1.7.2.1-01", "MQQB-3.1.7.2.1-02"),
)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_sender_is_told_what_it_asked_for_and_nothing_else(office: Office, name: str, end: MessageClass) -> None:
    assert Message().acknowledgements_requested == Acknowledgements.NONE
    requested = Acknowledgements[name]
    letter = office.letter(
        acknowledgements_requested=requested,
        administration_queue_format_name=ADMIN if requested else None,
        time_to_be_received=60,
    )
    office.deliver(letter)
    told = [ARRIVED] if "arrival" in REQUESTS[name] else []
    assert office.classes(office.admin) == told
    ENDS[end](office)
    told += [end] if ("receipt" if end is RECEIVED else "no receipt") in REQUESTS[name] else []
    assert office.classes(office.admin) == told
    office.delivery.rejected(letter, QUOTA, office.now)
    told += [QUOTA] if "no arrival" in REQUESTS[name] else []
    assert office.classes(office.admin) == told
    assert {message.correlation_identifier for message in office.contents(office.admin)} <= {letter.identifier}


@pytest.mark.spec("MQDMPR-3.1.1.12-27")
def test_arrival_is_told_once_whatever_happens_to_the_message_then(office: Office) -> None:
    letter = office.letter(acknowledgements_requested=0x01, administration_queue_format_name=ADMIN)
    lookup_id = office.deliver(letter)
    handle = office.open()
    assert office.peek(handle) == office.receive(handle, ReadRequest(0, transaction=office.start())) == "order"
    office.abort()
    office.settle()
    office.move(lookup_id, office.create("other"))
    office.settle()
    assert office.classes(office.admin) == [ARRIVED]


@pytest.mark.spec("MQMQ-2.2.19.2-07", "MQDMPR-3.1.1.12-02")
def test_every_message_of_a_queue_manager_has_an_identifier_of_its_own(office: Office) -> None:
    for _ in range(20):
        office.deliver(office.letter(THEM, acknowledgements_requested=0x03, administration_queue_format_name=ADMIN))
        office.receive_one()
    identifiers = [message.identifier for message in office.contents(office.admin)]
    assert len(set(identifiers)) == 40
    assert {identifier.queue_manager_guid for identifier in identifiers} == {ME}
    assert all(0 < identifier.ordinal <= 0xFFFF_FFFF for identifier in identifiers)
    assert {len(identifier.encode()) for identifier in identifiers} == {20}


@pytest.mark.parametrize("kind", ["", "private$\\"])
def test_an_acknowledgment_reaches_an_administration_queue_that_is_not_named_directly(
    office: Office, kind: str
) -> None:
    queue = office.create("told", kind)
    name = PrivateFormatName(ME, queue.private_queue_number) if kind else PublicFormatName(queue.identifier)
    office.deliver(office.letter(acknowledgements_requested=0x01, administration_queue_format_name=name))
    (answer,) = office.contents(queue)
    assert UserMessage.decode(packet_of(answer)).user.queue_manager_address == ME


@pytest.mark.spec("MQQB-3.1.7.15-09")
@pytest.mark.parametrize(
    "name",
    [
        "DIRECT=OS:host\\private$\\nobody",
        "DIRECT=OS:host\\private$\\admin;JOURNAL",
        "DIRECT=OS:host\\private$\\transactional",
        "DIRECT=OS:host\\SYSTEM$;DEADLETTER",
    ],
)
def test_an_acknowledgment_that_no_queue_takes_is_discarded(office: Office, name: str) -> None:
    path = PathName.parse("host\\private$\\transactional")
    office.manager.create_queue(QueueAttributes(path, transactional=True), office.now)
    letter = office.letter(
        acknowledgements_requested=EVERYTHING, administration_queue_format_name=FormatName.parse(name)
    )  # fmt: skip
    office.delivery.handle(MessageArrived(office.orders, letter), office.now)
    office.delivery.rejected(letter, QUOTA, office.now)
    assert office.messages.held == {}


def test_an_acknowledgment_for_which_there_is_no_room_is_discarded(office: Office) -> None:
    office.admin.attributes.quota = 0
    office.deliver(office.letter(acknowledgements_requested=0x01, administration_queue_format_name=ADMIN))
    assert (len(office.admin.positions), len(office.orders.positions)) == (0, 1)


@pytest.mark.spec("MQQB-3.1.7.15-02")
def test_strangers_are_not_told_of_queues_and_rights_unless_that_is_allowed(office: Office) -> None:
    insecure = {0x8000, 0x8004, 0x8006, 0x8007, 0x800B}
    nacks = [number for number in MessageClass if is_arrival_nack(number)]
    letter = office.letter(THEM, acknowledgements_requested=EVERYTHING, administration_queue_format_name=ADMIN)
    for nack in nacks:
        office.delivery.rejected(letter, nack, office.now)
    assert office.classes(office.admin) == [number for number in nacks if number not in insecure]
    office.delivery.send_insecure_nacks = True
    for number in insecure:
        office.delivery.rejected(letter, MessageClass(number), office.now)
    assert set(office.classes(office.admin)) == set(nacks)


@pytest.mark.spec("MQDMPR-3.1.1.2-10", "MQMQ-2.2.18.1.6-07")
def test_transactional_queues_and_messages_belong_together(office: Office) -> None:
    path = PathName.parse("host\\private$\\transactional")
    queue = office.manager.create_queue(QueueAttributes(path, transactional=True), office.now)
    wish = {"acknowledgements_requested": 0x04, "administration_queue_format_name": ADMIN}
    plain, captured = office.letter(THEM, **wish), office.transactional(THEM, **wish)
    refusal = office.delivery.refusal
    assert (refusal(office.orders, plain), refusal(queue, captured)) == (None, None)
    assert refusal(queue, plain) is NOT_TRANSACTIONAL_MSG
    assert refusal(office.orders, captured) is NOT_TRANSACTIONAL_Q
    office.delivery.rejected(captured, NOT_TRANSACTIONAL_Q, office.now)
    assert office.classes(office.admin) == [0x8009]


@pytest.mark.spec("MQDMPR-3.1.1.2-08")
def test_a_queue_with_authentication_accepts_only_what_was_authenticated(office: Office) -> None:
    claim = office.letter(THEM, sender_identifier=SID)
    claim.authentication_level = AuthenticationLevel.SIG20
    claim = deserialize_message_from_buffer(serialize_message_to_buffer(claim))
    verified = replace(claim, authentication_level=AuthenticationLevel.SIG20)
    refusal = office.delivery.refusal
    assert (refusal(office.orders, claim), refusal(office.orders, verified)) == (None, None)
    office.orders.attributes.authentication = True
    assert (refusal(office.orders, claim), refusal(office.orders, verified)) == (BAD_SIGNATURE, None)


@pytest.mark.parametrize("source", [ME, THEM])
def test_the_privacy_level_of_a_queue_says_which_messages_it_accepts(office: Office, source: bytes) -> None:
    clear = office.letter(source)
    secret = office.letter(source, privacy_level=PrivacyLevel.ADVANCED)
    secret.symmetric_key = b"" if source == ME else b"key"
    accepted = {}
    for level in QueuePrivacy:
        office.orders.attributes.privacy_level = level
        accepted[level] = [office.delivery.refusal(office.orders, message) for message in (clear, secret)]
    assert accepted == {
        QueuePrivacy.MQ_PRIV_LEVEL_NONE: [None, BAD_ENCRYPTION],
        QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL: [None, None],
        QueuePrivacy.MQ_PRIV_LEVEL_BODY: [BAD_ENCRYPTION, None],
    }


def test_a_stranger_cannot_pass_a_clear_message_off_as_encrypted(office: Office) -> None:
    office.orders.attributes.privacy_level = QueuePrivacy.MQ_PRIV_LEVEL_BODY
    claim = office.letter(THEM, privacy_level=PrivacyLevel.ADVANCED)
    assert office.delivery.refusal(office.orders, claim) is BAD_ENCRYPTION


def test_journals_and_system_queues_take_no_messages_from_senders(office: Office) -> None:
    assert office.orders.journal is not None
    for queue in (office.orders.journal, office.journal, office.dead, office.dead_tx):
        assert office.delivery.refusal(queue, office.letter(THEM)) is BAD_QUEUE
        assert office.delivery.refusal(queue, office.transactional(THEM)) is BAD_QUEUE


@pytest.mark.spec("MQMQ-2.2.18.1.6-05")
def test_time_that_is_over_has_one_name_before_the_queue_and_another_in_it(office: Office) -> None:
    wish = {"acknowledgements_requested": EVERYTHING, "administration_queue_format_name": ADMIN}
    late = office.letter(THEM, **wish, time_to_reach_queue=10)
    stale = office.letter(THEM, **wish, time_to_be_received=10)
    office.advance(11)
    office.delivery.rejected(late, STATUS_CLASSES[office.enqueue(late)], office.now)
    assert office.classes(office.admin) == [TOO_LATE]
    office.deliver(stale)
    assert office.classes(office.admin) == [TOO_LATE, TOO_LATE]
    office.deliver(office.letter(**wish, time_to_be_received=60), office.outgoing())
    office.deliver(office.letter(**wish, time_to_reach_queue=60), office.outgoing())
    office.expire()
    assert office.classes(office.admin) == [TOO_LATE] * 4
    office.deliver(office.letter(**wish, time_to_be_received=60))
    office.expire()
    assert office.classes(office.admin) == [TOO_LATE] * 4 + [ARRIVED, EXPIRED]


def test_what_is_on_its_way_was_deleted_and_not_purged(office: Office) -> None:
    for end in (office.manager.writing.purge_queue, office.manager.writing.delete_messages):
        letter = office.letter(acknowledgements_requested=EVERYTHING, administration_queue_format_name=ADMIN)
        office.deliver(letter, office.outgoing())
        end(office.outgoing())
        office.settle()
    assert office.classes(office.admin) == [DELETED, DELETED]


def test_only_the_destination_tells_of_arrival_and_receipt(office: Office) -> None:
    letter = office.letter(acknowledgements_requested=EVERYTHING, administration_queue_format_name=ADMIN)
    for end in (ARRIVED, RECEIVED):
        office.manager.positions.deleted(office.outgoing(), office.deliver(letter, office.outgoing()), end)
        office.settle()
    assert office.contents(office.admin) == []


@pytest.mark.parametrize("name", [FAR_ADMIN, PrivateFormatName(THEM, 9)])
def test_an_acknowledgment_goes_to_another_computer_through_its_outgoing_queue(
    office: Office, name: FormatName
) -> None:
    letter = office.letter(THEM, acknowledgements_requested=EVERYTHING, administration_queue_format_name=name)
    office.deliver(letter)
    office.receive_one()
    queue = office.outgoing(str(name))
    assert office.classes(queue) == [ARRIVED, RECEIVED]
    assert {answer.destination_queue_format_name for answer in office.contents(queue)} == {name}
    assert queue.descriptors == {}


def test_acknowledgments_that_cannot_leave_are_not_acknowledged(office: Office) -> None:
    letter = office.letter(THEM, acknowledgements_requested=EVERYTHING, administration_queue_format_name=FAR_ADMIN)
    office.deliver(letter)
    office.manager.writing.purge_queue(office.outgoing(str(FAR_ADMIN)))
    office.settle()
    assert list(office.messages.held) == [(office.orders.number, letter.lookup_identifier)]


def test_what_another_computer_accepts_is_not_decided_here(office: Office) -> None:
    queue = office.outgoing()
    for message in (office.letter(), office.transactional(), office.letter(privacy_level=PrivacyLevel.BASE)):
        assert office.delivery.refusal(queue, message) is None
