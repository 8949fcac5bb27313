"""`waypost.aio.verify` and `waypost.aio.salvage`: `waypost.verify` and `waypost.salvage` for an event loop."""

import asyncio
from pathlib import Path

from waypost.api.status import StoreReport
from waypost.client.storage import salvaging, verifying
from waypost.client.storage.salvage_report import SalvageReport
from waypost.store.progress import Progress, unheard


async def verify(folder: str | Path, *, progress: Progress = unheard) -> StoreReport:
    return await asyncio.to_thread(verifying.verify, folder, progress=progress)


async def salvage(folder: str | Path, new_folder: str | Path, *, progress: Progress = unheard) -> SalvageReport:
    return await asyncio.to_thread(salvaging.salvage, folder, new_folder, progress=progress)


verify.__doc__ = verifying.verify.__doc__
salvage.__doc__ = salvaging.salvage.__doc__
