"""Explain messages that this queue manager could not encrypt, with the command that makes the keys known."""

from waypost.core.message import Message
from waypost.core.queues import OutgoingQueue
from waypost.errors import DecodeError
from waypost.guid import NULL_GUID
from waypost.node.node import Node
from waypost.wire.format_names import FormatName, PrivateFormatName
from waypost.wire.management import ConnectionStatus
from waypost.wire.security_header import PRIVATE, UNSENT
from waypost.wire.user_message import UserMessage


def is_unsent(message: Message) -> bool:
    """Whether the message became a dead-letter message because it could not be encrypted here."""
    return bool(_marks(message) & UNSENT)


def unsent_sentences(node: Node, message: Message) -> list[str]:
    """The reason why a message was not encrypted, and the present state of the keys of its destination."""
    reason = "This queue manager could not encrypt the message, so it did not send the message"
    unknown = _unknown(node, message.destination_queue_format_name, message.queue_manager_address)
    if unknown:
        return [f"{reason}: {unknown}."]
    return [f"{reason}. The exchange keys of the destination are known now."]


def waiting_sentences(node: Node, message: Message) -> list[str]:
    """A message in an outgoing queue that is to be encrypted, and whose keys are missing."""
    if not _marks(message) & PRIVATE:
        return []
    unknown = _unknown(node, message.destination_queue_format_name, message.queue_manager_address)
    return [f"The message can be sent only encrypted, but {unknown}."] if unknown else []


def queue_sentences(node: Node, queue: OutgoingQueue) -> list[str]:
    """The keys that messages of this queue lacked, if they are still not known."""
    if not any(event.status is ConnectionStatus.SERVER_CERTIFICATE_FAILURE for event in queue.connection_history):
        return []
    name = queue.destination_format_name
    guid = name.computer_guid if isinstance(name, PrivateFormatName) else NULL_GUID
    link = queue.link
    if guid == NULL_GUID and link is not None and link.last_host:
        guid = link.last_host[1]
    unknown = _unknown(node, name, guid)
    return [f"The queue manager does not send encrypted messages: {unknown}."] if unknown else []


def _unknown(node: Node, name: FormatName | None, guid: bytes) -> str:
    """The sentence about missing keys; "" if they are known."""
    return "" if node.protection.exchange_keys(name, guid) else node.protection.unknown_keys(name, guid)


def _marks(message: Message) -> int:
    try:
        security = UserMessage.decode(message.packet).security
    except DecodeError:
        return 0
    return 0 if security is None else security.flags
