"""Conversations with the daemon for threads: each waits for its answer on a connection that no other uses meanwhile.

Connections are kept and used again, the youngest first, so their number is that of concurrent threads. A request takes
one system call, and so does a short answer.
"""

import os
import socket
import ssl
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module
from math import ceil
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from waypost.api.events import Events
from waypost.api.operations import CloseQueue, CursorRead, Operation, Read, checked
from waypost.api.status import ShowVerification, StartVerification
from waypost.client.transports.http.address import UNAUTHORIZED, Address, Lost, NotSent, reason_of
from waypost.client.transports.http.asking import (
    LOOK_SECONDS,
    Asking,
    Wait,
    greeting,
    report_of,
)
from waypost.client.transports.http.events import EventReader, events_request
from waypost.client.transports.http.exchanges import Conversation, Exchange
from waypost.client.transports.http.http11 import Response, ResponseParser
from waypost.client.transports.http.local import LocalWay, NotTheDaemon
from waypost.client.transports.http.shell import Shell
from waypost.core.message import Message
from waypost.errors import AccessDenied, CannotConnect, WaypostError
from waypost.hresult import HResult
from waypost.node.failures import failure

if TYPE_CHECKING:
    from waypost.api.status import StoreReport
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target

R = TypeVar("R")

# A connection that was idle for longer is checked before its use: the daemon may have closed it.
_RESTED_SECONDS: Final = 0.5
_SHORT: Final = 16_384
_LONG: Final = 1 << 20
_TIMEVAL: Final = Struct("@ll")
_HAS_TIMEVAL: Final = sys.platform != "win32"


class Http(Shell["_Link"]):
    """A transport for threads."""

    __slots__ = ("_closing", "_process")

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._process = os.getpid()
        self._closing: Final = Lock()
        try:
            with address.first_answer():
                found = self.carry(greeting())
        except BaseException:
            self._close_idle()
            raise
        self._asking = Asking(found)

    def call(self, operation: Operation[R]) -> R:
        return checked(operation, self._reply(operation))

    def _reply(self, operation: Operation[object]) -> object:
        if isinstance(operation, Read | CursorRead):
            wait = self._asking.wait_of(operation)
            self._waiting[wait] = None
            try:
                return self.carry(self._asking.read(operation, wait), wait)
            finally:
                del self._waiting[wait]
        if isinstance(operation, CloseQueue):
            self.cancel(operation.identifier)
        return self.carry(self._asking.ask(operation))

    def start(self, operation: Operation[None]) -> None:
        self.call(operation)

    def cancel(self, name: str) -> None:
        self._cancel_waits(name)

    def events(self, wanted: Events, timeout_s: float) -> Generator[Message, None, None]:
        """Follow a queue, on a separate connection."""
        self.check()
        reader, wait, link = EventReader(self._address, timeout_s), Wait(wanted.name), self._connect()
        try:
            self._begin(wanted, reader, wait, link)
        except AccessDenied:
            if not self._address.is_outdated(link.way, reader.status):
                raise
            reader, link = EventReader(self._address, timeout_s), self._connect()
            self._begin(wanted, reader, wait, link)
        return self._follow(reader, wait, link)

    def _begin(self, wanted: Events, reader: EventReader, wait: Wait, link: "_Link") -> None:
        self._waiting[wait] = link
        try:
            link.send(events_request(self._address, wanted, link.credentials), self._address.timeout)
            while not reader.is_open:
                reader.feed(link.read(self._address.timeout), time.monotonic())
        except BaseException as error:
            del self._waiting[wait]
            link.close()
            if isinstance(error, NotSent | Lost):
                raise reader.lost(error) from None
            raise

    def _follow(self, reader: EventReader, wait: Wait, link: "_Link") -> Generator[Message, None, None]:
        try:
            while True:
                while reader.messages:
                    yield reader.messages.popleft()
                if wait.is_cancelled:
                    raise failure(HResult.MQ_ERROR_OPERATION_CANCELLED)
                seconds = reader.wait_s(time.monotonic())
                if not seconds:
                    return
                try:
                    reader.feed(link.read(seconds), time.monotonic())
                except Lost as error:
                    if wait.is_cancelled:
                        raise failure(HResult.MQ_ERROR_OPERATION_CANCELLED) from None
                    if reader.wait_s(time.monotonic()):
                        raise reader.lost(error) from None
        finally:
            del self._waiting[wait]
            link.close()

    def backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo":
        making = import_module("waypost.client.backups.making")
        info: BackupInfo = making.backup_of_daemon(self.address, target, progress)
        return info

    def verify(self, progress: "Progress | None") -> "StoreReport":
        """Let the daemon verify its store in the background, and report its progress."""
        state = self.call(StartVerification())
        while state.running:
            if progress is not None:
                progress(state.done, state.total)
            time.sleep(LOOK_SECONDS)
            state = self.call(ShowVerification())
        return report_of(state)

    def close(self) -> None:
        """End the waits, close the handles at the daemon, and close the connections. A second call does nothing."""
        with self._closing:
            if self._is_closed:
                return
            try:
                self._cancel_waits()
                # The daemon ends the rest by its time limits.
                with suppress(WaypostError):
                    for operation in tuple(self._asking.to_end.values()):
                        self.call(operation)
            finally:
                self._is_closed = True
                self._close_idle()

    def carry(self, conversation: Conversation[R], wait: Wait | None = None) -> R:
        """Carry a conversation to the daemon, and return its result."""
        try:
            exchange = next(conversation)
            while True:
                exchange = conversation.send(self._exchange(exchange, wait))
        except StopIteration as end:
            result: R = end.value
            return result

    def _exchange(self, exchange: Exchange, wait: Wait | None) -> Response:
        timeout = self._address.timeout + ceil(exchange.wait_s)
        link = self._take()
        if link is not None:
            try:
                response = self._over(link, exchange, timeout, wait)
                if not self._address.is_outdated(link.way, response.status):
                    return response
            except NotSent:
                pass
            except Lost as error:
                if not exchange.is_repeatable:
                    raise self._address.connection_lost(error) from None
                exchange.is_repeated = True
        try:
            link = self._connect()
            response = self._over(link, exchange, timeout, wait)
            if self._address.is_outdated(link.way, response.status):
                response = self._over(self._connect(), exchange, timeout, wait)
            return response
        except (NotSent, Lost) as error:
            raise self._address.connection_lost(error) from None
        except CannotConnect as error:
            # The first attempt may have changed something, and no daemon answers the question.
            if exchange.is_repeated and exchange.method == "POST":
                raise self._address.connection_lost(error) from None
            raise

    def _over(self, link: "_Link", exchange: Exchange, timeout: float, wait: Wait | None) -> Response:
        if wait is not None:
            self._waiting[wait] = link
        is_kept = False
        try:
            response = link.exchange(self._address.request(exchange, link.credentials), timeout)
            is_kept = response.is_kept and response.status != UNAUTHORIZED
        except (NotSent, Lost):
            if wait is not None and wait.is_cancelled:
                raise failure(HResult.MQ_ERROR_OPERATION_CANCELLED) from None
            raise
        finally:
            self._give_back(link, wait, is_kept=is_kept)
        return response

    def _take(self) -> "_Link | None":
        """A connection that is not in use, or None."""
        self.check()
        if self._process != os.getpid():
            # These belong to the process that forked this one.
            self._idle = []
            self._process = os.getpid()
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return None
            if link.is_alive():
                return link
            link.close()

    def _connect(self) -> "_Link":
        return _Link(*connected(self._address))


def connected(address: Address) -> tuple[socket.socket, LocalWay | None, bytes]:
    """A connection to the daemon, the way that led there, and the header line with a token that its requests need.

    Raises CannotConnect.
    """
    way = address.local_way()
    if way is not None and (local := way.connect(address.timeout)) is not None:
        address.reached(way)
        return local, way, b""
    connection: socket.socket | None = None
    try:
        credentials = b"" if way is None else way.credentials
        connection = socket.create_connection((address.host, address.port), address.timeout)
        if way is not None:
            way.check(connection)
            address.reached(way)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.tls is not None:
            connection = address.tls.wrap_socket(connection, server_hostname=address.host)
    except (OSError, UnicodeError, NotTheDaemon) as error:
        if connection is not None:
            connection.close()
        raise address.cannot_connect(error) from None
    return connection, way, credentials


class _Link:
    """One connection, for one exchange at a time."""

    __slots__ = ("_rested_since", "_socket", "_timeout", "credentials", "is_cancelled", "way")

    def __init__(self, connection: socket.socket, way: LocalWay | None, credentials: bytes) -> None:
        self._socket: Final = connection
        self.way: Final = way
        # The header line with the token that was found for this connection.
        self.credentials: Final = credentials
        self._timeout = 0.0
        self._rested_since = 0.0
        self.is_cancelled = False

    def exchange(self, request: bytes, timeout: float) -> Response:
        if timeout != self._timeout:
            self._set_timeout(timeout)
        try:
            self._socket.sendall(request)
        except (OSError, ValueError) as error:
            raise NotSent(reason_of(error)) from None
        parser = ResponseParser()
        response = None
        while response is None:
            room = parser.room()
            data = b""
            try:
                if room is None:
                    data = self._socket.recv(min(parser.missing, _LONG) if parser.missing > _SHORT else _SHORT)
                elif count := self._socket.recv_into(room):
                    response = parser.fill(count)
                    continue
            except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
                raise Lost(f"no answer within {timeout:g} seconds") from None
            except (OSError, ValueError) as error:
                raise Lost(reason_of(error)) from None
            if data:
                response = parser.feed(data)
            else:
                response = parser.end()
                if response is None:
                    raise Lost("the daemon closed the connection")
        self._rested_since = time.monotonic()
        return response

    def send(self, request: bytes, timeout: float) -> None:
        """Send a request with an answer that `read` gets in parts."""
        self._set_timeout(timeout)
        try:
            self._socket.sendall(request)
        except (OSError, ValueError) as error:
            raise NotSent(reason_of(error)) from None

    def read(self, timeout: float) -> bytes:
        """Some bytes of the answer. Raises Lost if none come in time, or the connection has ended."""
        # The kernel takes 0 as no limit.
        self._set_timeout(max(timeout, 0.001))
        try:
            data = self._socket.recv(_SHORT)
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
            raise Lost(f"no data within {timeout:g} seconds") from None
        except (OSError, ValueError) as error:
            raise Lost(reason_of(error)) from None
        if not data:
            raise Lost("the daemon closed the connection")
        return data

    def is_alive(self) -> bool:
        """False if the daemon has closed the connection, or sent bytes without a request."""
        if time.monotonic() - self._rested_since < _RESTED_SECONDS:
            return True
        self._timeout = 0.0
        try:
            self._socket.setblocking(False)
            if isinstance(self._socket, ssl.SSLSocket):
                self._socket.read(1)
            else:
                self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except (OSError, ValueError):
            return False
        return False

    def cancel(self) -> None:
        """End the exchange that another thread waits for."""
        self.is_cancelled = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _set_timeout(self, seconds: float) -> None:
        self._timeout = seconds
        if _HAS_TIMEVAL and not isinstance(self._socket, ssl.SSLSocket):
            # The kernel keeps the time: with its own time limit, Python makes two system calls for each.
            limit = _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1_000_000))
            self._socket.settimeout(None)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        else:
            self._socket.settimeout(seconds)
