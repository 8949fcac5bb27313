"""Messages as the answers of the schema."""

from collections.abc import Sequence

from msgspec import UNSET

from waypost.api.properties import MessageObject
from waypost.client.message import Message, message_object
from waypost.client.remote.packing import packet_row
from waypost.client.remote.schema import Form, Messages, Packets


def objects(messages: Sequence[Message], *, packed: bool) -> list[MessageObject]:
    """`packed` for MessagePack, which carries bytes as they are."""
    found = [message_object(message) for message in messages]
    if packed:
        for each in found:
            each.body, each.body_base64 = each.body_base64, UNSET
            each.extension, each.extension_base64 = each.extension_base64, UNSET
    return found


def answer(messages: Sequence[Message], form: Form, *, packed: bool) -> Messages | Packets:
    if form == "packet":
        return Packets(rows=[packet_row(message) for message in messages])
    return Messages(messages=objects(messages, packed=packed))
