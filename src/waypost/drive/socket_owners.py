"""The accounts that own TCP sockets of this computer: from sock_diag(7) or /proc/net/tcp on Linux, unknown elsewhere.

The kernel reports account 0 and inode 0 for a socket that no process has open: one that waits to be accepted, or that
was closed early. So only an established socket with an inode counts.
"""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812, a class
from typing import Final, TypeAlias

_ESTABLISHED: Final = 1
_LISTEN: Final = 10
_TABLES: Final = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_WORD: Final = Struct("=I")

# netlink(7), sock_diag(7): nlmsghdr, inet_diag_req_v2 and inet_diag_msg.
_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_HEADER: Final = Struct("=IHHII")
_REQUEST: Final = Struct("=BBBxI")
_PORTS: Final = Struct(">HH")
_REST_OF_ID: Final = Struct("=III")
_ANSWER: Final = Struct("=BBBB2s2s16s16sIIIIIIII")
_ANY_STATE: Final = 0xFFFF_FFFF
_SECONDS: Final = 2.0

_Address: TypeAlias = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class End:
    """One end of a connection: the address and port of a socket."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class _Entry:
    state: int
    uid: int
    inode: int


def account_of_peer(connection: socket.socket) -> int | None:
    """The account at the other end of an accepted connection between two sockets of this computer.

    None if the system does not say it, or if one of the two ends is not established and open: then nobody can know who
    made the connection. The peer comes first: while this end is established, nobody else can have its address and port.
    """
    if sys.platform != "linux":
        return None
    try:
        own, peer = _end(connection.getsockname()), _end(connection.getpeername())
        inode = os.fstat(connection.fileno()).st_ino
    except (OSError, ValueError):
        return None
    far = _established(peer, own)
    near = _established(own, peer)
    if far is None or near is None or not far.inode or near.inode != inode:
        return None
    return far.uid


def listeners(place: End) -> frozenset[int] | None:
    """The accounts that listen at an address and port. None if the system does not say it.

    A listener of all addresses counts only if the address has none, and one of all addresses of IPv6 for an address of
    IPv4 only if that has none, as for the kernel.
    """
    if sys.platform != "linux":
        return None
    try:
        wanted = _plain(ip_address(place.address.partition("%")[0]))
    except ValueError:
        return None
    places: list[_Address] = [wanted, IPv6Address(0)]
    if wanted.version == 4:
        places.insert(1, IPv4Address(0))
    found: dict[_Address, set[int]] = {each: set() for each in places}
    seen = False
    for version, table in _TABLES.items():
        with suppress(OSError):
            for local, port, entry in _listening(table):
                if port == place.port and (address := _address(local, version)) in found:
                    found[address].add(entry.uid)
            seen = True
    if not seen:
        return None
    return frozenset(next((accounts for accounts in found.values() if accounts), ()))


def owner_of_server(connection: socket.socket) -> int | None:
    """The account that has accepted this connection, which was made here; None as long as nobody has."""
    if sys.platform != "linux":
        return None
    try:
        entry = _established(_end(connection.getpeername()), _end(connection.getsockname()))
    except (OSError, ValueError):
        return None
    return None if entry is None or not entry.inode else entry.uid


def _end(name: object) -> End:
    """Raises ValueError for what is not the name of a socket of TCP."""
    if not isinstance(name, tuple) or len(name) < 2:
        raise ValueError(name)
    return End(str(name[0]).partition("%")[0], int(name[1]))


def _established(local: End, remote: End) -> _Entry | None:
    """The established socket with these two ends."""
    one, other = ip_address(local.address), ip_address(remote.address)
    pairs: list[tuple[_Address, _Address]] = [(one, other)]
    if isinstance(one, IPv4Address) and isinstance(other, IPv4Address):
        # A socket of IPv6 may have addresses of IPv4.
        pairs.append((IPv6Address(f"::ffff:{one}"), IPv6Address(f"::ffff:{other}")))
    elif isinstance(one, IPv6Address) and isinstance(other, IPv6Address) and one.ipv4_mapped and other.ipv4_mapped:
        pairs.append((one.ipv4_mapped, other.ipv4_mapped))
    for here, there in pairs:
        try:
            entry = _by_netlink(here, local.port, there, remote.port)
        except (OSError, StructError):
            entry = _by_table(here, local.port, there, remote.port)
        if entry is not None and entry.state == _ESTABLISHED:
            return entry
    return None


def _by_netlink(here: _Address, port: int, there: _Address, remote_port: int) -> _Entry | None:
    """Ask the kernel for one socket: it need not walk through all. Raises OSError if it has no such service."""
    family = socket.AF_INET if here.version == 4 else socket.AF_INET6
    ends = (_PORTS.pack(port, remote_port), here.packed.ljust(16, b"\0"), there.packed.ljust(16, b"\0"))
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ANY_STATE) + b"".join(ends)
    body += _REST_OF_ID.pack(0, 0xFFFF_FFFF, 0xFFFF_FFFF)
    request = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
        kernel.settimeout(_SECONDS)
        kernel.bind((0, 0))
        kernel.send(request)
        answer = kernel.recv(0x1000)
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY:
        number = -_WORD.unpack_from(answer, _HEADER.size)[0] & 0xFFFF_FFFF
        if number == errno.ENOENT:
            return None
        raise OSError(number, "sock_diag")
    found = _ANSWER.unpack_from(answer, _HEADER.size)
    if (found[4] + found[5], found[6], found[7]) != ends:
        # A listener takes what has no other socket.
        return None
    return _Entry(found[1], found[14], found[15])


def _by_table(here: _Address, port: int, there: _Address, remote_port: int) -> _Entry | None:
    needle = f": {_text(here)}:{port:04X} {_text(there)}:{remote_port:04X} "
    try:
        text = _TABLES[here.version].read_text(encoding="ascii")
    except OSError:
        return None
    at = text.find(needle)
    return None if at < 0 else _entry(text[at : text.find("\n", at)].split())


def _listening(table: Path) -> Iterator[tuple[str, int, _Entry]]:
    for line in table.read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        entry = _entry(fields)
        if entry.state == _LISTEN:
            address, _, port = fields[1].partition(":")
            yield address, int(port, 16), entry


def _entry(fields: list[str]) -> _Entry:
    return _Entry(int(fields[3], 16), int(fields[7]), int(fields[9]))


def _text(address: _Address) -> str:
    """As /proc/net/tcp has it: words of 32 bits in the order of this computer."""
    return "".join(f"{word:08X}" for (word,) in _WORD.iter_unpack(address.packed))


def _address(text: str, version: int) -> _Address:
    packed = b"".join(_WORD.pack(int(text[at : at + 8], 16)) for at in range(0, len(text), 8))
    if version == 4:
        return IPv4Address(packed)
    return _plain(IPv6Address(packed))


def _plain(address: _Address) -> _Address:
    """An address of IPv4 also in the form that IPv6 has for it."""
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
