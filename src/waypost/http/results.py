"""Answers with messages, in the structures of the schema."""

from collections.abc import Sequence

from msgspec import UNSET

from waypost.api.messages import Copies, Received, Sent
from waypost.api.operations import Form
from waypost.api.properties import MessageObject
from waypost.client.message import message_object, sent_message
from waypost.client.transports.http.packing import packet_row
from waypost.client.transports.http.schema import Messages, Packets
from waypost.core.message import Message


def objects(messages: Sequence[Message | Copies], *, packed: bool) -> list[MessageObject]:
    """The objects of messages. `packed`: for MessagePack, with bytes instead of base64 text."""
    found = [message_object(sent_message(message)) for message in messages]
    if packed:
        for each in found:
            each.body, each.body_base64 = each.body_base64, UNSET
            each.extension, each.extension_base64 = each.extension_base64, UNSET
    return found


def answer(found: Received, form: Form, *, packed: bool) -> Messages | Packets:
    if form == "packet":
        rows = [packet_row(message) for message in found.messages]
        return Packets(rows=rows, next=found.next, receipt=found.receipt, refused=found.refused)
    messages = objects(found.messages, packed=packed)
    return Messages(messages=messages, next=found.next, receipt=found.receipt, refused=found.refused)


def resent(sent: Sent, form: Form, *, packed: bool) -> Messages | Packets:
    """The answer to a Resend: one message object, or one packet per queue."""
    if form == "full":
        return Messages(messages=objects(sent.messages, packed=packed))
    (message,) = sent.messages
    copies = message.messages if isinstance(message, Copies) else (message,)
    return Packets(rows=[packet_row(copy) for copy in copies])
