"""A simulation of several hosts on one network."""

from random import Random
from typing import Final

from waypost.guid import NULL_GUID, guid_text
from waypost.routing.routes import Relays, Route
from waypost.sim.fabric import Fabric
from waypost.sim.marks import Marks
from waypost.sim.net import checks, hostility, secrecy
from waypost.sim.net.arguments import ADMIN
from waypost.sim.net.changes import Changes, Damage
from waypost.sim.net.crowd import Crowd
from waypost.sim.net.eager import eager_windows
from waypost.sim.net.host import NetworkHost
from waypost.sim.net.hostility import Fault
from waypost.sim.net.key_changes import KeyChanges
from waypost.sim.net.ledger import Ledger
from waypost.sim.net.protection_checks import ProtectionChecks
from waypost.sim.net.stranger import Stranger
from waypost.sim.net.verdict import Verdict
from waypost.sim.net.watch import Watch
from waypost.sim.net.workloads import SCRIPTS, healer, setup
from waypost.sim.patches import Patch
from waypost.sim.plans import Plan
from waypost.sim.simulation import Simulation
from waypost.sim.swarm import draw_several
from waypost.wire.format_names import DirectFormatName, FormatName, PrivateFormatName
from waypost.wire.property_values import UNLIMITED

# Seconds for the last acknowledgments, and for sessions to find that they are idle.
_REST: Final = 200.0

# The number of turns after which a host is checked, and checked thoroughly.
_OFTEN: Final = 5
_INTERVAL: Final = 50


Endpoint = NetworkHost | Stranger


class NetworkSimulation(Simulation[NetworkHost]):
    scripts = {"setup": setup, "healer": healer, **SCRIPTS}
    look_s = 1.0

    def __init__(self, seed: int, marks: Marks, nodes: int) -> None:
        super().__init__(seed, marks)
        drawn = draw_several(self.rng, nodes)
        # Strangers have their own random numbers: a simulation without them is the same as before strangers existed.
        chance = Random(f"strangers of {seed}")
        self.hostility: Final = hostility.draw(chance, drawn)
        # So have keys.
        self.key_chance: Final = Random(f"keys of {seed}")
        self.secrecy: Final = secrecy.draw(self.key_chance)
        self.swarm = self.secrecy.adapted(self.hostility.adapted(drawn), self.key_chance)
        self.admins: Final = tuple(Plan(ADMIN, host=host) for host in self.swarm.hosts)
        self.ledger: Final = Ledger(
            self.swarm.hosts,
            marks,
            history=self.swarm.sessions.transfer.duplicate_history_size,
            is_quota_limited=self.swarm.limits.quota != UNLIMITED,
        )
        self.protection_checks: Final = ProtectionChecks(self.ledger, marks, self)
        self.key_changes: Final = KeyChanges(self, self.secrecy, self.key_chance)
        if self.secrecy.is_on:
            self.ledger.checks = self.protection_checks
        self.fabric: Final[Fabric[Endpoint]] = Fabric(self, self.swarm.network)
        self.changes: Final[Changes] = Changes(self, chance)
        self.hosts.extend(NetworkHost(number, self) for number in range(nodes))
        self.watch: Final = Watch({host.name: host.guid for host in self.hosts}, self.ledger, marks, self.ledger.checks)
        self.crowd: Final = Crowd(self, chance)
        self._fixed_names: Final[dict[tuple[str, Plan], str]] = {}
        self._damage: Final = Damage(self, seed)
        self._verdict: Final = Verdict(self.ledger, self.hosts, marks)
        self._looks = 0

    # Names, paths and addresses that the whole simulation knows.

    def plans_of(self, host: str) -> list[Plan]:
        return [plan for plan in (*self.swarm.plans, *self.admins) if plan.host == host]

    def own_name(self, plan: Plan) -> str:
        return f"DIRECT=OS:{plan.host}\\PRIVATE$\\{plan.key}"

    def any_name(self, source: str, plan: Plan) -> str:
        host = self.host(plan.host)
        form = self.rng.random()
        queue = host.node.manager.queues.get(plan.path)
        if form < 0.5 and queue is not None and source != plan.host:
            return f"PRIVATE={guid_text(host.guid)}\\{queue.private_queue_number:08x}"
        if form < 0.7 and not self.changes.has_moves:
            return f"DIRECT=TCP:{host.addresses[0]}\\PRIVATE$\\{plan.key}"
        return self.own_name(plan)

    def fixed_name(self, source: str, plan: Plan) -> str:
        """The one name by which a source knows a queue: messages of transactions are in order only under one name."""
        key = source, plan
        if key not in self._fixed_names:
            self._fixed_names[key] = self.any_name(source, plan)
        return self._fixed_names[key]

    def is_of_a_host(self, name: FormatName) -> bool:
        """Whether the name is that of a queue of a host."""
        if isinstance(name, PrivateFormatName):
            return any(host.guid == name.computer_guid for host in self.hosts)
        return isinstance(name, DirectFormatName) and self.fabric.is_known(name.address)

    def path(self, source: str, plan: Plan, name: str) -> tuple[str, ...]:
        """The hosts through which a message goes, or may go."""
        if source == plan.host:
            return (source,)
        relays = self.changes.relays
        if not name.startswith("PRIVATE=") or source in relays or plan.host in relays:
            return source, plan.host
        return source, *relays, plan.host

    def routes_of(self, host: NetworkHost) -> tuple[Route, ...]:
        via, relays = self.changes.via, self.changes.relays
        middle = self.host(via).guid if via else NULL_GUID
        routes = []
        for other in self.hosts:
            if other is not host:
                is_direct = not via or host.name in relays or other.name in relays
                routes.append(Route(other.guid, other.name) if is_direct else Route(other.guid, via=middle))
        return tuple(routes)

    def ack_addresses_of(self, host: NetworkHost) -> frozenset[tuple[bytes, str]]:
        """The addresses that an administrator admits, because no name leads to them: see `Changes.is_told`."""
        admitted = [] if Fault.INSIDERS not in self.hostility.faults else self.crowd.addresses
        return frozenset((NULL_GUID, address) for address in admitted) | frozenset(
            (other.guid, address)
            for other in self.hosts
            if self.changes.is_told(host.name, other.name)
            for address in other.addresses
        )

    def relays_of(self, host: NetworkHost) -> Relays:
        """The relays that may pass on acknowledgments of messages that took another route."""
        names = [name for name in self.changes.relays if name != host.name] if self.changes.has_reroutes else []
        return Relays(frozenset(self.host(name).guid for name in names))

    # Events.

    def patches(self) -> tuple[Patch, ...]:
        eager = self.swarm.sessions.eager
        return *super().patches(), *self.hostility.patches(), *(eager_windows(eager) if eager else ())

    def _set_up(self) -> None:
        self.trace.note(0.0, 0, self.hostility)
        for host in self.hosts:
            self.fabric.add(host, host.name, f"{host.name}.example.org", addresses=host.addresses)
        for stranger in self.crowd.strangers:
            self.fabric.lodge(stranger)
        if self.secrecy.is_on:
            self.trace.note(0.0, 0, self.secrecy)
            self.key_changes.set_up()
        self._create_queues()

    def _create_queues(self) -> None:
        """Nothing fails before the queues that every host needs exist."""
        self.is_healing = True
        for host in self.hosts:
            host.start()
            host.add_client(self.new_client(host, "setup"))
        due = [plan for plan in (*self.swarm.plans, *self.admins) if plan.is_made]
        while any(plan.path not in self.host(plan.host).node.manager.queues for plan in due):
            self.step()
        while any(host.unanswered for host in self.hosts):
            self.step()
        self.is_healing = False

    def look_at(self, host: NetworkHost) -> None:
        """Check a host after its turns, and thoroughly now and then."""
        if self.secrecy.is_on:
            self.protection_checks.look_at(host)
        self._looks += 1
        if self._looks % _OFTEN == 0:
            checks.check_sessions(host.node, host.name, self.swarm.sessions.eager)
            checks.mark(host.node, self.marks)
            if self._looks % _INTERVAL == 0:
                checks.check_counts(host.node, host.name)

    def _strike_network(self) -> None:
        self.fabric.strike()
        self.crowd.strike()
        self.changes.strike()
        self._damage.strike()
        self.key_changes.strike()

    def _heal(self) -> None:
        self.crowd.leave()
        self.key_changes.heal()
        super()._heal()

    def _stuck(self) -> str:
        """Also while a send waits for work with keys, which may take long: its message has not begun its way."""
        waits = (f"{host.name} has not answered {host.unanswered}" for host in self.hosts if host.unanswered)
        return self._verdict.stuck() or next(waits, "")

    def _check_healed(self) -> None:
        self._verdict.check(is_quiet=self._rest())

    def _rest(self) -> bool:
        """Stop all clients. Returns whether it was then quiet for so long that sessions have to be closed."""
        for host in self.hosts:
            for client in host.clients:
                client.stop()
        end, busy, look = self.time + _REST, self.time, self.time
        while self.time < end and self._events:
            self.step()
            if self.time >= look:
                look = self.time + 1.0
                if any(checks.outgoing_messages(host) for host in self.hosts):
                    busy = self.time
                elif self.time - busy > 3 * self.swarm.sessions.transfer.idle_timeout_s:
                    return True
        return not self._events
