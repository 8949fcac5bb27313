"""The rights on a queue decide about format("msmq"): a user without the right is refused, and with it allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import waypost
from tests.crash.daemons import Daemon, loopback
from tests.late import late

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark import errors
    from pyspark.sql import SparkSession
else:
    errors = late("pyspark.errors")

TOKEN = "the token of the daemon"


class Place:
    """A daemon with a transactional queue, and a user whose rights the test sets."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.url = daemon.url
        self.manager = waypost.connect(daemon.url, token=TOKEN)
        self.queue = self.manager.create_queue("ledger", transactional=True)
        with self.manager.transaction() as transaction:
            self.queue.send("1", transaction=transaction)
        self.manager.users.add("bob")
        self.token = folder / "token"
        self.token.write_text(self.manager.users.token("bob").token, encoding="ascii")

    def rights(self, *words: str) -> None:
        grant = ["administrators:full", *(f"bob:{word}" for word in words)]
        self.queue.set_acl(revoke=["everyone", "bob"], grant=grant)

    @property
    def options(self) -> dict[str, str]:
        return {"server": self.url, "queue": "ledger", "tokenFile": str(self.token)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("rights")
    with Daemon(folder, "guarded", loopback(231), f"http.token={TOKEN}") as daemon:
        daemon.start()
        place = Place(daemon, folder)
        yield place
        place.manager.close()


def test_a_read_takes_the_right_to_peek(spark: SparkSession, place: Place) -> None:
    place.rights("send", "get-properties")
    with pytest.raises(errors.PySparkException, match="bob may not peek at ledger"):
        spark.read.format("msmq").options(**place.options).load().collect()
    place.rights("peek", "get-properties")
    assert spark.read.format("msmq").options(**place.options).load().count() >= 1


def test_a_write_takes_the_right_to_send(spark: SparkSession, place: Place) -> None:
    frame = spark.createDataFrame([("two",)], "body string")
    place.rights("peek", "get-properties")
    before = place.queue.info().message_count
    with pytest.raises(errors.PySparkException, match="bob may not send to ledger"):
        frame.write.format("msmq").mode("append").options(**place.options).save()
    assert place.queue.info().message_count == before
    place.rights("send", "get-properties")
    frame.write.format("msmq").mode("append").options(**place.options).save()
    assert place.queue.info().message_count == before + 1
