"""The way to a daemon of this computer without a token from a person: its Unix socket, or TCP with its token.

Any account may listen on a port that is free, so neither is trusted blindly. A socket must be served by the account
whose file named it, and a token that was found goes only to a listener of that account or of root. Root finds its own
daemon, and else the daemons of all accounts, by the account that listens at the address.
"""

import os
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from waypost.drive.local_daemons import LocalDaemon, account_name, find, own_account
from waypost.drive.socket_owners import End, listeners, owner_of_server

_ROOT: Final = 0
_LOCALHOST: Final = ("127.0.0.1", "::1")
_CREDENTIALS: Final = 12
# A daemon without a file.
_UNKNOWN: Final = LocalDaemon("", "", 0, "")


class NotTheDaemon(Exception):
    """Another account listens where the daemon should. Its text is a reason for people."""


@dataclass(frozen=True, slots=True)
class LocalWay:
    """The way to a daemon that `account` runs, found for a client of this computer."""

    daemon: LocalDaemon
    account: int
    addresses: tuple[str, ...]
    port: int

    def new_socket(self) -> socket.socket | None:
        """A socket to connect to `daemon.socket`; None if there is none."""
        if not self.daemon.socket or not hasattr(socket, "AF_UNIX"):
            return None
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def connect(self, timeout: float) -> socket.socket | None:
        """A connection to the Unix socket of the daemon; None if nobody, or somebody else, serves it."""
        connection = self.new_socket()
        if connection is None:
            return None
        try:
            connection.settimeout(timeout)
            connection.connect(self.daemon.socket)
            if self.is_served(connection):
                return connection
        except OSError:
            pass
        connection.close()
        return None

    def is_served(self, connection: socket.socket) -> bool:
        """Whether a trusted account serves the other end of a Unix socket."""
        if hasattr(socket, "SO_PEERCRED"):
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS)
            owner = int.from_bytes(credentials[4:8], sys.byteorder)
        else:
            # The file belongs to the account that made it.
            owner = os.lstat(self.daemon.socket).st_uid
        return owner in self._trusted

    @property
    def credentials(self) -> bytes:
        """The header line with the token, if any, for TCP. Raises NotTheDaemon before anything connects."""
        for address in self.addresses:
            self._check(listeners(End(address, self.port)), may_be_missing=True)
        return f"Authorization: Bearer {self.daemon.token}\r\n".encode("ascii") if self.daemon.token else b""

    def check(self, connection: socket.socket) -> None:
        """Raise NotTheDaemon unless a trusted account has the other end of a connection of TCP."""
        peer = connection.getpeername()
        self._check(listeners(End(peer[0], peer[1])), may_be_missing=False)
        owner = owner_of_server(connection)
        if owner is not None:
            self._check(frozenset({owner}), may_be_missing=False)

    def _check(self, found: frozenset[int] | None, *, may_be_missing: bool) -> None:
        if found is None:
            if not self.daemon.token:
                # The system does not show the listener, and without a token nothing is secret.
                return
            raise NotTheDaemon("the daemon is not running, or its Unix socket is gone")
        if others := sorted(found - self._trusted):
            account = account_name(others[0])
            raise NotTheDaemon(f"the daemon is not running, and a program under the account {account} uses its port")
        if not found and not may_be_missing:
            raise NotTheDaemon("the daemon is not running")

    @property
    def _trusted(self) -> frozenset[int]:
        """The account, and root. But the file of another account must not lead root to a socket of root."""
        return frozenset({self.account, _ROOT} if self.account == own_account() else {self.account})


def addresses_of(host: str) -> tuple[str, ...]:
    """The loopback addresses that a host of a URL means; empty for a host that is not this computer for sure."""
    if host.lower() == "localhost":
        return _LOCALHOST
    with suppress(ValueError):
        address = ip_address(host)
        if address.is_loopback:
            return (str(address),)
    return ()


class LocalSearch:
    """Looks of one client for its daemon, at the addresses of this computer that its URL means.

    The account of the daemon that the client has reached stays: after that daemon has stopped, any account can listen
    on its port.
    """

    __slots__ = ("_account", "_addresses", "_port")

    def __init__(self, addresses: tuple[str, ...], port: int) -> None:
        self._addresses: Final = addresses
        self._port: Final = port
        self._account: int | None = None

    def way(self) -> LocalWay | None:
        """The way to the daemon as the files are now. None if no account has one that may be used."""
        account = own_account()
        if account < 0:
            return None
        for address in self._addresses:
            found = self._way_of_root(address) if account == _ROOT else self._way(address, account)
            if found is not None:
                return found
        # Without its file, the account alone remains to be checked.
        return None if self._account is None else self._way_to(_UNKNOWN, self._account)

    def reached(self, way: LocalWay) -> None:
        """Note that the way led to its account."""
        self._account = way.account

    def account_for_root(self) -> int | None:
        """The account of the daemon that root reaches; None for its own daemon, for none, and for others than root.

        Any account can serve at a free port, so root should know whose daemon answers.
        """
        if own_account() != _ROOT:
            return None
        way = self.way()
        if way is not None:
            return None if way.account == _ROOT else way.account
        for address in self._addresses:
            for account in sorted(listeners(End(address, self._port)) or ()):
                return None if account == _ROOT else account
        return None

    def _way(self, address: str, account: int) -> LocalWay | None:
        found = find(address, self._port, account)
        return None if found is None else self._way_to(found, account)

    def _way_of_root(self, address: str) -> LocalWay | None:
        """The own daemon of root, and without one that of the account that listens there.

        So no file of another account can lead root astray, also while the own daemon is down. A file whose data folder
        is gone is of no daemon any more.
        """
        own = self._way(address, _ROOT)
        here = listeners(End(address, self._port))
        if own is not None and (not here or _ROOT in here):
            return own
        if own is not None and Path(own.daemon.data).exists():
            # Its daemon does not listen there, so its socket leads elsewhere, or nowhere.
            return self._way_to(replace(own.daemon, socket=""), _ROOT)
        for account in sorted(here or ()):
            if self._account in (None, account) or account == _ROOT:
                found = self._way(address, account)
                if found is not None:
                    return found
        return None

    def _way_to(self, daemon: LocalDaemon, account: int) -> LocalWay:
        return LocalWay(daemon, account, self._addresses, self._port)
