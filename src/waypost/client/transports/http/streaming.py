"""The answer to one request as a stream, on a separate connection: for content that is too large for memory."""

import http.client
from collections.abc import Iterator
from typing import Final

from waypost.client.transports.http.address import Address, reason_of
from waypost.client.transports.http.blocking import connected
from waypost.client.transports.http.exchanges import accepted
from waypost.client.transports.http.http11 import Response
from waypost.errors import ConnectionLost

_PART: Final = 1 << 18


def stream(address: Address, target: str) -> Iterator[bytes]:
    """The answer of the daemon to a GET, in parts. Raises its error, and ConnectionLost if the answer is incomplete.

    `address.timeout` is the time limit for each part.
    """
    headers = dict(line.split(": ", 1) for line in address.headers.decode("ascii").splitlines())
    opened, credentials = connected(address)
    headers |= dict(line.split(": ", 1) for line in credentials.decode("ascii").splitlines())
    connection = http.client.HTTPConnection(address.host, address.port)
    connection.sock = opened
    try:
        connection.request("GET", address.prefix + target, headers=headers)
        answer = connection.getresponse()
        if not 200 <= answer.status < 300:
            content_type = answer.getheader("content-type", "").partition(";")[0].strip().lower()
            accepted(Response(answer.status, content_type, answer.read(), is_kept=False))
        while part := answer.read(_PART):
            yield part
    except http.client.IncompleteRead as error:
        # The last part may have the reason.
        if error.partial:
            yield error.partial
        raise ConnectionLost(f"the answer of {address.url} ended early") from None
    except http.client.HTTPException:
        raise ConnectionLost(f"the answer of {address.url} ended early") from None
    except OSError as error:
        raise ConnectionLost(f"the connection to {address.url} was lost: {reason_of(error)}") from None
    finally:
        connection.close()
