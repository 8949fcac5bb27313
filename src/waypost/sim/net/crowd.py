"""All strangers of a simulation, and the packets of theirs that have reached hosts."""

from random import Random
from typing import TYPE_CHECKING, Final

from waypost.sim.net.arguments import SentMessage
from waypost.sim.net.attacks import MINUTE, YEARS
from waypost.sim.net.hostility import Fault
from waypost.sim.net.stranger import Stranger
from waypost.wire.packets import Packet, Splitter, decode_packet
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_message import UserMessage

if TYPE_CHECKING:
    from waypost.sim.net.host import NetworkHost
    from waypost.sim.net.simulation import NetworkSimulation

_MANY: Final = 20


class Crowd:
    """The strangers, and a reader of the packets that reach hosts, which counts the attacks that arrived."""

    def __init__(self, simulation: "NetworkSimulation", rng: Random) -> None:
        self._simulation: Final = simulation
        self._rng: Final = rng
        drawn = simulation.hostility
        count = drawn.strangers if drawn.attacks or Fault.THEFT in drawn.faults else 0
        self.strangers: Final = [Stranger(number + 1, simulation, rng) for number in range(count)]
        self.addresses: Final = {stranger.address for stranger in self.strangers}
        self._heard: Final[dict[tuple[str, int, int], Splitter]] = {}

    def strike(self) -> None:
        """Perhaps let one of them act; called with each operation."""
        if self.strangers and self._simulation.strikes(self._simulation.hostility.visits):
            self._rng.choice(self.strangers).act()

    def connection_lost(self, host: "NetworkHost") -> None:
        """Flood a host that lost a connection: messages come to it again, and the flood may make it forget them."""
        if Fault.IDENTIFIERS in self._simulation.hostility.faults and not self._simulation.is_healing:
            for stranger in self.strangers:
                stranger.flood(host, Fault.IDENTIFIERS)

    def flood(self, host: "NetworkHost") -> None:
        """Let all strangers flood a host at once."""
        for stranger in self.strangers:
            stranger.flood(host, Fault.FLOODS)

    def leave(self) -> None:
        for stranger in self.strangers:
            stranger.leave()

    def accepted(self, host: "NetworkHost", connection: int, address: str) -> None:
        if address in self.addresses:
            self._heard[host.name, host.life, connection] = Splitter()

    def is_stranger(self, host: "NetworkHost", connection: int) -> bool:
        return (host.name, host.life, connection) in self._heard

    def heard(self, host: "NetworkHost", connection: int, data: bytes) -> None:
        packets = [decode_packet(each) for each in self._heard[host.name, host.life, connection].feed(data)]
        for packet in packets:
            mark = self._mark(host, packet)
            if mark:
                self._simulation.marks.sometimes(mark)
        plain = [each.user.message_id for each in packets if isinstance(each, UserMessage) and _is_plain(each)]
        if len(plain) > _MANY:
            is_repeated = len(set(plain)) < len(plain) // 2
            self._simulation.marks.sometimes("a flood of copies" if is_repeated else "a flood of different messages")

    def _mark(self, host: "NetworkHost", packet: Packet) -> str:
        match packet:
            case OrderAck(body=body):
                return self._acked("an OrderAck", host, body.tx_sequence_id, body.tx_sequence_number)
            case FinalAck(body=body):
                return self._acked("a FinalAck", host, body.tx_sequence_id, body.tx_sequence_number)
            case UserMessage(transaction=None):
                return "an administration queue in an attacker's message" if packet.user.admin_queue is not None else ""
            case UserMessage(transaction=header):
                assert header is not None
                is_reflected = Fault.REFLECTED_ACKS in self._simulation.hostility.faults
                if is_reflected and any(
                    _is_in(sent, header.tx_sequence_id) for sent in self._simulation.ledger.messages.values()
                ):
                    return "a message from an attacker in the sequence of a host"
                ahead = (header.tx_sequence_id >> 32) - int(host.now.wall)
                if ahead > YEARS // 2:
                    return "a forged sequence years in the future"
                return (
                    "a forged sequence a minute in the future" if ahead > MINUTE // 2 else "an attacker's new sequence"
                )
        return ""

    def _acked(self, kind: str, host: "NetworkHost", sequence_id: int, number: int) -> str:
        for sent in self._simulation.ledger.messages.values():
            if sent.source == host.name and sent.place is not None and sent.place[:2] == (sequence_id, number):
                if sent.is_betrayed and not sent.on_wire:
                    return "a FinalAck from an attacker with an admitted address for a message that was not sent"
                return f"{kind} from an attacker for a message that was {'sent' if sent.on_wire else 'not sent'}"
        return "an acknowledgment from an attacker for a nonexistent message"


def _is_in(sent: SentMessage, sequence_id: int) -> bool:
    return sent.place is not None and sent.place[0] == sequence_id


def _is_plain(packet: UserMessage) -> bool:
    return packet.transaction is None and packet.user.admin_queue is None
