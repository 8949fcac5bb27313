"""Build the image with packages from the index, without an engine, then try the commands of its head."""

import os
import sys
import tempfile
from pathlib import Path

from tests.packaging.docker import end_all
from tests.packaging.image import build, try_examples


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="waypost-image-") as name:
        root = Path(name, "root")
        root.mkdir()
        image = build(root, os.environ, {})
        try:
            for command, done in try_examples(image, Path(name)):
                print(
                    f"{'ok  ' if done.returncode == 0 else 'FAIL'}  {command}\n{done.stdout}{done.stderr}", flush=True
                )
                failed += done.returncode != 0
        finally:
            end_all(image)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
