"""The module in which Spark finds the format `msmq`: Spark imports every module with a name like `pyspark_*`."""

from waypost.spark.source import MsmqDataSource as DefaultSource

__all__ = ["DefaultSource"]
