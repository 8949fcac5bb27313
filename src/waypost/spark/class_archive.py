"""An archive of the classes that Spark loads (Java's class data sharing): with it, Spark starts in half the time.

`python -m waypost.spark.warm_up` makes the archive in the cache folder, for the installed Java and Spark, and every
later session uses it. The archive is only a cache: a Java that cannot make one, or finds that it does not fit, starts
without it.
"""

import os
import subprocess
import sys
import tempfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from waypost.spark.java import Java, cache_folder, find_java

# Time for a session and for Java to write 200 MB at its end.
SECONDS: Final = 300


def archive_of(java: Java) -> Path:
    """Path of the archive for this Java and the installed Spark. The file may not exist."""
    spark = find_spec("pyspark")
    place = spark.origin if spark and spark.origin else os.devnull
    # Another installation in the same folder has another time.
    key = f"{java.program.resolve()} {java.version} {place} {Path(place).stat().st_mtime_ns}"
    return cache_folder() / f"spark-classes-{sha256(key.encode()).hexdigest()[:16]}.jsa"


def make_archive() -> Path | None:
    """Make the archive unless it exists, and return its path. None if Java made no archive."""
    archive = archive_of(find_java())
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory(dir=archive.parent) as place:
        fresh = Path(place, "classes.jsa")
        command = [sys.executable, "-m", "waypost.spark.warm_up", str(fresh)]
        try:
            subprocess.run(command, cwd=place, capture_output=True, check=True, timeout=SECONDS)
            # Atomic: another process may make the same archive now.
            os.replace(fresh, archive)
        except (OSError, subprocess.SubprocessError):
            return None
    return archive
