"""Records as Hypothesis makes them.

Each strategy gives what its record can hold, reserved bits and padding included.
"""

from hypothesis import strategies as st

from waypost.wire import base_header, security_header, user_header
from waypost.wire.base_header import BaseHeader
from waypost.wire.debug_header import DebugHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.multi_queue import (
    MqfAddressHeader,
    MqfFormatNameElement,
    MqfSignatureHeader,
    MultiQueueFormatHeader,
)
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)
from waypost.wire.security_header import ProviderInfo, SecurityHeader
from waypost.wire.session_header import SessionHeader
from waypost.wire.soap import CompoundMessageHeader, SoapHeader, SrmpEnvelopeHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

u8 = st.integers(0, 0xFF)
u16 = st.integers(0, 0xFFFF)
u32 = st.integers(0, 0xFFFFFFFF)
u64 = st.integers(0, 0xFFFFFFFFFFFFFFFF)
guids = st.binary(min_size=16, max_size=16)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=[]), max_size=24)

private_ids = st.builds(PrivateQueueFormatNameId, u32)
public_names = st.builds(PublicQueueFormatName, guids)
private_names = st.builds(PrivateQueueFormatName, guids, u32)
direct_names = st.builds(DirectQueueFormatName, texts)

session_headers = st.builds(SessionHeader, u16, u16, u32, u16, u16, u16, u16)
debug_headers = st.builds(DebugHeader, u16, u16, st.none() | guids)
transaction_headers = st.builds(
    TransactionHeader, u32, u64, st.integers(1, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFE), st.none() | guids
)
property_headers = st.builds(
    MessagePropertiesHeader,
    flags=u8,
    message_class=u16,
    correlation_id=st.binary(min_size=20, max_size=20),
    body_type=u32,
    application_tag=u32,
    privacy_level=u32,
    hash_algorithm=u32,
    encryption_algorithm=u32,
    label=st.none() | texts,
    extension_data=st.binary(max_size=9),
    message_body=st.binary(max_size=40),
    allocation_remainder=st.binary(max_size=5),
    padding=st.binary(max_size=3),
)
soap_headers = st.builds(SoapHeader, reserved=u16, header=texts, reserved1=u16, body=texts)
multi_queue_headers = st.builds(
    MultiQueueFormatHeader,
    *[
        st.builds(
            MqfAddressHeader,
            elements=st.lists(st.builds(MqfFormatNameElement, public_names | private_names), max_size=3),
        )
    ]
    * 3,
    st.builds(MqfSignatureHeader, signature=st.binary(max_size=3).map(lambda data: data * 4)),
)


@st.composite
def user_headers(draw: st.DrawFn) -> UserHeader:
    codes = (
        draw(st.sampled_from((0, 3, 5, 7))),
        draw(st.sampled_from((0, 2, 3, 5, 6, 7))),
        draw(st.integers(0, 7)),
    )
    none = st.none()
    kinds: list[st.SearchStrategy[QueueName | None]] = [
        none, none, private_ids, private_ids, private_ids, public_names, private_names, direct_names,
    ]  # fmt: skip
    destination, admin, response = (draw(kinds[code]) for code in codes)
    flags = draw(u32) & ~(user_header.DQ | user_header.AQ | user_header.RQ | user_header.CQ)
    flags |= codes[0] << user_header.DQ_SHIFT | codes[1] << user_header.AQ_SHIFT | codes[2] << user_header.RQ_SHIFT
    connector = draw(st.none() | guids)
    if connector is not None:
        flags |= user_header.CQ
    return UserHeader(
        draw(guids), draw(guids), draw(u32), draw(u32), draw(u32), flags, destination, admin, response, connector
    )


@st.composite
def security_headers(draw: st.DrawFn) -> SecurityHeader:
    sender_type = draw(st.sampled_from((0, 1, 2)))
    sender = {0: st.just(b""), 1: st.binary(min_size=1, max_size=30), 2: guids}
    header = SecurityHeader(
        draw(u16) & ~(security_header.ST | security_header.DE) | sender_type,
        draw(sender[sender_type]),
        draw(st.binary(max_size=9)),
        draw(st.binary(max_size=9)),
        draw(st.binary(max_size=9)),
        draw(st.just(b"") | st.builds(ProviderInfo, u32, texts).map(ProviderInfo.encode)),
    )
    if not (header.security_id or header.encryption_key or header.signature or header.sender_cert):
        header.signature = b"signature"
    return header


@st.composite
def user_messages(draw: st.DrawFn) -> UserMessage:
    transaction = draw(st.none() | transaction_headers)
    user = draw(user_headers())
    delivery = user_header.RECOVERABLE if transaction else draw(st.sampled_from((0, 1)))
    user.flags = user.flags & ~user_header.DM | delivery << user_header.DM_SHIFT
    debug = draw(st.none() | debug_headers)
    flags = draw(u16) & ~(base_header.IN | base_header.TR)
    over_http = draw(st.booleans())
    return UserMessage(
        base=BaseHeader(reserved=draw(u8), flags=flags | (base_header.TR if debug and draw(st.booleans()) else 0)),
        user=user,
        transaction=transaction,
        security=draw(st.none() | security_headers()),
        properties=draw(property_headers),
        debug=debug,
        srmp_envelope=SrmpEnvelopeHeader(data=draw(texts)) if over_http else None,
        compound_message=CompoundMessageHeader(data=draw(st.binary(max_size=9))) if over_http else None,
        soap=draw(st.none() | soap_headers),
        multi_queue=draw(st.none() | multi_queue_headers),
        extension=draw(st.sampled_from((b"", bytes([12]) + bytes(11)))),
        session=draw(st.none() | session_headers),
    )
