"""The verdict when a network has healed: every deliverable message was delivered, and is accounted for."""

from collections.abc import Sequence
from typing import Final

from waypost.core.positions import PositionState
from waypost.errors import RecordDamaged
from waypost.sim.marks import Marks
from waypost.sim.net import checks
from waypost.sim.net.arguments import SentMessage
from waypost.sim.net.host import NetworkHost
from waypost.sim.net.hostility import Fault
from waypost.sim.net.ledger import Ledger
from waypost.sim.plans import uid_of
from waypost.sim.violation import Violation
from waypost.wire.message_class import MessageClass
from waypost.wire.property_values import UNLIMITED

_ARRIVED: Final = MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
_RECEIVED: Final = MessageClass.MQMSG_CLASS_ACK_RECEIVE
_ASKS_ARRIVAL: Final = 0x01
_ASKS_RECEIVE: Final = 0x02


class Verdict:
    def __init__(self, ledger: Ledger, hosts: Sequence[NetworkHost], marks: Marks) -> None:
        self._ledger: Final = ledger
        self._hosts: Final = hosts
        self._marks: Final = marks

    def stuck(self) -> str:
        """A message that still has to be delivered or received, or an empty text when all is done."""
        for host in self._hosts:
            if not host.is_up:
                return f"{host.name} is down"
            found = self._in_queues(host)
            if found:
                return found
        return ""

    def _in_queues(self, host: NetworkHost) -> str:
        manager = host.node.manager
        own = [manager.queues.get(plan.path) for plan in host.simulation.plans_of(host.name)]
        own.append(manager.awaiting_final_ack)
        for queue in (*checks.honest_outgoing(host), *filter(None, own)):
            for lookup_id in queue.positions:
                if queue.positions.state(lookup_id) is PositionState.DELETED:
                    continue
                try:
                    message = host.node.messages.get(queue.number, lookup_id)
                except RecordDamaged:
                    # The next reader sets it aside; a delivered message may never get another reader.
                    continue
                if message.message_class == MessageClass.MQMSG_CLASS_ORDER_ACK:
                    # An undeliverable OrderAck is sent without end, and acknowledged.
                    continue
                uid = uid_of(message.packet)
                sent = self._ledger.messages.get(uid) if uid is not None else None
                if sent is None or sent.is_sure or sent.is_refused:
                    return f"{sent or 'an acknowledgment'} is still in {queue} of {host.name}"
        return ""

    def check(self, *, is_quiet: bool) -> None:
        for host in self._hosts:
            checks.check_counts(host.node, host.name)
            checks.check_rest(host.node, host.name)
        for host in self._hosts:
            is_known = host.simulation.fabric.is_known
            needless = [address for each in host.network.sessions if is_known(address := each.remote_qm_address)]
            if Fault.INSIDERS in host.simulation.hostility.faults:
                # Messages for a stranger that is admitted for a host go to that host.
                continue
            if is_quiet and needless:
                raise Violation(f"{host.name} has nothing to send or receive, but still has sessions with {needless}")
            if host.network.statistics.messages_rejected:
                self._marks.sometimes("a message that was rejected")
        for sent in self._ledger.messages.values():
            self._check_sent(sent)
        self._check_receives()
        self._check_damaged()

    def _check_damaged(self) -> None:
        """Check that each message lost to damage was set aside, and is reported."""
        told = sum(len(host.node.damaged) for host in self._hosts)
        there = {id(sent) for host in self._hosts for sent in self._ledger.places_of(host.name).values()}
        lost = [
            sent.uid
            for sent in self._ledger.messages.values()
            if sent.is_damaged and sent.is_accepted and sent.plan.is_sure and sent.fits
            if not (sent.reached or sent.dead or sent.may_expire or sent.refusals or id(sent) in there)
        ]
        if len(lost) > told:
            raise Violation(f"the damaged messages {lost} are missing, but only {told} messages were set aside")

    def _check_sent(self, sent: SentMessage) -> None:
        if sent.is_refused and sent.is_recoverable and sent.is_accepted and not sent.reached:
            self._check_refused(sent)
        if not sent.is_sure or sent.is_aborted:
            return
        if not sent.is_recoverable:
            self._check_express(sent)
        elif (sent.is_accepted or sent.seen_at) and not sent.reached:
            raise Violation(f"{sent} was accepted, but never reached its queue")
        elif sent.reached:
            self._check_journal(sent)
            self._check_acks(sent)

    def _check_refused(self, sent: SentMessage) -> None:
        """Check that a message whose signature or encryption was refused is a dead-letter message, if it asks.

        Its source keeps it if it refused the message itself, or if the message is transactional.
        """
        is_known = sent.is_transactional or sent.source in sent.refusals.values()
        if not sent.negative_journaling or not is_known or self._hosts[0].swarm.limits.quota != UNLIMITED:
            return
        if not sent.dead or sent.dead_class not in sent.refusals:
            raise Violation(f"{sent} was refused, but no dead-letter message shows this refusal")

    def _check_express(self, sent: SentMessage) -> None:
        if not sent.is_accepted:
            return
        names = [host.name for host in self._hosts]
        is_restarted = any(
            self._hosts[names.index(name)].life != sent.lives[names.index(name)] for name in sent.path
        )  # fmt: skip
        if not sent.received and is_restarted:
            self._marks.sometimes("an express message lost because of a restart")
        elif not sent.received and not self._is_lost(sent):
            raise Violation(f"{sent} was accepted, but no client received the message")
        history = self._hosts[0].swarm.sessions.transfer.duplicate_history_size
        target = self._hosts[names.index(sent.plan.host)]
        if sent.received > 1 and not is_restarted and target.messages_received < history:
            raise Violation(f"expected {sent} to be received once, but found {sent.received} times")

    def _is_lost(self, sent: SentMessage) -> bool:
        """Whether a receive that was under way in a crash may have taken the message."""
        return self._ledger.records[sent.plan.host].lost_receives > 0

    def _check_journal(self, sent: SentMessage) -> None:
        if self._hosts[0].swarm.limits.quota != UNLIMITED or sent.source == sent.plan.host:
            return
        is_delivered = sent.received if sent.is_transactional else sent.reached
        if sent.positive_journaling and is_delivered and not sent.journaled:
            raise Violation(f"{sent} was delivered, but is not in the source journal")

    def _check_acks(self, sent: SentMessage) -> None:
        if not sent.administration or self._hosts[0].swarm.limits.quota != UNLIMITED:
            return
        acks = sent.acks.values()
        if sent.acknowledgements & _ASKS_ARRIVAL and _ARRIVED not in acks:
            raise Violation(f"{sent} reached its queue, but the administration queue has no acknowledgment")
        if sent.acknowledgements & _ASKS_RECEIVE and sent.received and _RECEIVED not in acks:
            raise Violation(f"{sent} was received, but the administration queue has no acknowledgment")
        if _RECEIVED in acks and not sent.consumed:
            raise Violation(f"an acknowledgment reports that {sent} was received, but no client received the message")

    def _check_receives(self) -> None:
        """Check that messages that left a queue were received, except for receives that were under way in crashes."""
        for host in self._hosts:
            lost = [
                sent.uid
                for sent in self._ledger.messages.values()
                if sent.plan.host == host.name and sent.is_sure and sent.is_recoverable and sent.received < sent.reached
            ]
            if lost:
                self._marks.sometimes("a receive whose answer was lost because of a crash")
            if len(lost) > self._ledger.records[host.name].lost_receives:
                raise Violation(
                    f"the messages {lost} were in queues of {host.name}, but no client received these messages"
                )
