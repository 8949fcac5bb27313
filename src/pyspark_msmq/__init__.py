"""Where Spark finds the format `msmq` by itself: it imports every module whose name starts with `pyspark_`."""

from waypost.spark.source import MsmqDataSource as DefaultSource

__all__ = ["DefaultSource"]
