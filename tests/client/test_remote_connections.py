"""Requests over broken connections, and to broken daemons."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Any, Self

import msgspec
import pytest

import waypost
from tests.client.managers import Beside, until
from tests.test_errors import TREE
from waypost import errors
from waypost.client.transports.http import blocking
from waypost.client.transports.http.packing import error_of
from waypost.client.transports.http.schema import ErrorObject, Greeting, SentIds
from waypost.errors import AccessDenied, CannotConnect, ConnectionLost, ServiceNotAvailable, WaypostError
from waypost.http.problems import problem

STATUS = Greeting(name="HOST", guid="12345678-9abc-def0-1234-56789abcdef0", max_wait_s=5)

# An answer, or None to close the connection instead.
Answer = bytes | None


def ok(content: Any, *, more: str = "") -> bytes:
    body = msgspec.msgpack.encode(content)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/x-msgpack\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


NO_QUEUES = ok({"queues": []})
ONE_SENT = ok(
    SentIds(source=STATUS.guid, sent_time=1, arrival_time=1, time_to_reach_queue=1, first_ordinal=1, lookup_ids=[1])
)


class Fake:
    """Answers the status first, and then what `answers` has; it keeps the requests."""

    def __init__(self, *answers: Answer | Callable[[socket.socket], None], first: Answer = None) -> None:
        self._answers = [first or ok(STATUS), *answers]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        self.heads: list[list[bytes]] = []
        self.connections = 0
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        while self._open:
            connection = self._open.pop()
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        while True:
            try:
                request = connection.recv(65536)
            except OSError:
                return
            if not request:
                return
            self.requests.append(request.partition(b" HTTP")[0])
            self.heads.append(request.partition(b"\r\n\r\n")[0].split(b"\r\n"))
            answer = self._answers.pop(0) if self._answers else None
            if answer is None:
                self._open.remove(connection)
                connection.shutdown(socket.SHUT_RDWR)
                connection.close()
                return
            if callable(answer):
                answer(connection)
            else:
                connection.sendall(answer)


def nothing(_: socket.socket) -> None:
    """No answer at all."""


@pytest.fixture
def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at every connection before it is used again, as after a rest."""
    monkeypatch.setattr(blocking, "_RESTED_SECONDS", 0)


def test_where_no_daemon_listens_the_error_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(CannotConnect, match=f"cannot reach the daemon at http://127.0.0.1:{port}:") as caught:
        waypost.connect(f"http://127.0.0.1:{port}")
    assert "waypost serve" in caught.value.__notes__[0]


def test_a_host_that_is_not_there_cannot_be_reached() -> None:
    with pytest.raises(CannotConnect):
        waypost.connect("http://no-such-host.invalid:8181")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8181", "ftp://host", "http://", "http://host:99999", "http://host/a b", "http://h?x=1", 7]
)
def test_what_is_no_address_is_refused(url: Any) -> None:
    with pytest.raises(errors.InvalidParameter):
        waypost.connect(url)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": None}, {"token": "a\r\nb"}, {"token": 7}])
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidParameter):
        waypost.connect("http://127.0.0.1:1", **options)


@pytest.mark.parametrize("first", [b"SSH-2.0-OpenSSH_9\r\n\r\n", ok({"hello": "world"}), ok([])])
def test_something_else_that_answers_is_no_daemon(first: bytes) -> None:
    with Fake(first=first) as fake, pytest.raises(CannotConnect, match=f"{fake.url} is not a Waypost daemon"):
        waypost.connect(fake.url)


def test_something_that_hangs_up_is_no_daemon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            listener.accept()[0].close()

        Thread(target=hang_up, daemon=True).start()
        with pytest.raises(CannotConnect, match="is not a Waypost daemon, or the daemon is stopping"):
            waypost.connect(f"http://127.0.0.1:{listener.getsockname()[1]}")


@pytest.mark.parametrize(
    ("status", "error"), [("401 Unauthorized", AccessDenied), ("502 Bad Gateway", ServiceNotAvailable)]
)
def test_a_refusal_without_an_error_object_becomes_an_error(status: str, error: type[WaypostError]) -> None:
    first = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>".encode()
    with Fake(first=first) as fake, pytest.raises(error, match=status[:3]):
        waypost.connect(fake.url)


def test_one_connection_serves_request_after_request() -> None:
    with Fake(NO_QUEUES, NO_QUEUES, NO_QUEUES) as fake, waypost.connect(fake.url) as manager:
        for _ in range(3):
            assert manager.queues() == []
        assert fake.connections == 1


def test_a_connection_that_the_daemon_wants_closed_is_not_used_again() -> None:
    closing = ok({"queues": []}, more="Connection: close\r\n")
    with Fake(closing, NO_QUEUES) as fake, waypost.connect(fake.url) as manager:
        manager.queues()
        manager.queues()
        assert fake.connections == 2


@pytest.mark.usefixtures("always_look")
def test_a_connection_that_was_closed_while_it_rested_is_replaced_before_anything_is_sent() -> None:
    with Fake(nothing) as fake, waypost.connect(fake.url, timeout=1) as manager:
        fake.hang_up()
        with Beside(manager.queue("orders").send, "x") as sending:
            until(lambda: len(fake.requests) == 2)
            assert fake.connections == 2
        with pytest.raises(ConnectionLost):
            sending.result()


def test_a_look_is_repeated_when_the_connection_breaks() -> None:
    with Fake(None, NO_QUEUES) as fake, waypost.connect(fake.url) as manager:
        assert manager.queues() == []
        assert fake.requests[1:] == [b"GET /api/queues"] * 2


def test_a_send_is_not_repeated_and_its_outcome_is_said_to_be_unknown() -> None:
    with Fake(None, NO_QUEUES) as fake, waypost.connect(fake.url) as manager:
        with pytest.raises(ConnectionLost, match="it is unknown whether the daemon executed the operation"):
            manager.queue("orders").send("x")
        assert len(fake.requests) == 2
        # The next request goes on another connection.
        assert manager.queues() == []


def test_an_answer_that_stops_in_the_middle_is_a_lost_connection() -> None:
    def half(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        connection.shutdown(socket.SHUT_RDWR)

    with Fake(half) as fake, waypost.connect(fake.url) as manager, pytest.raises(ConnectionLost):
        manager.queue("orders").receive(0)


def test_an_answer_that_does_not_come_in_time_is_a_lost_connection() -> None:
    with Fake(nothing) as fake, waypost.connect(fake.url, timeout=0.2) as manager:
        queue = manager.queue("orders")
        with pytest.raises(ConnectionLost, match=r"within 0\.2 seconds"):
            queue.send("x")


@pytest.mark.parametrize("verb", ["purge", "delete"])
def test_a_queue_with_many_messages_may_take_its_time(verb: str) -> None:
    def late(connection: socket.socket) -> None:
        time.sleep(1.5)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with Fake(late) as fake, waypost.connect(fake.url, timeout=1) as manager:
        getattr(manager.queue("orders"), verb)()


def test_a_commit_without_an_answer_is_asked_for_again() -> None:
    done = b"HTTP/1.1 204 No Content\r\n\r\n"
    with Fake(ONE_SENT, None, done) as fake, waypost.connect(fake.url) as manager:
        with manager.transaction() as transaction:
            manager.queue("ledger").send("x", transaction=transaction)
        assert not transaction.is_open
        assert fake.requests[2] == fake.requests[3] == f"POST /api/transactions/{transaction.id}/commit".encode()


def test_a_commit_that_nobody_answers_leaves_the_transaction_in_doubt() -> None:
    with Fake(ONE_SENT) as fake, waypost.connect(fake.url) as manager:
        transaction = manager.transaction()
        manager.queue("ledger").send("x", transaction=transaction)
        with pytest.raises(ConnectionLost):
            transaction.commit()
        assert "in doubt" in repr(transaction)
        with pytest.raises(errors.TransactionSequence):
            transaction.abort()


def test_a_transaction_that_was_not_used_asks_for_nothing() -> None:
    with Fake() as fake, waypost.connect(fake.url) as manager:
        with manager.transaction():
            pass
        manager.transaction().abort()
        assert len(fake.requests) == 1


def test_every_request_has_the_token_and_the_path_of_the_address() -> None:
    with Fake(NO_QUEUES) as fake, waypost.connect(f"{fake.url}/proxy/", token="secret") as manager:
        manager.queues()
    assert fake.requests == [b"GET /proxy/api/identity", b"GET /proxy/api/queues"]
    assert all(b"Authorization: Bearer secret" in head for head in fake.heads)


def test_after_close_nothing_can_be_asked() -> None:
    with Fake() as fake:
        manager = waypost.connect(fake.url)
        manager.close()
        manager.close()
        with pytest.raises(ServiceNotAvailable, match="closed"):
            manager.queues()


def _examples() -> Iterator[WaypostError]:
    for cls in TREE:
        if issubclass(cls, errors.DecodeError):
            yield cls("MS-MQMQ 2.1", "Field", 3, "it is wrong")
        elif issubclass(cls, errors.EncodeError):
            yield cls("MS-MQMQ 2.1", "Field", "it is wrong")
        else:
            yield cls("it is wrong")


@pytest.mark.parametrize("error", list(_examples()), ids=lambda error: type(error).__name__)
def test_an_error_of_the_daemon_comes_back_as_what_it_was(error: WaypostError) -> None:
    content = msgspec.msgpack.encode(problem(error))
    found = error_of(msgspec.msgpack.decode(content, type=ErrorObject))
    assert (type(found), found.args, str(found)) == (type(error), error.args, str(error))


@pytest.mark.parametrize("name", ["NoSuchError", "HResult", "__name__", "DecodeError"])
def test_an_error_that_this_version_does_not_know_is_one_all_the_same(name: str) -> None:
    found = error_of(ErrorObject(error=name, hresult="0xC00E0001", message="it is wrong", hint="mend it"))
    assert type(found) is WaypostError
    assert (str(found), found.__notes__) == ("it is wrong", ["mend it"])
