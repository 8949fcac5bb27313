"""Sends of messages that are to be signed or encrypted: MS-MQQB 3.1.7.1.4, and the checks of MS-MQQB 3.1.7.1.5.

A message is signed when it is given, with a certificate of the caller, because the signature covers what the caller
gave. It is encrypted when it leaves (waypost.node.network.sealing). A message to a queue of this computer is verified
and private without either having to travel.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from waypost.api.messages import Sent
from waypost.api.properties import MessageProperties
from waypost.api.protection import ProtectionRequest, protection_of
from waypost.core.message import Message
from waypost.core.message_values import AuthenticationLevel, DeliveryGuarantee, SenderIdentifierType
from waypost.core.queues import AccessType, OpenQueueDescriptor, OutgoingQueue, ShareMode
from waypost.core.serialization import construct_user_message_packet, protected_packets
from waypost.core.stored_message import stored_message
from waypost.core.writing import EnqueueStatus
from waypost.errors import AccessDenied, InvalidParameter, PublicKeyUnknown
from waypost.guid import NULL_GUID
from waypost.node.effects import Signed, SignFor
from waypost.node.failures import not_enqueued
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.opened_queues import OpenedQueue, OpenedQueues
from waypost.node.sending import queue_of, verified_here
from waypost.security.ciphers import PROVIDER_TYPES, PROVIDERS
from waypost.security.signatures import SignatureVersion, digests_to_sign
from waypost.wire.algorithms import HashAlgorithm, PrivacyLevel
from waypost.wire.format_names import DirectFormatName, FormatName, MultipleElementFormatName
from waypost.wire.identifiers import MessageIdentifier

_VERSIONS: Final = {
    AuthenticationLevel.SIG10: SignatureVersion.SIG10,
    AuthenticationLevel.SIG20: SignatureVersion.SIG20,
    AuthenticationLevel.SIG30: SignatureVersion.SIG30,
}


class ProtectedSending:
    """Protected sends of one node."""

    __slots__ = ("_kernel", "_manager", "_node", "_opened", "_sending")

    def __init__(self, node: Node, opened: OpenedQueues) -> None:
        self._node: Final = node
        self._kernel: Final = node.kernel
        self._manager: Final = node.manager
        self._sending: Final = node.sending
        self._opened: Final = opened

    def request(self, properties: MessageProperties, name: FormatName) -> ProtectionRequest | None:
        """The request of these properties for a destination, or None. Raises InvalidParameter and DirectoryError.

        The queues that a name means decide about the signature: a list can name one queue twice, or have one member.
        """
        if not properties.sign:
            return protection_of(properties, has_several=False)
        expanded = self._node.directory.core.expand_format_name(name)
        has_several = isinstance(expanded, MultipleElementFormatName)
        return protection_of(properties, has_several=has_several)

    def send(
        self,
        call: Call,
        queue: OpenedQueue,
        message: Message,
        bodies: Sequence[bytes],
        request: ProtectionRequest,
        transaction: bytes | None,
    ) -> None:
        """Send bodies with the properties of `message`, which belongs to the node from now on."""
        apply_request(message, request, call)
        if request.privacy is not PrivacyLevel.NONE:
            self._check_names(queue.name)
        self._opened.use(call, queue, AccessType.SEND, self._sign, queue, message, bodies, request, transaction)

    def protect(
        self,
        call: Call,
        messages: Sequence[tuple[FormatName, Message, ProtectionRequest]],
        then: Callable[[Call], None],
    ) -> None:
        """Sign messages of a transaction for these destinations, and mark those that are to be encrypted."""
        wanted: dict[tuple[str, HashAlgorithm], list[tuple[Message, bytes]]] = {}
        for name, message, request in messages:
            apply_request(message, request, call)
            message.authentication_level = request.level
            message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
            message.destination_queue_format_name = name
            if request.privacy is not PrivacyLevel.NONE:
                self._check_names(name)
            with self._kernel.operation(call.now):
                handle = self._manager.open_queue(name, AccessType.SEND, ShareMode.DENY_NONE, call.now)
            try:
                if not handle.multiple:
                    # A list can mean one queue.
                    message.destination_queue_format_name = handle.format_name
                if request.privacy is not PrivacyLevel.NONE:
                    self.check_keys(handle, message)
                if request.level is not AuthenticationLevel.NONE:
                    (digest,) = self.digests(
                        handle, replace(message, transaction_identifier=1), [message.body], request
                    )
                    wanted.setdefault((request.certificate, request.hash), []).append((message, digest))
            finally:
                with self._kernel.operation(call.now):
                    self._manager.close_queue(handle)
        self._sign_all(call, list(wanted.items()), then)

    def _sign_all(
        self,
        call: Call,
        wanted: list[tuple[tuple[str, HashAlgorithm], list[tuple[Message, bytes]]]],
        then: Callable[[Call], None],
    ) -> None:
        """Sign the messages of one certificate and hash after the other."""
        if not wanted:
            then(call)
            return
        ((certificate, algorithm), messages), *others = wanted

        def signed(call: Call, result: object) -> None:
            assert isinstance(result, Signed)
            for (message, _), signature in zip(messages, result.signatures, strict=True):
                message.sender_certificate = result.certificate
                set_signature(message, message.body, signature)
            self._sign_all(call, others, then)

        ask = SignFor(call.caller, certificate, algorithm, tuple(digest for _, digest in messages))
        self._kernel.ask_keys_for(call, ask, signed)

    def _sign(
        self,
        call: Call,
        handle: OpenQueueDescriptor,
        queue: OpenedQueue,
        message: Message,
        bodies: Sequence[bytes],
        request: ProtectionRequest,
        transaction: bytes | None,
    ) -> None:
        if handle.multiple and len(bodies) > 1:
            raise InvalidParameter(
                "a request to several queues must contain only one message: send the messages one by one"
            )
        self._sending.prepare(handle, message, transaction, call.now, bodies, request.level)
        if request.privacy is not PrivacyLevel.NONE:
            self.check_keys(handle, message)
        if request.level is AuthenticationLevel.NONE:
            self._enqueue(call, handle, message, bodies, [b""] * len(bodies), transaction)
            return
        digests = self.digests(handle, message, bodies, request)

        def signed(call: Call, result: object) -> None:
            assert isinstance(result, Signed)
            self.check_registered(call, handle, result.certificate)
            message.sender_certificate = result.certificate
            work = self._enqueue
            self._opened.use(call, queue, AccessType.SEND, work, message, bodies, result.signatures, transaction)

        ask = SignFor(call.caller, request.certificate, request.hash, digests)
        self._kernel.ask_keys_for(call, ask, signed)

    def _check_names(self, name: FormatName) -> None:
        """Check the keys of direct names before queues are opened: a refused send leaves no outgoing queue."""
        identity = self._manager.identity
        for each in name.elements if isinstance(name, MultipleElementFormatName) else (name,):
            if isinstance(each, DirectFormatName) and not identity.is_local(each.host):
                self._check_direct(each, NULL_GUID)

    def _check_direct(self, name: DirectFormatName, queue_manager: bytes) -> None:
        protection = self._node.protection
        if protection.exchange_keys(name, queue_manager) is None:
            raise PublicKeyUnknown(f"cannot encrypt: {protection.unknown_keys(name, queue_manager)}")

    def check_keys(self, handle: OpenQueueDescriptor, message: Message) -> None:
        """A direct name must have known keys now; other names may become known while the message waits.

        The members of a distribution list are known only here.
        """
        for each in handle.multiple or (handle,):
            name = each.format_name
            if isinstance(queue_of(each), OutgoingQueue) and isinstance(name, DirectFormatName):
                self._check_direct(name, message.queue_manager_address)

    def digests(
        self, handle: OpenQueueDescriptor, message: Message, bodies: Sequence[bytes], request: ProtectionRequest
    ) -> tuple[bytes, ...]:
        """The digests that the signatures of the bodies hold."""
        # The number of a message is not signed.
        shown = replace(message, identifier=MessageIdentifier(self._manager.identity.identifier, 1), packet=b"")
        if handle.multiple:
            shown = self._manager.copies(handle, shown)[0]
        packet = construct_user_message_packet(shown)
        return digests_to_sign(packet, bodies, _VERSIONS[request.level], request.hash)

    def check_registered(self, call: Call, handle: OpenQueueDescriptor, certificate: bytes) -> None:
        """A queue of this computer takes only certificates that are registered for the caller."""
        if all(isinstance(each.queue, OutgoingQueue) for each in handle.multiple or (handle,)):
            return
        sid = call.caller.sid.encode()
        if not self._node.protection.is_registered(certificate, sid, call.now):
            raise InvalidParameter(
                f"the certificate is not registered for {call.caller.name}, so queues of this computer refuse the "
                "message; register the certificate with `waypost cert register`"
            )

    def _enqueue(
        self,
        call: Call,
        handle: OpenQueueDescriptor,
        message: Message,
        bodies: Sequence[bytes],
        signatures: Sequence[bytes],
        transaction: bytes | None,
    ) -> None:
        self._sending.prepare(handle, message, transaction, call.now, bodies, message.authentication_level)
        with self._kernel.operation(call.now):
            if len(bodies) == 1:
                set_signature(message, bodies[0], signatures[0])
                sent = self._sending.enqueue(handle, message, transaction, call.now)
                self._kernel.reply(call.request, Sent([sent]))
                return
            verified_here(handle, message)
            ordinal = self._manager.first_ordinal(len(bodies))
            message.identifier = MessageIdentifier(self._manager.identity.identifier, ordinal)
            set_signature(message, bodies[0], signatures[0])
            messages = []
            for packet in protected_packets(message, bodies, signatures, range(ordinal, ordinal + len(bodies))):
                stored = stored_message(packet)
                stored.application_deadletter_queue = message.application_deadletter_queue
                stored.authentication_level = message.authentication_level
                messages.append(stored)
            enqueue = self._manager.writing.enqueue_messages
            status = enqueue(queue_of(handle), messages, messages[0], transaction, call.now)
            if status is not EnqueueStatus.ACCEPTED:
                raise not_enqueued(handle, status)
            self._kernel.reply(call.request, Sent(messages))


def apply_request(message: Message, request: ProtectionRequest, call: Call) -> None:
    """Write the attributes of a message that is to be protected."""
    if request.level is not AuthenticationLevel.NONE:
        if call.caller.is_anonymous:
            raise AccessDenied("an anonymous caller cannot sign a message; log in first")
        has_lists = message.administration_multi_queue_format_name or message.response_multi_queue_format_name
        if has_lists and request.level is not AuthenticationLevel.SIG30:
            # MS-MQMQ 2.5.1, 2.5.2: these versions do not cover lists, so a receiver refuses the message.
            error = InvalidParameter(
                "the signature of a message to one queue does not cover several response or administration queues"
            )
            error.add_note("specify only one response queue and only one administration queue, or do not sign")
            raise error
        message.sender_identifier = call.caller.sid.encode()
        message.sender_identifier_type = SenderIdentifierType.SID
        message.hash_algorithm = request.hash
    if request.privacy is not PrivacyLevel.NONE:
        message.privacy_level = request.privacy
        message.encryption_algorithm = request.algorithm
        if request.level is AuthenticationLevel.NONE:
            provider = PROVIDERS[request.privacy]
            message.authentication_provider_type = PROVIDER_TYPES[provider]
            message.authentication_provider_name = provider.value


def set_signature(message: Message, body: bytes, signature: bytes) -> None:
    message.body = body
    if not signature:
        return
    if message.destination_multi_queue_format_name or message.authentication_level is AuthenticationLevel.SIG30:
        message.multiple_destination_signature = signature
    else:
        message.signature = signature
