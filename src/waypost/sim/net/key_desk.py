"""The key desk of a simulated host: its key folder, which outlives crashes, and the work that it does for the engine.

The work is that of waypost.drive.keys.key_desk, with a stand-in for RSA. The answers come later, in any order, or not
at all if the host crashes; some of the work fails, as when its process ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.drive.keys import key_records
from waypost.drive.keys.key_records import KeyRecord
from waypost.errors import InvalidParameter, ServiceNotAvailable, WaypostError
from waypost.node.effects import CheckSignatures, KeyRequest, KeyWork, MakeKeys, NoteAnswer, OpenKeys, Signed, SignFor
from waypost.security.callers import local_administrator, machine_sid
from waypost.security.ciphers import CryptoServiceProvider
from waypost.security.protection_facts import ExchangeKeys, ProtectionFacts, Registered, certificate_digest
from waypost.sim.net import rsa_stand_in as rsa
from waypost.sim.net.secrecy import SLOWER, Secrecy
from waypost.wire.keys import PublicKeyBlob

if TYPE_CHECKING:
    from waypost.sim.net.host import NetworkHost
    from waypost.sim.net.protection_checks import ProtectionChecks

_BITS: Final = 1024
# A certificate is valid a little earlier, for hosts whose clocks are behind.
_EARLIER: Final = 30
_SLOW: Final = 0.1


@dataclass(frozen=True, slots=True)
class OwnCertificate:
    """A certificate of the user of a host, with its private key."""

    registered: Registered
    secret: bytes
    created: float

    @property
    def digest(self) -> bytes:
        return certificate_digest(self.registered.certificate)


class KeyDesk:
    """`made` is told of each new certificate. `changed_at` are the times of the changes of the folder."""

    def __init__(
        self,
        host: "NetworkHost",
        secrecy: Secrecy,
        rng: Random,
        checks: "ProtectionChecks",
        made: Callable[["NetworkHost", OwnCertificate], None],
    ) -> None:
        self._host: Final = host
        self._secrecy: Final = secrecy
        self._rng: Final = rng
        self._checks: Final = checks
        self._made: Final = made
        self.sid: Final = local_administrator(machine_sid(host.guid), "simulation").sid.encode()
        self.changed_at: Final[list[float]] = []
        self._told = 0
        self._serial = 0
        self._wrapped = 0
        # The folder.
        self._keys: list[KeyRecord] = []
        self._secrets: Final[dict[str, bytes]] = {}
        self.own: list[OwnCertificate] = []
        self.registered: Final[dict[bytes, Registered]] = {}
        self.pins: Final[dict[bytes | str, ExchangeKeys]] = {}
        self._answered: Final[dict[str, bytes]] = {}

    # The folder.

    @property
    def current(self) -> PublicKeyBlob:
        """The exchange key that others should use."""
        return rsa.public_key(self._secrets[key_records.current_first(self._keys)[0].digest])

    def rotate(self, grace_s: int) -> None:
        """Make a new exchange key. The one before it decrypts for some seconds more; without a grace, none does."""
        secret = self._rng.randbytes(16)
        public, wall = rsa.public_key(secret), int(self._host.now.wall)
        record = KeyRecord(
            kind="exchange",
            digest=rsa.key_name(public.modulus).hex(),
            bits=_BITS,
            created=wall,
            retired=None,
            ends=None,
        )
        self._keys, gone = key_records.rotated(self._keys, record, grace_s)
        self._secrets[record.digest] = secret
        for digest in gone:
            del self._secrets[digest]
        self._checks.rotated(self._host.name, public, wall, grace_s)
        self.changed()

    def new_certificate(self) -> OwnCertificate:
        self._serial += 1
        secret, wall = self._rng.randbytes(16), int(self._host.now.wall)
        not_before, not_after = wall - _EARLIER, wall + self._rng.choice(self._secrecy.validities)
        # The serial numbers of hosts differ, so that no two certificates are the same.
        data = rsa.certificate(secret, self._serial, not_before, not_after)
        registered = Registered(data, self.sid, not_before, not_after)
        found = OwnCertificate(registered, secret, self._host.simulation.time)
        self.own.append(found)
        self.register(registered)
        self._made(self._host, found)
        return found

    def register(self, found: Registered) -> None:
        self.registered[certificate_digest(found.certificate)] = found
        self._checks.registered(self._host.name, found.certificate)
        self.changed()

    def remove(self, digest: bytes) -> None:
        """Remove a certificate, of this host or another."""
        del self.registered[digest]
        self.own = [each for each in self.own if each.digest != digest]
        self.changed()

    def pin(self, names: tuple[bytes | str, ...], key: PublicKeyBlob) -> None:
        self.pins.update((name, dict.fromkeys(CryptoServiceProvider, key)) for name in names)
        self.changed()

    def changed(self) -> None:
        """Tell the engine of a change, if it runs. It reads the folder when it starts."""
        self._note_change()
        if self._host.is_up:
            self._host.tell(self._tell_facts)

    def _note_change(self) -> None:
        self.changed_at.append(self._host.simulation.time)

    def started(self) -> None:
        """Tell the engine the facts of the folder."""
        self._told = len(self.changed_at)
        self._host.node.protection.facts_changed(self._facts())

    def _facts(self) -> ProtectionFacts:
        return ProtectionFacts(dict(self.registered), dict(self.pins), dict(self._answered))

    def _tell_facts(self, _now: Now) -> None:
        if self._told != len(self.changed_at):
            self.started()

    # The work.

    def start(self, effect: KeyWork) -> None:
        """Begin some work. Its result comes later, unless the host ends before."""
        host, rng = self._host, self._rng
        is_healing = host.simulation.is_healing
        delay = rng.random() * 2 * self._secrecy.delay
        if rng.random() < _SLOW and not is_healing:
            delay *= SLOWER
        fails = rng.random() < self._secrecy.failures and not is_healing
        secrets = [self._secrets[each.digest] for each in key_records.decrypting(self._keys, host.now.wall)]
        self._checks.work_began(host, effect)
        host.later(delay, lambda: self._end(effect, secrets, fails=fails))

    def _end(self, effect: KeyWork, secrets: list[bytes], *, fails: bool) -> None:
        """Do the work, with the exchange keys of the time when it began, and give its result to the engine."""
        host, life = self._host, self._host.life
        result: object
        try:
            if fails:
                raise ServiceNotAvailable("the process for operations with keys failed")
            result = self._result(effect.request, secrets)
        except WaypostError as error:
            result = error
        if life != host.life:
            # It has crashed with the change that the work made.
            return
        host.note(effect.job, host.name, "has done", type(effect.request).__name__, *(["in vain"] * fails))
        self._checks.work_ended(host, effect, has_failed=fails)

        def bring(now: Now) -> None:
            self._tell_facts(now)
            host.node.kernel.job_done(effect.job, result, now)

        host.tell(bring)

    def _result(self, request: KeyRequest, secrets: list[bytes]) -> object:
        match request:
            case SignFor():
                return self._sign(request)
            case CheckSignatures(checks):
                return [rsa.check(each) for each in checks]
            case MakeKeys(key, size, count):
                return [self._wrap(key, size) for _ in range(count)]
            case OpenKeys(ciphertexts, _):
                opened = [[rsa.unwrap(secret, each) for secret in secrets] for each in ciphertexts]
                return [[key for key in keys if key is not None] for keys in opened]
            case NoteAnswer(name, guid):
                self._answered[name] = guid
                self._note_change()
                return None
        raise InvalidParameter(f"{request} is not simulated")

    def _wrap(self, key: PublicKeyBlob, size: int) -> object:
        self._wrapped += 1
        return rsa.wrap(key, self._rng.randbytes(size), self._wrapped)

    def _sign(self, request: SignFor) -> Signed:
        """Sign with a certificate of this host that is valid now, a new one if needed."""
        wall = self._host.now.wall
        own = [each for each in self.own if each.registered.is_valid(wall)]
        if request.certificate:
            own = [each for each in own if each.digest.hex() == request.certificate]
            if not own:
                raise InvalidParameter(f"the certificate {request.certificate} is not valid")
        signer = own[-1] if own else self.new_certificate()
        signatures = tuple(rsa.sign(signer.secret, request.algorithm, each) for each in request.digests)
        return Signed(signer.registered.certificate, signatures)
