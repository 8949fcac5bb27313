"""Resolver and addresses: the hosts that the queue manager asks for, and the addresses of this computer.

Nothing here blocks the loop: the system's resolver and netlink are asked in threads.
"""

import asyncio
import socket
from collections.abc import Coroutine
from functools import partial
from typing import Final

from waypost.daemon.addresses import own_addresses
from waypost.daemon.logs import Log
from waypost.daemon.socket_facts import Facts, Shell
from waypost.daemon.sockets import reason
from waypost.node.effects import Resolve

_RESOLVE_SECONDS: Final = 30.0
# How often the addresses of the computer are read again, and how soon after a failure.
_READ_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 5.0


class Resolver:
    """`bind` is the only address of a queue manager that listens on one; others have all of the computer."""

    def __init__(self, shell: Shell, facts: Facts, bind: str, log: Log) -> None:
        self._shell: Final = shell
        self._facts: Final = facts
        self._bind: Final = bind
        self._log: Final = log
        self._loop: Final = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._doubt: Final = asyncio.Event()

    def start(self, known: frozenset[str]) -> None:
        """Keep an eye on the addresses of the computer; `known` is what the queue manager was told."""
        if not self._bind:
            self._run(self._watch(known))

    def resolve(self, effect: Resolve) -> None:
        self._run(self._resolve(effect))

    def doubt(self) -> None:
        """A connection failed: the computer may have other addresses now."""
        self._doubt.set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _resolve(self, effect: Resolve) -> None:
        found: tuple[str, ...] = ()
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                places = await self._loop.getaddrinfo(effect.host, None, type=socket.SOCK_STREAM)
            found = self._sorted([str(place[0]) for *_, place in places])
        except TimeoutError:
            self._log.info("name not found", host=effect.host, reason="no answer")
        except (OSError, ValueError) as error:
            # ValueError: a name that no DNS has, such as one with a part of more than 63 letters.
            self._log.info("name not found", host=effect.host, reason=reason(error))
        self._shell.tell(partial(self._facts.resolved, effect.request, found))

    def _sorted(self, addresses: list[str]) -> tuple[str, ...]:
        """In the order of the system, those first that can be reached from the address that we have."""
        found = dict.fromkeys(addresses)
        if self._bind:
            return tuple(sorted(found, key=lambda address: (":" in address) != (":" in self._bind)))
        return tuple(found)

    async def _watch(self, known: frozenset[str]) -> None:
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                async with asyncio.timeout(_READ_SECONDS):
                    await self._doubt.wait()
            except TimeoutError:
                pass
            self._doubt.clear()
            addresses = await self._loop.run_in_executor(None, own_addresses)
            if addresses and addresses != known:
                known = addresses
                self._log.info("addresses changed", addresses=sorted(addresses))
                self._shell.tell(partial(self._facts.addresses_changed, addresses))

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "resolver", "exception": error, "task": task})
