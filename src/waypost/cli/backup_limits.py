"""Limits of backups, from the configuration of the queue manager."""

import os
from pathlib import Path
from typing import Final

from waypost.cli.program import Failure
from waypost.client.backups.source import BackupLimits
from waypost.daemon.config import Config, max_size_of, reserve_of
from waypost.daemon.loading import ConfigError, load

_MEGABYTE: Final = 1_000_000


def backup_limits(config: Config) -> BackupLimits:
    store = config.store
    rate = int(store.backup_mb_per_s * _MEGABYTE)
    return BackupLimits(store.backup_limit_s, rate, max_size_of(config), reserve_of(config))


def backup_limits_of(file: Path | None) -> BackupLimits:
    """The limits for the folder of a queue manager with this file and the environment of this process.

    The queue manager may be stopped. Only the section [store] applies: the speed and the time limit are for backups by
    a daemon.
    """
    try:
        config = load(file, os.environ, {}, [])
        return BackupLimits(max_size=max_size_of(config), reserve=reserve_of(config))
    except ConfigError as error:
        raise Failure(error.sentence, error.hint) from None
