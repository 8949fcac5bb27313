"""Requests that their connection answers itself: waypost.daemon.quick_request and waypost.http.quick."""

import asyncio
import socket

import msgspec

from tests.client.managers import driver_of
from tests.http.server import Api, served
from waypost.http.settings import HttpSettings

HEAD = b"Host: 127.0.0.1\r\nContent-Type: application/msgpack\r\nAccept: application/msgpack\r\n"


def post(verb: bytes, body: bytes, more: bytes = b"") -> bytes:
    length = b"Content-Length: %d\r\n" % len(body)
    return b"POST /api/queues/orders/%b HTTP/1.1\r\n%b%b%b\r\n%b" % (verb, HEAD, length, more, body)


def send(text: str) -> bytes:
    return post(b"messages", msgspec.msgpack.encode({"like": {}, "bodies": [text.encode()], "answer": "ids"}))


def receive(seconds: float) -> bytes:
    return post(b"receive", msgspec.msgpack.encode({"timeout_s": seconds}))


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, object]]:
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        content = await reader.readexactly(int(fields[b"content-length"]))
    decode = msgspec.json.decode if fields[b"content-type"] == b"application/json" else msgspec.msgpack.decode
    return int(head.split()[1]), decode(content)


async def bodies(reader: asyncio.StreamReader) -> list[bytes]:
    status, content = await answer(reader)
    assert status == 200
    messages = content["messages"]
    assert isinstance(messages, list)
    return [message["body"] for message in messages]


async def waits(api: Api, count: int) -> None:
    async with asyncio.timeout(60):
        while len(driver_of(api.manager)._answers) != count:
            await asyncio.sleep(0)


@served()
async def test_requests_behind_one_another_are_answered_in_their_order(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    await orders.send_many([b"first", b"second"])
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(receive(10) + receive(10) + receive(0))
    assert await bodies(reader) == [b"first"]
    assert await bodies(reader) == [b"second"]
    assert await bodies(reader) == []
    writer.close()


@served()
async def test_a_request_behind_one_that_waits_ends_the_wait(api: Api) -> None:
    await api.manager.create_queue("orders")
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(receive(10))
    await waits(api, 1)
    writer.write(send("bolts"))
    assert await bodies(reader) == []
    assert (await answer(reader))[0] == 200
    writer.close()


@served()
async def test_who_leaves_with_a_second_request_behind_takes_nothing(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    _, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(receive(10) + receive(0))
    writer.transport.abort()
    await asyncio.sleep(0.1)
    await orders.send("bolts")
    assert (await orders.receive(1)).text == "bolts"


def in_json(request: bytes) -> bytes:
    return request.replace(b"Accept: application/msgpack", b"Accept: application/json")


@served()
async def test_a_request_behind_one_that_waits_for_json_ends_the_wait(api: Api) -> None:
    await api.manager.create_queue("orders")
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(in_json(receive(30)))
    await waits(api, 1)
    writer.write(in_json(receive(30)) + send("bolts"))
    assert await answer(reader) == (200, {"messages": []})
    assert await answer(reader) == (200, {"messages": []})
    assert (await answer(reader))[0] == 200
    writer.close()


@served(HttpSettings(max_wait_s=60))
async def test_waits_of_a_client_that_hangs_up_end_whatever_is_behind_them(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    for request in (receive(60), in_json(receive(60))):
        for count in (1, 2, 5):
            reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
            writer.write(request * count)
            for _ in range(count - 1):
                assert await answer(reader) == (200, {"messages": []})
            await waits(api, 1)
            writer.transport.abort()
            await waits(api, 0)
    await orders.send("bolts")
    assert (await orders.receive(0)).abort_count == 0


@served()
async def test_a_request_behind_a_stream_of_events_ends_the_stream(api: Api) -> None:
    await api.manager.create_queue("orders")
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(b"GET /api/queues/orders/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(60):
        await reader.readuntil(b": nothing new\n\n\r\n")
        writer.write(send("bolts"))
        assert await reader.readuntil(b"0\r\n\r\n") == b"0\r\n\r\n"
        assert (await answer(reader))[0] == 200
    writer.close()


async def leave_while_others_send(api: Api, request: bytes) -> None:
    orders = await api.manager.create_queue("orders")
    other, sender = await asyncio.open_connection("127.0.0.1", api.port)
    for number in range(20):
        waiting = socket.create_connection(("127.0.0.1", api.port))
        waiting.sendall(request)
        await waits(api, 1)
        # Both come in the same turn of the loop.
        waiting.close()
        sender.write(send(f"{number}"))
        assert (await answer(other))[0] == 200
        assert (await orders.receive(1)).text == f"{number}"
    sender.close()


@served()
async def test_who_leaves_while_it_waits_takes_nothing(api: Api) -> None:
    await leave_while_others_send(api, receive(10))


@served()
async def test_who_waits_for_json_and_leaves_takes_nothing(api: Api) -> None:
    await leave_while_others_send(api, receive(10).replace(b"Accept: application/msgpack", b"Accept: application/json"))


@served()
async def test_a_body_that_is_not_what_it_should_be_is_refused_and_the_connection_goes_on(api: Api) -> None:
    await api.manager.create_queue("orders")
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    for body in (b"\xc1", msgspec.msgpack.encode({"like": 1}), msgspec.msgpack.encode({})):
        writer.write(post(b"messages", body))
        status, content = await answer(reader)
        assert (status, content["error"]) == (400, "InvalidParameter")
    writer.write(receive(0))
    assert await bodies(reader) == []
    writer.close()


@served()
async def test_many_transactions_are_committed_at_once_in_messagepack(api: Api) -> None:
    """Their path begins and ends like that of one."""
    begun = [(await api.post("/api/transactions", {})).json()["id"] for _ in range(2)]
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    body = msgspec.msgpack.encode({"ids": begun})
    head = b"POST /api/transactions/commit HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n" % (HEAD, len(body))
    writer.write(head + body)
    assert await answer(reader) == (200, {"committed": begun, "refused": []})
    writer.close()


@served()
async def test_a_connection_that_is_to_end_ends_behind_its_answer(api: Api) -> None:
    await api.manager.create_queue("orders")
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(post(b"receive", msgspec.msgpack.encode({}), b"Connection: close\r\n"))
    assert await bodies(reader) == []
    assert await reader.read() == b""
    writer.close()
