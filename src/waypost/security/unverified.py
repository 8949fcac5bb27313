"""Messages that say they are signed or encrypted: MS-MQQB 3.1.5.8.3.

Nothing here verifies a signature or decrypts a body yet, so such a message is refused like one whose signature does not
match or whose body does not decrypt. A SecurityHeader that only names a sender does not protect: its SID is a claim
(waypost.security.access).
"""

from waypost.wire.message_class import MessageClass
from waypost.wire.user_message import UserMessage


def unverified(packet: UserMessage) -> MessageClass | None:
    """The reason why the protection of a message is not trusted, or None if it has none.

    It is decrypted before it is verified (readings MQQB 3.10), so encryption fails first.
    """
    security, multi_queue = packet.security, packet.multi_queue
    if security is not None and security.is_body_encrypted:
        return MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION
    if (security is not None and security.signature) or (multi_queue is not None and multi_queue.signature.signature):
        return MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE
    return None
