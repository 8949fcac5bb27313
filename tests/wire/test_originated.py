"""Requirements of MS-MQMQ for makers of a UserMessage Packet."""

from collections.abc import Callable

import pytest

from tests.wire.vectors import frame
from waypost.errors import EncodeError
from waypost.wire import UserMessage
from waypost.wire.base_header import BaseHeader
from waypost.wire.debug_header import DebugHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.originated import check_originated
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId, PublicQueueFormatName, QueueName
from waypost.wire.security_header import ProviderInfo, SecurityHeader
from waypost.wire.soap import CompoundMessageHeader, SrmpEnvelopeHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader

GUID = bytes(range(16))


def message() -> UserMessage:
    """A message that keeps every rule and has all the headers the rules speak of."""
    return UserMessage(
        base=BaseHeader(flags=0x0120),
        user=UserHeader(
            flags=0x2031,
            destination_queue=DirectQueueFormatName("OS:h\\q"),
            admin_queue=PrivateQueueFormatNameId(1),
        ),
        transaction=TransactionHeader(),
        security=SecurityHeader(flags=0x41, security_id=b"sid!", signature=b"sign"),
        properties=MessagePropertiesHeader(flags=0x05),
        debug=DebugHeader(queue_identifier=GUID),
    )


def security(original: UserMessage) -> SecurityHeader:
    assert original.security is not None
    return original.security


def transaction(original: UserMessage) -> TransactionHeader:
    assert original.transaction is not None
    return original.transaction


def debug(original: UserMessage) -> DebugHeader:
    assert original.debug is not None
    return original.debug


def refused(change: Callable[[UserMessage], None], why: str) -> None:
    changed = message()
    check_originated(changed)
    change(changed)
    with pytest.raises(EncodeError, match=why):
        check_originated(changed)


def or_base(bits: int) -> Callable[[UserMessage], None]:
    def change(m: UserMessage) -> None:
        m.base.flags |= bits

    return change


def or_user(bits: int) -> Callable[[UserMessage], None]:
    def change(m: UserMessage) -> None:
        m.user.flags |= bits

    return change


@pytest.mark.spec("MQMQ-2.2.19.1-06")
@pytest.mark.parametrize("priority", range(1, 8))
def test_a_transactional_message_has_priority_0(priority: int) -> None:
    refused(or_base(priority), "PR must be 0, because the message is transactional")
    plain = message()
    plain.transaction = None
    plain.base.flags |= priority
    check_originated(plain)


@pytest.mark.spec("MQMQ-2.2.19.1-09")
def test_a_traced_message_has_a_debug_header() -> None:
    def change(m: UserMessage) -> None:
        m.debug = None

    refused(change, "TR is set, but the DebugHeader is missing")


@pytest.mark.spec("MQMQ-2.2.19.1-10")
@pytest.mark.parametrize("bit", [0x0008, 0x0040, 0x0080, *(1 << n for n in range(9, 16))])
def test_reserved_base_flags_and_in_are_clear(bit: int) -> None:
    refused(or_base(bit), "the IN bit or a reserved bit is set")


@pytest.mark.spec("MQMQ-2.2.19.2-24")
@pytest.mark.parametrize("bit", [7, 24, 26, 27, 29, 30, 31])
def test_reserved_user_flags_are_clear(bit: int) -> None:
    refused(or_user(1 << bit), "a reserved bit is set")


@pytest.mark.spec("MQMQ-2.2.19.2-23")
def test_ah_is_not_set_on_a_packet_that_is_sent() -> None:
    def change(m: UserMessage) -> None:
        m.srmp_envelope, m.compound_message = SrmpEnvelopeHeader(), CompoundMessageHeader()

    refused(or_user(0x02000000), "AH")
    refused(change, "AH")
    remote_read = message()
    change(remote_read)
    assert UserMessage.decode(remote_read.encode()).user.flags & 0x02000000


def test_a_hop_count_above_29_a_delivery_mode_above_1_and_an_express_transaction_are_refused() -> None:
    def express(m: UserMessage) -> None:
        m.user.flags &= ~0x60

    refused(or_user(0x1E), "RC must be at most 29")
    refused(or_user(0x40), "DM must be 0 or 1")
    refused(express, "a transactional message must be recoverable, not express")


@pytest.mark.spec("MQMQ-2.2.19.2-04")
@pytest.mark.parametrize(
    ("name", "address", "fits"),
    [
        (PrivateQueueFormatNameId(1), GUID, True),
        (PrivateQueueFormatNameId(1), bytes(16), False),
        (PublicQueueFormatName(GUID), GUID, True),
        (PublicQueueFormatName(GUID), bytes(16), False),
        (DirectQueueFormatName("OS:h\\q"), bytes(16), True),
        (DirectQueueFormatName("OS:h\\q"), GUID, False),
    ],
)
def test_the_address_is_null_exactly_for_a_direct_name(name: QueueName, address: bytes, fits: bool) -> None:  # noqa: FBT001
    def change(m: UserMessage) -> None:
        m.user.destination_queue = name
        m.user.queue_manager_address = address

    if fits:
        good = message()
        change(good)
        check_originated(good)
    else:
        refused(change, "QueueManagerAddress")


@pytest.mark.spec("MQMQ-2.2.19.2-18")
@pytest.mark.parametrize("acknowledgment", [1, 2, 4, 8])
def test_an_administration_queue_is_given_when_any_acknowledgment_is_asked_for(acknowledgment: int) -> None:
    def no_queue(m: UserMessage) -> None:
        m.user.admin_queue = None
        m.properties.flags = acknowledgment

    refused(no_queue, "AdminQueue")
    both = message()
    both.properties.flags = acknowledgment
    check_originated(both)


@pytest.mark.spec("MQMQ-2.2.19.2-18")
def test_no_administration_queue_is_given_when_no_acknowledgment_is_asked_for() -> None:
    def no_acknowledgment(m: UserMessage) -> None:
        m.properties.flags = 0

    refused(no_acknowledgment, "AdminQueue")
    neither = message()
    no_acknowledgment(neither)
    neither.user.admin_queue = None
    check_originated(neither)


@pytest.mark.spec("MQMQ-2.2.19.3-06")
@pytest.mark.parametrize("bit", [0x10, 0x20, 0x40, 0x80])
def test_the_upper_property_flags_are_clear(bit: int) -> None:
    def change(m: UserMessage) -> None:
        m.properties.flags |= bit

    refused(change, "a reserved bit is set")


@pytest.mark.spec("MQMQ-2.2.20.5-02", "MQMQ-2.2.20.5-07", "MQMQ-2.2.20.5-08")
def test_sequence_numbers_start_at_1_and_reserved_transaction_flags_are_clear() -> None:
    def number(value: int) -> Callable[[UserMessage], None]:
        def change(m: UserMessage) -> None:
            transaction(m).tx_sequence_number = value

        return change

    def previous(m: UserMessage) -> None:
        transaction(m).previous_tx_sequence_number = 0xFFFFFFFF

    def flags(bit: int) -> Callable[[UserMessage], None]:
        def change(m: UserMessage) -> None:
            transaction(m).flags |= 1 << bit

        return change

    for bit in range(24, 32):
        refused(flags(bit), "a reserved bit is set")
    refused(number(0), "TxSequenceNumber")
    refused(number(0x100000000), "TxSequenceNumber")
    refused(previous, "TxSequenceNumber")
    last = message()
    transaction(last).tx_sequence_number = 0xFFFFFFFF
    transaction(last).previous_tx_sequence_number = 0xFFFFFFFE
    check_originated(last)
    assert UserMessage.decode(last.encode()).transaction == last.transaction


def test_a_security_header_makes_no_claim_and_is_not_empty() -> None:
    def flags(bit: int) -> Callable[[UserMessage], None]:
        def change(m: UserMessage) -> None:
            security(m).flags |= bit

        return change

    def empty(m: UserMessage) -> None:
        m.security = SecurityHeader()

    def no_sid(m: UserMessage) -> None:
        security(m).security_id = b""

    def short_guid(m: UserMessage) -> None:
        m.security = SecurityHeader(flags=0x42, security_id=GUID[:15], signature=b"sign")

    for bit in (0x0010, 0x0100, 0x0200, 0x0400, 0x0800, 0x1000, 0x2000, 0x4000, 0x8000):
        refused(flags(bit), "the bit AU, the bit AS or a reserved bit is set")
    refused(empty, "all five items are empty")
    refused(no_sid, "SecurityID")
    refused(short_guid, "SecurityID")


def test_a_signature_names_one_provider() -> None:
    def both(m: UserMessage) -> None:
        security(m).provider_info = ProviderInfo(1, "P").encode()

    def neither(m: UserMessage) -> None:
        security(m).flags &= ~0x40

    refused(both, "ProviderInfo")
    refused(neither, "ProviderInfo")
    alternate = message()
    both(alternate)
    neither(alternate)
    check_originated(alternate)


def test_an_unsigned_message_names_a_provider_only_when_its_body_is_encrypted() -> None:
    def unsigned(m: UserMessage) -> None:
        m.security = SecurityHeader(flags=0x01, security_id=b"sid!", provider_info=ProviderInfo(1, "P").encode())

    refused(unsigned, "ProviderInfo")
    encrypted = message()
    unsigned(encrypted)
    security(encrypted).flags |= 0x20
    check_originated(encrypted)


def test_reserved_debug_flags_are_clear() -> None:
    def flags(m: UserMessage) -> None:
        debug(m).flags |= 4

    def reserved(m: UserMessage) -> None:
        debug(m).reserved = 1

    refused(flags, "a reserved bit is set")
    refused(reserved, "a reserved bit is set")


def test_identifiers_of_another_length_are_refused() -> None:
    def source(m: UserMessage) -> None:
        m.user.source_queue_manager = GUID[:15]

    def address(m: UserMessage) -> None:
        m.user.queue_manager_address = b""

    def correlation(m: UserMessage) -> None:
        m.properties.correlation_id = bytes(21)

    refused(source, "have 16 bytes")
    refused(address, "have 16 bytes")
    refused(correlation, "must have 20 bytes")


def test_what_others_sent_is_not_held_to_the_rules() -> None:
    """Frame 7 asks for acknowledgments without an administration queue."""
    with pytest.raises(EncodeError, match="AdminQueue"):
        check_originated(UserMessage.decode(frame(7)))
