"""Attacks of strangers on a session: each is a sequence of packets that a stranger writes at once.

Strangers know what anyone can find out or guess, and most guesses are right: GUIDs, names of queues, the places of
messages in their sequences.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from waypost.core.queues import AWAITING_FINAL_ACK
from waypost.sim.net.arguments import SentMessage, format_name
from waypost.sim.net.facts import OUTGOING
from waypost.sim.net.forgeries import forged_final_ack, forged_order_ack, message, recoverable
from waypost.sim.net.hostility import Fault
from waypost.sim.plans import Plan
from waypost.wire.message_class import MessageClass
from waypost.wire.user_header import UserHeader

if TYPE_CHECKING:
    from waypost.sim.net.host import NetworkHost
    from waypost.sim.net.simulation import NetworkSimulation

MINUTE: Final = 60
YEARS: Final = 10 * 365 * 86_400

_CLASSES: Final = (
    MessageClass.MQMSG_CLASS_ACK_RECEIVE,
    MessageClass.MQMSG_CLASS_NACK_Q_PURGED,
    MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT,
)
_SEQUENCES: Final = 12
_QUEUES: Final = 40


class Attacker:
    """A stranger that has a session with `host` and claims to be `guid`."""

    def __init__(self, simulation: "NetworkSimulation", rng: Random, host: "NetworkHost", guid: bytes) -> None:
        self._simulation: Final = simulation
        self._rng: Final = rng
        self._host: Final = host
        self._guid: Final = guid

    def strike(self, fault: Fault) -> bytes:
        """The bytes to write, or none if there is nothing to attack."""
        return _ATTACKS[fault](self)

    def forge_acks(self) -> bytes:
        """Acknowledge messages of the host that are on their way or wait for a FinalAck, or now and then any place."""
        rng = self._rng
        messages = self._waiting(OUTGOING, AWAITING_FINAL_ACK)
        written = b""
        for sent in rng.sample(messages, min(len(messages), rng.randint(1, 4))):
            written += self._forged(sent)
        return written or (self._guessed() if rng.random() < 0.3 else b"")

    def betray(self) -> bytes:
        """Acknowledge from an admitted address, which the host believes, but only for messages that were sent."""
        messages = [
            sent
            for sent in self._waiting(OUTGOING)
            if not sent.on_wire and sent.wants_final_ack and self._simulation.host(sent.plan.host).guid == self._guid
        ]
        written = b""
        for sent in self._rng.sample(messages, min(len(messages), 3)):
            sent.is_betrayed = True
            assert sent.place is not None
            liar, reason = self._user(self._guid), self._rng.choice(_CLASSES)
            written += forged_final_ack(liar, self._host.guid, sent.place, reason)
        return written

    def _waiting(self, *roles: str) -> list[SentMessage]:
        """The messages of transactions of the host that are in its queues of these roles."""
        host = self._host.name
        return [
            sent
            for role, sent in self._simulation.ledger.records[host].places.values()
            if role in roles and sent is not None and sent.place is not None and sent.source == host
        ]

    def _forged(self, sent: SentMessage) -> bytes:
        rng, simulation = self._rng, self._simulation
        assert sent.place is not None
        destination = simulation.host(sent.plan.host).guid
        liar = self._user(destination if rng.random() < 0.8 else self._guid)
        sequence_id, number, _ = sent.place
        if rng.random() < 0.4:
            return forged_order_ack(liar, sequence_id, number)
        return forged_final_ack(liar, self._host.guid, sent.place, rng.choice(_CLASSES))

    def _guessed(self) -> bytes:
        rng, host = self._rng, self._host
        liar = self._user(rng.choice(self._simulation.hosts).guid)
        sequence_id = int(host.now.wall) - rng.randint(0, 3) << 32 | rng.randint(1, 3)
        if rng.random() < 0.5:
            return forged_order_ack(liar, sequence_id, rng.randint(1, 4))
        place = sequence_id, rng.randint(1, 4), rng.randint(1, 20)
        return forged_final_ack(liar, host.guid, place, rng.choice(_CLASSES))

    def jump_years(self) -> bytes:
        return self._jump(YEARS)

    def jump_a_minute(self) -> bytes:
        return self._jump(MINUTE)

    def _jump(self, seconds: int) -> bytes:
        """A sequence ahead of the one in which a host sends, to a queue that has received messages of that host."""
        known = [
            sent
            for sent in self._simulation.ledger.messages.values()
            if sent.is_transactional
            and sent.reached
            and sent.is_sure
            and sent.plan.host == self._host.name != sent.source
        ]
        if not known:
            return b""
        sent = self._rng.choice(known)
        source = self._simulation.host(sent.source).guid
        sequence_id = int(self._host.now.wall) + seconds << 32 | 1
        name = format_name(sent.name)
        return b"".join(
            message(self._user(source), name, "a sequence of a stranger", sequence=(sequence_id, number))
            for number in range(1, self._rng.randint(2, 4))
        )

    def begin_sequences(self) -> bytes:
        """One message each from many unknown sources."""
        name = format_name(self._simulation.own_name(self._plan(is_transactional=True)))
        # Older than all of the simulation, so that an acknowledgment of these never looks like one of a host.
        sequence_id = int(self._host.now.wall) - YEARS << 32 | 1
        return b"".join(
            message(self._user(self._rng.randbytes(16)), name, "a source that is new", sequence=(sequence_id, 1))
            for _ in range(_SEQUENCES)
        )

    def repeat(self) -> bytes:
        """One small message many times, which costs nothing but time."""
        name = format_name(self._simulation.own_name(self._plan(is_transactional=False)))
        return message(self._user(self._guid), name, "one many times") * self._simulation.hostility.flood

    def reflect(self) -> bytes:
        """Messages in the sequences of the host that the stranger claims to be, so that its receiver acknowledges them.

        The acknowledgments of the receiver are true for these messages, and not for those of the host.
        """
        source = next((host for host in self._simulation.hosts if host.guid == self._guid), None)
        if source is None:
            return b""
        places = [
            sent.place
            for role, sent in self._simulation.ledger.records[source.name].places.values()
            if role == OUTGOING
            and sent is not None
            and sent.place is not None
            and sent.source == source.name
            and sent.plan.host == self._host.name
        ]
        if not places:
            return b""
        sequence_id, last, _ = self._rng.choice(places)
        name = format_name(self._simulation.own_name(self._plan(is_transactional=True)))
        nobody = self._rng.randbytes(16)
        return b"".join(
            message(self._user(nobody), name, "acknowledge this", sequence=(sequence_id, number))
            for number in range(1, last + 1)
        )

    def flood(self) -> bytes:
        """Many small messages together, each with an identifier that the host must remember."""
        rng = self._rng
        name = format_name(self._simulation.own_name(self._plan(is_transactional=False)))
        source = rng.choice((self._guid, rng.randbytes(16)))
        is_recoverable = rng.random() < 0.5
        return b"".join(
            message(recoverable(user) if is_recoverable else user, name, "one of many")
            for user in [self._user(source) for _ in range(self._simulation.hostility.flood)]
        )

    def name_queues(self) -> bytes:
        """Messages that ask for acknowledgments at many addresses without a host."""
        name = format_name(self._simulation.own_name(self._plan(is_transactional=False)))
        nowhere = [f"TCP:192.0.2.{self._rng.randint(1, 254)}\\private$\\x" for _ in range(_QUEUES)]
        return b"".join(
            message(self._user(self._guid), name, "answer there", administration=queue) for queue in nowhere
        )  # fmt: skip

    def _plan(self, *, is_transactional: bool) -> Plan:
        plans = self._simulation.plans_of(self._host.name)
        return next(plan for plan in plans if plan.transactional == is_transactional and plan.is_sure)

    def _user(self, source: bytes) -> UserHeader:
        rng = self._rng
        return UserHeader(
            source_queue_manager=source, message_id=rng.getrandbits(32), sent_time=int(self._host.now.wall)
        )  # fmt: skip


_ATTACKS: Final[dict[Fault, Callable[[Attacker], bytes]]] = {
    Fault.FORGED_ACKS: Attacker.forge_acks,
    Fault.INSIDERS: Attacker.betray,
    Fault.FAR_SEQUENCES: Attacker.jump_years,
    Fault.NEAR_SEQUENCES: Attacker.jump_a_minute,
    Fault.NEW_SEQUENCES: Attacker.begin_sequences,
    Fault.REFLECTED_ACKS: Attacker.reflect,
    Fault.IDENTIFIERS: Attacker.flood,
    Fault.FLOODS: Attacker.repeat,
    Fault.ADMINISTRATION: Attacker.name_queues,
}
