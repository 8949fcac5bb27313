"""The client of the bulk interface, against a daemon."""

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace

import waypost
from tests.client.daemons import Daemon
from waypost.api.bulk import BulkQueue, PlanRange, ReadRange, Removed, RemoveRange, ShowBulkQueue
from waypost.api.frames import Frame
from waypost.api.operation_rows import QueueRight
from waypost.api.operations import Operation, operation
from waypost.client.bulk.client import BulkClient
from waypost.core.stored_message import stored_message
from waypost.errors import (
    AccessDenied,
    CannotConnect,
    DecodeError,
    InvalidParameter,
    QueueDeleted,
    QueueNotFound,
    ServiceNotAvailable,
)
from waypost.guid import guid_text
from waypost.http.settings import HttpSettings


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon") / "data") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def manager(daemon: Daemon) -> Iterator[waypost.Manager]:
    with waypost.connect(daemon.url) as manager:
        yield manager


@pytest.fixture
def client(daemon: Daemon) -> Iterator[BulkClient]:
    with BulkClient(daemon.url) as client:
        yield client


@operation("POST /api/bulk/queues/{name}/plan", asks=QueueRight.PEEK)
class NoFrame(Operation[Frame], frozen=True, kw_only=True):
    """Ask for a frame where there is none."""

    name: str
    parts: int = 1


@operation("GET /api/bulk/queues/{name}", asks=QueueRight.PEEK)
class Mistyped(Operation[Removed], frozen=True, kw_only=True):
    """Ask for a queue, and expect something else."""

    name: str


def bodies(frame: Frame) -> list[bytes]:
    offsets = frame.offsets.cast("i")
    return [stored_message(bytes(frame.packets[offsets[at] : offsets[at + 1]])).body for at in range(frame.count)]


def test_a_long_queue_comes_in_frames(manager: waypost.Manager, client: BulkClient) -> None:
    queue = manager.create_queue("long")
    sent = [b"%d" % number + bytes(1000) for number in range(9000)]
    queue.send_many(sent)
    state = client.queue("long")
    assert (state.count, state.format_name) == (9000, queue.format_name)
    frames = list(client.read_all(ReadRange(name="long", after=state.first - 1, up_to=state.stable)))
    assert len(frames) == 3
    assert all(len(frame.packets) <= 4 << 20 for frame in frames)
    assert [body for frame in frames for body in bodies(frame)] == sent
    assert [frame.is_last for frame in frames] == [False, False, True]
    assert frames[-1].end == state.stable
    plan = client.plan(PlanRange(name="long", parts=4))
    parts = [
        sum(frame.count for frame in client.read_all(ReadRange(name="long", after=after, up_to=end, epoch=plan.epoch)))
        for after, end in pairwise(plan.bounds)
    ]
    assert parts == plan.counts == [2250] * 4


def test_an_empty_range_has_no_frames(manager: waypost.Manager, client: BulkClient) -> None:
    manager.create_queue("empty")
    assert list(client.read_all(ReadRange(name="empty", up_to=99))) == []
    frame = client.read(ReadRange(name="empty", up_to=99))
    assert (frame.count, frame.end, frame.is_last, len(frame.packets)) == (0, 99, True, 0)


def test_messages_are_found_by_time_and_removed(manager: waypost.Manager, client: BulkClient) -> None:
    queue = manager.create_queue("timely")
    queue.send_many([b"a", b"b", b"c"])
    state = client.queue("timely")
    now = datetime.now(UTC)
    assert client.seq_at("timely", now + timedelta(hours=1)) == state.last
    assert client.seq_at("timely", now - timedelta(hours=1)) == 0
    assert client.seq_at("timely", (now + timedelta(hours=1)).timestamp()) == state.last
    with pytest.raises(InvalidParameter, match="time zone"):
        client.seq_at("timely", datetime(2026, 1, 1))  # noqa: DTZ001
    assert client.remove(RemoveRange(name="timely", up_to=state.last - 1)) == Removed(2, 0)
    assert queue.receive(0).body == b"c"


def test_queues_are_listed(manager: waypost.Manager, client: BulkClient) -> None:
    manager.create_queue("listed")
    assert [queue.path for queue in client.queues("list*")] == ["HOST\\private$\\listed"]
    assert [queue.kind for queue in client.queues("listed;*", "journal")] == ["journal"]


def test_the_errors_are_those_of_the_daemon(manager: waypost.Manager, client: BulkClient) -> None:
    queue = manager.create_queue("short-lived")
    queue.send_many([b"a", b"b"])
    wanted = ReadRange(name="short-lived", up_to=1 << 50, max_messages=1)
    first = client.read(wanted)
    queue.delete()
    with pytest.raises(QueueNotFound, match="short-lived is not a queue of this computer"):
        client.queue("short-lived")
    manager.create_queue("short-lived")
    with pytest.raises(QueueDeleted, match="deleted and created again"):
        list(client.read_all(replace(wanted, after=first.end, epoch=guid_text(first.epoch))))
    assert bodies(first) == [b"a"]
    headers = {"content-type": "application/json"}
    asked = urllib.request.Request(f"{manager.url}/api/bulk/queues/short-lived/read", b"{}", headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked)
    with refused.value as answer:
        assert b"missing required field" in answer.read()


def test_what_is_no_frame_is_said_to_be_none(manager: waypost.Manager, client: BulkClient) -> None:
    manager.create_queue("plain")
    with pytest.raises(DecodeError, match="too old"):
        client.call(NoFrame(name="plain"))


def test_threads_share_a_client(manager: waypost.Manager, client: BulkClient) -> None:
    queue = manager.create_queue("shared")
    queue.send_many([b"%d" % number for number in range(400)])
    state = client.queue("shared")

    def count(_: int) -> int:
        wanted = ReadRange(name="shared", after=state.first - 1, up_to=state.last, max_messages=50)
        return sum(frame.count for frame in client.read_all(wanted))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count, range(8))) == [400] * 8


def test_a_restart_of_the_daemon_is_not_noticed(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data")
    with daemon, waypost.connect(daemon.url) as manager:
        manager.create_queue("orders").send("x")
        client = BulkClient(daemon.url)
        before = client.queue("orders")
    with daemon:
        after = client.queue("orders")
        assert (after.epoch, after.last) == (before.epoch, before.last)
        assert client.read(ReadRange(name="orders", up_to=after.stable)).count == 1
        client.close()


def test_without_a_daemon_or_its_token_it_says_so(tmp_path: Path) -> None:
    with Daemon(tmp_path / "data", HttpSettings(token="secret")) as daemon:
        with pytest.raises(AccessDenied, match="token"):
            BulkClient(daemon.url)
        with BulkClient(daemon.url, "secret") as client:
            assert client.queues() == []
            assert repr(client) == f"<BulkClient of {daemon.url}>"
        with pytest.raises(ServiceNotAvailable, match="closed"):
            client.queues()
    with pytest.raises(CannotConnect, match="cannot reach the daemon"):
        BulkClient(daemon.url)
    with pytest.raises(InvalidParameter, match="must have the form http"):
        BulkClient("127.0.0.1")


def test_what_answers_may_be_something_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail.example.org ESMTP\r\n\r\n")

        thread = Thread(target=answer)
        thread.start()
        with pytest.raises(CannotConnect, match="is not a Waypost daemon"):
            BulkClient(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


def test_an_answer_has_the_type_that_was_asked_for(manager: waypost.Manager, client: BulkClient) -> None:
    manager.create_queue("typed")
    assert isinstance(client.call(ShowBulkQueue(name="typed")), BulkQueue)
    with pytest.raises(DecodeError, match="the answer does not come from a Waypost daemon"):
        client.call(Mistyped(name="typed"))
