"""Pings: datagrams to and from the ping port (MS-MQQB 2.1.2), and requests from a port of their own."""

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from waypost.buckets import Bucket, Rate
from waypost.daemon.socket_facts import Facts, Shell
from waypost.limits import MAX_PINGS_PER_SECOND
from waypost.node.effects import SendDatagram


class Pings:
    """Sockets for pings: one a family that listens, and one a family for our own requests."""

    def __init__(self, shell: Shell, facts: Facts) -> None:
        self.shell: Final = shell
        self.facts: Final = facts
        self.loop: Final = asyncio.get_running_loop()
        # A flood of datagrams shall not keep the queue manager from its work.
        self.allowance: Final = Bucket(Rate(MAX_PINGS_PER_SECOND, MAX_PINGS_PER_SECOND), self.loop.time())
        self._listening: dict[bool, asyncio.DatagramTransport] = {}
        self._asking: dict[bool, asyncio.DatagramTransport] = {}

    async def start(self, listening: Iterable[socket.socket], asking: Iterable[socket.socket]) -> None:
        for each in listening:
            await self._listen(each, _Requests(self), self._listening)
        for each in asking:
            await self._listen(each, _Responses(self), self._asking)

    async def _listen(
        self, each: socket.socket, protocol: "_Requests", transports: dict[bool, asyncio.DatagramTransport]
    ) -> None:  # fmt: skip
        transport, _ = await self.loop.create_datagram_endpoint(lambda: protocol, sock=each)
        transports[each.family == socket.AF_INET6] = transport

    def send(self, effect: SendDatagram) -> None:
        transports = self._asking if effect.is_request else self._listening
        transport = transports.get(":" in effect.address)
        # What cannot be sent is like what is lost on the way.
        if transport is not None:
            with suppress(OSError, ValueError):
                transport.sendto(effect.data, (effect.address, effect.port))

    def close(self) -> None:
        for transport in (*self._listening.values(), *self._asking.values()):
            transport.close()


class _Requests(asyncio.DatagramProtocol):
    """What comes to the ping port."""

    def __init__(self, pings: Pings) -> None:
        self._pings: Final = pings

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        if self._pings.allowance.take(self._pings.loop.time()):
            address, port, *_ = addr
            self._tell(data, address, port)

    def _tell(self, data: bytes, address: str, port: int) -> None:
        pings = self._pings
        pings.shell.tell(partial(pings.facts.datagram_received, data, address, port))


class _Responses(_Requests):
    """What comes to a port that requests are sent from."""

    def _tell(self, data: bytes, address: str, port: int) -> None:  # noqa: ARG002, the cookie says whose answer it is
        pings = self._pings
        pings.shell.tell(partial(pings.facts.ping_answered, data))
