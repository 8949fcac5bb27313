"""The ports of remote reading, with a daemon in a separate process: MS-MQRR 2.1, 3.1.3 and MS-MQQP 2.1, 3.1.3."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.crash.daemons import HTTP_PORT, TRANSFER_PORT, Daemon, loopback
from tests.crash.remote_reader import QM2QM_PORT, RPC_PORT, RpcClient
from waypost.remote.interfaces.qm2qm import QM2QM, GetServerPortRequest
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.rpc.endpoint_lookup import EPT_MAP, map_request, mapped_port
from waypost.rpc.endpoint_mapper_interface import EPMAPPER, EptLookupRequest
from waypost.rpc.interface import Empty, Interface

# Port 135 is not for every user.
MAPPER_PORT: Final = 13500
WITH_MAPPER: Final = ("rpc.epm=true", f"rpc.epm_port={MAPPER_PORT}")

# MS-MQQP 3.1.4.8 dwPortType: IP_HANDSHAKE and IP_READ.
HANDSHAKE: Final = 0
READ: Final = 1

_LISTENS: Final = "0A"


@contextmanager
def serving(folder: Path, address: str) -> Iterator[Daemon]:
    with Daemon(folder, "alpha", address, *WITH_MAPPER) as daemon:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0


def remote_read_port(address: str, port: int) -> int:
    """The answer of R_GetServerPort at this port."""
    with RpcClient(address, port, REMOTE_READ) as client:
        said: int = client.ask(0, Empty()).port
    return said


def both_ports(address: str, port: int) -> tuple[int, int]:
    """The answer of RemoteQMGetQMQMServerPort at this port: where qmcomm and RemoteRead are, and where qm2qm is."""
    with RpcClient(address, port, QM2QM) as client:
        handshake, read = (client.ask(7, GetServerPortRequest(kind)).port for kind in (HANDSHAKE, READ))
    return handshake, read


def mapped(address: str, *interfaces: Interface) -> list[int]:
    with RpcClient(address, MAPPER_PORT, EPMAPPER) as client:
        return [mapped_port(each, client.ask(EPT_MAP, map_request(each))) for each in interfaces]


def bound_ports(table: str, address: str) -> list[tuple[int, str]]:
    """Ports of an address with their states, from a table of the kernel."""
    number = socket.inet_aton(address)[::-1].hex().upper()
    lines = Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]
    local = [(line.split()[1].partition(":"), line.split()[3]) for line in lines]
    return sorted((int(port, 16), state) for (host, _, port), state in local if host == number)


@pytest.mark.spec("MQRR-2.1-01", "MQRR-3.1.3-01", "MQQP-2.1-01", "MQQP-3.1.3-01")
def test_a_daemon_that_is_ready_serves_remote_readers_over_tcp_and_nothing_else(tmp_path: Path) -> None:
    address = loopback(41)
    with serving(tmp_path, address):
        assert remote_read_port(address, RPC_PORT) == RPC_PORT == 2103
        assert both_ports(address, QM2QM_PORT) == (RPC_PORT, QM2QM_PORT) == (2103, 2105)
        with RpcClient(address, MAPPER_PORT, EPMAPPER) as client:
            entries = client.ask(2, EptLookupRequest()).entries
        # An endpoint is what a tower of ncacn_ip_tcp has.
        endpoints = [entry.tower.endpoint for entry in entries]
        assert {(each.interface.uuid, each.port) for each in endpoints} == {
            (REMOTE_READ.uuid, 2103), (QMCOMM.uuid, 2103), (QM2QM.uuid, 2105),
        }  # fmt: skip
        listening = {port for port, state in bound_ports("tcp", address) if state == _LISTENS}
        assert listening == {TRANSFER_PORT, HTTP_PORT, RPC_PORT, QM2QM_PORT, MAPPER_PORT}
        assert bound_ports("udp", address) == []


@pytest.mark.spec("MQRR-3.1.3-01", "MQRR-3.1.4.1-03", "MQQP-3.1.4.8-06")
@pytest.mark.parametrize("taken", [1, 2])
def test_a_port_that_is_taken_gives_way_to_the_one_11_higher_and_everybody_says_so(tmp_path: Path, taken: int) -> None:
    address = loopback(41)
    others = [
        socket.create_server((address, first + 11 * step)) for first in (RPC_PORT, QM2QM_PORT) for step in range(taken)
    ]
    ours = (2114, 2116) if taken == 1 else (2125, 2127)
    with serving(tmp_path, address):
        for other in others:
            other.close()
        # It stays the same for as long as the daemon runs.
        for _ in range(2):
            assert remote_read_port(address, ours[0]) == ours[0]
            assert both_ports(address, ours[1]) == ours
            assert mapped(address, REMOTE_READ, QMCOMM, QM2QM) == [ours[0], *ours]
    with serving(tmp_path, address):
        assert mapped(address, REMOTE_READ, QM2QM) == [2103, 2105]


@pytest.mark.spec("MQRR-3.1.4.1-03")
def test_only_the_port_that_is_taken_moves(tmp_path: Path) -> None:
    address = loopback(41)
    with socket.create_server((address, RPC_PORT)), serving(tmp_path, address):
        assert remote_read_port(address, 2114) == 2114
        assert both_ports(address, 2105) == (2114, 2105)
