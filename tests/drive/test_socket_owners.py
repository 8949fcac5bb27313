"""The accounts of sockets, as the kernel names them."""

import socket
import struct
import sys
from collections.abc import Callable
from ipaddress import ip_address

import pytest

from waypost.drive import socket_owners
from waypost.drive.local_daemons import own_account
from waypost.drive.socket_owners import End, _Entry, account_of_peer, listeners, owner_of_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the accounts of sockets")


def no_netlink(*_: object) -> None:
    raise OSError


@pytest.fixture(params=["sock_diag", "/proc/net/tcp"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to ask."""
    if request.param != "sock_diag":
        monkeypatch.setattr(socket_owners, "_by_netlink", no_netlink)


def pair(address: str) -> tuple[socket.socket, socket.socket, socket.socket]:
    """A listener, and a connection to it that it has not accepted."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, 0), family=family)
    except OSError as error:
        pytest.skip(f"{address} is not usable: {error}")
    return listener, socket.create_connection(listener.getsockname()[:2]), listener


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_both_ends_know_each_other(address: str) -> None:
    listener, client, _ = pair(address)
    with listener, client:
        assert owner_of_server(client) is None
        accepted, _ = listener.accept()
        with accepted:
            assert account_of_peer(accepted) == owner_of_server(client) == own_account()
            assert account_of_peer(client) == own_account()


@pytest.mark.usefixtures("_way")
def test_a_client_of_ipv6_may_come_over_ipv4() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_INET6) as client:
        try:
            client.connect(("::ffff:127.0.0.1", listener.getsockname()[1]))
        except OSError as error:
            pytest.skip(f"no IPv6: {error}")
        accepted, _ = listener.accept()
        with accepted:
            assert account_of_peer(accepted) == own_account()


def half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("end", [socket.socket.close, half_close, reset])
def test_a_peer_that_has_ended_is_nobody(end: Callable[[socket.socket], None]) -> None:
    listener, client, _ = pair("127.0.0.1")
    with listener, client:
        end(client)
        accepted, _ = listener.accept()
        with accepted:
            assert account_of_peer(accepted) is None


@pytest.mark.usefixtures("_way")
def test_a_socket_that_nobody_has_accepted_is_not_of_root() -> None:
    listener, client, _ = pair("127.0.0.1")
    with listener, client:
        assert owner_of_server(client) is None
        assert account_of_peer(client) is None


def test_a_listener_is_found_at_its_address_before_that_of_all() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert listeners(End("127.0.0.1", port)) == frozenset({own_account()})
        assert listeners(End("127.0.0.2", port)) == frozenset()
    with socket.create_server(("", 0)) as listener:
        assert listeners(End("127.9.9.9", listener.getsockname()[1])) == frozenset({own_account()})
    assert listeners(End("localhost", 1)) is None


def test_a_listener_of_all_addresses_of_ipv4_comes_before_one_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """For an address of IPv4, as the kernel has it; an address of IPv6 never leads to a listener of IPv4."""
    four = [("00000000", 7, _Entry(10, 1000, 1))]
    six = [("0" * 32, 7, _Entry(10, 2000, 2)), ("0" * 32, 8, _Entry(10, 2000, 3))]
    tables = {socket_owners._TABLES[4]: four, socket_owners._TABLES[6]: six}
    monkeypatch.setattr(socket_owners, "_listening", tables.__getitem__)
    for address in ("127.0.0.1", "::ffff:127.0.0.1"):
        assert listeners(End(address, 7)) == frozenset({1000})
        assert listeners(End(address, 8)) == frozenset({2000})
    assert listeners(End("::1", 7)) == frozenset({2000})
    assert listeners(End("127.0.0.1", 9)) == frozenset()


def test_a_listener_alone_is_not_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, here = listener.getsockname()[1], ip_address("127.0.0.1")
        assert socket_owners._by_netlink(here, port, here, 1) is None
        assert socket_owners._by_table(here, port, here, 1) is None
