"""Messages that arrive over sessions: MS-MQQB 3.1.5.8, in its order.

All messages of one piece of data are part of one batch. Recoverable messages count as stored, for the session that
acknowledges them, when the batch is durable; so do refused ones, because the sender has counted them
(readings MQQB 3.3). Zero as QueueManagerAddress means this queue manager everywhere (readings MQQB 3.4).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from waypost.buckets import Buckets, Rate
from waypost.clock import Now
from waypost.core.delivery import STATUS_CLASSES, Delivery, protection_hint, protection_refusal, protection_sentence
from waypost.core.final_acks import wants_final_ack
from waypost.core.message import Message
from waypost.core.message_values import AuthenticationLevel
from waypost.core.position_events import KILOBYTE
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import Queue
from waypost.core.serialization import message_from_packet, received_message
from waypost.core.stored_message import stored_message
from waypost.core.writing import EnqueueStatus
from waypost.errors import DecodeError, WaypostError
from waypost.guid import NULL_GUID
from waypost.limits import MAX_UNVERIFIED_PER_MINUTE
from waypost.node.access import Access
from waypost.node.directory import NodeDirectory
from waypost.node.incoming_store import IncomingStore
from waypost.node.kernel import Kernel
from waypost.node.network.ack_judging import AckJudging
from waypost.node.network.ack_queues import OutgoingAckQueues
from waypost.node.network.admission import Admission
from waypost.node.network.checking import ArrivalRules, Checking, Verdict, needs_check, verified_packet
from waypost.node.network.forwarding import Forwarding
from waypost.node.network.handed_over import Handed, Outcome
from waypost.node.network.order_acking import OrderAcking
from waypost.node.network.refusals import Arrival, Reason, Refusals, reason_of
from waypost.node.network.refused_sources import RefusedSources
from waypost.node.network.routing_loops import Loops
from waypost.node.network.runs import Run, Runs, run_key
from waypost.node.network.sessions import Sessions
from waypost.node.network.tracing import Tracing
from waypost.node.protection import Protection
from waypost.node.transactional_acks import TransactionalAcks, origin_of
from waypost.peers import peer_of
from waypost.security.access import UNNAMED, Sender, may_write, sender_of
from waypost.transfer import incoming as sequences
from waypost.transfer.duplicates import KnownMessages, destination, identifier
from waypost.transfer.order_acks import SequenceKey
from waypost.transfer.session import Incoming, Session, SessionState
from waypost.wire import user_header
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import MessageClass, is_negative_ack, is_positive_ack, meaning
from waypost.wire.security_header import SecurityHeader
from waypost.wire.sid import Sid
from waypost.wire.unknown_names import UnknownFormatName
from waypost.wire.user_message import UserMessage

_Class = MessageClass

_RECOVERABLE: Final = user_header.RECOVERABLE << user_header.DM_SHIFT

# Classes of acknowledgments that a program has asked for.
_OUTCOMES: Final = frozenset(each for each in _Class if is_negative_ack(each) or is_positive_ack(each))

# Sentences where the meaning of the class is written for the sender.
_SENTENCES: Final = {
    Reason.NO_QUEUE: "this computer has no queue with this name for messages from other computers",
    Reason.NO_WAY: "the message is for another computer, and this computer does not forward messages to it",
    Reason.QUEUE_QUOTA: "the queue is full",
}


# The verdict for a message that is neither signed nor encrypted.
_UNPROTECTED: Final = Verdict()


class Arrivals:
    """Accepts messages that other queue managers send to this one."""

    __slots__ = (
        "_access",
        "_ack_judging",
        "_ack_queues",
        "_checking",
        "_delivery",
        "_directory",
        "_forwarding",
        "_handed",
        "_incoming",
        "_kernel",
        "_known",
        "_local",
        "_loops",
        "_manager",
        "_order_acking",
        "_protection",
        "_refusals",
        "_refused_sources",
        "_runs",
        "_sessions",
        "_statistics",
        "_tracing",
        "_transactional_acks",
        "_unverified",
        "admission",
    )

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        sessions: Sessions,
        delivery: Delivery,
        *,
        access: Access,
        directory: NodeDirectory,
        incoming: IncomingStore,
        known: KnownMessages,
        admission: Admission,
        order_acking: OrderAcking,
        forwarding: Forwarding,
        loops: Loops,
        ack_judging: AckJudging,
        ack_queues: OutgoingAckQueues,
        transactional_acks: TransactionalAcks,
        tracing: Tracing,
        handed: Handed,
        refusals: Refusals,
        refused_sources: RefusedSources,
        protection: Protection,
        rules: ArrivalRules,
    ) -> None:
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._access: Final = access
        self._sessions: Final = sessions
        self._statistics: Final = sessions.statistics
        self._delivery: Final = delivery
        self._directory: Final = directory
        self._incoming: Final = incoming
        self._known: Final = known
        self.admission: Final = admission
        self._order_acking: Final = order_acking
        self._forwarding: Final = forwarding
        self._loops: Final = loops
        self._ack_judging: Final = ack_judging
        self._ack_queues: Final = ack_queues
        self._transactional_acks: Final = transactional_acks
        self._tracing: Final = tracing
        self._handed: Final = handed
        self._refusals: Final = refusals
        self._refused_sources: Final = refused_sources
        self._protection: Final = protection
        self._checking: Final = Checking(kernel, sessions, protection, self._take_checked, rules)
        self._unverified: Final = Buckets(Rate(MAX_UNVERIFIED_PER_MINUTE / 60, MAX_UNVERIFIED_PER_MINUTE))
        self._local: Final = (manager.identity.identifier, NULL_GUID)
        self._runs: Final = Runs(
            manager, known, self._refusal, admission=admission, order_acking=order_acking, refusals=refusals
        )

    def take(self, session: Session, messages: Sequence[Incoming], now: Now) -> None:
        """Process all messages that came together."""
        if session in self._checking.held:
            # They come behind messages that are being checked.
            self._checking.wait(session, messages)
            return
        if self._kernel.trouble is not None:
            # MS-MQQB 3.1.5.8.2: a message that cannot go to the store is not accepted. It comes again.
            sentence = f"the store cannot accept messages now: {self._kernel.trouble}"
            for packet in (each.packet for each in messages):
                if isinstance(packet, UserMessage):
                    self._refusals.note(Arrival(session, packet, now), Reason.STORE, sentence)
            session.close(sentence)
            return
        sizes = [len(incoming.data) for incoming in messages]
        size, largest = sum(sizes), max(sizes, default=0)
        if not self._kernel.has_room(size, largest) and any(map(self._is_to_be_stored, messages)):
            # Acknowledgments of our own messages make room. They come again behind refused ones, without effect.
            self._take_acks(session, messages, now)
            session.close(f"the store cannot accept messages now: {self._kernel.no_room(size, largest)}")
            return
        sources = self._manager.positions.sources
        sources.current = peer_of(session.remote_qm_address)
        try:
            self._take(session, messages, now)
        finally:
            sources.current = ""

    def _take(self, session: Session, messages: Sequence[Incoming], now: Now) -> None:
        numbers = []
        run: Run | None = None
        count = len(messages)
        unchecked: Sequence[Incoming] = ()
        for place, incoming in enumerate(messages):
            if incoming.recoverable_number:
                numbers.append(incoming.recoverable_number)
            packet, data = incoming.packet, incoming.data
            if isinstance(packet, UserMessage):
                if packet.properties.message_class in _OUTCOMES:
                    self._note_outcome(session, packet, now)
                verdict = self._checking.verdicts.get(id(packet)) if packet.security is not None else None
                key = run_key(packet, now.wall, verdict)
                if key is not None and verdict is not None:
                    data = verified_packet(packet, verdict, data)
                if run is not None:
                    if key == run.key and self._runs.join(run, packet, data, now):
                        continue
                    self._runs.end(run, now)
                run = None if key is None else self._runs.begin(key, session, packet, data, now)
                if run is not None:
                    continue
                if self._has_to_be_checked(packet):
                    # It and those behind it come again, checked.
                    count, unchecked = place, messages[place:]
                    if incoming.recoverable_number:
                        numbers.pop()
                    break
            else:
                if run is not None:
                    self._runs.end(run, now)
                    run = None
                if self._is_for_us(packet.message):
                    if not self._ack_judging.take(session, packet, now):
                        return
                    continue
                # MS-MQQB 3.1.5.1.1: only the order queue of this computer makes it an acknowledgment.
                packet = packet.message
            if not self._receive(session, packet, data, now):
                return
        if run is not None:
            self._runs.end(run, now)
        self._statistics.messages_received += count
        if numbers:
            self._kernel.when_durable(partial(self._stored, session, numbers))
        if unchecked:
            # At last: if all keys are known, they are taken at once, behind those before them.
            self._checking.hold(session, unchecked)

    def _take_checked(self, session: Session, messages: Sequence[Incoming], now: Now) -> None:
        self.take(session, messages, now)
        self._sessions.touched[session] = None
        if session.state is SessionState.CLOSED:
            self._sessions.forget(session, now)

    def is_checking(self, session: Session) -> bool:
        """Whether messages of this session are being checked. Nothing more of the session is processed until then."""
        return session in self._checking.held

    def _has_to_be_checked(self, packet: UserMessage) -> bool:
        return (
            (packet.security is not None or packet.multi_queue is not None)
            and needs_check(packet)
            and id(packet) not in self._checking.verdicts
            and self._is_for_us(packet)
        )

    def forget_session(self, session: Session) -> None:
        """Forget the messages of a closed session that are being checked."""
        self._checking.forget(session)

    def _is_to_be_stored(self, incoming: Incoming) -> bool:
        packet = incoming.packet
        is_message = isinstance(packet, UserMessage) or not self._is_for_us(packet.message)
        return is_message and bool(incoming.recoverable_number)

    def _take_acks(self, session: Session, messages: Sequence[Incoming], now: Now) -> None:
        for incoming in messages:
            packet = incoming.packet
            if (
                not isinstance(packet, UserMessage)
                and self._is_for_us(packet.message)
                and not self._ack_judging.take(session, packet, now)
            ):
                return

    def _stored(self, session: Session, numbers: Sequence[int], now: Now) -> None:
        session.stored(numbers, now)
        self._sessions.touched[session] = None

    def forget(self, queue: Queue) -> None:
        """Forget a deleted queue."""
        self._order_acking.forget(queue)
        self.admission.forget(queue)

    def _receive(self, session: Session, packet: UserMessage, data: bytes, now: Now) -> bool:
        """MS-MQQB 3.1.5.8. False if the message ends the session: then it had no effect."""
        is_ours = packet.user.source_queue_manager == self._local[0]
        if is_ours and (reason := self._loops.refusal(session, packet)) is not None:
            # No other host sends in our name; our beliefs about our own messages must not apply to it.
            self._discard(Arrival(session, packet, now), Reason.FROM_HERE, reason)
            return True
        if packet.transaction is not None and not packet.transaction.has_legal_numbers:
            self._statistics.packets_malformed += 1
            reason = "the sequence number is invalid"
            self._discard(Arrival(session, packet, now), Reason.MALFORMED, reason)
            return True
        if packet.transaction is None:
            if self._known.is_duplicate(session, packet, data, now):
                self._statistics.duplicates_discarded += 1
                return True
            if not self._known.has_place_for(session, now):
                # If it came twice it would be stored twice: its sender tries again when there is room.
                reason = "the limit of known addresses is reached, and this address is new"
                self._refusals.tell("message not taken", Arrival(session, packet, now), Reason.ADDRESSES, reason)
                session.close(reason)
                return False
        verdict = self._checking.verdicts.get(id(packet))
        if verdict is not None and verdict.refusal is not None and not self._may_answer(session, now):
            reason = (
                f"this address sent more than {MAX_UNVERIFIED_PER_MINUTE} messages with a wrong signature or "
                "encryption in a minute"
            )
            self._refusals.tell("message not taken", Arrival(session, packet, now), Reason.UNVERIFIED, reason)
            session.close(reason)
            return False
        try:
            # With all its names: a stored message must stay readable.
            if verdict is None or verdict.refusal is not None:
                message = received_message(packet, data)
            else:
                message = _verified(packet, verdict, data)
        except DecodeError as error:
            self._statistics.packets_malformed += 1
            reason = f"the message is malformed: {error}"
            self._refusals.tell("message not taken", Arrival(session, packet, now), Reason.MALFORMED, reason)
            session.close(f"the other side sent a malformed packet: {error}")
            return False
        # For remote readers, and for its acknowledgments, which may make us connect to others on its account.
        message.origin = origin_of(session.remote_qm_guid, session.remote_qm_address)
        if is_ours and message.destination_queue_format_name is not None:
            self._loops.came_back(session, packet, message, now)
            self._remember(session, packet, message, now)
        elif not self._put(session, packet, message, data, now=now):
            # MS-MQQB 3.1.5.8.8: the sender tries again on another session.
            reason = self._no_room(len(data))
            self._refusals.tell("message not taken", Arrival(session, packet, now), Reason.MACHINE_QUOTA, reason)
            session.close(reason)
            return False
        return True

    def _may_answer(self, session: Session, now: Now) -> bool:
        """Whether this address may learn once more that a check has failed: the answers help to find what is secret."""
        return self._unverified.take(peer_of(session.remote_qm_address), now.monotonic)

    def _remember(self, session: Session, packet: UserMessage, message: Message, now: Now) -> None:
        """MS-MQQB 3.1.5.8.2: remember an accepted message. A refused one takes no room."""
        if packet.transaction is None:
            known_by = identifier(message.packet, destination(packet))
            self._known.add(packet, known_by, peer_of(session.remote_qm_address), now)

    def _no_room(self, size: int) -> str:
        positions = self._manager.positions
        sources = positions.sources
        if sources.fits(sources.current, positions.quota * KILOBYTE, size):
            return "the messages do not fit into the quota"
        return f"messages from {sources.current} use the full share of one address (quotas.source_share)"

    def _is_for_us(self, packet: UserMessage) -> bool:
        return packet.user.queue_manager_address in self._local

    def _put(self, session: Session, packet: UserMessage, message: Message, data: bytes, *, now: Now) -> bool:
        """MS-MQQB 3.1.5.8.2 to 3.1.5.8.8. False without room for the message."""
        name = message.destination_queue_format_name
        if name is None:
            self._discard(Arrival(session, packet, now), Reason.NO_QUEUE, "the message has no destination queue")
            return True
        if isinstance(name, UnknownFormatName):
            self._reject(session, packet, message, _Class.MQMSG_CLASS_NACK_BAD_DST_Q, now)
            return True
        if not self._is_for_us(packet):
            return self._forward(session, packet, message, data, now=now)
        queue = self._manager.find_queue(name)
        if queue is not None and self._came_before(session, packet, queue, now):
            return True
        refusal = _Class.MQMSG_CLASS_NACK_BAD_DST_Q if queue is None else self._refusal(queue, packet, data)
        if queue is None or refusal is not None:
            self._reject(session, packet, message, refusal or _Class.MQMSG_CLASS_NACK_BAD_DST_Q, now)
            if queue is not None and refusal is not None:
                self._note_sender(session, packet, queue, refusal)
            return True
        if packet.transaction is not None:
            return self._put_transactional(session, packet, message, queue, now)
        status = self._manager.writing.enqueue_message(queue, message, None, now)
        return self._put_with(status, session, packet, message, now)

    def _put_transactional(
        self, session: Session, packet: UserMessage, message: Message, queue: Queue, now: Now
    ) -> bool:
        """MS-MQQB 3.1.5.8.6."""
        header = packet.transaction
        assert header is not None
        writing = self._manager.writing
        if not writing.has_room(len(message.packet)):
            # The sequence must not advance.
            return False
        if wants_final_ack(message) and (reason := self._ack_queues.refusal(session, packet)) is not None:
            self._refusals.tell("message not taken", Arrival(session, packet, now), Reason.ACKNOWLEDGMENTS, reason)
            return True
        key = _sequence_key(packet, queue)
        if not self.admission.admit(key, session, header, now):
            # It is not acknowledged, so its source sends it again.
            self._statistics.messages_rejected += 1
            refused = self.admission.of(key, session)
            self._refusals.note(Arrival(session, packet, now), Reason.SEQUENCE, refused.verdict.value)
            return True
        self._order_acking.received(key, session, packet, now)
        status = writing.enqueue_message(queue, message, None, now)
        return self._put_with(status, session, packet, message, now)

    def _came_before(self, session: Session, packet: UserMessage, queue: Queue, now: Now) -> bool:
        """Whether a transactional message is not the next one of a known sequence: it is not processed again.

        MS-MQQB 3.1.5.8.6: it leads to an OrderAck all the same, because the one before may be lost.
        """
        header = packet.transaction
        if header is None:
            return False
        key = _sequence_key(packet, queue)
        if self.admission.judge(key, session, header, now) is not sequences.Verdict.BEFORE:
            return False
        self._incoming.reject(key, header, now.wall)
        self._order_acking.received(key, session, packet, now)
        self._statistics.messages_rejected += 1
        return True

    def _put_with(
        self, status: EnqueueStatus, session: Session, packet: UserMessage, message: Message, now: Now
    ) -> bool:
        """MS-MQQB 3.1.5.8.8 and 3.1.5.8.9."""
        if status is EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED:
            return False
        if status is not EnqueueStatus.ACCEPTED:
            is_owed = self._is_for_us(packet) and wants_final_ack(message)
            self._reject(session, packet, message, STATUS_CLASSES[status], now, is_owed=is_owed)
            return True
        self._remember(session, packet, message, now)
        if self._refusals.records:
            self._refusals.taken((message.packet,))
        if packet.base.is_traced:
            self._tracing.received(message, now)
        return True

    def _refusal(self, queue: Queue, packet: UserMessage, data: bytes) -> MessageClass | None:
        """MS-MQQB 3.1.5.8.2 and 3.1.5.8.3."""
        attributes, security = queue.attributes, packet.security
        is_unusual = queue.is_internal or queue.parent is not None
        if is_unusual or attributes.transactional != (packet.transaction is not None):
            refusal = self._delivery.kind_refusal(queue, stored_message(data))
            if refusal is not None:
                return refusal
        verdict = self._checking.verdicts.get(id(packet)) if security is not None else None
        if verdict is None:
            if needs_check(packet):
                # A signature for several queues without a SecurityHeader, and so without a certificate.
                return _Class.MQMSG_CLASS_NACK_BAD_SIGNATURE
            verdict = _UNPROTECTED
        if verdict.refusal is not None:
            return verdict.refusal
        is_signed = verdict.level is not AuthenticationLevel.NONE
        refusal = protection_refusal(queue, is_signed=is_signed, is_encrypted=verdict.was_encrypted)
        if refusal is not None:
            return refusal
        sender = UNNAMED if security is None else self._sender(security, verdict)
        # The descriptor of a queue protects its subqueues and journal too.
        if not may_write(self._directory.security_of(queue.parent or queue), sender):
            return _Class.MQMSG_CLASS_NACK_ACCESS_DENIED
        return None

    def _sender(self, security: SecurityHeader, verdict: Verdict) -> Sender:
        """The sender for an access check: a SID that the message only names is a claim."""
        return self._protection.known_sender(security, verdict.sid, verdict.level) or sender_of(security, None)

    def _forward(self, session: Session, packet: UserMessage, message: Message, data: bytes, *, now: Now) -> bool:
        """MS-MQQB 3.1.5.8.2 and 3.1.5.8.5. False without room for the message."""
        try:
            outcome = self._forwarding.forward(packet, message, data, now)
        except WaypostError as error:
            self._discard(Arrival(session, packet, now), Reason.NO_WAY, str(error))
            return True
        if isinstance(outcome, MessageClass):
            self._reject(session, packet, message, outcome, now)
            return True
        return self._put_with(outcome[0], session, packet, outcome[1], now)

    def _reject(
        self,
        session: Session,
        packet: UserMessage,
        message: Message,
        message_class: MessageClass,
        now: Now,
        *,
        is_owed: bool = False,
    ) -> None:
        """Refuse a message and tell its sender the reason, if it asks and may know (MS-MQQB 3.1.5.8.2, 3.1.5.8.3).

        The FinalAck of a message with a place in a sequence is owed, because the message does not come again.
        """
        source = packet.user.source_queue_manager
        facts: dict[str, object] = {}
        self._statistics.messages_rejected += 1
        reason = reason_of(message_class)
        verdict = self._checking.verdicts.get(id(packet))
        if reason is Reason.NO_QUEUE and not self._is_for_us(packet):
            reason = Reason.NO_WAY
        sentence = _SENTENCES.get(reason) or meaning(message_class)
        if reason in (Reason.SIGNATURE, Reason.ENCRYPTION):
            self._statistics.messages_unverified += 1
            self._refused_sources.add(source, session.remote_qm_address, message_class)
            if verdict is not None and verdict.refusal is not None:
                facts["problem"] = verdict.sentence
            else:
                sentence = self._problem(packet, message_class)
        facts |= {"reason": message_class.name, "meaning": sentence}
        self._refusals.tell("message rejected", Arrival(session, packet, now), reason, sentence, **facts)
        self._delivery.rejected(message, message_class, now)
        if packet.transaction is not None:
            acks = self._transactional_acks
            send = acks.send_final_ack if is_owed else acks.try_final_ack
            origin = origin_of(session.remote_qm_guid, session.remote_qm_address)
            self._statistics.final_acks_sent += send(packet, origin, message_class, now)

    def _problem(self, packet: UserMessage, message_class: MessageClass) -> str:
        """The sentence for a message that is refused because of its signature or encryption."""
        verdict = self._checking.verdicts.get(id(packet))
        if verdict is not None and verdict.refusal is not None:
            return f"{meaning(message_class)}: {verdict.sentence}" if verdict.sentence else meaning(message_class)
        if verdict is None and needs_check(packet):
            return "the message has a signature, but no certificate"
        is_encrypted = verdict is not None and verdict.was_encrypted
        sentence = protection_sentence(message_class, is_encrypted=is_encrypted)
        return f"{sentence}; {protection_hint(message_class, is_encrypted=is_encrypted)}"

    def _note_sender(self, session: Session, packet: UserMessage, queue: Queue, refusal: MessageClass) -> None:
        """Note a sender that a queue refuses, for `explain` and `doctor`."""
        reason = reason_of(refusal)
        if reason not in (Reason.ACCESS, Reason.SIGNATURE, Reason.ENCRYPTION):
            return
        verdict = self._checking.verdicts.get(id(packet), _UNPROTECTED)
        sender = UNNAMED if packet.security is None else self._sender(packet.security, verdict)
        if verdict.sid:
            who = self._access.name_of(Sid.decode(verdict.sid, 0)[0])
        else:
            who = next((f"{self._access.name_of(sid)} (not verified)" for sid in sender.claimed), "anonymous")
        problem = "" if reason is Reason.ACCESS else self._problem(packet, refusal)
        self._access.refused_arrival(queue, f"{who} at {session.remote_qm_address}", problem)

    def _discard(self, arrival: Arrival, reason: Reason, sentence: str) -> None:
        """Drop a message, and notify only the operator."""
        self._statistics.messages_rejected += 1
        self._refusals.tell("message discarded", arrival, reason, sentence)

    def _note_outcome(self, session: Session, packet: UserMessage, now: Now) -> None:
        """Note an acknowledgment of one of our messages that came for a program, for `explain`."""
        properties = packet.properties
        identifier, _ = MessageIdentifier.decode(properties.correlation_id, 0)
        is_ours = identifier.queue_manager_guid == self._local[0]
        if is_ours and 0 < identifier.ordinal <= self._manager.last_ordinal:
            peer = peer_of(session.remote_qm_address)
            outcome = Outcome(peer, properties.message_class, int(now.wall), is_final_ack=False)
            self._handed.note(identifier, outcome)


def _verified(packet: UserMessage, verdict: Verdict, data: bytes) -> Message:
    """The message of a packet that was checked, with what was verified, and with its body in the clear."""
    data = verified_packet(packet, verdict, data)
    message = message_from_packet(packet)
    message.packet = data
    message.authentication_level = verdict.level
    return message


def _sequence_key(packet: UserMessage, queue: Queue) -> SequenceKey:
    """readings MQQB 3.18, with the name that the sender uses: it has an outgoing queue, and a sequence, for each."""
    return packet.user.source_queue_manager + destination(packet), queue.number
