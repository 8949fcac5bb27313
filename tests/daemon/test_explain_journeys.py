"""`explain` through its doors, with two daemons: refused there, handed over here."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import waypost
from tests.crash.daemons import SECONDS, SHORT_TIMERS, Daemon, loopback, patience, start_all
from tests.forks import run
from waypost import aio


class Place:
    def __init__(self, daemons: list[Daemon], stack: ExitStack) -> None:
        self.alpha, self.beta = daemons
        self.here = stack.enter_context(self.alpha.connect())
        self.there = stack.enter_context(self.beta.connect())
        self.here.create_queue("admin")
        self.there.create_queue("q")
        self.there.create_queue("small", quota_kb=1)
        self.there.create_queue("t", transactional=True)

    def send(self, queue: str, body: str = "m", **properties: Any) -> str:
        """Until it is gone from here."""
        sent = self.here.send(self.beta.direct(queue), body, **properties)
        with patience(SECONDS, "it is still here") as turns:
            for _ in turns:
                if not any(queue.info().message_count for queue in self.here.outgoing_queues()):
                    break
        return sent.id


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("daemons")
    with ExitStack() as stack:
        daemons = [
            stack.enter_context(Daemon(folder, name, loopback(number), *SHORT_TIMERS))
            for number, name in enumerate(("alpha", "beta"), 31)
        ]
        start_all(daemons)
        yield Place(daemons, stack)


def cli(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    return run("waypost.cli", "--url", daemon.url, *words, timeout=SECONDS)


def test_a_message_that_has_no_queue_there(place: Place) -> None:
    identifier = place.send("nowhere")
    here = place.here.explain(identifier)
    assert f"was sent to {place.beta.address} at " in str(here)
    assert "the destination reports acceptance or refusal only if the message requests this" in str(here)
    there = place.there.explain(identifier)
    assert not there.found
    assert f"arrived from {place.alpha.address} at " in str(there)
    assert "was refused: this computer has no queue with this name" in str(there)
    (line,) = [
        line
        for line in map(json.loads, place.beta.log.splitlines())
        if line["event"] == "message rejected" and "nowhere" in line["queue"]
    ]
    assert line["message"] == identifier
    place.send("nowhere")
    place.send("nowhere")
    assert place.beta.log.count("nowhere") == 1


def test_the_command_line_says_the_same(place: Place) -> None:
    identifier = place.send("t")
    said = cli(place.beta, "explain", identifier)
    assert said.returncode == 1
    assert "a nontransactional message arrived at a transactional queue" in said.stdout
    facts = json.loads(cli(place.beta, "explain", identifier, "--json").stdout)["facts"]
    assert facts["refusal"]["reason"] == "transactional_mismatch"
    assert facts["refusal"]["address"] == place.alpha.address


def test_metrics_count_them_by_reason(place: Place) -> None:
    place.send("small", "x" * 3000)
    lines = place.beta.get("/metrics").splitlines()
    (count,) = [line for line in lines if line.startswith('waypost_messages_refused_total{reason="queue_quota"}')]
    assert float(count.split()[-1]) >= 1


def test_a_refusal_that_was_asked_for_is_told_at_the_sender(place: Place) -> None:
    identifier = place.send(
        "small", "x" * 3000, admin_queue=place.alpha.direct("admin"), acknowledge="full-reach-queue"
    )
    place.here.queue("admin").receive(timeout=SECONDS)
    said = str(place.here.explain(identifier))
    assert f"an acknowledgment of message {identifier} arrived from {place.beta.address}" in said
    assert "the destination queue is full" in said


def test_an_embedded_manager_and_its_asynchronous_twin_explain_too(tmp_path: Any) -> None:
    with waypost.open(tmp_path, name="here") as manager:
        queue = manager.create_queue("q")
        message = queue.send("m")
        assert "has been waiting in the queue" in str(manager.explain(message.id))
        assert manager.explain("q").found
        assert not manager.explain("none").found
        with pytest.raises(waypost.errors.InvalidParameter, match="explain requires a message id or a queue name"):
            manager.explain(7)  # type: ignore[arg-type]

    async def again() -> waypost.Explanation:
        async with aio.open(tmp_path, name="here") as manager:
            return await manager.explain(message.id)

    found = asyncio.run(again())
    assert found.found
    assert found.facts["not_searched"] == 0


def test_a_daemon_that_was_started_again_finds_what_was_there(place: Place) -> None:
    ids = [message.id for message in place.there.create_queue("many").send_many(["m"] * 3000)]
    with place.beta.down():
        pass
    assert place.there.explain(ids[2999]).found
    assert place.there.explain(ids[0]).facts["places"][0]["before"] == 0
