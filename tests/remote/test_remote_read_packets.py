"""MS-MQRR 2.2.5 and 3.1.4.7: what a reader gets of a message."""

from dataclasses import replace

import pytest

from tests.remote.harness import Host
from tests.remote.reader import ACK, NACK, PEEK_CURRENT, TAKE, UOW, Reader, label, message_of, packet_of, serve
from waypost.core.queues import Queue
from waypost.core.serialization import packet_of as core_packet_of
from waypost.core.stored_message import stored_message
from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.remote.remote_read.coordinator import local_token
from waypost.wire.base_header import BaseHeader
from waypost.wire.format_names import FormatName, PrivateFormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.ndr import ContextHandle
from waypost.wire.remote_packet import Origin, sender_address
from waypost.wire.remote_trailers import HostAddress, SubqueueHeader
from waypost.wire.section_buffer import SectionType
from waypost.wire.soap import CompoundMessageHeader, SrmpEnvelopeHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

THEM = b"\x22" * 16
FULL, FIRST, SECOND = (
    SectionType.ST_FULL_PACKET,
    SectionType.ST_BINARY_FIRST_SECTION,
    SectionType.ST_BINARY_SECOND_SECTION,
)
SRMP_FIRST, SRMP_SECOND = SectionType.ST_SRMP_FIRST_SECTION, SectionType.ST_SRMP_SECOND_SECTION
LOOKUP_PEEK = ReceiveAction.MQ_LOOKUP_PEEK_CURRENT


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def reader(host: Host) -> Reader:
    return Reader(serve(host), host)


@pytest.fixture
def handle(reader: Reader) -> ContextHandle:
    return reader.open()


def put(host: Host, queue: Queue | None = None, /, **changes: object) -> int:
    return host.put(replace(host.message("a"), **changes), queue)  # type: ignore[arg-type]


def subqueue_header(reader: Reader, handle: ContextHandle, lookup_id: int) -> SubqueueHeader:
    header = packet_of(reader.read(handle, LOOKUP_PEEK, lookup_id)).subqueue
    assert header is not None
    return header


@pytest.mark.spec("MQRR-3.1.4.7-22", "MQRR-3.1.4.7-23", "MQRR-3.1.1.4-01")
@pytest.mark.parametrize("action", [PEEK_CURRENT, TAKE])
@pytest.mark.parametrize(("limit", "types"), [(0, [FIRST, SECOND]), (6, [FIRST, SECOND]), (7, [FULL]), (900, [FULL])])
def test_the_body_of_a_binary_message_is_cut_where_the_reader_says(
    host: Host, reader: Reader, handle: ContextHandle, action: int, limit: int, types: list[SectionType]
) -> None:
    put(host, body=b"7 bytes")
    values = (handle, 0, 0, action, 0, 1, limit, 0)
    sections = reader.start_receive(*values).record.sections
    assert [section.section_buffer_type for section in sections] == types
    assert sections[0].section_size_alloc - sections[0].section_size == max(0, 7 - limit)
    reader.end(handle, 1, 1)
    packet = packet_of(reader.start_receive(*values[:5], 2, *values[6:]))
    assert packet.message().properties.message_body == b"7 bytes"[:limit].ljust(7, b"\0")


@pytest.mark.spec("MQRR-3.1.4.7-22", "MQRR-3.1.4.7-23", "MQRR-3.1.1.4-01")
@pytest.mark.parametrize("body_limit", [0, 9000])
@pytest.mark.parametrize(
    ("limit", "types"), [(0, [SRMP_FIRST, SRMP_SECOND]), (30, [SRMP_FIRST, SRMP_SECOND]), (31, [FULL])]
)
def test_a_message_over_http_is_cut_by_the_size_of_its_compound_message(
    host: Host, reader: Reader, handle: ContextHandle, body_limit: int, limit: int, types: list[SectionType]
) -> None:
    """CompoundMessageHeader is 16 bytes and the 15 of its data."""
    made = UserMessage.decode(core_packet_of(host.message("a")))
    made.srmp_envelope = SrmpEnvelopeHeader(data="<se:Envelope/>")
    made.compound_message = CompoundMessageHeader(msg_body_size=4, msg_body_offset=11, data=b"POST /msmq body")
    host.enqueue(stored_message(made.encode()))
    sections = reader.start_receive(handle, 0, 0, PEEK_CURRENT, 0, 1, body_limit, limit).record.sections
    assert [section.section_buffer_type for section in sections] == types
    assert sections[0].section_size_alloc - sections[0].section_size == 31 - limit


@pytest.mark.spec("MQRR-3.1.4.13-13")
def test_both_start_calls_answer_alike(host: Host, reader: Reader) -> None:
    handle = reader.open("ledger")
    sent = int(host.now.wall)
    lookup_id = put(host, host.ledger, body=b"7 bytes", time_to_reach_queue=90, sent_time=sent)
    host.tick(30)
    for limit in (0, 3, 100):
        plain = reader.read(handle, limit=limit)
        reader.end(handle, NACK)
        host.forget_aborts(host.ledger)
        transactional = reader.read(handle, limit=limit, tx=UOW)
        reader.end_tx(handle, NACK)
        host.forget_aborts(host.ledger)
        assert plain.record == transactional.record
        assert plain.record.sequence_id == lookup_id & 0xFF_FFFF_FFFF_FFFF
        assert plain.record.arrive_time == sent
        base, _ = BaseHeader.decode(plain.record.sections[0].data, 0)
        assert base.time_to_reach_queue == sent + 90


def test_a_message_is_what_was_sent(host: Host, reader: Reader, handle: ContextHandle) -> None:
    put(host, body=b"two of them", priority=5, application_tag=9)
    message = message_of(reader.read(handle))
    assert (message.label, message.body, message.priority, message.application_tag) == ("a", b"two of them", 5, 9)


def test_the_origin_is_the_host_that_the_message_came_from(host: Host, reader: Reader, handle: ContextHandle) -> None:
    address = HostAddress(bytes((10, 0, 0, 5)))
    message = host.message("a")
    message.origin = Origin(THEM, address)
    host.put(message)
    packet = packet_of(reader.read(handle))
    user, _ = UserHeader.decode(packet.user_message, 16)
    overlay = sender_address(user)
    assert overlay is not None
    assert overlay.address[:4] == address.address
    assert packet.extended_address is not None
    assert packet.extended_address.host == address


def test_what_was_sent_here_came_from_here(host: Host, reader: Reader, handle: ContextHandle) -> None:
    me = host.manager.identity.identifier
    host.enqueue(replace(host.message("a"), destination_queue_format_name=PrivateFormatName(me, 1)))
    packet = packet_of(reader.read(handle))
    user, _ = UserHeader.decode(packet.user_message, 16)
    assert user.queue_manager_address == me
    assert packet.extended_address is not None
    assert packet.extended_address.host == HostAddress()


@pytest.mark.parametrize(("path", "is_invalid"), [("host\\private$\\orders", False), ("host\\private$\\nowhere", True)])
def test_the_dead_letter_queue_of_the_application_is_told(
    host: Host, reader: Reader, handle: ContextHandle, path: str, *, is_invalid: bool
) -> None:
    put(host, application_deadletter_queue=path)
    packet = packet_of(reader.read(handle))
    assert packet.dead_letter is not None
    assert packet.dead_letter.dead_letter_path_name == path
    assert packet.extension is not None
    assert packet.extension.is_dead_letter_queue_invalid == is_invalid


def test_no_dead_letter_queue_is_told_of_most_messages(host: Host, reader: Reader, handle: ContextHandle) -> None:
    put(host)
    packet = packet_of(reader.read(handle))
    assert packet.dead_letter is None
    assert packet.extension is not None
    assert packet.extension.flags == 0x12


@pytest.mark.spec("MQRR-2.2.5.3-04")
def test_the_abort_counter_counts_attempts_that_failed(host: Host, reader: Reader) -> None:
    """readings MQRR 3.28: receives and moves that were aborted, NACKs, and readers that said nothing in time.

    A move that succeeds begins again.
    """
    handle, target = reader.open("ledger"), reader.open_for_move("ledger;late")
    lookup_id = host.put("a", host.ledger)
    assert subqueue_header(reader, handle, lookup_id).abort_counter == 0
    for count in (1, 2):
        reader.enlist(local_token(UOW))
        reader.read(handle, tx=UOW)
        reader.end_tx(handle)
        host.decide_abort(UOW)
        assert subqueue_header(reader, handle, lookup_id).abort_counter == count
    reader.enlist(local_token(UOW))
    assert reader.move(handle, target.move_context, lookup_id, UOW) == HResult.MQ_OK
    host.decide_abort(UOW)
    assert subqueue_header(reader, handle, lookup_id).abort_counter == 3
    reader.read(handle)
    reader.end(handle, NACK)
    assert subqueue_header(reader, handle, lookup_id).abort_counter == 4
    reader.enlist(local_token(UOW))
    reader.read(handle, tx=UOW)
    reader.end_tx(handle, NACK)
    assert subqueue_header(reader, handle, lookup_id).abort_counter == 5
    host.decide_abort(UOW)
    reader.read(handle)
    host.tick(host.settings.pending_request_timeout_s)
    assert subqueue_header(reader, handle, lookup_id).abort_counter == 6
    reader.read(handle)
    reader.close(handle)
    handle = reader.open("ledger")
    assert subqueue_header(reader, handle, lookup_id).abort_counter == 6, (
        "a reader that closes its queue has not failed"
    )
    assert reader.move(handle, target.move_context, lookup_id) == HResult.MQ_OK
    late = reader.open("ledger;late")
    assert subqueue_header(reader, late, lookup_id).abort_counter == 0


@pytest.mark.spec("MQRR-2.2.5.3-05", "MQRR-2.2.5.3-06", "MQRR-2.2.5.3-07")
def test_moves_are_counted_and_the_last_has_its_time(host: Host, reader: Reader) -> None:
    """readings MQRR 3.26: in seconds."""
    main, late = reader.open(), reader.open("orders;late")
    to_late, to_main = reader.open_for_move("orders;late"), reader.open_for_move("orders")
    lookup_id = host.put("a")
    header = subqueue_header(reader, main, lookup_id)
    assert (header.move_counter, header.last_move_time, header.subqueue_name) == (0, 0, "")
    host.tick(10)
    reader.move(main, to_late.move_context, lookup_id)
    moved = int(host.now.wall)
    host.tick(10)
    header = subqueue_header(reader, late, lookup_id)
    assert (header.move_counter, header.last_move_time, header.subqueue_name) == (1, moved, "late")
    reader.move(late, to_main.move_context, lookup_id)
    header = subqueue_header(reader, main, lookup_id)
    assert (header.move_counter, header.last_move_time, header.subqueue_name) == (2, int(host.now.wall), "")


def test_a_message_that_can_be_seen_while_it_is_locked_tells_what_is_to_become_of_it(
    host: Host, reader: Reader
) -> None:
    handle, target = reader.open("ledger"), reader.open_for_move("ledger;late")
    moved = put(host, host.ledger, allow_peek_when_locked=True)
    rejected = put(host, host.ledger, allow_peek_when_locked=True)
    reader.enlist(local_token(UOW))
    reader.move(handle, target.move_context, moved, UOW)
    assert label(reader.read(handle, tx=UOW)) == "a"
    reader.end_tx(handle, ACK)
    header = subqueue_header(reader, handle, moved)
    assert (header.target_subqueue_name, header.acknowledgement_class) == ("late", 0)
    assert subqueue_header(reader, handle, rejected).acknowledgement_class == 0
    reader.set_class(handle, rejected, MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED)
    header = subqueue_header(reader, handle, rejected)
    assert (header.target_subqueue_name, header.acknowledgement_class) == ("", 0xC004)


def test_a_message_for_several_queues_is_told_as_one(host: Host, reader: Reader, handle: ContextHandle) -> None:
    names = tuple(FormatName.parse(f"DIRECT=OS:host\\private$\\{name}") for name in ("orders", "ledger"))
    put(host, destination_multi_queue_format_name=names)
    packet = packet_of(reader.read(handle, limit=0))
    assert packet.message().multi_queue is not None
