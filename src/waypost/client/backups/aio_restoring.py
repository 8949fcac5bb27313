"""`waypost.aio.restore`: `waypost.restore` for an event loop."""

import asyncio
import os

from waypost.client.backups import restoring
from waypost.client.backups.restoring import Backup, RestoreInfo
from waypost.client.backups.target import Progress


async def restore(
    backup: Backup,
    path: str | os.PathLike[str],
    *,
    same_identity: bool = False,
    new_identity: bool = False,
    progress: Progress | None = None,
) -> RestoreInfo:
    return await asyncio.to_thread(
        restoring.restore,
        backup,
        path,
        same_identity=same_identity,
        new_identity=new_identity,
        progress=progress,
    )


restore.__doc__ = restoring.restore.__doc__
