"""The recorder, registered, and a record for each module that runs queries once for all its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.late import late

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.contract import recorder
    from tests.spark.contract.recorder import Record
else:
    recorder = late("tests.spark.contract.recorder")


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def _registered(spark: SparkSession) -> None:
    spark.dataSource.register(recorder.Recorder)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return recorder.Record(tmp_path)
