"""A packet decoded by waypost.wire and waypost.core, one at a time, to the columns of waypost.arrow.schema."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from waypost.arrow import schema
from waypost.errors import DecodeError, IllegalFormatName
from waypost.guid import guid_text
from waypost.wire import user_header
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName
from waypost.wire.packet_names import SAME_AS_ADMIN, admin_format_name, destination_format_name, response_format_name
from waypost.wire.queue_names import DirectQueueFormatName, QueueName
from waypost.wire.security_header import SENDER_SID
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

MESSAGE: Final = [field.name for field in schema.MESSAGE]

Row = dict[str, object]


def expected(packet: bytes) -> Row | None:
    """The columns of MESSAGE; None if the packet is refused."""
    try:
        return _row(UserMessage.decode(packet))
    except DecodeError:
        return None


def _row(message: UserMessage) -> Row:
    base, user, properties, transaction, security = (
        message.base, message.user, message.properties, message.transaction, message.security
    )  # fmt: skip
    body = properties.message_body
    if security is not None and security.is_body_encrypted:
        body = properties.allocated_body
    if message.compound_message is not None:
        body = message.compound_message.message_body
    return {
        "message_id": user.source_queue_manager + user.message_id.to_bytes(4, "little"),
        "correlation_id": properties.correlation_id if any(properties.correlation_id) else None,
        "message_class": properties.message_class,
        "priority": 0 if transaction else base.priority,
        "delivery": user.delivery,
        "acknowledge": properties.flags,
        "journal": bool(user.flags & user_header.JN) + 2 * bool(user.flags & user_header.JP),
        "label": printable(properties.label or ""),
        "body": body,
        "body_type": properties.body_type,
        "body_size": len(body),
        "app_specific": properties.application_tag,
        "sent_time": datetime.fromtimestamp(user.sent_time, UTC),
        "time_to_reach_queue": _span(base.time_to_reach_queue),
        "time_to_be_received": _span(user.time_to_be_received),
        "source_qm": guid_text(user.source_queue_manager),
        "dest_queue": _name(user.destination_queue, lambda: destination_format_name(user)),
        "admin_queue": _name(user.admin_queue, lambda: admin_format_name(user)),
        "response_queue": _response_name(user),
        "transactional": transaction is not None,
        "xact_id": transaction and user.source_queue_manager + transaction.transaction_id.to_bytes(4, "little"),
        "xact_first": transaction is not None and transaction.is_first,
        "xact_last": transaction is not None and transaction.is_last,
        "trace": base.is_traced,
        "hop_count": user.hop_count,
        "sender_id": security.security_id or None if security and security.sender_type == SENDER_SID else None,
        "extension": properties.extension_data,
    }


def _name(name: QueueName | None, whole: Callable[[], FormatName | None]) -> str | None:
    try:
        found = whole()
    except IllegalFormatName:
        return "DIRECT=" + printable(name.direct_format_name) if isinstance(name, DirectQueueFormatName) else None
    return None if found is None else str(found)


def _response_name(user: UserHeader) -> str | None:
    is_same = user.flags >> user_header.RQ_SHIFT & 7 == SAME_AS_ADMIN
    try:
        return _name(user.admin_queue if is_same else user.response_queue, lambda: response_format_name(user))
    except DecodeError:
        return None


def _span(seconds: int) -> int | None:
    return None if seconds == INFINITE else seconds


def printable(text: str) -> str:
    """Halves of surrogate pairs have no place in UTF-8."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
