"""Open a folder of an earlier version, which upgrades it, and use it: python -m tests.power.upgrade_load FOLDER END."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import waypost
from tests.crash.load import tell
from waypost.errors import QueueExists
from waypost.store import upgrade

FRESH = "fresh"
NEW = "sent after the upgrade"


def main() -> None:
    folder, end = sys.argv[1:]
    # So small that the copy takes several transactions.
    patch.object(upgrade, "_PART", 5).start()
    with waypost.open(Path(folder), name="alpha") as manager:
        with suppress(QueueExists):
            manager.create_queue(FRESH)
        tell(begin=NEW)
        manager.queue(FRESH).send(NEW, recoverable=True)
        tell(end=NEW)
        if end == "kill":
            os._exit(0)


if __name__ == "__main__":
    main()
