"""Remote readers of a daemon in a separate process: those that vanish, those that exclude others, and many that wait.

tests/crash/remote_campaign.py does the same at random, with processes that are killed.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

import waypost
from tests.crash.daemons import Daemon, loopback, patience
from tests.crash.remote_reader import INFINITE, RemoteReader, body_of
from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import EndReceiveRequest, RemoteReadAck
from waypost.rpc.faults import RpcFault
from waypost.wire.ndr import ContextHandle

# Far less than the 300 seconds for which a message stays locked for a reader that is there and silent.
SOON_MS: Final = 10_000
WAITING: Final = 500
MAX_GROWTH: Final = 20 << 20
LARGE: Final = 3_000_000


class Place:
    """A daemon, and one queue for each test."""

    def __init__(self, daemon: Daemon, manager: waypost.Manager) -> None:
        self.daemon = daemon
        self.manager = manager
        self._numbers = iter(range(1, 1000))

    def queue(self) -> waypost.Queue:
        self.name = f"queue{next(self._numbers)}"
        return self.manager.create_queue(self.name)

    def reader(self, assoc_group_id: int = 0) -> RemoteReader:
        return RemoteReader(self.daemon.address, assoc_group_id=assoc_group_id)

    def open(self, reader: RemoteReader, *, exclusive: bool = False) -> ContextHandle:
        return reader.open(self.daemon.direct(self.name), exclusive=exclusive)

    def receive(self) -> bytes | None:
        """Receive with a separate reader, which finds the message soon if nobody has it."""
        with self.reader() as reader:
            return reader.receive(self.open(reader), SOON_MS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with a_place(tmp_path_factory.mktemp("remote"), loopback(41)) as place:
        yield place


@contextmanager
def a_place(folder: Path, address: str) -> Iterator[Place]:
    with Daemon(folder, "alpha", address) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            yield Place(daemon, manager)
        assert daemon.stop() == 0
        assert "unexpected error" not in daemon.log


# Where a reader is when it vanishes. Each goes as far as its name says, on a queue with one message.


def connected(_place: Place, _reader: RemoteReader) -> None: ...


def bound(_place: Place, reader: RemoteReader) -> None:
    reader.bind()


def opened(place: Place, reader: RemoteReader) -> None:
    place.open(reader)


def asked(place: Place, reader: RemoteReader) -> None:
    """The message is on its way, and nobody reads it."""
    reader.start(place.open(reader))


def half_answered(place: Place, reader: RemoteReader) -> None:
    reader.start(place.open(reader))
    assert reader.socket.recv(1000)


def taken(place: Place, reader: RemoteReader) -> None:
    _, reply = reader.take(place.open(reader))
    assert len(body_of(reply)) == LARGE


def taken_after_a_wait(place: Place, reader: RemoteReader) -> None:
    reader.take(place.open(reader), INFINITE)


def half_ended(place: Place, reader: RemoteReader) -> None:
    """All but the last byte of the second phase."""
    context = place.open(reader)
    request_id, _ = reader.take(context)
    reader.connection.call(reader.interface, 9, EndReceiveRequest(context, RemoteReadAck.RR_ACK, request_id))
    reader.socket.sendall(reader.connection.take_output()[:-1])


def rejected(place: Place, reader: RemoteReader) -> None:
    context = place.open(reader)
    request_id, _ = reader.take(context)
    assert reader.end(context, request_id, RemoteReadAck.RR_NACK) == HResult.MQ_OK


def rejection_sent(place: Place, reader: RemoteReader) -> None:
    context = place.open(reader)
    request_id, _ = reader.take(context)
    reader.begin(9, EndReceiveRequest(context, RemoteReadAck.RR_NACK, request_id))


def closed(place: Place, reader: RemoteReader) -> None:
    """It has taken the message and closed the queue, but not ended the receive."""
    context = place.open(reader)
    reader.take(context)
    reader.close_queue(context)


ENDS: Final = [RemoteReader.close, RemoteReader.abort]
STEPS: Final = [
    connected, bound, opened, asked, half_answered, taken, taken_after_a_wait, half_ended, rejected, rejection_sent,
    closed,
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("step", STEPS)
def test_a_reader_that_vanishes_before_the_second_phase_loses_nothing_and_locks_nothing(
    place: Place, step: Callable[[Place, RemoteReader], None], end: Callable[[RemoteReader], None]
) -> None:
    queue = place.queue()
    body = bytes(LARGE)
    queue.send(body, recoverable=True)
    reader = place.reader()
    step(place, reader)
    end(reader)
    assert place.receive() == body
    assert queue.info().message_count == 0


@pytest.mark.parametrize("end", ENDS)
def test_a_reader_that_vanishes_while_it_waits_takes_nothing(
    place: Place, end: Callable[[RemoteReader], None]
) -> None:  # fmt: skip
    queue = place.queue()
    reader = place.reader()
    context = place.open(reader)
    reader.start(context, INFINITE)
    reader.start(context, INFINITE)
    end(reader)
    queue.send(b"hello")
    assert place.receive() == b"hello"
    assert queue.info().message_count == 0


@pytest.mark.parametrize("end", ENDS)
def test_after_the_second_phase_was_sent_a_message_is_gone_or_there_and_never_locked(
    place: Place, end: Callable[[RemoteReader], None]
) -> None:
    queue = place.queue()
    queue.send(b"first")
    reader = place.reader()
    context = place.open(reader)
    request_id, _ = reader.take(context)
    reader.begin(9, EndReceiveRequest(context, RemoteReadAck.RR_ACK, request_id))
    end(reader)
    queue.send(b"second")
    received = place.receive()
    if received == b"first":
        received = place.receive()
    assert received == b"second"
    assert queue.info().message_count == 0


def test_what_was_received_does_not_come_again_when_the_reader_or_the_daemon_is_killed(tmp_path: Path) -> None:
    with Daemon(tmp_path, "beta", loopback(42)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            manager.create_queue("orders").send_many([b"one", b"two", b"three"], recoverable=True)
        reader = RemoteReader(daemon.address)
        context = reader.open(daemon.direct("orders"))
        assert reader.receive(context) == b"one"
        reader.take(context)
        with daemon.down():
            reader.close()
        with RemoteReader(daemon.address) as reader:
            context = reader.open(daemon.direct("orders"))
            assert [reader.receive(context) for _ in range(3)] == [b"two", b"three", None]


def test_handles_of_a_group_outlive_one_of_its_connections_and_go_with_the_last(place: Place) -> None:
    queue = place.queue()
    queue.send(b"hello")
    first = place.reader()
    context = place.open(first)
    request_id, _ = first.take(context)
    second = place.reader(first.connection.assoc_group_id).bind()
    first.abort()
    with place.reader() as other:
        assert other.receive(place.open(other), 200) is None
    assert second.end(context, request_id, RemoteReadAck.RR_NACK) == HResult.MQ_OK
    second.take(context)
    second.abort()
    assert place.receive() == b"hello"


def test_an_exclusive_reader_is_alone_until_it_closes_or_vanishes(place: Place) -> None:
    place.queue()

    def is_refused(*, exclusive: bool) -> bool:
        with place.reader() as other:
            try:
                other.close_queue(place.open(other, exclusive=exclusive))
            except RpcFault as fault:
                assert fault.status == HResult.MQ_ERROR_SHARING_VIOLATION
                return True
        return False

    def becomes_free() -> None:
        with patience(SOON_MS / 1000, "the queue is not free") as turns:
            for _ in turns:
                if not is_refused(exclusive=True):
                    break

    for end in ENDS:
        first = place.reader()
        place.open(first, exclusive=True)
        assert is_refused(exclusive=True)
        assert is_refused(exclusive=False)
        end(first)
        becomes_free()
    with place.reader() as sharing:
        context = place.open(sharing)
        assert not is_refused(exclusive=False)
        assert is_refused(exclusive=True)
        sharing.close_queue(context)
        assert not is_refused(exclusive=True)


@pytest.mark.parametrize("connections", [5, WAITING])
def test_500_receives_that_wait_cost_no_threads_and_little_memory_and_each_gets_a_message(
    tmp_path: Path, connections: int
) -> None:
    with ExitStack() as stack:
        # One that has no memory to use again.
        place = stack.enter_context(a_place(tmp_path, loopback(42)))
        queue = place.queue()
        queue.send(b"warm-up")
        assert place.receive() == b"warm-up"
        threads, memory = place.daemon.threads, place.daemon.memory
        waits = []
        for _ in range(connections):
            reader = stack.enter_context(place.reader())
            context = place.open(reader)
            waits += [(reader, context, *reader.start(context, INFINITE)) for _ in range(WAITING // connections)]
        # Earlier requests are served first.
        for reader, *_ in waits:
            place.open(reader)
        assert place.daemon.threads == threads
        assert place.daemon.memory - memory < MAX_GROWTH
        queue.send_many([struct.pack("<I", number) for number in range(WAITING)])
        bodies = []
        for reader, context, request_id, call_id in waits:
            bodies.append(body_of(reader.result(call_id)))
            assert reader.end(context, request_id) == HResult.MQ_OK
        assert len(waits) == WAITING
        assert sorted(bodies) == sorted(struct.pack("<I", number) for number in range(WAITING))
        assert queue.info().message_count == 0
        assert place.daemon.threads == threads
