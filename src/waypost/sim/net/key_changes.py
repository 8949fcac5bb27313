"""Changes of keys and certificates, and the time until other hosts know of them, as with a directory that lags."""

from random import Random
from typing import TYPE_CHECKING, Final

from waypost.sim.net.key_desk import OwnCertificate
from waypost.sim.net.secrecy import Secrecy

if TYPE_CHECKING:
    from waypost.sim.net.host import NetworkHost
    from waypost.sim.net.simulation import NetworkSimulation

# Seconds after which a pin that is missing at the start comes.
_LATE: Final = 20.0
_REMOVED: Final = 0.4
_BACK: Final = 0.5


class KeyChanges:
    """The keys of all hosts. `life` never ends: news arrive at hosts that are down, too."""

    life: Final = 0

    def __init__(self, simulation: "NetworkSimulation", secrecy: Secrecy, rng: Random) -> None:
        self._simulation: Final = simulation
        self._secrecy: Final = secrecy
        self._rng: Final = rng
        # The names under which a host pins the keys of another; the number of rotations, and of the last pinned key.
        self._names: Final[dict[tuple[str, str], tuple[bytes | str, ...]]] = {}
        self._rotations: Final[dict[str, int]] = {}
        self._pinned: Final[dict[tuple[str, str], int]] = {}
        self._coming: dict[int, tuple[NetworkHost, OwnCertificate]] = {}
        self._news = 0

    def set_up(self) -> None:
        """Make the first keys and certificates, before the hosts start. Some become known late."""
        if not self._secrecy.is_on:
            return
        hosts, rng = self._simulation.hosts, self._rng
        for host in hosts:
            host.desk.rotate(0)
            self._rotations[host.name] = 1
        for host in hosts:
            for other in hosts:
                if other is not host:
                    by_guid: tuple[bytes | str, ...] = (other.guid,)
                    by_name: tuple[bytes | str, ...] = (other.name, *other.addresses)
                    self._names[host.name, other.name] = rng.choice((by_guid, by_name, (*by_guid, *by_name)))
                    self._later(host, other, _LATE if rng.random() < self._secrecy.late else 0.0)
            host.desk.new_certificate()

    def made(self, host: "NetworkHost", found: OwnCertificate) -> None:
        """Let other hosts register a new certificate, later."""
        for other in self._simulation.hosts:
            if other is not host:
                lag = _LATE if self._rng.random() < self._secrecy.late else self._secrecy.lag
                self._register_later(other, found, self._rng.uniform(0.0, lag))

    def strike(self) -> None:
        """Perhaps change keys or certificates; called with each operation."""
        secrecy, rng, simulation = self._secrecy, self._rng, self._simulation
        if not secrecy.is_on:
            return
        if rng.random() < secrecy.rotations:
            self._rotate(rng.choice(simulation.hosts), rng.choice(secrecy.graces))
        if rng.random() < secrecy.certificates:
            host = rng.choice(simulation.hosts)
            if rng.random() < _REMOVED:
                self._remove(host)
            else:
                host.note(0, host.name, "makes a certificate")
                host.desk.new_certificate()

    def heal(self) -> None:
        """All news arrive. Removed certificates stay removed."""
        if not self._secrecy.is_on:
            return
        coming, self._coming = self._coming, {}
        for other, found in coming.values():
            other.desk.register(found.registered)
        for host in self._simulation.hosts:
            for other in self._simulation.hosts:
                if other is not host:
                    self._pin(host, other, self._rotations[other.name])

    def _rotate(self, host: "NetworkHost", grace_s: int) -> None:
        host.note(grace_s, host.name, "makes a new key; the previous key has a grace period of", grace_s, "s")
        host.desk.rotate(grace_s)
        self._rotations[host.name] += 1
        for other in self._simulation.hosts:
            if other is not host:
                self._later(other, host, self._rng.uniform(0.0, self._secrecy.lag))

    def _later(self, host: "NetworkHost", other: "NetworkHost", delay: float) -> None:
        """Pin the present key of another host, after some time."""
        number = self._rotations[other.name]
        if delay:
            self._simulation.schedule(delay, lambda: self._pin(host, other, number), self)
        else:
            self._pin(host, other, number)

    def _pin(self, host: "NetworkHost", other: "NetworkHost", number: int) -> None:
        """Pin the key with this number, unless a later one is pinned. Older keys are not published any more."""
        pair = host.name, other.name
        if self._pinned.get(pair, 0) < number:
            self._pinned[pair] = self._rotations[other.name]
            host.note(number, host.name, "pins the key of", other.name)
            host.desk.pin(self._names[pair], other.desk.current)

    def _register_later(self, other: "NetworkHost", found: OwnCertificate, delay: float) -> None:
        if not delay:
            other.desk.register(found.registered)
            return
        self._news += 1
        news = self._news
        self._coming[news] = other, found

        def register() -> None:
            if self._coming.pop(news, None) is not None:
                other.note(news, other.name, "registers a certificate")
                other.desk.register(found.registered)

        self._simulation.schedule(delay, register, self)

    def _remove(self, host: "NetworkHost") -> None:
        """Remove a certificate on a host. It may come back."""
        digests = sorted(host.desk.registered)
        if not digests:
            return
        digest = self._rng.choice(digests)
        host.note(0, host.name, "removes the certificate", digest.hex()[:8])
        owners = [(other, each) for other in self._simulation.hosts for each in other.desk.own if each.digest == digest]
        host.desk.remove(digest)
        for owner, found in owners:
            if owner is not host and self._rng.random() < _BACK:
                self._register_later(host, found, self._rng.uniform(0.1, 5.0))
