"""A source that nobody registers: Spark must find it by the name of this module."""

from tests.spark.contract.recorder import Discovered as DefaultSource

__all__ = ["DefaultSource"]
