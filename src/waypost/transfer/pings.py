"""Ping Messages: MS-MQQB 2.1.2, 2.2.7 and 3.1.7.6 to 3.1.7.8.

A request and a response look alike. A datagram to the ping port is a request; a response comes to the port that the
request was sent from.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from waypost.clock import Now
from waypost.errors import DecodeError
from waypost.timers import Timers
from waypost.transfer.handshake import Initiator
from waypost.wire.ping import RF, Ping

K = TypeVar("K", bound=Hashable)

# MS-MQQB 3.1.2.9
RESPONSE_TIMEOUT_S: Final = 1.0

_UINT32: Final = 0xFFFF_FFFF


class Pings(Generic[K]):
    """The requests that wait for a response, each for a key of its owner, and the answers to those of others.

    Of the requests for one key only the most recent one counts. PingCookie belongs to the queue manager, not to a
    session (readings MQQB 3.29).
    """

    __slots__ = ("_cookies", "_identity", "_keys", "_ping_cookie", "_timers", "_unanswered")

    def __init__(self, identity: Initiator, timers: Timers, unanswered: Callable[[K, Now], None]) -> None:
        """`unanswered` is called with the key of a request without a response in time (MS-MQQB 3.1.6.8)."""
        self._identity = identity
        self._timers = timers
        self._unanswered = unanswered
        self._ping_cookie = 0
        self._keys: dict[int, K] = {}
        self._cookies: dict[K, int] = {}

    def request(self, key: K, now: Now) -> bytes:
        """MS-MQQB 3.1.7.6: the datagram to send. `response` or `unanswered` gives the key back."""
        self.forget(key)
        self._ping_cookie = cookie = self._ping_cookie + 1 & _UINT32
        self._keys[cookie] = key
        self._cookies[key] = cookie
        self._timers.start((Pings, cookie), now.monotonic + RESPONSE_TIMEOUT_S, lambda now: self._expired(key, now))
        return self._identity.ping_request(cookie).encode()

    def response(self, datagram: bytes) -> tuple[K, bool] | None:
        """MS-MQQB 3.1.7.8: the key of the answered request, and whether it would accept a session. None: ignore it."""
        ping = received_ping(datagram)
        if ping is None or ping.cookie not in self._keys:
            return None
        key = self._keys[ping.cookie]
        self.forget(key)
        return key, not ping.flags & RF

    def forget(self, key: K) -> None:
        """Stop waiting for a response for this key."""
        cookie = self._cookies.pop(key, None)
        if cookie is not None:
            del self._keys[cookie]
            self._timers.stop((Pings, cookie))

    def _expired(self, key: K, now: Now) -> None:
        self.forget(key)
        self._unanswered(key, now)

    def answer(self, datagram: bytes, *, would_accept: bool) -> bytes | None:
        """MS-MQQB 3.1.7.7: the answer to a request, or None if the datagram is not a request."""
        ping = received_ping(datagram)
        if ping is None:
            return None
        own_guid = self._identity.identifier
        return (ping.accepted(own_guid) if would_accept else ping.refused(own_guid)).encode()


def received_ping(datagram: bytes) -> Ping | None:
    """The Ping in a datagram. Another signature or size gives None: both sides ignore it silently."""
    try:
        return Ping.decode(datagram)
    except DecodeError:
        return None
