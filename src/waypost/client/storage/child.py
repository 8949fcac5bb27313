"""A program that verifies the store in a folder: `python -m waypost.client.storage.child FOLDER`.

It is a separate process so that it does not slow down the queue manager that uses the folder: the work needs the
processor, and runs at a lower priority. Each line of standard output is JSON: {"done": N, "total": N} for progress,
then {"report": ...}, or {"error": CLASS, "message": SENTENCE}.
"""

import json
import os
import sys
import time
from contextlib import suppress
from typing import Final

from waypost.client.storage.verifying import verify
from waypost.errors import StoreError

_NICENESS: Final = 10
_STEP_SECONDS: Final = 0.1


def main() -> int:
    (folder,) = sys.argv[1:]
    with suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told >= _STEP_SECONDS:
            told = time.monotonic()
            _write({"done": done, "total": total})

    try:
        _write({"report": verify(folder, progress=tell).to_dict()})
    except StoreError as error:
        _write({"error": type(error).__name__, "message": str(error)})
    except BrokenPipeError:
        return 1
    return 0


def _write(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
