"""The address of a daemon, with the headers of all requests to it, and the errors if it does not answer."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from waypost.api import defaults
from waypost.api.excerpt import excerpt
from waypost.client.transports.http.exchanges import Exchange
from waypost.client.transports.http.http11 import request_bytes
from waypost.client.transports.http.local import LocalSearch, LocalWay, addresses_of
from waypost.client.transports.http.schema import MESSAGEPACK
from waypost.errors import CannotConnect, ConnectionLost, DecodeError, InvalidParameter

DEFAULT_TIMEOUT: Final = 30.0
# The token of programs on the computer of the daemon, in place of the one that they would find.
_VARIABLE: Final = "WAYPOST_TOKEN"
_PORTS: Final = {"http": 80, "https": 443}
# The status of a request whose sender the daemon does not know.
UNAUTHORIZED: Final = 401


@dataclass(frozen=True, slots=True)
class Address:
    url: str
    host: str
    port: int
    # Prefix of every path, for a proxy.
    prefix: str
    tls: ssl.SSLContext | None
    headers: bytes
    # The looks for a daemon of this computer; None with a token, or elsewhere.
    search: LocalSearch | None
    # Seconds for a connection, and for an answer beyond the time that the daemon waits for a message.
    timeout: float

    @classmethod
    def parse(
        cls, url: str, token: str | None, timeout: float, cacert: str | os.PathLike[str] | None = None
    ) -> "Address":
        """Check the arguments. Raises InvalidParameter for an invalid address, token, time or file of certificates."""
        if not isinstance(timeout, int | float) or not 0 < timeout < 1_000_000:
            raise InvalidParameter(f"`timeout` must be a number of seconds, not {excerpt(timeout)}")
        try:
            parts = urlsplit(url if isinstance(url, str) else "")
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
            raise InvalidParameter(f"the address of a daemon must have the form {defaults.URL}, not {excerpt(url)}")
        prefix = parts.path.rstrip("/")
        netloc = parts.netloc.rpartition("@")[2]
        if not (prefix + netloc).isascii() or any(letter <= " " for letter in prefix + netloc):
            raise InvalidParameter(f"the address of a daemon must be ASCII text without spaces, not {excerpt(url)}")
        here = addresses_of(parts.hostname)
        if token is None and here:
            token = os.environ.get(_VARIABLE) or None
        if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable()):
            raise InvalidParameter("the token must be printable ASCII text")
        headers = f"Host: {netloc}\r\nAccept: {MESSAGEPACK}\r\nContent-Type: {MESSAGEPACK}\r\n"
        if token:
            headers += f"Authorization: Bearer {token}\r\n"
        port = port or _PORTS[parts.scheme]
        return cls(
            url=url,
            host=parts.hostname,
            port=port,
            prefix=prefix,
            tls=_trusting(cacert) if parts.scheme == "https" else None,
            headers=headers.encode("ascii"),
            # A prefix belongs to a proxy.
            search=None if token or prefix or not here else LocalSearch(here, port),
            timeout=timeout,
        )

    def request(self, exchange: Exchange, credentials: bytes = b"") -> bytes:
        """The bytes of a request, with a header line that its connection needs."""
        return request_bytes(exchange.method, self.prefix + exchange.target, self.headers + credentials, exchange.body)

    def local_way(self) -> LocalWay | None:
        """The way to a daemon of this computer, if the client must look for it."""
        return None if self.search is None else self.search.way()

    def reached(self, way: LocalWay | None) -> None:
        """Note the way of a connection that leads to the daemon."""
        if self.search is not None and way is not None:
            self.search.reached(way)

    def is_outdated(self, way: LocalWay | None, status: int) -> bool:
        """Whether to send a request once more, on a new connection: the daemon did not know its sender, and has written
        its file since the look that found `way`.

        The file is there before the port is open, but not before the look of a client that connects while the daemon
        starts. The daemon has done nothing for such a request.
        """
        if status != UNAUTHORIZED:
            return False
        found = self.local_way()
        return found is not None and found != way

    def cannot_connect(self, error: Exception) -> CannotConnect:
        reason = "the daemon did not answer in time" if isinstance(error, TimeoutError) else reason_of(error)
        failed = CannotConnect(f"cannot reach the daemon at {self.url}: {reason}")
        failed.add_note("start a daemon with `waypost serve`, or use the address of a running daemon")
        return failed

    @contextmanager
    def first_answer(self) -> Iterator[None]:
        """Raise CannotConnect if the server does not answer the first exchange like a daemon."""
        try:
            yield
        except DecodeError as error:
            raise CannotConnect(f"{self.url} is not a Waypost daemon") from error
        except ConnectionLost as error:
            raise CannotConnect(f"{self.url} is not a Waypost daemon, or the daemon is stopping") from error

    def connection_lost(self, reason: object) -> ConnectionLost:
        return ConnectionLost(
            f"the connection to {self.url} was lost before the answer arrived ({reason}): it is unknown whether the "
            "daemon executed the operation"
        )


def _trusting(cacert: str | os.PathLike[str] | None) -> ssl.SSLContext:
    """Trust the certificates of this PEM file, or else those of the system."""
    try:
        return ssl.create_default_context(cafile=cacert)
    except ssl.SSLError:
        raise InvalidParameter(f"`cacert` {excerpt(cacert)} is not a PEM file of certificates") from None
    except (OSError, TypeError, ValueError) as error:
        raise InvalidParameter(f"`cacert` {excerpt(cacert)} is not readable: {reason_of(error)}") from None


class NotSent(Exception):
    """A part of the request was not sent, so the daemon has not read its end."""


class Lost(Exception):
    """The connection ended, or the time for an answer is over."""


def reason_of(error: Exception) -> str:
    """The text of an error, without the number of the operating system."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
