"""Two daemons in separate processes: one reads the queues of the other for its clients, over RPC."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import httpx
import msgspec
import pytest

import waypost
from tests.crash.daemons import Daemon, loopback, patience, start_all
from tests.crash.remote_reader import MAX_BODY, RemoteReader
from tests.daemon.commands import waypost_of
from waypost.daemon.loading import ConfigError, load
from waypost.errors import (
    AccessDenied,
    HostUnreachable,
    MessageNotFound,
    QueueNotFound,
    SharingViolation,
    Timeout,
    TransactionUsage,
)
from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import (
    EndTransactionalReceiveRequest,
    QMEnlistRemoteTransactionRequest,
    ReceiveAction,
    RemoteReadAck,
    StartTransactionalReceiveRequest,
)
from waypost.remote.remote_read.coordinator import local_token
from waypost.wire.format_names import FormatName
from waypost.wire.queue_format import QueueFormat
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.remote_trailers import ExtendedAddressHeader, HostAddressType
from waypost.wire.section_buffer import join_sections

SECONDS: Final = 60
SETTINGS: Final = ("remote.timeout_s=60", "remote.epm_port=0")


class Place:
    """A client of alpha, which reads at beta; and what is done at beta itself."""

    def __init__(self, daemons: list[Daemon], stack: ExitStack) -> None:
        self.alpha_daemon, self.beta_daemon = daemons
        self.alpha = stack.enter_context(self.alpha_daemon.connect())
        self.beta = stack.enter_context(self.beta_daemon.connect())
        self._numbers = iter(range(1, 1000))

    def queues(self, *bodies: str) -> tuple[waypost.Queue, waypost.Queue]:
        """A new queue at beta with these messages: as alpha reads it, and as beta has it."""
        name = f"queue{next(self._numbers)}"
        own = self.beta.create_queue(name)
        own.send_many(bodies)
        return self.alpha.queue(self.beta_daemon.direct(name)), own

    def await_read(self, own: waypost.Queue) -> None:
        """Until a read waits at beta: one that begins while beta is away is told so."""
        with patience(SECONDS, "no read waits") as turns:
            for _ in turns:
                explained = json.loads(self.beta_daemon.get(f"/api/explain?{urlencode({'queue': own.format_name})}"))
                if explained["facts"]["waiting_reads"]:
                    return

    def unacknowledged(self) -> int:
        """Number of messages of alpha that are not known to be durable at their queues."""
        waiting = 0
        for queue in self.alpha.outgoing_queues():
            # An idle one goes at any time.
            with suppress(QueueNotFound):
                waiting += queue.info().message_count
        return waiting


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("reading")
    alpha, beta = (Daemon(folder, name, loopback(50 + at), *SETTINGS) for at, name in enumerate(("ALPHA", "BETA")))
    beta.prepare()
    alpha.settings.append(f"routing.routes={beta.guid}={beta.address}")
    with ExitStack() as stack:
        for daemon in (alpha, beta):
            stack.enter_context(daemon)
        start_all([alpha, beta])
        yield Place([alpha, beta], stack)


def texts(messages: Iterator[waypost.Message]) -> list[str]:
    return [message.text for message in messages]


def test_messages_are_received_from_the_other_host(place: Place) -> None:
    queue, own = place.queues("1", "2", "3")
    first = queue.receive(0)
    assert (first.text, first.source_machine) == ("1", place.beta.guid)
    assert [message.text for message in queue.receive_many(10, 0)] == ["2", "3"]
    with pytest.raises(Timeout):
        queue.receive(0)
    assert own.info().message_count == 0
    assert place.alpha.outgoing_queues() == []


def test_a_receive_waits_for_a_message_there(place: Place) -> None:
    queue, own = place.queues()
    received: list[str] = []
    readers = [threading.Thread(target=lambda: received.append(queue.receive(SECONDS).text)) for _ in range(3)]
    for reader in readers:
        reader.start()
    own.send_many(["1", "2", "3"])
    for reader in readers:
        reader.join(SECONDS)
    assert sorted(received) == ["1", "2", "3"]


def test_a_wait_ends_in_its_time(place: Place) -> None:
    queue, own = place.queues()
    with pytest.raises(Timeout):
        queue.receive(0.2)
    own.send("later")
    assert queue.receive(0).text == "later"


@pytest.mark.parametrize("kind", ["json", "msgpack"])
def test_a_client_that_leaves_while_it_waits_takes_nothing(place: Place, kind: str) -> None:
    queue, own = place.queues()
    path = f"{place.alpha_daemon.url}/api/queues/{quote(queue.format_name, safe='')}/receive"
    content = json.dumps({"timeout_s": 30}).encode() if kind == "json" else msgspec.msgpack.encode({"timeout_s": 30})
    headers = {"content-type": f"application/{kind}", "accept": f"application/{kind}"}
    headers |= place.alpha_daemon.headers
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(path, content=content, headers=headers, timeout=0.5)
    for _ in range(20):
        own.send("1")
        assert queue.receive(SECONDS).text == "1"


def test_messages_there_are_looked_at(place: Place) -> None:
    queue, own = place.queues(*map(str, range(250)))
    assert queue.peek(0).text == "0"
    assert texts(queue.browse()) == list(map(str, range(250)))
    third = own.peek(0, seek="last")
    assert queue.peek(lookup_id=third.lookup_id).id == third.id
    assert queue.peek(lookup_id=third.lookup_id, seek="previous").text == "248"
    assert queue.receive(lookup_id=third.lookup_id).id == third.id
    with pytest.raises(MessageNotFound):
        queue.receive(lookup_id=third.lookup_id)
    assert own.info().message_count == 249


def test_a_cursor_goes_along_a_queue_there(place: Place) -> None:
    queue, own = place.queues("1", "2", "3")
    with queue.cursor() as cursor:
        assert cursor.peek(0).text == "1"
        assert cursor.peek_next(0).text == "2"
        assert cursor.receive(0).text == "2"
    assert texts(own.browse()) == ["1", "3"]


def test_a_queue_there_is_followed_and_purged(place: Place) -> None:
    queue, own = place.queues("1", "2")
    assert texts(queue.follow(timeout=0.1)) == ["1", "2"]
    own.send("3")
    queue.purge()
    assert own.info().message_count == 0


def test_messages_are_moved_into_a_subqueue_and_back(place: Place) -> None:
    queue, _own = place.queues("1", "2")
    retry = queue.subqueue("retry")
    queue.move(queue.peek(0), retry)
    assert texts(retry.browse()) == ["1"]
    retry.move(retry.peek(0), queue)
    assert texts(queue.follow(timeout=0)) == ["1", "2"]


def test_a_private_name_leads_to_the_host_of_its_route(place: Place) -> None:
    _, own = place.queues("1")
    name = own.info().private_format_name
    assert name is not None
    assert name.startswith(f"PRIVATE={place.beta.guid}")
    assert place.alpha.queue(name).receive(0).text == "1"
    with pytest.raises(QueueNotFound, match="and its host is unknown"):
        place.alpha.queue(r"PRIVATE=deadbeef-0000-4000-8000-000000000001\00000001").receive(0)


def test_a_name_that_means_this_computer_is_its_own_queue(place: Place) -> None:
    own = place.alpha.create_queue("own")
    own.send("1")
    named = place.alpha.queue(place.alpha_daemon.direct("own"))
    with place.alpha.transaction() as transaction:
        assert named.receive(0, transaction=transaction).text == "1"


def test_a_queue_there_is_denied_to_others(place: Place) -> None:
    queue, own = place.queues("1", "2")
    with place.alpha.queue(queue.format_name, exclusive=True) as alone:
        assert alone.receive(0).text == "1"
        with pytest.raises(SharingViolation):
            own.receive(0)
        with pytest.raises(SharingViolation):
            queue.receive(0)
    assert queue.receive(0).text == "2"


def test_what_cannot_be_is_refused(place: Place) -> None:
    queue, own = place.queues("1")
    with pytest.raises(QueueNotFound, match="does not exist on the host; check the name"):
        place.alpha.queue(place.beta_daemon.direct("nowhere")).receive(0)
    with pytest.raises(QueueNotFound, match="another computer"):
        queue.info()
    transaction = place.alpha.transaction()
    with pytest.raises(TransactionUsage, match="another computer"):
        queue.receive(0, transaction=transaction)
    transaction.abort()
    assert texts(own.browse()) == ["1"]


def test_a_host_that_is_not_there_is_a_sentence(place: Place) -> None:
    with pytest.raises(HostUnreachable, match="is unreachable"):
        place.alpha.queue(rf"DIRECT=TCP:{loopback(59)}\private$\orders").receive(0)


def test_a_wait_survives_a_restart_of_the_other_host(place: Place) -> None:
    queue, own = place.queues()
    with pytest.raises(Timeout):
        queue.receive(0)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(queue.receive(SECONDS).text))
    reader.start()
    place.await_read(own)
    with place.beta_daemon.down():
        pass
    with place.beta_daemon.connect() as beta:
        beta.send(own.format_name, "after")
    reader.join(SECONDS)
    assert received == ["after"]


def test_a_daemon_stops_while_its_clients_wait_for_another(tmp_path: Path, place: Place) -> None:
    queue, own = place.queues()
    with Daemon(tmp_path, "GAMMA", loopback(52), *SETTINGS) as gamma:
        gamma.start()
        failures: list[Exception] = []

        def wait() -> None:
            with gamma.connect() as manager:
                try:
                    manager.queue(queue.format_name).receive(SECONDS)
                except waypost.errors.WaypostError as error:
                    failures.append(error)

        reader = threading.Thread(target=wait)
        reader.start()
        with gamma.connect() as manager, pytest.raises(Timeout):
            manager.queue(queue.format_name).receive(0.5)
        assert gamma.stop() == 0
        reader.join(SECONDS)
        assert len(failures) == 1
    own.send("1")
    assert queue.receive(0).text == "1"


def test_the_daemon_says_who_it_is(tmp_path: Path) -> None:
    users, password = tmp_path / "users", tmp_path / "password"
    users.write_text("CORP:alice:Secret!1\n", encoding="utf-8")
    password.write_text("Secret!1\n", encoding="utf-8")
    server = Daemon(tmp_path, "SERVER", loopback(53), f"rpc.users_file={users}")
    user = ("remote.user=CORP\\alice", f"remote.password_file={password}")
    known = Daemon(tmp_path, "KNOWN", loopback(54), *SETTINGS, *user, f"remote.hosts=other,{server.address}")
    unknown = Daemon(tmp_path, "UNKNOWN", loopback(55), *SETTINGS)
    with ExitStack() as stack:
        for daemon in (server, known, unknown):
            stack.enter_context(daemon)
        start_all([server, known, unknown])
        orders = stack.enter_context(server.connect()).create_queue("orders")
        orders.send("1")
        orders.set_acl(grant="CORP\\alice:receive")
        with pytest.raises(AccessDenied):
            stack.enter_context(unknown.connect()).queue(server.direct("orders")).receive(0)
        assert stack.enter_context(known.connect()).queue(server.direct("orders")).receive(0).text == "1"


def test_the_daemon_logs_on_only_to_hosts_that_are_listed(tmp_path: Path) -> None:
    """A host that a program names would get a proof of the password, which it could try out or hand on."""
    server = Daemon(tmp_path, "SERVER", loopback(56))
    server.prepare()
    user = (*SETTINGS, "remote.user=CORP\\alice", "remote.password=Secret!1")
    routed = Daemon(tmp_path, "ROUTED", loopback(57), *user, f"routing.routes={server.guid}={server.address}")
    refusing = Daemon(tmp_path, "REFUSING", loopback(58), *user)
    listed = Daemon(
        tmp_path, "LISTED", loopback(59), *user, f"routing.routes={server.guid}={server.address}", "remote.hosts=other"
    )
    with ExitStack() as stack:
        for daemon in (server, routed, refusing, listed):
            stack.enter_context(daemon)
        start_all([server, routed, refusing, listed])
        orders = stack.enter_context(server.connect()).create_queue("orders")
        orders.send("1")
        for daemon in (refusing, listed):
            with pytest.raises(AccessDenied, match=r"the host is not in remote\.hosts") as refused:
                stack.enter_context(daemon.connect()).queue(server.direct("orders")).receive(0)
            assert "add the host to remote.hosts" in refused.value.__notes__[0]
        # It is asked to log on there; this host knows no users.
        with pytest.raises(waypost.errors.WaypostError) as failed:
            stack.enter_context(routed.connect()).queue(server.direct("orders")).receive(0)
        assert "remote.hosts" not in str(failed.value)
        told = waypost_of(refusing, "receive", server.direct("orders"), "--timeout", "0")
        assert (told.returncode, "hint: add the host to remote.hosts" in told.stderr) == (1, True), told.stderr


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["remote.password=x"], "without remote.user"),
        (["remote.password_file=/nonexistent"], "Cannot read /nonexistent"),
        (["remote.user=a", "remote.password=x", "remote.password_file=/dev/null"], "mutually exclusive"),
        (["remote.user=a", "remote.password=x", "remote.level=none"], "remote.user has no effect"),
    ],
)
def test_a_configuration_that_cannot_be_is_a_sentence(settings: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load(None, {}, {}, settings)


@pytest.mark.parametrize("count", [1, 100])
def test_a_remote_reader_sees_the_address_of_the_host_that_sent(place: Place, count: int) -> None:
    """Alpha sends to beta, and a third host reads: also after beta was killed."""
    queue, own = place.queues()
    queue.send_many(["paid"] * count)
    with patience(SECONDS, "the messages have not come") as turns:
        for _ in turns:
            if own.info().message_count == count and not place.unacknowledged():
                break
    address = ip_address(place.alpha_daemon.address).packed
    with place.beta_daemon.down():
        pass
    with RemoteReader(place.beta_daemon.address) as reader:
        handle = reader.open(queue.format_name)
        for _ in range(count):
            number, reply = reader.take(handle)
            packet = RemotePacket.decode(join_sections(reply.sections))
            # AddressLength, AddressType, AddressScope and Address.
            assert packet.user_message[32:48] == bytes.fromhex("0400 0100 00000000") + address + bytes(4)
            assert packet.extended_address == ExtendedAddressHeader(4, HostAddressType.IP, 0, address + bytes(12))
            assert reader.end(handle, number) == HResult.MQ_OK


def test_no_transaction_of_a_remote_reader_is_taken_part_in(place: Place) -> None:
    """A daemon has no coordinator, and a receive in a transaction never becomes one without."""
    ledger = place.beta.create_queue("ledger", transactional=True)
    with place.beta.transaction() as transaction:
        sent = ledger.send("paid", transaction=transaction)
    name = place.beta_daemon.direct("ledger")
    uow, values = b"\x55" * 16, (0, 0, ReceiveAction.MQ_ACTION_RECEIVE, 0, 7, MAX_BODY, MAX_BODY)
    with RemoteReader(place.beta_daemon.address) as reader:
        for token in (local_token(uow), b"of MS-DTCO"):
            queue_format = QueueFormat.from_format_name(FormatName.parse(name))
            enlist = QMEnlistRemoteTransactionRequest(uow, token, queue_format)
            assert reader.ask(12, enlist).hresult == HResult.MQ_ERROR_DTC_CONNECT
        handle = reader.open(name)
        received = reader.ask(13, StartTransactionalReceiveRequest(handle, *values, uow))
        assert received.hresult == HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        ended = reader.ask(15, EndTransactionalReceiveRequest(handle, RemoteReadAck.RR_ACK, 7))
        assert ended.hresult == HResult.MQ_ERROR_INVALID_HANDLE
    assert ledger.receive(0).id == sent.id
