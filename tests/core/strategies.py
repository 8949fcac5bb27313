"""Messages as Hypothesis makes them: what an application may send and a packet carries whole."""

from hypothesis import strategies as st

from tests.wire.strategies import guids, texts, u8, u16, u32
from waypost.core.message import BASE_PROVIDER, Message
from waypost.core.message_values import DeliveryGuarantee, SenderIdentifierType
from waypost.wire.format_names import FormatName, PrivateFormatName, PublicFormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.sid import Sid

SOURCE = b"\x01" * 16
DESTINATION = b"\x02" * 16
OTHER = b"\x03" * 16
DIRECT = FormatName.parse("DIRECT=OS:host\\private$\\orders")

flags = st.booleans()
# Few hosts, so that queues on the same host are common.
hosts = st.sampled_from((SOURCE, DESTINATION, OTHER)) | guids.filter(any)
private_names = st.builds(PrivateFormatName, hosts, st.integers(0, 3) | u32)
public_names = st.builds(PublicFormatName, guids)
direct_names = st.sampled_from(
    (
        DIRECT,
        FormatName.parse("DIRECT=OS:HOST\\private$\\ORDERS"),
        FormatName.parse("DIRECT=TCP:10.0.0.1\\q"),
        FormatName.parse("DIRECT=HTTPS://host/msmq/q"),
    )
)
queue_names: st.SearchStrategy[FormatName] = private_names | public_names | direct_names
name_lists = st.lists(queue_names, max_size=3).map(tuple)
identifiers = st.builds(MessageIdentifier, guids, u32)
sids = st.builds(Sid, st.integers(0, 5), st.lists(u32, max_size=3).map(tuple)).map(Sid.encode)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    message = Message(
        identifier=MessageIdentifier(draw(hosts), draw(u32)),
        message_class=draw(u16),
        delivery_guarantee=draw(st.sampled_from(DeliveryGuarantee)),
        tracing_requested=draw(flags),
        tracing_queue_identifier=draw(guids),
        priority=draw(st.integers(0, 7)),
        positive_journaling_requested=draw(flags),
        negative_journaling_requested=draw(flags),
        response_queue_format_name=draw(st.none() | queue_names),
        response_multi_queue_format_name=draw(name_lists),
        administration_multi_queue_format_name=draw(name_lists),
        multiple_destination_signature=draw(st.binary(max_size=9)),
        application_tag=draw(u32),
        body=draw(st.binary(max_size=40)),
        body_type=draw(u32),
        correlation_identifier=draw(identifiers),
        label=draw(texts),
        sent_time=draw(u32),
        time_to_reach_queue=draw(u32),
        time_to_be_received=draw(u32),
        hash_algorithm=draw(u32),
        encryption_algorithm=draw(u32),
        extension=draw(st.binary(max_size=9)),
        connector_type_identifier=draw(guids),
        soap_body=draw(texts),
        soap_header=draw(texts),
    )
    address(draw, message)
    if draw(flags):
        capture(draw, message)
    if draw(flags):
        secure(draw, message)
    return message


def address(draw: st.DrawFn, message: Message) -> None:
    """A destination, perhaps among others, and an administration queue exactly if it has something to get."""
    name = draw(queue_names)
    message.destination_queue_format_name = name
    if draw(flags):
        message.destination_multi_queue_format_name = (*draw(name_lists), name)
    if isinstance(name, PrivateFormatName):
        message.destination_queue_manager_identifier = name.computer_guid
    elif isinstance(name, PublicFormatName):
        message.destination_queue_manager_identifier = draw(hosts)
    if draw(flags):
        message.acknowledgements_requested = draw(st.integers(1, 15))
        message.administration_queue_format_name = draw(queue_names)


def capture(draw: st.DrawFn, message: Message) -> None:
    message.priority = 0
    message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
    message.transaction_identifier = draw(st.integers(0, 0xFFFFF))
    message.transactional_message_sequence_identifier = draw(st.builds(TxSequenceId, u32, u32))
    message.transaction_sequence_number = draw(st.integers(1, 0xFFFFFFFF))
    message.transaction_previous_sequence_number = draw(st.integers(0, 0xFFFFFFFE))
    message.connector_queue_manager_identifier = draw(guids)
    message.final_ack_required = draw(flags)
    message.first_in_transaction = draw(flags)
    message.last_in_transaction = draw(flags)


def secure(draw: st.DrawFn, message: Message) -> None:
    """A sender, and perhaps a signature and a key."""
    message.sender_identifier_type = draw(st.sampled_from(SenderIdentifierType))
    message.sender_identifier = draw(
        {
            SenderIdentifierType.NONE: st.just(b""),
            SenderIdentifierType.SID: sids,
            SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER: guids,
        }[message.sender_identifier_type]
    )
    message.signature = draw(st.binary(min_size=1, max_size=9))
    message.sender_certificate = draw(st.binary(max_size=9))
    message.symmetric_key = draw(st.binary(max_size=9))
    message.privacy_level = draw(u8)
    message.authentication_provider_type = draw(u32)
    message.authentication_provider_name = draw(texts)
    if draw(flags):
        message.authentication_provider_type = 1
        message.authentication_provider_name = BASE_PROVIDER
