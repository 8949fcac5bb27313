"""Waypost on Spark: the messages of queues as DataFrames, and DataFrames as messages.

    from waypost.spark import session

    spark = session()
    spark.read.format("msmq").option("server", "127.0.0.1").option("queue", "orders").load().show()

The function `session` finds Java and creates a SparkSession with the settings that messages need. The function
`register` adds the format `msmq` and SQL functions to any other SparkSession. The function `purge` removes messages
from a queue after they were read. The class `LagListener` provides the lag of streams as metrics. This package needs
the extra `spark`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from waypost.spark.java import SparkNotAvailable
from waypost.spark.session import require_packages, session

if TYPE_CHECKING:
    from waypost.spark.lag import LagListener
    from waypost.spark.origins import purge
    from waypost.spark.source import MsmqDataSource, register

__all__ = ["LagListener", "MsmqDataSource", "SparkNotAvailable", "purge", "register", "session"]

# Loaded on first use: every process of Spark imports this package.
_HOMES: Final = {
    "LagListener": "waypost.spark.lag",
    "MsmqDataSource": "waypost.spark.source",
    "purge": "waypost.spark.origins",
    "register": "waypost.spark.source",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            require_packages()
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'waypost.spark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
