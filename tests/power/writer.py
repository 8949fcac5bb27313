"""A small program that does to the files below a folder what the recorder has to see.

python -m tests.power.writer FOLDER
"""

import mmap
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path


def main() -> None:
    root = Path(sys.argv[1])
    os.write(1, b'{"begin":"all"}\n')
    (root / "folder").mkdir()
    file = os.open(root / "folder" / "file", os.O_RDWR | os.O_CREAT)
    os.write(file, b"one")
    os.pwrite(file, b"two", 5000)
    os.pwritev(file, [b"three", b"four"], 9000)
    os.fdatasync(file)
    os.write(1, b'{"end":"all"}\n')
    synchronous = os.open(root / "folder" / "file", os.O_WRONLY | os.O_DSYNC)
    os.pwrite(synchronous, b"five", 100)
    os.ftruncate(file, 9004)
    os.posix_fallocate(file, 0, 12_000)
    # As a thread, and as another process.
    thread = threading.Thread(target=os.write, args=(file, b"six"))
    thread.start()
    thread.join()
    subprocess.run(["sh", "-c", "echo seven >> folder/file; cp folder/file copy"], cwd=root, check=True)
    shutil.copyfile(root / "copy", root / "copy-again")
    os.rename(root / "copy", root / "folder" / "moved")
    os.link(root / "folder" / "moved", root / "linked")
    os.unlink(root / "copy-again")
    (root / "empty").mkdir()
    (root / "empty").rmdir()
    (root / "mapped").write_bytes(bytes(4096))
    with open(root / "mapped", "r+b") as mapped, mmap.mmap(mapped.fileno(), 0) as view:
        view[0:3] = b"map"
    folder = os.open(root, os.O_RDONLY)
    os.fsync(folder)


if __name__ == "__main__":
    main()
