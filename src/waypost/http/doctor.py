"""GET /api/doctor: checks of a daemon and its computer, in addition to those of waypost.client.doctor."""

import asyncio
import os
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509

from waypost.api.status import Check
from waypost.client.doctor import OTHERS, examine_node
from waypost.client.doctor_queues import look_at, queue_checks, queues_to_look_at
from waypost.clock import Now
from waypost.core.position_events import KILOBYTE, PositionEvents
from waypost.core.queues import OutgoingQueue, OutgoingQueueState
from waypost.drive.loop_watch import LoopWatch
from waypost.guid import guid_text
from waypost.http.doctor_sequences import examine_sequences
from waypost.http.service import Service
from waypost.http.settings import HttpSettings, Listener, RpcAccess
from waypost.http.slices import sliced
from waypost.limits import LIST_PART, LONG_TURN_SECONDS
from waypost.node.network.ack_queues import Overdue
from waypost.node.network.network import Network
from waypost.rpc.authentication import AuthLevel
from waypost.security.callers import Role
from waypost.transfer.believing import Bringer
from waypost.wire.property_values import UNLIMITED

_CONNECT_SECONDS: Final = 1.0
_RESOLVE_SECONDS: Final = 3.0
_SHOWN: Final = 3
# Age up to which a turn of the loop is reported, and the work in one turn that is too much.
_TURNS_SECONDS: Final = 600.0
_HELD_UP_SECONDS: Final = 1.0
# A refused source still counts as full if less than this part of its share is free.
_NEARLY: Final = 0.05
# Time that a loop of messages is reported after it was last seen.
_LOOP_SECONDS: Final = 3600
# The maximum length of NetBIOS names, which Windows uses for computers.
_SHORT_NAME: Final = 15
# Days before the end of a certificate in which it should be renewed.
_CERTIFICATE_DAYS: Final = 21
# Queues whose first messages are read before others have their turn.
_QUEUES_PART: Final = LIST_PART // 5


def check_access(settings: HttpSettings, *, has_users: bool) -> Check:
    """Check for open access to the HTTP API."""
    if settings.token:
        return Check(
            "access",
            True,
            "access to the HTTP API requires the token of the daemon, the Unix socket of the daemon, "
            "or a browser session",
        )
    if has_users:
        sentence = "access to the HTTP API requires a token or password of a user, or the Unix socket of the daemon"
        return Check("access", True, f"{sentence}; http.access is open, but has no effect while users exist")
    sentence = "every program and account on this computer has full control of the queue manager (http.access is open)"
    return Check("access", True, sentence)


async def examine(service: Service) -> list[Check]:
    now = Now(time.monotonic(), time.time())
    checks = [*examine_node(service.node, service.path, now), *_turns(service.watch), *_rpc(service)]
    checks.append(check_access(service.settings, has_users=service.logins.has_users))
    checks.append(_users(service))
    checks += await _network(service)
    checks += examine_sequences(service.node, now)
    checks += await _queues(service)
    if service.settings.tls_cert:
        checks.append(check_certificate(service.settings.tls_cert, now.wall))
    if service.node.network is not None:
        checks.append(await _name(service))
    checks += await asyncio.gather(*map(_port, service.settings.listeners))
    return checks


async def _queues(service: Service) -> Iterator[Check]:
    """Queues, of which there may be many, are looked at part by part."""
    node = service.node
    found = await sliced(partial(look_at, node, time.time()), queues_to_look_at(node), _QUEUES_PART)
    return queue_checks(node, found)


def check_certificate(path: str, now: float) -> Check:
    """The certificate of HTTP in this file, at this time since 1970."""
    try:
        first = x509.load_pem_x509_certificates(Path(path).read_bytes())[0]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the file is not a certificate in PEM"
        sentence = f"cannot read the file of http.tls_cert, {path}: {reason}"
        return Check("certificate", False, sentence, "restore the certificate file, or change http.tls_cert")
    end = first.not_valid_after_utc
    days = int((end.timestamp() - now) // 86_400)
    hint = f"put a new certificate into {path} and its key into the file in http.tls_key, and restart the daemon"
    if days < 0:
        return Check("certificate", False, f"the HTTP certificate expired at {end:%Y-%m-%d %H:%M} UTC", hint)
    sentence = f"the HTTP certificate expires at {end:%Y-%m-%d %H:%M} UTC, in {days} days"
    if days < _CERTIFICATE_DAYS:
        return Check("certificate", False, sentence, hint)
    return Check("certificate", True, sentence)


async def _name(service: Service) -> Check:
    identity = service.node.manager.identity
    name = identity.qualified_computer_name
    if _is_loopback(identity.addresses):
        return Check(
            "name",
            True,
            f"only this computer can reach this queue manager, so other computers do not need the name {name}",
        )
    found: set[str] = set()
    with suppress(OSError, UnicodeError):
        async with asyncio.timeout(_RESOLVE_SECONDS):
            infos = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
        found = {str(info[4][0]) for info in infos}
    if not found:
        hint = (
            f"add {name} to DNS or to the hosts files of other computers, or use DIRECT=TCP: names on these computers"
        )
        return Check(
            "name",
            False,
            f"{name} does not resolve to an address, so other computers cannot find this computer by name",
            hint,
        )
    ours = identity.addresses
    if ours and not found & ours:
        sentence = (
            f"{name} resolves to {', '.join(sorted(found))}, but the queue manager uses the address "
            f"{', '.join(sorted(ours))}"
        )
        return Check(
            "name", False, sentence, "correct DNS, or bind the queue manager to the address that its name resolves to"
        )
    if len(identity.computer_name) > _SHORT_NAME:
        hint = f"set a name of at most {_SHORT_NAME} characters with --name, if Windows hosts send messages here"
        sentence = f"{identity.computer_name} is longer than Windows allows ({_SHORT_NAME} characters)"
        return Check("name", False, sentence, hint)
    return Check("name", True, f"{name} resolves to {', '.join(sorted(found))}")


def _turns(watch: LoopWatch | None) -> Iterator[Check]:
    """The longest turn of the loop, which all clients had to wait for."""
    if watch is None:
        return
    longest = watch.longest(_TURNS_SECONDS, time.time())
    if longest is None or longest.seconds <= LONG_TURN_SECONDS:
        yield Check("loop", True, "in the last 10 minutes, no task blocked the daemon for more than 0.1 s")
        return
    sentence = (
        f"the daemon was busy with {longest.what} for {longest.seconds:.2f} s, the longest time in the last 10 minutes"
    )
    if longest.work_seconds < longest.seconds / 2:
        sentence += (
            f"; {longest.work_seconds:.2f} s of this was working time, and the rest was waiting for the disk or the "
            "processor"
        )
    total = watch.slow.total()
    sentence += f"; since the start, {total} tasks blocked the daemon for more than 0.1 s"
    if longest.work_seconds < _HELD_UP_SECONDS:
        yield Check("loop", True, sentence)
    else:
        yield Check("loop", False, sentence, "use smaller requests of this kind; if the problem persists, report a bug")


async def _network(service: Service) -> list[Check]:
    """Checks of the network. Outgoing queues may be many, and are examined part by part."""
    network = service.node.network
    if network is None:
        return []
    outgoing = tuple(service.node.manager.collection.outgoing.values())
    overdue = await sliced(partial(network.ack_queues.overdue, time.time()), outgoing)
    stuck = await sliced(_stuck, outgoing)
    return list(_network_checks(service, network, overdue, stuck))


def _stuck(queues: Iterable[OutgoingQueue]) -> Iterator[OutgoingQueue]:
    for queue in queues:
        if not queue.is_deleted and len(queue.positions) and queue.state is not OutgoingQueueState.CONNECTED:
            yield queue


def _network_checks(
    service: Service, network: Network, overdue: list[Overdue], stuck: list[OutgoingQueue]
) -> Iterator[Check]:
    addresses = service.node.manager.identity.addresses
    sentence = f"this queue manager has the addresses {', '.join(sorted(addresses))}"
    if _is_loopback(addresses):
        sentence = "only this computer can reach this queue manager; --bind ADDRESS opens it to a network"
    yield Check("addresses", True, sentence)
    yield _identifier(network)
    yield _unverified(service)
    yield _acks(overdue)
    yield _strangers(network)
    yield _loops(network)
    if stuck:
        names = ", ".join(str(queue) for queue in stuck[:_SHOWN])
        count = "1 outgoing queue has" if len(stuck) == 1 else f"{len(stuck)} outgoing queues have"
        sentence = f"{count} messages and no connection: {names}"
        yield Check("outgoing", False, sentence, "`waypost explain QUEUE` shows why a queue is not connected")
    else:
        yield Check("outgoing", True, "every outgoing queue with messages is connected")
    yield check_sources(service.node.manager.positions)
    yield _acknowledgments(service)


def _acknowledgments(service: Service) -> Check:
    """Acknowledgments that were kept or refused because they came from an unknown address (ADR 22)."""
    kept, network = service.node.kept_acks, service.node.network
    assert network is not None
    turned_away = list(network.ack_judging.turned_away)[::-1]
    if not kept and not turned_away:
        return Check("acknowledgments", True, "no acknowledgments from unknown addresses are stored")
    sentences = []
    if kept:
        count = (
            "1 acknowledgment from an unknown address is"
            if len(kept) == 1
            else f"{len(kept)} acknowledgments from unknown addresses are"
        )
        senders = list(dict.fromkeys(ack.bringer for ack in kept))
        sentences.append(f"{count} stored, but not applied: {_bringers(senders)}")
    if turned_away:
        sentences.append(
            "acknowledgments from unknown addresses were refused because too many are stored; the refusals delay other "
            f"messages from these hosts: {_bringers(turned_away)}"
        )
    bringer = turned_away[0] if turned_away else next(iter(kept)).bringer
    command = f"waypost sequence admit {guid_text(bringer.guid)} {bringer.address}"
    hint = (
        f"if the address belongs to the queue manager, run: {command}; otherwise ignore the acknowledgments, because "
        "another host sent them"
    )
    return Check("acknowledgments", False, "; ".join(sentences), hint)


def _bringers(bringers: list[Bringer]) -> str:
    shown = ", ".join(f"{guid_text(each.guid)} at {each.address}" for each in bringers[:_SHOWN])
    return f"{shown} and {len(bringers) - _SHOWN} more" if len(bringers) > _SHOWN else shown


def check_sources(positions: PositionEvents) -> Check:
    """Check whether messages of one address use its whole share of the quota."""
    sources = positions.sources
    quota = positions.quota * KILOBYTE
    full = [
        source
        for source in sources.refused
        if positions.quota != UNLIMITED and not sources.fits(source, quota, int(quota * _NEARLY * sources.share))
    ]
    if not full:
        return Check("sources", True, "no address uses its full share of the machine quota")
    told = ", ".join(f"{source} ({sources.bytes_of(source) >> 10} KB)" for source in full[-_SHOWN:])
    sentence = (
        f"messages from {told} use {sources.share:.0%} of the machine quota, so further messages from the same address "
        "are refused"
    )
    return Check(
        "sources",
        False,
        sentence,
        "receive or purge these messages, or change quotas.source_share or quotas.machine_kb",
    )


def _rpc(service: Service) -> Iterator[Check]:
    remote, access = service.node.remote, service.settings.rpc
    if remote is None:
        return
    yield _access(access, remote.settings.min_auth_level)
    if access.users_file:
        yield check_users_file(access.users_file)
    if access.kerberos:
        yield _kerberos(access)


def _access(access: RpcAccess, level: AuthLevel) -> Check:
    if access.is_default and level is AuthLevel.NONE:
        sentence = (
            "only programs on this computer that run as the account of the daemon or as root may read over RPC; to "
            "allow others, add users with `waypost user add NAME --ntlm`, or set rpc.kerberos"
        )
    elif level is AuthLevel.NONE:
        sentence = (
            "every host that can connect to the RPC ports may read without authentication, with the rights of Everyone"
        )
    elif access.is_default and not _has_users(access) and not access.has_kerberos_key():
        sentence = (
            "nobody may read over RPC: remote readers must authenticate, and no user may log on with NTLM; to allow "
            "remote readers, add users with `waypost user add NAME --ntlm`, or set rpc.kerberos"
        )
    elif not _has_users(access) and not access.has_kerberos_key():
        sentence = "remote readers must authenticate, but RPC has neither users nor a Kerberos key"
        hint = "add users with `waypost user add NAME --ntlm`, or configure a Kerberos keytab"
        return Check("rpc", False, sentence, hint)
    else:
        sentence = f"remote readers must authenticate, with the protection level {level.name.lower()} or higher"
    return Check("rpc", True, sentence)


def _has_users(access: RpcAccess) -> bool:
    return access.count_users() > 0


def _kerberos(access: RpcAccess) -> Check:
    if access.has_kerberos_key():
        return Check("kerberos", True, "this computer has a Kerberos key")
    sentence = "rpc.kerberos is true, but this computer has no usable Kerberos key"
    return Check("kerberos", False, sentence, "add host/NAME@REALM to a keytab, and set KRB5_KTNAME to the file")


def _users(service: Service) -> Check:
    """Say who gets in."""
    users = service.node.users.all()
    if not users:
        sentence = "single-user mode: only the account of the daemon, root and programs with the token have access"
        if service.logins.is_open:
            sentence = "single-user mode without a token: every program that reaches the HTTP port is an administrator"
        return Check("users", True, sentence)
    admins = sum(Role(user.role) is Role.ADMIN for user in users)
    logons = sum(bool(user.nt_hash) for user in users)
    count = f"{len(users)} user" if len(users) == 1 else f"{len(users)} users"
    return Check("users", True, f"{count}: {admins} with the role admin, {logons} may log on with NTLM")


def check_users_file(path: str) -> Check:
    """Check the file of users that was imported: it contains passwords."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError as error:
        return Check(
            "users file", True, f"rpc.users_file is no longer needed, and {path} is not accessible: {error.strerror}"
        )
    if mode & OTHERS:
        sentence = f"every user on this computer can open {path}, which contains passwords (mode {mode:04o})"
        return Check("users file", False, sentence, f"chmod o-rwx {path}")
    sentence = f"the users of {path} are imported; the file contains passwords, and is not needed any more"
    return Check("users file", True, sentence)


def _is_loopback(addresses: Iterable[str]) -> bool:
    return all(ip_address(address.partition("%")[0]).is_loopback for address in addresses)


def _identifier(network: Network) -> Check:
    if not network.twins:
        return Check("identifier", True, "no other queue manager with the same GUID was found")
    sentence = f"another queue manager with the same GUID is at {', '.join(network.twins)}"
    hint = (
        "one of these queue managers is a copy: stop the copy, and start it again with another data folder, which is "
        "either empty or restored from a backup of the original with `waypost store restore BACKUP DATA --new-identity`"
    )
    return Check("identifier", False, sentence, hint)


def _unverified(service: Service) -> Check:
    """Check for messages that were refused for their signature or encryption."""
    network = service.node.network
    assert network is not None
    refused = network.refused_sources
    if not refused.count:
        return Check("unverified", True, "no message was refused because of its signature or encryption")
    sources = sorted(refused.by_guid.items(), key=lambda each: -each[1].count)
    shown = [f"{source.count} from {guid_text(guid)} at {source.peer}" for guid, source in sources[:_SHOWN]]
    rest = refused.count - sum(source.count for _, source in sources[:_SHOWN])
    if rest:
        shown.append(f"{rest} from other senders")
    count = f"{refused.count} {'message was' if refused.count == 1 else 'messages were'}"
    problems = ((name, last) for name, last in service.node.access.last_refusals.items() if last.problem)
    last = next(reversed([f"; the last one, for {name}: {each.problem}" for name, each in problems]), "")
    hint = (
        "`waypost explain QUEUE` and the log events `message rejected` show the reasons; register the certificates of "
        "these senders with `waypost cert register`, and give them the exchange key of this queue manager "
        "(`waypost key export`)"
    )
    sentence = f"{count} refused since the start because of the signature or the encryption: {', '.join(shown)}{last}"
    return Check("unverified", False, sentence, hint)


def _acks(overdue: list[Overdue]) -> Check:
    """Check for acknowledgments of transactional messages that their senders do not fetch."""
    if not overdue:
        sentence = "no acknowledgment waits for a host that was last seen more than 7 days ago"
        return Check("waiting acknowledgments", True, sentence)
    count = sum(each.count for each in overdue)
    days = max(each.seconds for each in overdue) // 86_400
    names = ", ".join(str(each.queue) for each in overdue[:_SHOWN])
    waits = "1 acknowledgment waits" if count == 1 else f"{count} acknowledgments wait"
    sentence = f"{waits} for hosts that were last seen up to {days} days ago: {names}"
    hint = (
        "start these hosts again. If a host has a new address, admit both the old and the new address with `waypost "
        "sequence admit GUID ADDRESS`. To delete the acknowledgments, run `waypost queue purge NAME --outgoing`"
    )
    return Check("waiting acknowledgments", False, sentence, hint)


def _strangers(network: Network) -> Check:
    """Check the work that messages of others caused for their acknowledgments, since the start."""
    counts = network.statistics
    sentence = (
        f"the daemon tried to open {counts.dials_for_strangers} connections to send acknowledgments that other hosts "
        "requested"
    )
    if counts.messages_refused_for_acks:
        sentence += (
            f"; {counts.messages_refused_for_acks} messages were refused because their senders do not accept "
            "acknowledgments"
        )
    if not counts.acks_refused:
        return Check("strangers", True, sentence)
    sentence += (
        f"; {counts.acks_refused} acknowledgments were not sent: the last one was {network.admin_acks.last_refusal}"
    )
    if counts.acks_refused == network.admin_acks.not_allowed:
        return Check("strangers", True, sentence)
    return Check(
        "strangers",
        False,
        sentence,
        "check the hosts in the administration queues of these messages, or exclude the hosts with transfer.ack_hosts",
    )


def _loops(network: Network) -> Check:
    loops = list(network.loops.since(time.time() - _LOOP_SECONDS))
    if not loops:
        return Check("routes", True, "no message came back to this queue manager in the last hour")
    sentence = f"messages come back because of wrong routes on other hosts: {'; '.join(map(str, loops[:_SHOWN]))}"
    return Check(
        "routes", False, sentence, "correct the route to the destination on the host that sends the messages back"
    )


async def _port(listener: Listener) -> Check:
    where = f"{listener.address}:{listener.port}"
    if listener.name == "ping":
        return Check(f"port {listener.name}", True, f"{where} is a UDP port, which this check skips")
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.address, listener.address)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(address, listener.port)
    except OSError as error:
        hint = "check whether a firewall blocks the port, or another program uses it"
        return Check(f"port {listener.name}", False, f"cannot reach {where}: {error.strerror or 'no answer'}", hint)
    writer.close()
    taken = "" if listener.wanted is None else f" ({listener.wanted} was in use)"
    return Check(f"port {listener.name}", True, f"{where} answers{taken}")
