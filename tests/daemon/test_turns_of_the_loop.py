"""A daemon in a separate process says how long its loop was held up, and by what; its lists and moves are whole."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.crash.daemons import Daemon, loopback
from tests.http.test_rpc_watching import checks, get
from waypost.api.bulk import CommitStages, StagedMessages
from waypost.api.operations import MoveAll
from waypost.api.properties import MessageProperties
from waypost.client.bulk.client import BulkClient
from waypost.drive.loop_watch import BOUNDS, LoopTurn, LoopWatch
from waypost.http.doctor import _turns
from waypost.limits import LONG_TURN_SECONDS, MAX_DELIVERED, MOVE_PART

ROOT = Path(__file__).parents[2]
MESSAGES = 3 * MOVE_PART + 1


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("turns"), "turns", loopback(61)) as daemon:
        daemon.start()
        yield daemon


def test_metrics_tell_of_turns_and_are_documented(daemon: Daemon) -> None:
    families = {family.name: family for family in text_string_to_metric_families(get(daemon, "/metrics"))}
    names = [name for name in families if name.startswith("waypost_loop_")]
    assert len(names) == 4
    document = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in document] == []
    samples = families["waypost_loop_turn_seconds"].samples
    by_bound = {each.labels["le"]: each.value for each in samples if each.name.endswith("_bucket")}
    assert [float(bound) for bound in by_bound] == [*BOUNDS, float("inf")]
    assert 0 < list(by_bound.values())[-1] == next(each.value for each in samples if each.name.endswith("_count"))
    assert list(by_bound.values()) == sorted(by_bound.values())


def test_status_and_doctor_name_what_held_the_loop_up(daemon: Daemon) -> None:
    status = json.loads(get(daemon, "/api/status?turns_s=600"))
    assert isinstance(status["slow_turns"], int)
    turn = status["longest_turn"]
    assert turn is None or set(turn) == {"at", "seconds", "work_seconds", "what"}
    assert "0.1 s" in checks(daemon)["loop"]["message"]


def watch_with(*turns: LoopTurn) -> LoopWatch:
    watch = LoopWatch(lambda _: None)
    watch._longest.extend(turns)
    watch.slow.update(turn.what for turn in turns if turn.seconds > LONG_TURN_SECONDS)
    return watch


@pytest.mark.parametrize(
    ("seconds", "work", "is_ok", "said"),
    [
        (0.05, 0.05, True, "in the last 10 minutes, no task blocked the daemon for more than 0.1 s"),
        (0.4, 0.4, True, "busy with a purge for 0.40 s"),
        (3.0, 0.2, True, "0.20 s of this was working time"),
        (3.0, 2.9, False, "busy with a purge for 3.00 s"),
    ],
)
def test_doctor_warns_of_work_that_was_too_long(seconds: float, work: float, *, is_ok: bool, said: str) -> None:
    (check,) = _turns(watch_with(LoopTurn(2e9, seconds, work, "a purge")))
    assert check.ok is is_ok
    assert said in check.message
    assert bool(check.hint) is not is_ok


def test_a_move_of_all_goes_part_by_part_over_http(daemon: Daemon) -> None:
    with daemon.connect() as manager:
        queue = manager.create_queue("orders")
        everything = [message.id for message in queue.send_many([b"x"] * MESSAGES)]
        moved: list[int] = []
        assert queue.move_all("orders;retry", progress=moved.append) == MESSAGES == sum(moved)
        assert queue.info().message_count == 0
        assert [message.id for message in queue.subqueue("retry").browse()] == everything


def test_others_are_answered_between_the_turns_of_a_delivery(daemon: Daemon) -> None:
    """Requests that the daemon has got together with a commit are answered before its delivery ends."""
    count, group = 40 * MAX_DELIVERED, 10 * MAX_DELIVERED
    with daemon.connect() as manager, BulkClient(daemon.url) as bulk:
        manager.create_queue("delivered", transactional=True)
        other = manager.create_queue("other")
        alike = StagedMessages(queue="delivered", like=MessageProperties(), bodies=[b"some"] * group)
        stages = [bulk.stage("query", 0, [alike]) for _ in range(count // group)]
        assert bulk.queue("delivered").staged == count
        turns = turns_of(daemon)
        commit = json.dumps({"query": "query", "batch": 0, "stages": stages, "wait_s": 0}).encode()
        committed, between, alive = pipelined(
            daemon,
            ("POST", "/api/bulk/commits", commit),
            ("GET", "/api/bulk/queues/delivered", b""),
            ("GET", "/health/live", b""),
        )
        # The turn of the commit delivers the first messages, and no more.
        assert committed["count"] == count
        assert committed["left"] == count - MAX_DELIVERED
        assert 0 < between["arriving"] <= count - MAX_DELIVERED
        assert alive
        other.send(b"between")
        wish = CommitStages(query="query", batch=0, stages=stages)
        assert bulk.commit_all(wish, 60).is_repeated
        assert (bulk.queue("delivered").count, bulk.queue("delivered").arriving) == (count, 0)
    # Each turn delivers a part of that size.
    assert turns_of(daemon) - turns >= count // MAX_DELIVERED


def turns_of(daemon: Daemon) -> float:
    families = text_string_to_metric_families(get(daemon, "/metrics"))
    samples = [each for family in families if family.name == "waypost_loop_turn_seconds" for each in family.samples]
    return next(each.value for each in samples if each.name.endswith("_count"))


def pipelined(daemon: Daemon, *requests: tuple[str, str, bytes]) -> list[Any]:
    """The answers to requests that are sent together on one connection."""
    host = daemon.url.removeprefix("http://").rstrip("/")
    lines = "".join(f"{name}: {value}\r\n" for name, value in daemon.headers.items())
    whole = b"".join(
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{lines}Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
        for method, path, body in requests
    )
    address, _, port = host.rpartition(":")
    answers = []
    with socket.create_connection((address, int(port))) as connection, connection.makefile("rb") as found:
        connection.sendall(whole)
        for _ in requests:
            assert found.readline().split()[1] == b"200"
            size = 0
            while (line := found.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                size = int(value) if name.lower() == b"content-length" else size
            answers.append(json.loads(found.read(size)))
    return answers


def test_a_daemon_that_is_killed_while_it_moves_has_each_message_in_one_place(tmp_path: Path) -> None:
    with Daemon(tmp_path, "killed", loopback(62)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            queue = manager.create_queue("orders")
            everything = sorted(message.id for _ in range(8) for message in queue.send_many([b"x"] * 1000))
            # One request of many: the daemon is killed when it has answered.
            answer = manager._transport.call(MoveAll(name="orders", to="orders;retry"))
            assert 0 < answer.moved < len(everything)
            assert answer.next
            daemon.kill()
        daemon.start()
        with daemon.connect() as manager:
            left = [message.id for message in manager.queue("orders").browse()]
            moved = [message.id for message in manager.queue("orders;retry").browse()]
            assert len(moved) >= answer.moved
            assert sorted(left + moved) == everything
            assert manager.queue("orders").move_all("orders;retry") == len(left)
        assert daemon.stop() == 0
