"""The load of tests/power/embedded_load.py on a daemon, over HTTP.

    python -m tests.power.daemon_load FOLDER ROUND SEED OPERATIONS END

The daemon is a child process with its folder in FOLDER/NAME, and its log beside it. END is `stop` or `kill`.
"""

import sys
from pathlib import Path
from typing import Final

from tests.crash.daemons import Daemon, loopback
from tests.power.embedded_load import load

NAME: Final = "power"


def main() -> None:
    folder, round_number, seed, operations, end = sys.argv[1:]
    with Daemon(Path(folder), NAME, loopback(41)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            load(manager, round_number, seed, int(operations))
        if end == "kill":
            daemon.kill()
        else:
            assert daemon.stop() == 0


if __name__ == "__main__":
    main()
