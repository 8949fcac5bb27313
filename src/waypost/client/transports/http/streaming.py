"""The answer to one request as a stream, on a separate connection: for content that is too large for memory."""

import http.client
from collections.abc import Iterator
from typing import Final

from waypost.client.transports.http.address import Address, reason_of
from waypost.client.transports.http.blocking import connected
from waypost.client.transports.http.exchanges import accepted
from waypost.client.transports.http.http11 import Response
from waypost.client.transports.http.local import LocalWay
from waypost.errors import ConnectionLost

_PART: Final = 1 << 18


def stream(address: Address, target: str) -> Iterator[bytes]:
    """The answer of the daemon to a GET, in parts. Raises its error, and ConnectionLost if the answer is incomplete.

    `address.timeout` is the time limit for each part.
    """
    connection, way, headers = _connection(address)
    try:
        answer = _asked(connection, address.prefix + target, headers)
        if address.is_outdated(way, answer.status):
            connection.close()
            connection, _, headers = _connection(address)
            answer = _asked(connection, address.prefix + target, headers)
        if not 200 <= answer.status < 300:
            content_type = answer.getheader("content-type", "").partition(";")[0].strip().lower()
            accepted(Response(answer.status, content_type, answer.read(), is_kept=False))
        while part := answer.read(_PART):
            yield part
    except http.client.IncompleteRead as error:
        # The last part may have the reason.
        if error.partial:
            yield error.partial
        raise ConnectionLost(f"the answer from {address.url} ended early") from None
    except http.client.HTTPException:
        raise ConnectionLost(f"the answer from {address.url} ended early") from None
    except OSError as error:
        raise ConnectionLost(f"the connection to {address.url} was lost: {reason_of(error)}") from None
    finally:
        connection.close()


def _connection(address: Address) -> tuple[http.client.HTTPConnection, LocalWay | None, dict[str, str]]:
    """A connection to the daemon, the way that led there, and the headers of its requests. Raises CannotConnect."""
    opened, way, credentials = connected(address)
    lines = (address.headers + credentials).decode("ascii").splitlines()
    connection = http.client.HTTPConnection(address.host, address.port)
    connection.sock = opened
    return connection, way, dict(line.split(": ", 1) for line in lines)


def _asked(
    connection: http.client.HTTPConnection, target: str, headers: dict[str, str]
) -> http.client.HTTPResponse:  # fmt: skip
    connection.request("GET", target, headers=headers)
    return connection.getresponse()
