"""An archive of the classes that Spark loads (Java's class data sharing), with which it starts in half the time.

`python -m waypost.spark.warm_up` makes it in the cache folder, for the Java and the Spark that are installed, and every
later session uses it. It is a cache and nothing else: a Java that cannot make one, or finds that it does not fit, does
without.
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

# A session, and Java writes 200 MB when it ends.
SECONDS: Final = 300


def archive_of(java: Java) -> Path:
    """Where the archive for this Java and the installed Spark is, if it was made."""
    spark = find_spec("pyspark")
    place = spark.origin if spark and spark.origin else os.devnull
    # Another installation at the same place has another time.
    key = f"{java.program.resolve()} {java.version} {place} {Path(place).stat().st_mtime_ns}"
    return cache_folder() / f"spark-classes-{sha256(key.encode()).hexdigest()[:16]}.jsa"


def make_archive() -> Path | None:
    """The archive, made if it is not there yet. None if Java made none."""
    archive = archive_of(find_java())
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory(dir=archive.parent) as place:
        fresh = Path(place, "classes.jsa")
        command = [sys.executable, "-m", "waypost.spark.warm_up", str(fresh)]
        try:
            subprocess.run(command, cwd=place, capture_output=True, check=True, timeout=SECONDS)
            # Whole or not at all, whoever else does the same now.
            os.replace(fresh, archive)
        except (OSError, subprocess.SubprocessError):
            return None
    return archive
