"""Checks of signed and encrypted messages: on the wire, at their arrival, when they are refused, and when read.

The rules are computed here again, from the key folders of the hosts and the bytes on the wire, without the engine:
- a message that was sent with `encrypt` crosses the network only as ciphertext for a key of its destination;
- a message enters its queue only if the queue accepts its protection, its certificate is registered and valid at that
  moment, and the key for which it is encrypted was in service. It then shows exactly this protection;
- a message is refused for its signature or its encryption only if one of these is not so.

The engine keeps a decrypted symmetric key for ten minutes, or until the key folder changes. Messages with this key are
decrypted meanwhile, even if the grace of the exchange key ends.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from waypost.api.protection import SIGNATURE_WORDS
from waypost.client.message import Message as Shown
from waypost.core.message import Message
from waypost.core.message_values import AuthenticationLevel
from waypost.node.effects import Commit, KeyWork, MakeKeys, Notice, OpenKeys
from waypost.node.message_records import message_of
from waypost.security.protection_facts import certificate_digest
from waypost.sim.marks import Marks
from waypost.sim.net import rsa_stand_in as rsa
from waypost.sim.net.arguments import SentMessage
from waypost.sim.net.facts import OUTGOING, Place, place_of, role_of
from waypost.sim.net.ledger import Ledger
from waypost.sim.plans import MARK, uid_of
from waypost.sim.violation import Violation
from waypost.store.port import Action, Batch, Table
from waypost.wire.format_names import DirectFormatName, FormatName, PrivateFormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.keys import PublicKeyBlob, SimpleBlob
from waypost.wire.message_class import MessageClass
from waypost.wire.user_message import UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waypost.node.effects import Effect
    from waypost.sim.net.host import NetworkHost
    from waypost.sim.net.simulation import NetworkSimulation

_BAD_SIGNATURE: Final = MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE
_BAD_ENCRYPTION: Final = MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION
_NORMAL: Final = MessageClass.MQMSG_CLASS_NORMAL
_CLASSES: Final = {each.name: each for each in (_BAD_SIGNATURE, _BAD_ENCRYPTION)}
_LATE: Final = 0.01
_GIVEN_UP: Final = "the queue manager cannot check signed or encrypted messages now"
_LEVELS: Final = {1: AuthenticationLevel.SIG10, 2: AuthenticationLevel.SIG20, 3: AuthenticationLevel.SIG30}


@dataclass(slots=True)
class _Key:
    """An exchange key: its host, and the wall time there at which it ends, if it is retired."""

    host: str
    ends: float | None = None


@dataclass(slots=True)
class _Opened:
    """Whether a key desk could decrypt a symmetric key, and the state of the folder when it began to."""

    is_open: bool
    is_retired: bool
    changes: int


@dataclass(slots=True)
class _Life:
    """Facts seen in one life of a host: the decrypted keys, and the effects and writes that were looked at."""

    number: int
    opened: dict[bytes, _Opened] = field(default_factory=dict)
    began: dict[int, dict[bytes, _Opened]] = field(default_factory=dict)
    effects: "Sequence[Effect] | None" = None
    seen_effects: int = 0
    token: int = 0
    seen_writes: int = 0


class ProtectionChecks:
    def __init__(self, ledger: Ledger, marks: Marks, simulation: "NetworkSimulation") -> None:
        self._ledger: Final = ledger
        self._marks: Final = marks
        self._simulation: Final = simulation
        # The longest time for both kinds of work with a message, each of which may be begun a little later.
        self._longest: Final = 2 * (simulation.secrecy.slowest + simulation.swarm.faults.gather + _LATE)
        self._keys: Final[dict[bytes, _Key]] = {}
        self._current: Final[dict[str, _Key]] = {}
        # When certificates were registered on hosts, and removed or not.
        self._registered: Final[dict[tuple[str, bytes], float]] = {}
        self._lives: Final[dict[str, _Life]] = {}
        self._places: Final[set[tuple[str, Place]]] = set()
        self._by_identifier: Final[dict[MessageIdentifier, SentMessage]] = {}
        self._unsealed: Final[dict[MessageIdentifier, None]] = {}
        # The symmetric keys with which each message was on the wire, its certificate, and the time of its first packet.
        self._wrapped: Final[dict[int, dict[bytes, None]]] = {}
        self._certificates: Final[dict[int, tuple[bytes, float]]] = {}

    # Keys and certificates.

    def rotated(self, host: str, public: PublicKeyBlob, wall: float, grace_s: int) -> None:
        before = self._current.get(host)
        if before is not None:
            before.ends = wall + grace_s
        if not grace_s:
            for key in self._keys.values():
                if key.host == host and key.ends is not None:
                    key.ends = min(key.ends, wall)
        self._current[host] = self._keys[rsa.key_name(public.modulus)] = _Key(host)

    def registered(self, host: str, certificate: bytes) -> None:
        self._registered[host, certificate] = self._simulation.time

    # Work with keys.

    def work_began(self, host: "NetworkHost", effect: KeyWork) -> None:
        """The keys that are in service now count, even if they end before the work."""
        if isinstance(effect.request, MakeKeys):
            self._marks.sometimes("a message that waited for an encryption key")
        if not isinstance(effect.request, OpenKeys):
            return
        wall, changes = host.now.wall, len(host.desk.changed_at)
        found = self._life(host).began[effect.job] = {}
        for ciphertext in effect.request.ciphertexts:
            key = self._keys[rsa.wrapped_for(ciphertext)]
            is_open = key.host == host.name and (key.ends is None or wall < key.ends)
            found[ciphertext] = _Opened(is_open, key.ends is not None, changes)

    def work_ended(self, host: "NetworkHost", effect: KeyWork, *, has_failed: bool) -> None:
        life = self._life(host)
        found = life.began.pop(effect.job, {})
        if not has_failed:
            life.opened |= found

    # The wire.

    def on_wire(self, host: str, packet: UserMessage, data: bytes) -> None:
        """Check a packet that a host sends, of whatever kind."""
        for found in MARK.finditer(data):
            sent = self._ledger.messages.get(int(found[1]))
            if sent is not None and sent.properties.encrypt:
                raise Violation(f"{host} sends the body of {sent} unencrypted, but the message was sent with `encrypt`")
        uid = uid_of(data)
        sent = None if uid is None else self._ledger.messages.get(uid)
        if sent is None or packet.properties.message_class != _NORMAL:
            return
        user, security = packet.user, packet.security
        self.identified(MessageIdentifier(user.source_queue_manager, user.message_id), sent)
        if security is not None and security.sender_cert:
            self._certificates.setdefault(sent.uid, (security.sender_cert, self._simulation.time))
        is_encrypted = security is not None and security.is_body_encrypted
        if is_encrypted != sent.properties.encrypt:
            problem = "is encrypted, but was sent without" if is_encrypted else "is not encrypted, but was sent with"
            raise Violation(f"{host} sends {sent}, which {problem} `encrypt`")
        if security is None or not is_encrypted:
            return
        ciphertext = SimpleBlob.decode(security.encryption_key).ciphertext
        self._wrapped.setdefault(sent.uid, {})[ciphertext] = None
        owner = self._keys[rsa.wrapped_for(ciphertext)].host
        if owner not in (sent.plan.host, sent.copy_host):
            raise Violation(f"{host} sends {sent}, which is encrypted for the wrong host {owner}")

    def identified(self, identifier: MessageIdentifier, sent: SentMessage) -> None:
        self._by_identifier[identifier] = sent
        if identifier in self._unsealed:
            del self._unsealed[identifier]
            sent.refusals[_BAD_ENCRYPTION] = sent.source

    # A host, after each of its turns.

    def look_at(self, host: "NetworkHost") -> None:
        messages = host.node.messages
        self._look_at_writes(host, messages.batch, messages.token)
        self._look_at_notices(host, host.node.kernel._effects)  # noqa: SLF001, before time passes

    def taking(self, host: "NetworkHost", effects: "Sequence[Effect]") -> None:
        """Look at effects that are about to be carried out: not every turn ends with a look."""
        for effect in effects:
            if isinstance(effect, Commit):
                self._look_at_writes(host, effect.batch, effect.token)
        self._look_at_notices(host, effects)

    def _look_at_writes(self, host: "NetworkHost", batch: Batch, token: int) -> None:
        life, manager = self._life(host), host.node.manager
        if life.token != token:
            life.token, life.seen_writes = token, 0
        operations = batch.operations
        start, life.seen_writes = life.seen_writes, len(operations)
        for action, table, key, value in operations[start:]:
            if table is not Table.MESSAGES or action is not Action.PUT:
                continue
            place = place_of(key)
            uid = uid_of(value)
            sent = None if uid is None else self._ledger.messages.get(uid)
            if sent is None or (host.name, place) in self._places:
                continue
            self._places.add((host.name, place))
            role = role_of(manager, place[0])
            message = message_of(value, place[1])
            if role == OUTGOING:
                self.identified(message.identifier, sent)
            elif role == sent.plan.key and host.name == sent.plan.host and message.message_class == _NORMAL:
                self._check_arrival(host, sent, message)

    def _look_at_notices(self, host: "NetworkHost", effects: "Sequence[Effect]") -> None:
        life = self._life(host)
        if life.effects is not effects:
            life.effects, life.seen_effects = effects, 0
        start, life.seen_effects = life.seen_effects, len(effects)
        for effect in effects[start:]:
            match effect:
                case Notice("message rejected", facts) if facts["reason"] in _CLASSES:
                    if facts["peer"] not in host.simulation.crowd.addresses:
                        self._check_refusal(host, str(facts["message"]), _CLASSES[str(facts["reason"])])
                case Notice("message not encrypted", facts):
                    self._check_unsealed(host, str(facts["queue"]), str(facts["message_id"]), str(facts["reason"]))
                case Notice(_, facts) if str(facts.get("reason", "")).startswith(_GIVEN_UP):
                    self._marks.sometimes("a session closed because a key desk failed")

    def _check_arrival(self, host: "NetworkHost", sent: SentMessage, message: Message) -> None:
        """Check a message that enters its queue in this turn."""
        self.check_shown(host.name, sent, message)
        if sent.source == host.name:
            return
        problem = self._signature_problem(host, sent) or self._encryption_problem(host, sent)
        if problem:
            raise Violation(f"{sent} enters its queue, but {problem}")
        if sent.properties.encrypt and all(each.is_retired for each in self._opened(host, sent) if each.is_open):
            self._marks.sometimes("a message decrypted with a retired key")
        if sent.properties.sign:
            certificate, first = self._certificates[sent.uid]
            if self._registered[host.name, certificate] > first:
                self._marks.sometimes("a message that arrived before its certificate was registered")

    def check_shown(self, host: str, sent: SentMessage, message: Message) -> None:
        """Check that a message in its queue, or received from it, shows the protection with which it was sent."""
        properties = sent.properties
        if host == sent.plan.host and not sent.is_fit_to_arrive:
            raise Violation(
                f"{sent} is in its queue on {host}, but the queue does not accept the protection of the message"
            )
        shown = Shown(message)
        level = (
            AuthenticationLevel.NONE
            if not properties.sign
            else _LEVELS[properties.signature or (3 if sent.copy_host else 2)]
        )
        algorithm = properties.algorithm if properties.encrypt else None
        expected = SIGNATURE_WORDS[level], properties.sign, algorithm
        found = shown.signature, shown.sender_verified, shown.encrypted
        if expected != found:
            raise Violation(f"{sent} on {host}: expected the protection {expected}, but found {found}")

    def _signature_problem(self, host: "NetworkHost", sent: SentMessage) -> str:
        if not sent.properties.sign:
            return "it is not signed" if sent.plan.authenticates else ""
        certificate, _ = self._certificates[sent.uid]
        registered = host.desk.registered.get(certificate_digest(certificate))
        if registered is None:
            return "its certificate is not registered"
        return "" if registered.is_valid(host.now.wall) else "its certificate is not valid now"

    def _encryption_problem(self, host: "NetworkHost", sent: SentMessage) -> str:
        if not sent.properties.encrypt:
            return "it is not encrypted" if sent.plan.privacy == "body" else ""
        if sent.plan.privacy == "none":
            return "it is encrypted"
        if any(each.is_open and self._counts(host, each) for each in self._opened(host, sent)):
            return ""
        return "the key that was used to encrypt it was not valid"

    def _opened(self, host: "NetworkHost", sent: SentMessage) -> list[_Opened]:
        opened = self._life(host).opened
        return [opened[each] for each in self._wrapped.get(sent.uid, ()) if each in opened]

    def _counts(self, host: "NetworkHost", opened: _Opened) -> bool:
        """Whether the engine may still use the result: the folder is the same, or was when it began with the message.

        It then waits for the keys of other messages, and for signatures.
        """
        changed_at = host.desk.changed_at[opened.changes :]
        return not changed_at or self._simulation.time - changed_at[0] <= self._longest

    def _check_refusal(self, host: "NetworkHost", identifier: str, message_class: MessageClass) -> None:
        sent = self._by_text(identifier)
        if sent is None or sent.plan.host != host.name:
            return
        sent.refusals[message_class] = host.name
        if message_class is _BAD_SIGNATURE:
            if not self._signature_problem(host, sent):
                raise Violation(f"{host.name} refuses {sent} because of its signature, but the signature is valid")
            self._mark_signature(host, sent)
            return
        if not sent.properties.encrypt or sent.plan.privacy == "none":
            if not self._encryption_problem(host, sent):
                raise Violation(f"{host.name} refuses {sent} because of its encryption, but the queue accepts it")
            return
        refused = [each for each in self._opened(host, sent) if not each.is_open and self._counts(host, each)]
        if not refused:
            raise Violation(f"{host.name} refuses {sent} because of its encryption, but the key was valid")
        self._marks.sometimes("a message refused after the grace period of its key")

    def _mark_signature(self, host: "NetworkHost", sent: SentMessage) -> None:
        if not sent.properties.sign:
            self._marks.sometimes("a message refused because it is unsigned")
            return
        certificate, _ = self._certificates[sent.uid]
        if certificate_digest(certificate) in host.desk.registered:
            self._marks.sometimes("a message refused because its certificate has expired")
        elif (host.name, certificate) in self._registered:
            self._marks.sometimes("a message refused because its certificate was removed")

    def _check_unsealed(self, host: "NetworkHost", queue: str, text: str, reason: str) -> None:
        """Check a message that its source gives up, because it cannot encrypt it."""
        name = FormatName.parse(queue)
        known_as = name.computer_guid if isinstance(name, PrivateFormatName) else ""
        if isinstance(name, DirectFormatName):
            known_as = name.address.lower()
        if known_as in host.desk.pins:
            raise Violation(
                f"{host.name} does not encrypt a message to {queue}, "
                f"although {host.name} has the keys of the destination: {reason}"
            )
        self._marks.sometimes("a message for a destination with unknown keys")
        sent = self._by_text(text)
        if sent is not None:
            sent.refusals[_BAD_ENCRYPTION] = sent.source
        else:
            self._unsealed[MessageIdentifier.parse(text)] = None

    def _by_text(self, identifier: str) -> SentMessage | None:
        return self._by_identifier.get(MessageIdentifier.parse(identifier))

    def _life(self, host: "NetworkHost") -> _Life:
        life = self._lives.get(host.name)
        if life is None or life.number != host.life:
            life = self._lives[host.name] = _Life(host.life)
        return life
