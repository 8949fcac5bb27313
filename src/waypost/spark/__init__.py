"""Waypost on Spark: the messages of queues as DataFrames, and DataFrames as messages.

    from waypost.spark import session

    spark = session()
    spark.read.format("msmq").option("server", "127.0.0.1").option("queue", "orders").load().show()

`session` makes a SparkSession with the settings that messages need and finds a Java for it; `register` adds the format
`msmq` and functions for SQL to any other SparkSession; `purge` removes messages from a queue after they were read;
`LagListener` keeps the lag of streams as metrics. Needs the extra `spark`.
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
