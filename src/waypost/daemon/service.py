"""The daemon: a queue manager with its sockets, from start to stop.

One task owns the queue manager: everything runs in one loop, and the commit thread of the store is the only other
thread that touches it. An unexpected error goes to the log and ends the daemon, with its data as they are on disk:
going on half broken would be worse, and the operator or systemd can start it again.
"""

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from msgspec import structs

from waypost.api.protection import HASHES
from waypost.core.message_values import AuthenticationLevel
from waypost.core.system import Identity
from waypost.daemon import systemd
from waypost.daemon.addresses import own_addresses
from waypost.daemon.config import Config, max_size_of, reserve_of
from waypost.daemon.config_security import Security
from waypost.daemon.configured_hosts import parse_relays, parse_routes
from waypost.daemon.connection_guard import ConnectionGuard
from waypost.daemon.cycles import Cycles
from waypost.daemon.doors import Announcement, Doors, open_doors
from waypost.daemon.loading import ConfigError, machine_security
from waypost.daemon.logs import Forward, Log
from waypost.daemon.memory import keep_freed_memory
from waypost.daemon.outside import DaemonOutside
from waypost.daemon.pump import Pump
from waypost.daemon.resolver import Resolver
from waypost.daemon.rpc import RpcGuard, RpcListener, RpcSockets, serving, stepped
from waypost.daemon.rpc_users import Logons, import_users
from waypost.daemon.sockets import allow_files, datagram_sockets, endpoint, listen, stepping_sockets, stream_sockets
from waypost.daemon.store_mode import check_lost_users, check_store_mode
from waypost.daemon.tcp import TcpConnections, TcpSettings
from waypost.daemon.udp import Pings
from waypost.daemon.walking import Walking
from waypost.daemon.web import App, Web
from waypost.drive.keys.settings import KeySettings
from waypost.drive.loop import Loop
from waypost.drive.loop_watch import loop_watch
from waypost.drive.settings import settings as manager_settings
from waypost.errors import InvalidParameter, StoreError, WaypostError
from waypost.guid import guid_text
from waypost.node.recovery import Settings
from waypost.remote.context import PORT_STEP
from waypost.rpc.statistics import RpcStatistics
from waypost.store.port import LOW, LOW_HINT, Room

if sys.platform != "win32":
    import uvloop

# Seconds between log lines about the upgrade of a store, and the time that systemd is asked to wait.
_UPGRADE_SECONDS: Final = 5.0
_PATIENCE_USEC: Final = 120_000_000
# Longest delay of a log line that was held back, beyond its time.
_LATE_LINES_SECONDS: Final = 1.0
# Interval of looks for the file in the runtime folder.
_KEEP_FILE_SECONDS: Final = 60.0
# A remote reader may wait without limit, and a computer that has lost its power says nothing.
_KEEP_ALIVE_SECONDS: Final = 60

# The name of each listener with its ADDRESS:PORT.
Endpoints: TypeAlias = Mapping[str, str]

# Makes the ASGI application of a queue manager with these listeners and this token.
MakeApp: TypeAlias = Callable[[Loop, Endpoints, str], App]

# Gets the fields of the ready line.
Announce: TypeAlias = Callable[[Mapping[str, str]], None]

# The commit thread needs the interpreter again after every record that it writes. It gets it after this time at the
# latest, even if the loop is busy; the default of Python, 5 ms, would make a hundred records take half a second.
_SWITCH_SECONDS: Final = 0.0005


def run(config: Config, log: Log, make_app: MakeApp | None, announce: Announce) -> int:
    """Serve until a signal arrives. Returns the exit code. Raises WaypostError if the daemon cannot start.

    Without `make_app` the daemon has no HTTP API.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    keep_freed_memory()
    factory = None if sys.platform == "win32" else uvloop.new_event_loop
    with _forwarding(log), asyncio.Runner(loop_factory=factory) as runner:
        try:
            return runner.run(Daemon(config, log, make_app).serve(announce))
        except KeyboardInterrupt:
            # The loop has no signal handlers here; the daemon has stopped as it should.
            return 0


class Daemon:
    """One run of the daemon, from start to stop."""

    def __init__(self, config: Config, log: Log, make_app: MakeApp | None) -> None:
        self._config: Final = config
        self._log: Final = log
        self._make_app: Final = make_app if config.http.enabled else None
        self._stop: Final = asyncio.Event()
        # The users that may log on to RPC.
        self._logons: Final = Logons()
        self._exit_code = 0
        self._upgrade_told = 0.0

    async def serve(self, announce: Announce) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unexpected)
        self._catch_signals(loop)
        with _Sockets(self._config, with_http=self._make_app is not None) as sockets:
            addresses = await self._own_addresses(loop)
            outside = DaemonOutside(self._log, self._broken)
            shell = Loop(
                self._config.folder,
                _settings(_without_missing_users(self._config), addresses, sockets.rpc, self._logons),
                max_size=max_size_of(self._config),
                reserve=reserve_of(self._config),
                outside=outside,
                keys=_key_settings(self._config.security),
                on_walk=Walking(self._log).tell,
                on_upgrade=self._tell_upgrade,
            )
            self._logons.users = shell.driver.node.users
            doors = Doors()
            try:
                check_lost_users(self._config.folder, shell.driver.node.users)
                check_store_mode(self._config.folder, shell.driver.node.users)
                await self._import_users(shell)
                if self._make_app is not None:
                    doors = open_doors(self._config.folder, self._config.http, self._log)
                await self._serve(shell, outside, sockets, doors, addresses, announce)
            finally:
                self._stop.set()
                doors.close()
                await shell.close()
        self._log.info("stopped", exit_code=self._exit_code)
        return self._exit_code

    def stop(self) -> None:
        """Let `serve` come to its end."""
        self._stop.set()

    async def _serve(
        self,
        shell: Loop,
        outside: DaemonOutside,
        sockets: "_Sockets",
        doors: Doors,
        addresses: frozenset[str],
        announce: Announce,
    ) -> None:
        config, log = self._config, self._log
        network = shell.driver.node.network
        if (restored := shell.driver.restored) is not None:
            log.warning(
                "restored",
                message="The store was restored from a backup. Outgoing sequences start again, with new message ids.",
                sequences=restored.sequences,
                renumbered=restored.renumbered,
            )
        assert network is not None
        limits = config.transfer
        connections = allow_files(limits.max_connections, config.http.max_connections + config.rpc.max_connections)
        if connections < limits.max_connections:
            log.warning(
                "too few files",
                message="The system limit for open files allows fewer connections than the configuration.",
                connections=connections,
            )
        for sentence in stepped(config.rpc, sockets.rpc):
            log.warning("port taken", message=sentence)
        watch = shell.watch = loop_watch()
        pump = Pump(shell.driver)
        shell.on_written = pump.written
        tcp = TcpConnections(
            shell,
            network,
            TcpSettings(limits.bind, limits.connect_timeout_s),
            guard=ConnectionGuard(connections, limits.max_connections_per_peer, limits.refusals_per_minute),
            log=log,
            pump=pump,
        )
        remote = shell.driver.node.remote
        rpc = TcpConnections(
            shell,
            None,
            TcpSettings(keep_alive_s=_KEEP_ALIVE_SECONDS, keeps_users=True),
            guard=RpcGuard(config.rpc, self._logons, RpcStatistics() if remote is None else remote.statistics),
            log=log,
            pump=pump,
        )
        resolver = Resolver(shell, network, limits.bind, log)
        pings = Pings(shell, network)
        tcp.on_failure = resolver.doubt
        web = self._web(shell, sockets, doors, pump)
        announcement = self._announcement(sockets, doors)
        loop = asyncio.get_running_loop()
        servers: list[asyncio.Server] = []
        shell.driver.watch_store(self._tell_trouble, self._tell_room)
        forget_collections = watch.watch_collections()
        cycles = Cycles(loop, watch)
        late_lines = loop.create_task(self._write_late())
        late_files: asyncio.Task[None] | None = None
        try:
            await pings.start(sockets.ping, sockets.asking)
            resolver.start(addresses)
            outside.begin(tcp, rpc, resolver, pings)
            if announcement is not None:
                # Before the port is open: a client that reaches it finds the token.
                late_files = loop.create_task(self._keep(announcement))
                doors.listen()
                if not announcement.write() and sys.platform != "win32":
                    log.warning(
                        "no runtime folder",
                        message="This account has no private runtime folder, so programs of this account do not find "
                        "the token of the daemon.",
                        hint="set XDG_RUNTIME_DIR, or give programs the token in the environment variable "
                        "WAYPOST_TOKEN.",
                    )
            # The queue manager has recovered: from here on it can answer clients.
            sockets.listen()
            accepting = partial(tcp.accepting, network)
            servers += [await loop.create_server(accepting, sock=each) for each in sockets.transfer]
            if remote is not None:
                for port, each in sockets.rpc.by_port:
                    accepting = partial(rpc.accepting, RpcListener(remote, port))
                    servers.append(await loop.create_server(accepting, sock=each))
            if web is not None:
                await web.start()
            cycles.start()
            self._announce(shell.driver.node.manager.identity, sockets.endpoints, doors, announce)
            await self._stop.wait()
            systemd.notify("STOPPING=1")
        finally:
            cycles.stop()
            forget_collections()
            late_lines.cancel()
            if late_files is not None:
                late_files.cancel()
            for server in servers:
                server.close()
            resolver.close()
            pings.close()
            if web is not None:
                web.begin_stop()
            shell.tell(network.stop)
            if remote is not None:
                shell.tell(remote.stop)
            shell.driver.end_reads()
            try:
                await asyncio.gather(tcp.drain(), rpc.drain(), *([] if web is None else [web.stop()]))
            finally:
                if announcement is not None:
                    announcement.remove()

    def _web(self, shell: Loop, sockets: "_Sockets", doors: Doors, pump: Pump) -> Web | None:
        if self._make_app is None or sockets.http is None:
            return None
        app = self._make_app(shell, sockets.endpoints, doors.token)
        return Web(app, self._config.http, sockets.http, doors.listener, pump=pump, log=self._log)

    def _announcement(self, sockets: "_Sockets", doors: Doors) -> Announcement | None:
        if sockets.http is None:
            return None
        address, port, *_ = sockets.http.getsockname()
        return Announcement(address, port, doors, self._config.folder)

    def _announce(self, identity: Identity, endpoints: Endpoints, doors: Doors, announce: Announce) -> None:
        name, guid = identity.computer_name, guid_text(identity.identifier)
        local = {"socket": doors.path} if doors.path else {}
        announce({"event": "ready", "name": name, "guid": guid, **endpoints, **local})
        rpc = f", remote readers on {endpoints['rpc']}" if "rpc" in endpoints else ""
        http = f", HTTP on {endpoints['http']}" if "http" in endpoints else ""
        sentence = f"Queue manager {name} accepts messages on {endpoints['transfer']}{rpc}{http}."
        self._log.info("ready", message=sentence, data=self._config.folder)
        systemd.notify("READY=1")

    async def _import_users(self, shell: Loop) -> None:
        """Import the users file once. Afterwards, it may be missing: it contains passwords, and should be deleted."""
        rpc = self._config.rpc
        if not (rpc.enabled and rpc.users_file):
            return
        path = Path(rpc.users_file)
        if path.exists() or not shell.driver.node.users.imported:
            try:
                await import_users(shell, path, self._log)
            except InvalidParameter as error:
                sentence = str(error)
                raise ConfigError(f"{sentence[:1].upper()}{sentence[1:]}.", "check rpc.users_file.") from None
            return
        self._log.warning(
            "users file missing",
            message=f"{path} does not exist. The file was already imported, so the users are in the user store.",
            hint="remove rpc.users_file from the configuration.",
        )

    async def _own_addresses(self, loop: asyncio.AbstractEventLoop) -> frozenset[str]:
        bind = self._config.transfer.bind
        return frozenset({bind}) if bind else await loop.run_in_executor(None, own_addresses)

    def _tell_room(self, room: Room) -> None:
        """Log that the disk is too full for new messages, or has room again."""
        if room.is_low:
            self._log.error("disk nearly full", message=LOW, reason=room.sentence, hint=LOW_HINT)
        else:
            self._log.info("disk has room again", message="The queue manager accepts new messages again.")

    def _tell_trouble(self, trouble: StoreError | None) -> None:
        """Log that the store cannot write, or can again. Until then messages wait in memory."""
        if trouble is None:
            self._log.info("store writes again")
        else:
            self._log.error("store cannot write", reason=trouble)

    def _tell_upgrade(self, done: int, total: int) -> None:
        """Report the progress of an upgrade to the log and to systemd: a large store takes a while."""
        now = time.monotonic()
        if done < total and now < self._upgrade_told + _UPGRADE_SECONDS:
            return
        self._upgrade_told = now
        systemd.notify(f"EXTEND_TIMEOUT_USEC={_PATIENCE_USEC}")
        message = f"Upgrading the store to the current format: {done:,} of {total:,} records copied."
        self._log.info("store upgrade", message=message, data=self._config.folder)

    @staticmethod
    async def _keep(announcement: Announcement) -> None:
        """Write the file in the runtime folder again when it is gone: systems clean /tmp of old files."""
        while True:
            await asyncio.sleep(_KEEP_FILE_SECONDS)
            announcement.write()

    async def _write_late(self) -> None:
        """Write held-back lines of the log when they are due."""
        while True:
            await asyncio.sleep(_LATE_LINES_SECONDS)
            self._log.write_late()

    def _catch_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            # Loops on Windows have no signal handlers: Ctrl-C is a KeyboardInterrupt there.
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: signal.Signals) -> None:
        if not self._stop.is_set():
            self._log.info("stopping", signal=number.name)
        self.stop()

    def _unexpected(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error that only the loop caught."""
        error = context.get("exception")
        if isinstance(error, OSError) and "handle" not in context and "task" not in context:
            # An error of one socket: a connection is lost, not the daemon.
            self._log.warning("socket error", message=context.get("message"), reason=error)
            return
        self._log.exception(
            "unexpected error", error or RuntimeError(str(context.get("message"))), message=context.get("message")
        )  # fmt: skip
        self._fail()

    def _broken(self, error: WaypostError) -> None:
        if not self._stop.is_set():
            self._log.error(
                "queue manager broken",
                reason=error,
                message="The daemon stopped. All confirmed operations are on disk.",
            )
            self._fail()

    def _fail(self) -> None:
        self._exit_code = 1
        self._stop.set()


class _Sockets:
    """The bound sockets of all listeners. Leaving the context closes those that are still open."""

    def __init__(self, config: Config, *, with_http: bool) -> None:
        transfer = config.transfer
        with ExitStack() as undo:
            self.transfer: Final = _kept(undo, stream_sockets(transfer.bind, transfer.port))
            self.http: Final = _kept(undo, stream_sockets(config.http.bind, config.http.port))[0] if with_http else None
            self.ping: Final = (
                _kept(undo, datagram_sockets(transfer.bind, transfer.ping_port)) if transfer.ping else []
            )  # fmt: skip
            self.asking: Final = _kept(undo, datagram_sockets(transfer.bind, 0)) if transfer.ping else []
            # MS-MQDMPR 3.1.1.1: in hardened mode no RPC request is answered.
            has_rpc = config.rpc.enabled and not config.security.hardened
            self.rpc: Final = _rpc_sockets(undo, config) if has_rpc else RpcSockets()
            self._undo: Final = undo.pop_all()
        self.endpoints: Final[Endpoints] = {
            name: endpoint(sockets[0])
            for name, sockets in (
                ("transfer", self.transfer),
                ("ping", self.ping),
                ("rpc", self.rpc.remote_read),
                ("qm2qm", self.rpc.qm2qm),
                ("epm", self.rpc.mapper),
                ("http", [] if self.http is None else [self.http]),
            )
            if sockets
        }

    def listen(self) -> None:
        listen(self.transfer)
        listen(each for _, each in self.rpc.by_port)
        if self.http is not None:
            listen((self.http,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()


def _kept(undo: ExitStack, sockets: list[socket.socket]) -> list[socket.socket]:
    for each in sockets:
        undo.callback(each.close)
    return sockets


def _rpc_sockets(undo: ExitStack, config: Config) -> RpcSockets:
    address, rpc = config.transfer.bind, config.rpc
    return RpcSockets(
        _kept(undo, stepping_sockets(address, rpc.port, PORT_STEP)),
        _kept(undo, stepping_sockets(address, rpc.qm2qm_port, PORT_STEP)),
        _kept(undo, stream_sockets(address, rpc.epm_port)) if rpc.epm else [],
    )


def _without_missing_users(config: Config) -> Config:
    """The configuration without a users file that is missing, as it may be after its import. The level stays."""
    rpc = config.rpc
    if not rpc.users_file or Path(rpc.users_file).exists():
        return config
    without = structs.replace(rpc, users_file="", min_auth_level=rpc.min_auth_level or "privacy")
    return structs.replace(config, rpc=without)


def _settings(config: Config, addresses: frozenset[str], rpc: RpcSockets, logons: Logons) -> Settings:
    return replace(
        manager_settings(config.names.computer or None, config.quotas.machine_kb),
        source_share=config.quotas.source_share,
        addresses=addresses,
        aliases=frozenset(config.names.aliases),
        transfer=config.transfer.settings(),
        routes=parse_routes(config.routing.routes),
        relays=parse_relays(config.routing.relays),
        min_signature=_MIN_SIGNATURES[config.security.min_signature],
        trusts_unsigned_sender=config.security.trust_unsigned_sender,
        hashes=frozenset(HASHES[each] for each in config.security.hashes),
        rejects_short_rc2=config.security.reject_short_rc2,
        hardened_security=config.security.hardened,
        closes_new_queues=config.security.new_queues == "closed",
        machine_security=machine_security(config.security.machine),
        remote=serving(config.rpc, rpc, config.transfer.bind, logons),
    )


_MIN_SIGNATURES: Final = {"msmq10": AuthenticationLevel.NONE, "msmq20": AuthenticationLevel.SIG20}


def _key_settings(security: Security) -> KeySettings:
    return KeySettings(security.key_bits, security.key_passphrase.encode() or None, uses_processes=True)


@contextmanager
def _forwarding(log: Log) -> Iterator[None]:
    """In this context, `logging` writes to the log: warnings of libraries, and information of waypost.http."""
    handler = Forward(log)
    logging.getLogger().addHandler(handler)
    logging.getLogger("waypost.http").setLevel(logging.INFO)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
