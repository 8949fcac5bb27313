"""Make a SparkSession with the settings that messages need, and find a Java for it."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from waypost.spark.java import Java, SparkNotAvailable, archive_of, command_for, find_java, launcher_home, spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = ("pyspark", "pyarrow", "numpy", "pandas")

SETTINGS: Final = {
    # Times of messages are in UTC, and other readers of Parquet do not know the type that is Spark's default.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark's default is 200, each of them a task, even for ten messages.
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# Spark listens only on this computer, and the name of this computer need not resolve.
LOCAL_SETTINGS: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

# The module from which Python workers start.
WORKERS: Final = "waypost.spark.workers"

# The token for daemons.
TOKEN_SETTING: Final = "spark.msmq.token"

JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")


def session(
    app: str = "waypost", *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return the SparkSession of this process, or create one. The session supports the format `msmq`.

    `conf` contains settings of Spark, which override the settings of Waypost. An existing session keeps its settings,
    except for those in `conf`. Without `master`, Spark runs in this process with all cores, or on the master of
    spark-submit. PYSPARK_PYTHON names the interpreter of the workers (default: this interpreter).
    """
    require_packages()
    if import_module("pyspark.sql").SparkSession.getActiveSession() is not None:
        return _make(app, None, conf or {})
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Set by spark-submit, which has started Java and knows the master.
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _make(app, master, {**SETTINGS, **(conf or {})})
    java = find_java()
    master = master or "local[*]"
    settings = {
        **SETTINGS,
        **(local_settings() if master.startswith("local") else {}),
        JAVA_OPTIONS: java_options(java),
        **(conf or {}),
    }
    with _homes(JAVA_HOME=launcher_home(java), SPARK_HOME=spark_home()):
        return _make(app, master, settings)


def local_settings() -> dict[str, str]:
    """Settings for workers on this computer. PYSPARK_PYTHON may still name another interpreter for them."""
    has_this_python = os.environ["PYSPARK_PYTHON"] == sys.executable
    return {**LOCAL_SETTINGS, **({"spark.python.daemon.module": WORKERS} if has_this_python else {})}


def java_options(java: Java) -> str:
    """Options of Java for the driver: log little, and use the archive of classes if it exists."""
    archive = archive_of(java)
    options = [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"]
    if archive.exists():
        # Java ignores an archive that does not fit; -Xlog:disable drops its warning.
        options += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"]
    return " ".join(f'"{option}"' for option in options)


def require_packages() -> None:
    """Raises SparkNotAvailable unless the extra `spark` is installed."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise SparkNotAvailable(
            f"{missing[0]} is not installed; the command `{command_for('spark')}` installs the requirements of Spark"
        )


def _make(app: str, master: str | None, settings: Mapping[str, str]) -> "SparkSession":
    # Settings are on the command line of Java, which every user of this computer can see.
    token = settings.get(TOKEN_SETTING)
    settings = {name: value for name, value in settings.items() if name != TOKEN_SETTING}
    builder = import_module("pyspark.sql").SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    spark: SparkSession = builder.config(map=settings).getOrCreate()
    if token is not None:
        spark.conf.set(TOKEN_SETTING, token)
    import_module("waypost.spark.source").register_format(spark)
    return spark


@contextmanager
def _homes(**folders: Path) -> Iterator[None]:
    """Set variables only while Spark starts: other programs that this process starts keep their Java and Spark."""
    before = {name: os.environ.get(name) for name in folders}
    os.environ.update({name: str(folder) for name, folder in folders.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
