"""The daemon that a client without a token finds, by the files and the listeners of accounts."""

import os
import socket
from pathlib import Path

import pytest

from waypost.client.transports.http import local
from waypost.client.transports.http.local import LocalSearch, NotTheDaemon
from waypost.drive.local_daemons import LocalDaemon

ROOT, ONE, TWO = 0, 1000, 2000
HERE = "127.0.0.1"


class Accounts:
    """Accounts with files of daemons at HERE, and listeners there. `own` is that of the client."""

    def __init__(self, own: int) -> None:
        self.own = own
        self.files: dict[int, LocalDaemon] = {}
        self.listeners: frozenset[int] | None = frozenset()
        self.search = LocalSearch((HERE,), 8181)

    def write(self, account: int, data: str = "/") -> None:
        self.files[account] = LocalDaemon(f"/{account}.sock", f"token{account}", 1, data)

    def listen(self, *accounts: int) -> None:
        self.listeners = frozenset(accounts)

    def found(self) -> tuple[int, str] | None:
        """The account of the daemon, and its socket."""
        way = self.search.way()
        return None if way is None else (way.account, way.daemon.socket)

    def refusal(self) -> str:
        """The reason against TCP."""
        way = self.search.way()
        assert way is not None
        with pytest.raises(NotTheDaemon) as caught:
            way.credentials  # noqa: B018, it raises
        return str(caught.value)


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Accounts:
    accounts = Accounts(getattr(request, "param", ROOT))
    monkeypatch.setattr(local, "own_account", lambda: accounts.own)
    monkeypatch.setattr(local, "find", lambda _, __, account: accounts.files.get(account))
    monkeypatch.setattr(local, "listeners", lambda _: accounts.listeners)
    monkeypatch.setattr(local, "account_name", str)
    return accounts


as_one = pytest.mark.parametrize("accounts", [ONE], indirect=True)


@as_one
def test_an_account_finds_its_own_file_only(accounts: Accounts) -> None:
    accounts.write(ROOT)
    accounts.write(TWO)
    accounts.listen(TWO)
    assert accounts.found() is None
    accounts.write(ONE)
    assert accounts.found() == (ONE, "/1000.sock")
    assert "under the account 2000 uses its port" in accounts.refusal()


def test_root_finds_the_daemon_of_the_account_that_listens(accounts: Accounts) -> None:
    accounts.write(ONE)
    accounts.write(TWO)
    assert accounts.found() is None
    accounts.listen(TWO)
    assert accounts.found() == (TWO, "/2000.sock")
    assert accounts.search.account_for_root() == TWO


@pytest.mark.parametrize("here", [frozenset({ROOT}), frozenset({ROOT, ONE}), frozenset(), None])
def test_root_finds_its_own_daemon_if_nobody_else_is_known_to_listen_alone(
    accounts: Accounts, here: frozenset[int] | None
) -> None:
    accounts.write(ROOT)
    accounts.write(ONE)
    accounts.listeners = here
    assert accounts.found() == (ROOT, "/0.sock")
    assert accounts.search.account_for_root() is None


def test_root_is_led_neither_to_a_listener_in_place_of_its_daemon_nor_to_the_socket_of_that(
    accounts: Accounts,
) -> None:
    accounts.write(ROOT)
    accounts.write(ONE)
    accounts.listen(ONE)
    assert accounts.found() == (ROOT, "")
    assert "under the account 1000 uses its port" in accounts.refusal()


def test_a_file_of_root_without_its_data_folder_is_in_nobodys_way(accounts: Accounts, tmp_path: Path) -> None:
    accounts.write(ROOT, str(tmp_path / "gone"))
    accounts.write(ONE)
    accounts.listen(ONE)
    assert accounts.found() == (ONE, "/1000.sock")


def test_root_learns_the_account_of_a_listener_without_a_file(accounts: Accounts) -> None:
    assert accounts.search.account_for_root() is None
    accounts.listen(ONE)
    assert accounts.found() is None
    assert accounts.search.account_for_root() == ONE
    accounts.listen(ROOT)
    assert accounts.search.account_for_root() is None


@pytest.mark.parametrize("accounts", [ROOT, ONE], indirect=True)
def test_a_client_that_has_reached_a_daemon_keeps_to_its_account(accounts: Accounts) -> None:
    accounts.write(accounts.own)
    accounts.listen(accounts.own)
    way = accounts.search.way()
    assert way is not None
    accounts.search.reached(way)
    del accounts.files[accounts.own]
    accounts.write(TWO)
    accounts.listen(TWO)
    assert accounts.found() == (accounts.own, "")
    assert "under the account 2000 uses its port" in accounts.refusal()
    # Without a secret, there is no more to check before something connects.
    accounts.listen()
    way = accounts.search.way()
    assert way is not None
    assert way.credentials == b""


def test_root_that_has_reached_a_daemon_of_an_account_finds_it_again(accounts: Accounts) -> None:
    accounts.write(ONE)
    accounts.listen(ONE)
    way = accounts.search.way()
    assert way is not None
    accounts.search.reached(way)
    assert accounts.found() == (ONE, "/1000.sock")
    accounts.write(ROOT)
    accounts.listen(ROOT)
    assert accounts.found() == (ROOT, "/0.sock")


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not name the peers of Unix sockets")
@pytest.mark.parametrize(("account", "is_trusted"), [(os.geteuid() if os.name != "nt" else -1, True), (4242, False)])
def test_a_socket_must_be_served_by_the_account_of_its_file(account: int, *, is_trusted: bool) -> None:
    """In the file of another account, one that this account serves is none."""
    near, far = socket.socketpair()
    with near, far:
        way = local.LocalWay(LocalDaemon("/x", "", 1, ""), account, (HERE,), 8181)
        assert way.is_served(near) is is_trusted
