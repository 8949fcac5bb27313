"""`Manager.backup`: from the folder of this process or from a daemon, to a folder or an open file."""

from contextlib import closing
from pathlib import Path
from typing import Any

from waypost.client.backups.container import BackupInfo
from waypost.client.backups.source import BackupLimits, BackupSource
from waypost.client.backups.target import Progress, Target, check_target, store_backup
from waypost.client.transports.http.address import Address
from waypost.client.transports.http.streaming import stream


def backup_of_folder(
    folder: Path, target: Target, progress: Progress | None = None, limits: BackupLimits | None = None
) -> BackupInfo:  # fmt: skip
    """Back up the store in a folder, which a queue manager may use meanwhile."""
    check_target(target)
    with BackupSource(folder, limits) as source:
        return store_backup(source, target, progress)


def backup_of_daemon(address: Address, target: Target, progress: Progress | None = None) -> BackupInfo:
    """Back up a daemon, over HTTP."""
    check_target(target)
    answer: Any = stream(address, "/api/store/backup")
    with closing(answer):
        return store_backup(answer, target, progress)
