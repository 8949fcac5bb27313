"""The recorder, registered, and a record for each module that runs queries once for all its tests."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.contract.recorder import Record, Recorder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def _registered(spark: "SparkSession") -> None:
    spark.dataSource.register(Recorder)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(tmp_path)
