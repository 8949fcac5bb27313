"""Send, back up and restore: python -m tests.power.restore_load ROOT ROUND END.

The store is in ROOT/store; each round makes a backup in ROOT/backup-ROUND and a data folder of it, ROOT/restored-ROUND.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import waypost
from tests.crash.load import tell
from waypost.errors import QueueExists

STORE: Final = "store"
BACKUP: Final = "backup-"
RESTORED: Final = "restored-"
QUEUE: Final = "orders"
_BODY: Final = "x" * 3000


def main() -> None:
    place, round_number, end = sys.argv[1:]
    root = Path(place)
    with waypost.open(root / STORE, name="power") as manager:
        with suppress(QueueExists):
            manager.create_queue(QUEUE)
        for number in range(4):
            name = f"{round_number}.{number}"
            tell(begin=name)
            manager.queue(QUEUE).send(f"{name} {_BODY}", recoverable=True)
            tell(end=name)
        backup = f"{BACKUP}{round_number}"
        tell(begin=backup)
        manager.backup(root / backup)
        tell(end=backup)
    restored = f"{RESTORED}{round_number}"
    tell(begin=restored)
    waypost.restore(root / backup, root / restored, same_identity=True)
    tell(end=restored)
    if end == "kill":
        os._exit(0)


if __name__ == "__main__":
    main()
