"""GET /api/store/backup: everything that is durable, as of one moment, as a stream (waypost.client.backups.container).

Another process reads the store (waypost.client.backups.copying), and the loop only passes on what it writes, as quickly
as the client takes it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final

from litestar.response import Stream

from waypost.client.backups.container import MEDIA_TYPE
from waypost.client.backups.source import BackupSource
from waypost.errors import ServiceNotAvailable, WaypostError
from waypost.http.parameters import Served
from waypost.http.routing import get
from waypost.http.service import Service

_log: Final = logging.getLogger("waypost.http")


@get("/api/store/backup", media_type=MEDIA_TYPE)
async def backup(service: Served) -> Stream:
    """A backup of everything that is durable now, as a stream, for `waypost store restore`.

    One is made at a time; another one is refused with 409. A stream that breaks off lacks its end, and no data folder
    can be made of it.
    """
    loop = asyncio.get_running_loop()
    source = await loop.run_in_executor(None, BackupSource, service.manager.path, service.settings.backup)
    # What speaks against it is said before anything is sent.
    first = await loop.run_in_executor(None, source.read)
    headers = {"content-disposition": 'attachment; filename="waypost.backup"'}
    return Stream(_parts(service, source, first), media_type=MEDIA_TYPE, headers=headers)


async def _parts(service: Service, source: BackupSource, part: bytes) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    try:
        while part:
            yield part
            if service.is_stopping:
                raise ServiceNotAvailable("the queue manager is stopping")
            part = await loop.run_in_executor(None, source.read)
    except WaypostError as error:
        _log.warning("a backup broke off: %s", error)
        raise
    finally:
        # Nobody waits for it: the process is killed, and what it held is free.
        loop.run_in_executor(None, _end, service, source)


def _end(service: Service, source: BackupSource) -> None:
    source.close()
    service.shell.engine.backup_ended()
