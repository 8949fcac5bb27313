"""GET /api/store/backup: all durable state at one moment, as a stream (waypost.client.backups.container).

Another process reads the store (waypost.client.backups.copying), and the loop forwards its output at the pace of the
client. After a failure, the connection closes before the end of the answer: HTTP clients notice that, and so does every
program that checks for the end of the backup.
"""

import asyncio
import logging
from typing import Final

from waypost.client.backups.container import MEDIA_TYPE, broken_off
from waypost.client.backups.source import BackupSource
from waypost.errors import WaypostError
from waypost.http.requests import Receive, Request, Scope, Send
from waypost.http.routes import Nothing, Route, of
from waypost.http.service import AsgiClient, Service
from waypost.security.callers import Role

_HEADERS: Final = [
    (b"content-type", MEDIA_TYPE.encode("ascii")),
    (b"content-disposition", b'attachment; filename="waypost.backup"'),
]
_log: Final = logging.getLogger("waypost.http")


async def _backup(service: Service, _asked: Nothing, _request: Request) -> "_Answer":
    """Return a stream with a backup of all data on disk. `waypost store restore` can read this stream.

    Only one backup can run at a time. While a backup runs, another request gets the status 409. `waypost store restore`
    refuses an incomplete stream.
    """
    loop = asyncio.get_running_loop()
    source = await loop.run_in_executor(None, BackupSource, service.path, service.settings.backup)
    # A refusal must come before the answer begins.
    try:
        first = await loop.run_in_executor(None, source.read)
    except BaseException:
        loop.run_in_executor(None, source.close)
        raise
    return _Answer(service, source, first)


class _Answer:
    """An ASGI application that answers one request."""

    def __init__(self, service: Service, source: BackupSource, first: bytes) -> None:
        self._service: Final = service
        self._source: Final = source
        self._first: Final = first
        self._is_whole = False

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        client = AsgiClient(receive)
        try:
            await client.wait(self._send(send))
        except WaypostError as error:
            _log.warning("a backup was interrupted: %s", error)
            # The client gets the reason, and notices that the answer is not complete.
            await client.wait(_send_part(send, broken_off(str(error))))
        finally:
            # Not awaited: the process is killed, and its resources are freed.
            loop.run_in_executor(None, self._end)
        # A client that has the whole backup may be gone too.
        if self._is_whole:
            _log.info("a backup was completed")
        elif client.is_gone:
            _log.info("a backup was interrupted: the client closed the connection")

    async def _send(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        part = self._first
        while part:
            await _send_part(send, part)
            if self._service.is_stopping:
                _log.warning("a backup was interrupted: the queue manager is stopping")
                return
            part = await loop.run_in_executor(None, self._source.read)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        self._is_whole = True

    def _end(self) -> None:
        self._source.close()
        self._service.shell.driver.backup_ended()


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


BACKUP: Final = Route(
    method="GET",
    path="/api/store/backup",
    name="backup",
    asked=Nothing,
    perform=of(Nothing, _backup),
    asks=Role.ADMIN,
    media_type=MEDIA_TYPE,
)
