"""Small disks of a test's own, and other programs that fill them."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEGABYTE = 1 << 20


@contextmanager
def small_disk(size: int, path: Path | None = None) -> Iterator[Path]:
    """A file system of so many bytes, at a new path. Only root can mount one: others skip the test."""
    if path is None:
        path = Path(tempfile.mkdtemp())
    else:
        path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    try:
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("only root can mount a small disk")
        try:
            yield path
        finally:
            # Lazily, so that a test that failed with the store open leaves nothing behind.
            subprocess.run(["umount", "--lazy", str(path)], check=True)
    finally:
        path.rmdir()


def free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def take_the_rest(disk: Path) -> Path:
    """Another program writes until the disk has no byte left. Returns its file."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        while free := free_bytes(disk):
            file.write(bytes(min(free, MEGABYTE)))
    return ballast
