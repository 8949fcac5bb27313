"""waypost.msmq: to a daemon of our own, and to hosts that behave in every way but a good one."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import waypost
from tests.client.managers import driver_of
from tests.client.msmq_peer import GUID, Call, Peer, peer, polite
from tests.daemon.recording import loops
from tests.daemon.running import Running, loopback, running
from waypost import aio
from waypost.client.aio_host import Host
from waypost.errors import (
    HostError,
    HostUnreachable,
    IllegalFormatName,
    IllegalPathName,
    InvalidParameter,
    LabelTooLong,
    NotAcknowledged,
    ServiceNotAvailable,
    SessionLost,
    SessionRefused,
    TransactionUsage,
    UnsupportedFormatName,
)
from waypost.guid import guid_text
from waypost.transfer import session as session_module
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.session_header import SessionHeader
from waypost.wire.user_header import RECOVERABLE


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(limited())


def to(host: Peer, **options: Any) -> Host:
    return aio.msmq("127.0.0.1", port=host.port, **{"timeout": 5, **options})


# To a daemon.


def with_daemon(
    tmp_path: Path, work: Callable[[Running, str], Coroutine[Any, Any, None]], *settings: str
) -> None:  # fmt: skip
    async def main() -> None:
        here = loopback(2)
        async with running(tmp_path / "alpha", here, *settings) as daemon:
            await daemon.manager.create_queue("orders")
            await work(daemon, here)

    run(main())


def test_a_message_arrives_with_all_that_was_said_of_it(tmp_path: Path) -> None:
    async def work(daemon: Running, here: str) -> None:
        sent = await asyncio.to_thread(send, here)
        message = await daemon.manager.queue("orders").receive(0)
        assert (message.id, message.text, message.label, message.delivery) == (
            sent.id,
            "42 bolts",
            "order",
            "recoverable",
        )
        assert (message.priority, message.app_tag, message.extension) == (6, 7, b"ext")
        assert message.response_queue == rf"DIRECT=TCP:{here}\PRIVATE$\answers"
        assert message.correlation_id == r"{00000000-0000-0000-0000-000000000001}\5"
        assert message.time_to_be_received == 3600
        assert message.destination_queue == rf"DIRECT=TCP:{here}\PRIVATE$\orders"

    def send(here: str) -> waypost.Message:
        with waypost.msmq(here) as host:
            assert (host.name, repr(host)) == (here, f"<Host {here}>")
            sent = host.send(
                r"private$\orders",
                "42 bolts",
                label="order",
                priority=6,
                app_tag=7,
                extension=b"ext",
                response_queue="answers",
                correlation_id=r"{00000000-0000-0000-0000-000000000001}\5",
                time_to_be_received=3600,
            )
            assert sent.id.startswith("{" + host.identifier)
            return sent

    with_daemon(tmp_path, work)


@pytest.mark.parametrize("loop", loops(), ids=["asyncio", "uvloop"])
def test_messages_are_sent_and_read_from_any_event_loop(tmp_path: Path, loop: Any) -> None:
    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2)) as daemon, aio.msmq(loopback(2)) as host:
            await daemon.manager.create_queue("orders")
            await host.send("orders", "42 bolts")
            assert (await host.queue("orders").receive(5)).text == "42 bolts"

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work())


def test_acknowledgments_go_to_the_administration_queue(tmp_path: Path) -> None:
    async def work(daemon: Running, here: str) -> None:
        admin = await daemon.manager.create_queue("admin")
        async with aio.msmq(here) as host:
            sent = await host.send("orders", b"m", acknowledge="full-reach-queue", admin_queue="admin")
            ack = await admin.receive(5)
            assert (ack.class_name, ack.correlation_id) == ("MQMSG_CLASS_ACK_REACH_QUEUE", sent.id)
            missing = await host.send("nosuch", b"m", acknowledge="full-reach-queue", admin_queue="admin")
            ack = await admin.receive(5)
            assert (ack.class_name, ack.correlation_id) == ("MQMSG_CLASS_NACK_BAD_DST_Q", missing.id)

    with_daemon(tmp_path, work, "transfer.send_insecure_nacks=true")


def test_many_messages_arrive_in_their_order(tmp_path: Path) -> None:
    async def work(daemon: Running, here: str) -> None:
        orders = daemon.manager.queue("orders")
        async with aio.msmq(here) as host:
            for recoverable in (True, False):
                bodies = [f"{number}".encode() for number in range(1000)]
                sent = await host.queue("orders").send_many(bodies, recoverable=recoverable)
                got = await orders.receive_many(2000, 0)
                assert [message.body for message in got] == bodies
                assert [message.id for message in got] == [message.id for message in sent]
            assert await host.send_many("orders", []) == []

    with_daemon(tmp_path, work)


def test_threads_share_one_session(tmp_path: Path) -> None:
    async def work(daemon: Running, here: str) -> None:
        await asyncio.to_thread(send, here)
        got = await daemon.manager.queue("orders").receive_many(1000, 0)
        assert sorted(int(message.text) for message in got) == list(range(200))
        network = driver_of(daemon.manager).node.network
        assert network is not None
        assert network.statistics.connections_accepted == 1

    def send(here: str) -> None:
        with waypost.msmq(here) as host, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: host.send("orders", f"{number}"), range(200)))

    with_daemon(tmp_path, work)


def test_private_and_public_format_names_are_taken(tmp_path: Path) -> None:
    async def work(daemon: Running, here: str) -> None:
        orders = daemon.manager.queue("orders")
        queue = next(q for q in driver_of(daemon.manager).node.manager.queues.values() if q.pathname.queue == "orders")
        async with aio.msmq(here) as host:
            await host.send(f"PRIVATE={daemon.manager.guid}\\{queue.private_queue_number:08x}", b"by number")
            assert (await orders.receive(0)).body == b"by number"
            # The public queue does not exist, and the host takes the message over nevertheless.
            await host.send(f"PUBLIC={guid_text(GUID)}", b"m")

    with_daemon(tmp_path, work)


def test_a_daemon_in_another_process_gets_messages(tmp_path: Path) -> None:
    here = loopback(7)
    command = [
        sys.executable,
        "-m",
        "waypost.cli",
        "serve",
        "--bind",
        here,
        "--data",
        str(tmp_path),
        "--http-port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as daemon:
        try:
            assert daemon.stdout is not None
            ready = json.loads(daemon.stdout.readline())
            with waypost.connect(f"http://{ready['http']}") as manager, waypost.msmq(here) as host:
                orders = manager.create_queue("orders")
                sent = host.send("orders", b"over there", recoverable=True)
                assert orders.receive(5).id == sent.id
        finally:
            daemon.terminate()
            daemon.wait(60)


# Messages that are refused before anything is sent.


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"host": 5}, InvalidParameter),
        ({"host": ""}, IllegalPathName),
        ({"host": "a\\b"}, IllegalPathName),
        ({"port": 0}, InvalidParameter),
        ({"port": "1801"}, InvalidParameter),
        ({"bind": "nowhere"}, InvalidParameter),
        ({"timeout": 0}, InvalidParameter),
        ({"timeout": float("nan")}, InvalidParameter),
        ({"identifier": "5"}, InvalidParameter),
        ({"identifier": 5}, InvalidParameter),
    ],
)
def test_what_can_be_no_host_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    arguments = {"host": "winserver01", **options}
    with pytest.raises(error):
        waypost.msmq(arguments.pop("host"), **arguments)


@pytest.mark.parametrize(
    ("host", "name", "format_name"),
    [
        ("winserver01", "orders", r"DIRECT=OS:winserver01\PRIVATE$\orders"),
        ("winserver01", r"private$\orders", r"DIRECT=OS:winserver01\PRIVATE$\orders"),
        ("winserver01", r".\orders", r"DIRECT=OS:winserver01\orders"),
        ("winserver01", r"other\private$\orders", r"DIRECT=OS:other\PRIVATE$\orders"),
        ("10.1.2.3", "orders", r"DIRECT=TCP:10.1.2.3\PRIVATE$\orders"),
        ("fe80::7", "orders", r"DIRECT=TCP:fe80::7\PRIVATE$\orders"),
        ("winserver01", r"DIRECT=TCP:10.1.2.3\q", r"DIRECT=TCP:10.1.2.3\q"),
    ],
)
def test_queues_are_named_as_seen_from_the_host(host: str, name: str, format_name: str) -> None:
    queue = waypost.msmq(host).queue(name)
    assert queue.format_name == format_name
    assert repr(queue) == f"<Queue {format_name}>"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("orders;journal", UnsupportedFormatName),
        ("orders;retry", UnsupportedFormatName),
        ("system$;deadletter", UnsupportedFormatName),
        ("MULTICAST=234.1.1.1:8001", UnsupportedFormatName),
        ("DIRECT=HTTP://h/msmq/q", UnsupportedFormatName),
        (f"DL={guid_text(GUID)}", UnsupportedFormatName),
        (r"DIRECT=OS:a\q,DIRECT=OS:b\q", UnsupportedFormatName),
        ("DIRECT=nonsense", IllegalFormatName),
        (5, InvalidParameter),
    ],
)
def test_what_nothing_can_be_sent_to_is_refused(name: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        waypost.msmq("winserver01").send(name, b"m")


def test_what_needs_a_queue_manager_is_refused() -> None:
    host: Any = waypost.msmq("winserver01")
    with pytest.raises(TransactionUsage, match="waypost serve"):
        host.send("orders", b"m", transaction=object())
    for name in ("sign", "encrypt"):
        with pytest.raises(InvalidParameter, match=f"cannot {name}: waypost.msmq has no keys"):
            host.send("orders", b"m", **{name: True})
    for name in ("journal", "dead_letter"):
        with pytest.raises(InvalidParameter, match=f"{name} requires a local queue manager"):
            host.send("orders", b"m", **{name: True})
        with pytest.raises(InvalidParameter, match="a body must be bytes or text"):
            host.send("orders", 5, **{name: False})
    with pytest.raises(LabelTooLong):
        host.send("orders", b"m", label="x" * 300)
    with pytest.raises(TypeError, match="unexpected keyword argument 'apptag'"):
        host.send("orders", b"m", apptag=5)
    with pytest.raises(InvalidParameter, match="`bodies` must be a list"):
        host.send_many("orders", b"m")


# Hosts that do not take it.


def failure_of(host: Host, *bodies: bytes) -> Coroutine[Any, Any, HostError]:
    async def work() -> HostError:
        with pytest.raises(HostError) as caught:
            await (host.send("orders", bodies[0]) if len(bodies) == 1 else host.send_many("orders", bodies))
        return caught.value

    return work()


def test_a_host_that_nothing_listens_at_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        waypost.msmq("127.0.0.1", port=port) as host,
        pytest.raises(HostUnreachable, match="nothing was sent") as caught,
    ):
        host.send("orders", b"m")
    assert not caught.value.is_outcome_unknown
    assert f"127.0.0.1:{port} is unreachable: Connection refused;" in str(caught.value)


def test_a_host_that_nobody_knows_is_unreachable() -> None:
    with waypost.msmq("nowhere.invalid", timeout=5) as host, pytest.raises(HostUnreachable):
        host.send("orders", b"m")


async def close_at_once(call: Call) -> None:
    assert isinstance(await call.next(), EstablishConnection)


async def refuse(call: Call) -> None:
    request = await call.next()
    assert isinstance(request, EstablishConnection)
    call.write(request.refused(GUID).encode())
    await call.next()


async def talk_nonsense(call: Call) -> None:
    call.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await call.next()


async def answer_for_another(call: Call) -> None:
    await call.next()
    call.write(EstablishConnection.request(GUID, GUID, 0, 0).encode())
    await call.next()


async def skip_a_step(call: Call) -> None:
    await call.next()
    call.write(ConnectionParameters().encode())
    await call.next()


@pytest.mark.parametrize("script", [close_at_once, refuse, talk_nonsense, answer_for_another, skip_a_step])
def test_a_host_that_grants_no_session_has_got_nothing(script: Any) -> None:
    async def work() -> None:
        async with peer(script) as other, to(other) as host:
            error = await failure_of(host, b"m")
            assert type(error) is SessionRefused
            assert "nothing was sent" in str(error)
            assert (error.acknowledged, error.unknown) == ((), ())

    run(work())


async def say_nothing(call: Call) -> None:
    while await call.next() is not None:
        pass


def test_a_host_that_says_nothing_is_given_up_in_time() -> None:
    async def work() -> None:
        async with peer(say_nothing) as other, to(other, timeout=0.2) as host:
            error = await failure_of(host, b"m")
            assert type(error) is HostUnreachable
            assert "did not open a session within 0.2 s; nothing was sent" in str(error)

    run(work())


async def never_acknowledge(call: Call) -> None:
    await call.shake_hands()
    await say_nothing(call)


def test_what_is_not_acknowledged_in_time_may_have_arrived() -> None:
    async def work() -> None:
        async with peer(never_acknowledge) as other, to(other, timeout=0.3) as host:
            error = await failure_of(host, b"m")
            assert type(error) is NotAcknowledged
            assert (error.unknown, error.is_outcome_unknown) == ((0,), True)
            assert "it is unknown whether the message arrived" in str(error)

    run(work())


async def take_one_and_close(call: Call) -> None:
    await call.shake_hands()
    await call.message()


async def acknowledge_too_much(call: Call) -> None:
    await call.shake_hands()
    await call.message()
    call.write(SessionAck(session=SessionHeader(5, 0, 0, 0, 0, 64)).encode())
    await call.next()


async def break_off(call: Call) -> None:
    await call.shake_hands()
    await call.message()
    call.write(b"garbage, and more of it")
    await call.next()


@pytest.mark.parametrize("script", [take_one_and_close, acknowledge_too_much, break_off])
def test_what_was_under_way_when_the_session_ended_may_have_arrived(script: Any) -> None:
    async def work() -> None:
        async with peer(script) as other, to(other) as host:
            error = await failure_of(host, b"m")
            assert type(error) is SessionLost
            assert (error.acknowledged, error.unknown) == ((), (0,))
            assert len(other.calls) == 1

    run(work())


def test_an_error_tells_of_many_messages_which_ones_arrived() -> None:
    async def some(call: Call) -> None:
        await call.shake_hands()
        for _ in range(4):
            await call.message()
        call.ack(3)
        for _ in range(2):
            await call.message()

    async def work() -> None:
        async with peer(some, window=4) as other, to(other) as host:
            error = await failure_of(host, *[b"%d" % number for number in range(10)])
            assert type(error) is SessionLost
            assert error.acknowledged == (0, 1, 2)
            assert set(error.unknown) >= {3, 4, 5}
            assert max(error.unknown) <= 6
            assert f"of 10 messages, 3 are acknowledged, {len(error.unknown)} may have arrived" in str(error)

    run(work())


def test_the_window_of_the_host_is_respected() -> None:
    most: list[int] = []

    async def narrow(call: Call) -> None:
        await call.shake_hands()
        for number in range(5):
            while len(call.messages) < 2 * number + 2:
                await call.message()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await call.message()
            most.append(len(call.messages))
            call.ack()
        await say_nothing(call)

    async def work() -> None:
        async with peer(narrow, window=2) as other, to(other) as host:
            await host.send_many("orders", [b"m"] * 10)
            assert most == [2, 4, 6, 8, 10]

    run(work())


def test_a_session_that_died_unnoticed_is_replaced_and_the_message_sent_again() -> None:
    """It has the same identifier, by which the host knows what it has."""

    async def leave_after_the_second(call: Call) -> None:
        await call.shake_hands()
        await call.message()
        call.ack()
        await call.message()

    async def work() -> None:
        async with peer(leave_after_the_second, polite) as other, to(other) as host:
            await host.send("orders", b"1")
            sent = await host.send("orders", b"2")
            assert len(other.calls) == 2
            first, again = other.calls[0].messages[-1].user, other.calls[1].messages[0].user
            assert first.message_id == again.message_id
            assert sent.id.endswith(f"\\{first.message_id}")

    run(work())


def test_a_session_that_the_host_has_closed_meanwhile_is_not_used_again() -> None:
    async def once(call: Call) -> None:
        await call.shake_hands()
        await call.message()
        call.ack()

    async def work() -> None:
        async with peer(once) as other, to(other) as host:
            for body in (b"1", b"2", b"3"):
                await host.send("orders", body)
                await asyncio.sleep(0.02)
            assert [len(call.messages) for call in other.calls] == [1, 1, 1]

    run(work())


def test_a_host_that_is_gone_when_it_is_tried_again_may_have_the_message() -> None:
    async def leave_after_the_second(call: Call) -> None:
        await call.shake_hands()
        await call.message()
        call.ack()
        await call.message()

    async def work() -> None:
        async with peer(leave_after_the_second, refuse) as other, to(other) as host:
            await host.send("orders", b"1")
            error = await failure_of(host, b"2")
            assert type(error) is SessionRefused
            assert error.is_outcome_unknown

    run(work())


def test_sessions_follow_each_other_when_their_numbers_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "LAST_NUMBER", 40)

    async def work() -> None:
        async with peer(polite) as other, to(other) as host:
            await host.send_many("orders", [b"%d" % number for number in range(100)])
            assert [len(call.messages) for call in other.calls] == [40, 40, 20]
            bodies = [message.properties.message_body for call in other.calls for message in call.messages]
            assert bodies == [b"%d" % number for number in range(100)]

    run(work())


def test_what_a_host_sends_here_is_acknowledged_and_dropped() -> None:
    answers: list[SessionHeader] = []

    async def header(call: Call) -> SessionHeader:
        packet = await call.next()
        assert isinstance(packet, SessionAck)
        return packet.session

    async def send_back(call: Call) -> None:
        await call.shake_hands()
        answers.append(await header(call))
        message = await call.message()
        assert message is not None
        call.write(message.encode())
        answers.append(await header(call))
        call.write(SessionAck(session=SessionHeader(1, 1, 1, 1, 1, 64)).encode())
        await say_nothing(call)

    async def work() -> None:
        async with peer(send_back) as other, to(other) as host:
            await host.send("orders", b"m")
            # MS-MQQB 3.1.7.13: the first one says that nothing is wanted.
            assert answers[0].window_size == 1
            assert (answers[-1].recoverable_msg_ack_seq_number, answers[-1].recoverable_msg_ack_flags) == (1, 1)

    run(work())


def test_express_and_recoverable_are_told_apart_and_the_identifier_is_kept() -> None:
    identifier = guid_text(bytes(range(1, 17)))

    async def work() -> None:
        async with peer(polite) as other, to(other, identifier=identifier, bind="127.0.0.1") as host:
            await host.send("orders", b"1", recoverable=True)
            await host.send("orders", b"2", recoverable=False)
            assert host.identifier == identifier
            users = [message.user for message in other.calls[0].messages]
            assert [user.delivery == RECOVERABLE for user in users] == [True, False]
            assert {user.source_queue_manager for user in users} == {bytes(range(1, 17))}
        # Another sender with the same identifier does not begin with the same numbers.
        async with peer(polite) as other, to(other, identifier=identifier) as host:
            await host.send("orders", b"1")
            assert other.calls[0].messages[0].user.message_id not in {user.message_id for user in users}

    run(work())


def test_a_host_with_the_identifier_of_the_sender_is_refused() -> None:
    async def twin(call: Call) -> None:
        await call.shake_hands(GUID)

    async def work() -> None:
        async with peer(twin) as other, to(other, identifier=guid_text(GUID)) as host:
            assert "the other queue manager has the same identifier as this queue manager" in str(
                await failure_of(host, b"m")
            )

    run(work())


def test_a_cancelled_send_leaves_the_session_to_the_others() -> None:
    async def late(call: Call) -> None:
        await call.shake_hands()
        await call.message()
        await call.message()
        call.ack()
        await call.serve()

    async def work() -> None:
        async with peer(late) as other, to(other) as host:
            first = asyncio.create_task(host.send("orders", b"1"))
            while not other.calls or not other.calls[0].messages:
                await asyncio.sleep(0.002)
            first.cancel()
            await host.send("orders", b"2")
            assert (first.cancelled(), len(other.calls)) == (True, 1)

    run(work())


def test_closing_ends_what_is_under_way_and_nothing_can_be_sent_afterwards() -> None:
    async def work() -> None:
        async with peer(never_acknowledge) as other:
            host = to(other)
            sending = asyncio.create_task(failure_of(host, b"m"))
            while not other.calls or not other.calls[0].messages:
                await asyncio.sleep(0.002)
            await host.close()
            assert type(await sending) is SessionLost
            await host.close()
            with pytest.raises(ServiceNotAvailable):
                await host.send("orders", b"m")
        async with peer(say_nothing) as other:
            host = to(other)
            opening = asyncio.create_task(host.send("orders", b"m"))
            while not other.calls:
                await asyncio.sleep(0.002)
            await host.close()
            with pytest.raises(ServiceNotAvailable):
                await opening

    run(work())


def test_a_blocking_host_that_is_closed_sends_nothing() -> None:
    host = waypost.msmq("127.0.0.1", port=1)
    with pytest.raises(HostUnreachable):
        host.send("orders", b"m")
    host.close()
    host.close()
    with pytest.raises(ServiceNotAvailable):
        host.send("orders", b"m")
    waypost.msmq("127.0.0.1").close()
