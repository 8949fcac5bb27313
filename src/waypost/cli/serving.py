"""The daemon as the command line starts it: configuration, log, HTTP application and queue manager put together.

It is apart from waypost.cli.serve because only this one command needs all of these libraries.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, TextIO

from waypost.api.excerpt import excerpt
from waypost.cli.backup_limits import backup_limits
from waypost.cli.program import DAMAGED, Failure, Output
from waypost.cli.program_options import warn_of_secret
from waypost.cli.ready import local_url, program_name, ready_line, ready_text
from waypost.client.aio_manager import Manager
from waypost.client.aio_opening import shell_of
from waypost.client.transports.embedded import AioEmbedded
from waypost.client.transports.msmq.access import Access
from waypost.client.transports.msmq.address import HostAddress
from waypost.client.transports.msmq.transport import AioMsmq
from waypost.daemon.config import Config, Rpc, keys
from waypost.daemon.config_page import FLAGS
from waypost.daemon.configured_hosts import logon_hosts
from waypost.daemon.loading import ConfigError, load
from waypost.daemon.logs import Log, standard_log
from waypost.daemon.rpc import is_default
from waypost.daemon.rpc_acceptors import has_kerberos_key
from waypost.daemon.service import Endpoints, run
from waypost.daemon.sockets import CannotListen
from waypost.drive.local_daemons import account_name, own_account
from waypost.drive.loop import Loop
from waypost.errors import AccessDenied, KeyFolderError, StoreDamaged, StoreError, StoreInUse, StoreTooNew, WaypostError
from waypost.http.app import Application, create_app
from waypost.http.doctor import check_users_file
from waypost.http.remote_queues import Connect
from waypost.http.settings import HttpSettings, Listener, RpcAccess
from waypost.node.users import Users

_DAMAGE_HINT: Final = (
    "`waypost store verify --data FOLDER` shows all damage, and `waypost store salvage FOLDER NEW` recovers the "
    "intact records into the new folder NEW."
)


class Damaged(Failure):
    """The store is damaged, or a newer Waypost has written it.

    The exit code keeps systemd from starting it again and again.
    """

    exit_code: ClassVar = DAMAGED


def serve(
    file: Path | None,
    flags: Mapping[str, object],
    settings: Sequence[str],
    *,
    as_json: bool = False,
    with_hints: bool = False,
) -> int:
    """Serve until a signal, and return the exit code. `flags` has the keys of the given options.

    `as_json` and `with_hints` choose the ready message; without them a terminal gets hints and a program gets JSON.
    """
    out = Output()
    _warn_of_secrets(settings)
    is_terminal = sys.stdout.isatty()
    as_json, with_hints = as_json or not is_terminal, with_hints or (is_terminal and not as_json)
    try:
        config = load(file, os.environ, {path: (FLAGS[path], value) for path, value in flags.items()}, settings)
        log = standard_log(config.log.format, config.log.level)
        apps: list[Application] = []

        def make_app(shell: Loop, endpoints: Endpoints, token: str) -> Application:
            apps.append(_app(config, Manager(AioEmbedded(shell, config.folder)), endpoints, token))
            return apps[-1]

        return run(
            config,
            log,
            make_app,
            lambda facts: _ready(config, log, out, facts, apps, as_json=as_json, with_hints=with_hints),
        )
    except ConfigError as error:
        raise Failure(error.sentence, error.hint) from None
    except StoreDamaged as error:
        raise Damaged(f"{error}.", _DAMAGE_HINT) from None
    except StoreTooNew as error:
        raise Damaged(
            f"{error}.", f"start the version of Waypost that wrote the store. If the store is damaged, {_DAMAGE_HINT}"
        ) from None
    except KeyFolderError as error:
        raise Failure(
            f"{error.sentence}.", f"{error.hint or 'check the owner and permissions of the folder'}."
        ) from None
    except WaypostError as error:
        # The first word may be the name of a file, which stays as it is.
        raise Failure(f"{error}.", _hint(error)) from None
    finally:
        _let_go(sys.stdout)
        _let_go(sys.stderr)


def _warn_of_secrets(settings: Sequence[str]) -> None:
    """A secret is a key that a file can hold in its place: KEY_file is another key."""
    known = {key.path: key for key in keys()}
    for each in settings:
        path = each.partition("=")[0].strip().lower()
        if f"{path}_file" in known:
            warn_of_secret(f"--set {path}", f"{path}_file or the variable {known[path].variable}")


def _app(config: Config, manager: Manager, endpoints: Endpoints, token: str) -> Application:
    http = config.http
    settings = HttpSettings(
        token=token,
        metrics_open=http.metrics == "open",
        url=local_url(endpoints["http"], http),
        account=account_name(own_account()) if own_account() >= 0 else "",
        hosts=frozenset(http.hosts),
        max_wait_s=http.max_wait_s,
        transaction_s=http.transaction_s,
        handle_s=http.handle_s,
        tls_cert=http.tls_cert,
        listeners=tuple(_listener(config, name, place) for name, place in endpoints.items()),
        backup=backup_limits(config),
        rpc=_rpc_access(config.rpc, shell_of(manager).driver.node.users),
    )
    return create_app(manager, settings, _connecting(config, manager))


def _rpc_access(rpc: Rpc, users: Users) -> RpcAccess:
    return RpcAccess(
        is_default(rpc),
        rpc.users_file,
        rpc.kerberos,
        count_users=lambda: sum(bool(user.nt_hash) for user in users.all()),
        has_kerberos_key=has_kerberos_key,
    )


def _connecting(config: Config, manager: Manager) -> Connect:
    """The function that connects to the queues of other hosts."""
    remote = config.remote
    trusted = logon_hosts(remote.hosts, config.routing.routes)
    ports = (remote.rpc_port or None, remote.qm2qm_port or None, remote.epm_port or None)

    def connect(host: str) -> AioMsmq:
        if remote.user and host.casefold() not in trusted:
            refused = AccessDenied(
                f"the daemon does not log on to {excerpt(host)} as {remote.user}: the host is not in remote.hosts"
            )
            refused.add_note("add the host to remote.hosts, or to routing.routes if remote.hosts is empty")
            raise refused
        address = HostAddress.of(host, bind=config.transfer.bind, timeout=remote.timeout_s, identifier=manager.guid)
        return AioMsmq(address, Access.of(remote.user or None, remote.password or None, remote.level or None, ports))

    return connect


def _listener(config: Config, name: str, endpoint: str) -> Listener:
    address, _, text = endpoint.rpartition(":")
    port = int(text)
    # The only ones that give way to others.
    wanted = {"rpc": config.rpc.port, "qm2qm": config.rpc.qm2qm_port}.get(name)
    return Listener(name, address.strip("[]"), port, wanted if wanted and wanted != port else None)


def _ready(
    config: Config,
    log: Log,
    out: Output,
    facts: Mapping[str, str],
    apps: Sequence[Application],
    *,
    as_json: bool,
    with_hints: bool,
) -> None:
    if config.rpc.enabled and config.rpc.users_file:
        users = check_users_file(config.rpc.users_file)
        if not users.ok:
            log.warning("users file", message=users.message, hint=users.hint)
    # The reader of stdout may be gone: the daemon serves all the same.
    with suppress(BrokenPipeError, Failure):
        if as_json:
            out.write(ready_line(facts))
            out.flush()
        if with_hints:
            # A code must not end in a log: only a terminal gets it.
            link = apps[0].new_link() if apps and sys.stderr.isatty() else ""
            sys.stderr.write(ready_text(facts, config.http, program_name(sys.argv[0]), link))
            sys.stderr.flush()


def _let_go(stream: TextIO) -> None:
    """Flush a stream; without its reader, Python would end with a different exit code."""
    try:
        stream.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _hint(error: WaypostError) -> str:
    match error:
        case CannotListen():
            return "choose another --bind or port. Port 0 means any free port."
        case StoreInUse():
            return "stop that process, or specify another folder with --data."
        case StoreError():
            return "specify another folder with --data."
        case _:
            return "waypost serve --help shows the usage."
