"""GET /api/doctor: what can be wrong with a daemon and the computer it is on, beside waypost.client.doctor."""

import asyncio
import os
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Final

from waypost.api.status import Check
from waypost.client.doctor import OTHERS, examine_node
from waypost.clock import Now
from waypost.core.position_events import KILOBYTE, PositionEvents
from waypost.core.queues import OutgoingQueue, OutgoingQueueState
from waypost.drive.loop_watch import LoopWatch
from waypost.errors import InvalidParameter
from waypost.guid import guid_text
from waypost.http.doctor_sequences import examine_sequences
from waypost.http.service import Service
from waypost.http.settings import Listener, RpcAccess
from waypost.http.slices import sliced
from waypost.limits import LONG_TURN_SECONDS
from waypost.node.network.ack_queues import Overdue
from waypost.node.network.network import Network
from waypost.rpc.authentication import AuthLevel
from waypost.transfer.believing import Bringer
from waypost.wire.property_values import UNLIMITED

_CONNECT_SECONDS: Final = 1.0
_RESOLVE_SECONDS: Final = 3.0
_SHOWN: Final = 3
# How far back a turn of the loop is told of, and how much work in one is too much.
_TURNS_SECONDS: Final = 600.0
_HELD_UP_SECONDS: Final = 1.0
# A source that was refused is still full if less than this part of its share is free.
_NEARLY: Final = 0.05
# How long a loop of messages is told of after it was last seen.
_LOOP_SECONDS: Final = 3600
# NetBIOS names, which Windows uses for computers, are no longer.
_SHORT_NAME: Final = 15


async def examine(service: Service) -> list[Check]:
    now = Now(time.monotonic(), time.time())
    checks = [*examine_node(service.node, service.path, now), *_turns(service.watch), *_rpc(service)]
    checks += await _network(service)
    checks += examine_sequences(service.node, now)
    if service.node.network is not None:
        checks.append(await _name(service))
    checks += await asyncio.gather(*map(_port, service.settings.listeners))
    return checks


async def _name(service: Service) -> Check:
    identity = service.node.manager.identity
    name = identity.qualified_computer_name
    if _is_loopback(identity.addresses):
        return Check("name", True, f"only this computer can reach this queue manager, so no other has to find {name}")
    found: set[str] = set()
    with suppress(OSError, UnicodeError):
        async with asyncio.timeout(_RESOLVE_SECONDS):
            infos = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
        found = {str(info[4][0]) for info in infos}
    if not found:
        hint = f"give {name} an address in DNS or the hosts files of the others, or let them use DIRECT=TCP: names"
        return Check("name", False, f"{name} has no address, so others cannot find this computer by its name", hint)
    ours = identity.addresses
    if ours and not found & ours:
        sentence = f"{name} leads to {', '.join(sorted(found))}, and this queue manager is at {', '.join(sorted(ours))}"
        return Check("name", False, sentence, "mend DNS, or bind the queue manager to the address of its name")
    if len(identity.computer_name) > _SHORT_NAME:
        hint = f"take a name of at most {_SHORT_NAME} characters with --name, if Windows hosts shall send here"
        return Check("name", False, f"{identity.computer_name} is longer than the names of Windows computers", hint)
    return Check("name", True, f"{name} leads to {', '.join(sorted(found))}")


def _turns(watch: LoopWatch | None) -> Iterator[Check]:
    """What has held up everybody who waited for the loop."""
    if watch is None:
        return
    longest = watch.longest(_TURNS_SECONDS, time.time())
    if longest is None or longest.seconds <= LONG_TURN_SECONDS:
        yield Check("loop", True, "nothing held up the daemon for more than 0.1 s in the last 10 minutes")
        return
    sentence = (
        f"the daemon was held up for {longest.seconds:.2f} s by {longest.what}, the longest time in the last 10 minutes"
    )
    if longest.work_seconds < longest.seconds / 2:
        sentence += f"; it worked for {longest.work_seconds:.2f} s of that, and waited for the disk or the processor"
    total = watch.slow.total()
    sentence += f"; {total} turns took more than 0.1 s since the start"
    if longest.work_seconds < _HELD_UP_SECONDS:
        yield Check("loop", True, sentence)
    else:
        yield Check("loop", False, sentence, "ask for less of it at a time, and report it if it comes again")


async def _network(service: Service) -> list[Check]:
    """Outgoing queues, of which there may be many, are looked at part by part."""
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
    sentence = f"this queue manager is at {', '.join(sorted(addresses))}"
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
        yield Check("outgoing", False, sentence, "ask explain for one of them")
    else:
        yield Check("outgoing", True, "every outgoing queue with messages is connected")
    yield check_sources(service.node.manager.positions)
    yield _acknowledgments(service)


def _acknowledgments(service: Service) -> Check:
    """Those that are kept or were not taken because they came from an address that is not known (ADR 22)."""
    kept, network = service.node.kept_acks, service.node.network
    assert network is not None
    turned_away = list(network.ack_judging.turned_away)[::-1]
    if not kept and not turned_away:
        return Check("acknowledgments", True, "every acknowledgment that came was believed or refused")
    sentences = []
    if kept:
        count = "1 acknowledgment is" if len(kept) == 1 else f"{len(kept)} acknowledgments are"
        senders = list(dict.fromkeys(ack.bringer for ack in kept))
        sentences.append(f"{count} kept, because a queue manager was not expected at its address: {_bringers(senders)}")
    if turned_away:
        sentences.append(
            f"there was no place for those of {_bringers(turned_away)}, which held up what else these hosts send here"
        )
    bringer = turned_away[0] if turned_away else next(iter(kept)).bringer
    command = f"waypost sequence admit {guid_text(bringer.guid)} {bringer.address}"
    hint = f"if it is really there: {command}; else they are a stranger's, and do no harm"
    return Check("acknowledgments", False, "; ".join(sentences), hint)


def _bringers(bringers: list[Bringer]) -> str:
    shown = ", ".join(f"{guid_text(each.guid)} at {each.address}" for each in bringers[:_SHOWN])
    return f"{shown} and {len(bringers) - _SHOWN} more" if len(bringers) > _SHOWN else shown


def check_sources(positions: PositionEvents) -> Check:
    """Whether messages of one address take its share of the quota."""
    sources = positions.sources
    quota = positions.quota * KILOBYTE
    full = [
        source
        for source in sources.refused
        if positions.quota != UNLIMITED and not sources.fits(source, quota, int(quota * _NEARLY * sources.share))
    ]
    if not full:
        return Check("sources", True, "no address takes its whole share of the quota for messages")
    told = ", ".join(f"{source} ({sources.bytes_of(source) >> 10} KB)" for source in full[-_SHOWN:])
    sentence = f"messages from {told} take {sources.share:.0%} of the machine quota, so more of them are refused"
    return Check("sources", False, sentence, "receive or purge them, or change quotas.source_share or machine_kb")


def _rpc(service: Service) -> Iterator[Check]:
    remote, access = service.node.remote, service.settings.rpc
    if remote is None:
        return
    yield _access(access, remote.settings.min_auth_level)
    if access.users_file:
        yield check_users(access)
    if access.kerberos:
        yield _kerberos(access)


def _access(access: RpcAccess, level: AuthLevel) -> Check:
    if access.is_loopback_only:
        sentence = "only programs of this computer may read over RPC; rpc.users_file or rpc.kerberos opens it to others"
    elif level is AuthLevel.NONE:
        sentence = "whoever reaches the ports may read over RPC, without saying who it is, what Everyone may read"
    elif not _has_users(access) and not access.has_kerberos_key():
        sentence = "who reads over RPC has to log on, and nobody can: there are neither users nor a key for Kerberos"
        return Check("rpc", False, sentence, "add users to the file of rpc.users_file, or give Kerberos a keytab")
    else:
        sentence = f"who reads over RPC has to log on, with calls protected at the level {level.name.lower()} or better"
    return Check("rpc", True, sentence)


def _has_users(access: RpcAccess) -> bool:
    try:
        return bool(access.users_file and access.count_users())
    except InvalidParameter:
        return False


def _kerberos(access: RpcAccess) -> Check:
    if access.has_kerberos_key():
        return Check("kerberos", True, "this computer has a key for Kerberos")
    sentence = "rpc.kerberos is true, and this computer has no key for Kerberos that can be used"
    return Check("kerberos", False, sentence, "put host/NAME@REALM into a keytab, and name the file in KRB5_KTNAME")


def check_users(access: RpcAccess) -> Check:
    """The file of those who log on by NTLM."""
    path = access.users_file
    try:
        count = access.count_users()
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except (InvalidParameter, OSError) as error:
        return Check("users", False, str(error), "mend the file of rpc.users_file: until then nobody logs on by NTLM")
    if mode & OTHERS:
        sentence = f"everybody on this computer can open {path}, which has passwords (mode {mode:04o})"
        return Check("users", False, sentence, f"chmod o-rwx {path}")
    if not count:
        return Check("users", False, f"nobody is in {path}", "add lines DOMAIN:user:password; no restart is needed")
    return Check("users", True, f"{count} users can log on by NTLM, and only the owner and group of {path} can open it")


def _is_loopback(addresses: Iterable[str]) -> bool:
    return all(ip_address(address.partition("%")[0]).is_loopback for address in addresses)


def _identifier(network: Network) -> Check:
    if not network.twins:
        return Check("identifier", True, "no other queue manager was seen with the identifier of this one")
    sentence = f"a queue manager with the identifier of this one is at {', '.join(network.twins)}"
    hint = (
        "one of them is a copy: stop it, and make its data folder of a backup of the other one with `waypost store "
        "restore BACKUP DATA --new-identity`, or start it on an empty data folder"
    )
    return Check("identifier", False, sentence, hint)


def _unverified(service: Service) -> Check:
    """Signed and encrypted messages, which nothing verifies or decrypts yet."""
    network = service.node.network
    assert network is not None
    refused = network.refused_sources
    if network.delivers_unverified:
        sentence = "signed and encrypted messages are delivered as they came, not verified (security.unverified)"
        return Check("unverified", True, sentence)
    if not refused.count:
        return Check("unverified", True, "no message was refused for a signature or an encryption")
    sources = sorted(refused.by_guid.items(), key=lambda each: -each[1].count)
    shown = [f"{source.count} of {guid_text(guid)} at {source.peer}" for guid, source in sources[:_SHOWN]]
    rest = refused.count - sum(source.count for _, source in sources[:_SHOWN])
    if rest:
        shown.append(f"{rest} of others")
    few = refused.count == 1
    count = f"{refused.count} signed or encrypted {'message was' if few else 'messages were'}"
    hint = (
        'security.unverified = "deliver" delivers them without verification, except to queues that demand '
        "authentication or encryption; or let these hosts send without"
    )
    return Check("unverified", False, f"{count} refused since the start: {', '.join(shown)}", hint)


def _acks(overdue: list[Overdue]) -> Check:
    """Acknowledgments of transactional messages whose senders do not fetch them."""
    if not overdue:
        sentence = "no acknowledgment waits for a host that was not met for 7 days"
        return Check("waiting acknowledgments", True, sentence)
    count = sum(each.count for each in overdue)
    days = max(each.seconds for each in overdue) // 86_400
    names = ", ".join(str(each.queue) for each in overdue[:_SHOWN])
    waits = "1 acknowledgment waits" if count == 1 else f"{count} acknowledgments wait"
    sentence = f"{waits} for hosts that were not met for up to {days} days: {names}"
    hint = (
        "bring the hosts back; for one that has moved, admit its old and its new address: waypost sequence admit GUID "
        "ADDRESS; or give up the acknowledgments: waypost queue purge NAME --outgoing"
    )
    return Check("waiting acknowledgments", False, sentence, hint)


def _strangers(network: Network) -> Check:
    """What messages of others have made this computer do for their acknowledgments, since its start."""
    counts = network.statistics
    sentence = f"{counts.dials_for_strangers} connections were tried for acknowledgments that messages of others want"
    if counts.messages_refused_for_acks:
        sentence += f"; {counts.messages_refused_for_acks} messages were not taken from senders that do not fetch them"
    if not counts.acks_refused:
        return Check("strangers", True, sentence)
    sentence += f"; {counts.acks_refused} acknowledgments were not sent, the last was {network.admin_acks.last_refusal}"
    if counts.acks_refused == network.admin_acks.not_allowed:
        return Check("strangers", True, sentence)
    return Check("strangers", False, sentence, "see whether the hosts are there that the sender names, or refuse them")


def _loops(network: Network) -> Check:
    loops = list(network.loops.since(time.time() - _LOOP_SECONDS))
    if not loops:
        return Check("routes", True, "no message came back to this queue manager in the last hour")
    sentence = f"messages come back by the routes of others: {'; '.join(map(str, loops[:_SHOWN]))}"
    return Check("routes", False, sentence, "mend the route to the destination on the host that brings them back")


async def _port(listener: Listener) -> Check:
    where = f"{listener.address}:{listener.port}"
    if listener.name == "ping":
        return Check(f"port {listener.name}", True, f"{where} is a UDP port, which cannot be tried from here")
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.address, listener.address)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(address, listener.port)
    except OSError as error:
        hint = "look whether a firewall or another program has the port"
        return Check(
            f"port {listener.name}", False, f"{where} cannot be reached: {error.strerror or 'no answer'}", hint
        )
    writer.close()
    taken = "" if listener.wanted is None else f" ({listener.wanted} was taken)"
    return Check(f"port {listener.name}", True, f"{where} answers{taken}")
