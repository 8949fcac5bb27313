"""Messages over HTTP: sending and reading."""

import asyncio
import json
from base64 import b64encode
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from tests.http.server import Api, served
from waypost.client.message import Message
from waypost.client.transports.http.packing import message_of
from waypost.client.transports.http.schema import PacketRow
from waypost.core import transactions
from waypost.errors import LimitReached, Timeout
from waypost.http import reading
from waypost.http.settings import HttpSettings
from waypost.node import message_calls

ORDERS = "/api/queues/orders"


@served()
async def test_messages_of_their_own_are_sent_in_order(api: Api) -> None:
    await api.manager.create_queue("orders")
    data = {
        "messages": [
            {"body_text": "42 bolts", "label": "order", "app_tag": 7, "time_to_be_received": 60},
            {"body_base64": b64encode(b"\0\1").decode()},
            {},
        ]
    }
    sent = await api.post(f"{ORDERS}/messages", data)
    assert sent.status_code == 200
    assert [each["body_text"] for each in sent.json()["messages"]] == ["42 bolts", "\0\1", ""]
    received = (await api.post(f"{ORDERS}/receive", {"count": 10})).json()["messages"]
    assert [each["id"] for each in received] == [each["id"] for each in sent.json()["messages"]]
    assert (received[0]["label"], received[0]["app_tag"], received[0]["class"]) == ("order", 7, "0x0000")
    assert received[1]["body_base64"] == "AAE="


@served()
async def test_bodies_that_share_their_properties_are_sent_in_one(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    bodies = [b"%d" % number for number in range(500)]
    data = {"like": {"label": "x", "body_type": 0x1011}, "bodies": bodies, "answer": "ids"}
    sent = await api.pack(f"{ORDERS}/messages", data)
    assert len(sent["lookup_ids"]) == 500
    messages = await queue.receive_many(1000)
    assert [message.body for message in messages] == bodies
    assert [message.lookup_id for message in messages] == sent["lookup_ids"]
    assert messages[0].id == f"{{{sent['source']}}}\\{sent['first_ordinal']}"


@served()
async def test_a_packet_has_all_of_a_message(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    sent = await queue.send("42 bolts", label="order", app_tag=3)
    row = (await api.pack(f"{ORDERS}/peek", {"form": "packet"}))["rows"][0]
    assert Message(message_of(msgspec.convert(row, PacketRow))).to_dict() == sent.to_dict()
    full = (await api.pack(f"{ORDERS}/receive", {}))["messages"][0]
    assert full["body"] == sent.body
    assert "body_base64" not in full


@served()
async def test_a_message_object_is_that_of_python(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    sent = await queue.send(b"\xff", label="order")
    assert (await api.post(f"{ORDERS}/receive", {})).json()["messages"] == [sent.to_dict()]


@served()
async def test_nothing_in_time_is_an_empty_answer(api: Api) -> None:
    await api.manager.create_queue("orders")
    assert await api.bodies(f"{ORDERS}/receive", {}) == []
    assert await api.bodies(f"{ORDERS}/receive", {"timeout_s": 0.05}) == []
    assert await api.bodies(f"{ORDERS}/receive", {"timeout_s": 0.05, "lease_s": 5}) == []
    assert await api.bodies(f"{ORDERS}/peek", {"timeout_s": 0.05}) == []


@served(HttpSettings(max_wait_s=0.05))
async def test_a_wait_is_bounded(api: Api) -> None:
    await api.manager.create_queue("orders")
    async with asyncio.timeout(60):
        assert await api.bodies(f"{ORDERS}/receive", {"timeout_s": 1e9}) == []


@served()
async def test_a_read_waits_for_a_message(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    for verb, data in (("peek", {}), ("receive", {}), ("receive", {"lease_s": 30})):
        waiting = asyncio.create_task(api.bodies(f"{ORDERS}/{verb}", {"timeout_s": 5, **data}))
        await asyncio.sleep(0.1)
        await queue.send("42 bolts")
        assert await waiting == ["42 bolts"]
        await queue.purge()


@served()
async def test_a_client_that_goes_away_while_it_waits_loses_nothing(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    in_transaction = {"transaction": "6b29fc40-ca47-1067-b31d-00dd010662da", "begin_s": 9}
    for data in ({}, {"lease_s": 30}, in_transaction):
        with pytest.raises(httpx.ReadTimeout):
            await api.post(f"{ORDERS}/receive", {"timeout_s": 30, **data}, timeout=0.2)
        await asyncio.sleep(0.1)
        await queue.send("42 bolts")
        assert (await queue.receive(0)).text == "42 bolts"


@served()
async def test_a_lease_is_acknowledged_with_the_next_receive(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    await queue.send_many(["1", "2", "3"])
    first = (await api.post(f"{ORDERS}/receive", {"lease_s": 30, "count": 2})).json()
    assert [each["body_text"] for each in first["messages"]] == ["1", "2"]
    over = "6b29fc40-ca47-1067-b31d-00dd010662da"
    data = {"lease_s": 30, "acknowledge": [first["receipt"], over]}
    second = (await api.post(f"{ORDERS}/receive", data)).json()
    assert second["refused"] == [over]
    assert (await queue.info()).message_count == 1
    assert (await api.post("/api/transactions/commit", {"ids": [second["receipt"]]})).json()["refused"] == []
    assert (await queue.info()).message_count == 0


@served()
async def test_nothing_is_taken_when_an_acknowledgment_fails(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    await queue.send("42 bolts")
    for data in ({}, {"lease_s": 30}):
        assert (await api.post(f"{ORDERS}/receive", {"acknowledge": ["nonsense"], **data})).status_code == 400
    assert (await queue.receive(0)).text == "42 bolts"


@served()
async def test_a_lease_that_ends_gives_its_messages_back(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    await queue.send("42 bolts")
    receipt = (await api.post(f"{ORDERS}/receive", {"lease_s": 0.1})).json()["receipt"]
    with pytest.raises(Timeout):
        await queue.receive(0)
    message = await queue.receive(5)
    assert (message.text, message.abort_count) == ("42 bolts", 1)
    late = await api.post(f"/api/transactions/{receipt}/commit")
    assert (late.status_code, late.json()["error"]) == (409, "TransactionSequence")
    assert "it timed out" in late.json()["message"]


@served()
async def test_a_receive_that_waited_is_final_when_it_is_answered(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    waiting = asyncio.create_task(api.post(f"{ORDERS}/receive", {"timeout_s": 5}))
    await asyncio.sleep(0.05)
    await queue.send("42 bolts")
    assert "receipt" not in (await waiting).json()
    assert (await queue.info()).message_count == 0


@served()
async def test_messages_are_looked_up(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    first, second, third = await queue.send_many(["1", "2", "3"])
    assert await api.bodies(f"{ORDERS}/peek", {"lookup_id": str(second.lookup_id)}) == ["2"]
    assert await api.bodies(f"{ORDERS}/receive", {"lookup_id": second.lookup_id, "seek": "next"}) == ["3"]
    assert await api.bodies(f"{ORDERS}/receive", {"seek": "last"}) == ["2"]
    assert (await api.post(f"{ORDERS}/receive", {"lookup_id": third.lookup_id})).json()["error"] == "MessageNotFound"
    assert (await api.delete(f"{ORDERS}/messages/{first.lookup_id}")).status_code == 204
    assert (await api.delete(f"{ORDERS}/messages/{first.lookup_id}")).status_code == 404
    for wrong in ("abc", "-1", str(1 << 80), 1 << 62):
        assert (await api.post(f"{ORDERS}/peek", {"lookup_id": wrong})).status_code == 400


@served()
async def test_a_queue_is_browsed_page_by_page_while_others_receive(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    await queue.send_many([str(number) for number in range(5)])
    page = (await api.get(f"{ORDERS}/browse?limit=2")).json()
    assert [each["body_text"] for each in page["messages"]] == ["0", "1"]
    await queue.receive(0, lookup_id=int(page["next"]))
    page = (await api.get(f"{ORDERS}/browse?limit=2&after={page['next']}")).json()
    assert [each["body_text"] for each in page["messages"]] == ["2", "3"]
    page = (await api.get(f"{ORDERS}/browse?after={page['next']}")).json()
    assert [each["body_text"] for each in page["messages"]] == ["4"]
    assert "next" not in page
    assert await api.bodies(f"{ORDERS}/peek", {"count": 2}) == ["0", "2"]


@served()
async def test_a_message_is_moved_to_a_subqueue(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    sent = await queue.send("42 bolts")
    moved = await api.post(f"{ORDERS}/move", {"lookup_id": str(sent.lookup_id), "to": "orders;retry"})
    assert moved.status_code == 204, moved.text
    assert await api.bodies("/api/queues/orders;retry/receive", {}) == ["42 bolts"]


@served()
async def test_a_message_is_not_moved_to_a_queue_that_is_not_related(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    await api.manager.create_queue("ledger", transactional=True)
    sent = await queue.send("42 bolts")
    moved = await api.post(f"{ORDERS}/move", {"lookup_id": str(sent.lookup_id), "to": "ledger"})
    assert moved.status_code == 400
    assert "are neither a queue and its subqueue" in moved.json()["message"]
    assert "waypost message resend" in moved.json()["hint"]
    assert await api.bodies(f"{ORDERS}/receive", {}) == ["42 bolts"]


@served()
async def test_a_message_is_taken_and_sent_once_more(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    for name in ("one", "two"):
        await api.manager.create_queue(name)
    await api.manager.create_queue("ledger", transactional=True)
    lookup_id = str((await queue.send("42 bolts")).lookup_id)
    refused = await api.post(f"{ORDERS}/resend", {"lookup_id": lookup_id, "to": "ledger"})
    assert refused.status_code == 409
    assert "ledger is transactional, but the message was not sent in a transaction" in refused.json()["message"]
    sent = await api.post(f"{ORDERS}/resend", {"lookup_id": lookup_id})
    assert sent.status_code == 200, sent.text
    (message,) = sent.json()["messages"]
    both = "DIRECT=OS:HOST\\PRIVATE$\\one,DIRECT=OS:HOST\\PRIVATE$\\two"
    several = await api.post(f"{ORDERS}/resend", {"lookup_id": message["lookup_id"], "to": both})
    (told,) = several.json()["messages"]
    assert [copy["destination_queue"] for copy in told["copies"]] == both.split(",")
    assert [await api.bodies(f"/api/queues/{name}/receive", {}) for name in ("one", "two")] == [["42 bolts"]] * 2
    assert await api.bodies(f"{ORDERS}/receive", {}) == []


@served()
async def test_a_send_to_several_queues_is_answered_with_its_copies(api: Api) -> None:
    queues = [await api.manager.create_queue(name) for name in ("one", "two")]
    both = ",".join(queue.format_name for queue in queues)
    path = f"/api/queues/{quote(both, safe='')}/messages"
    named = {"response_queue": ["a", "b"], "admin_queue": ["acks", "more"], "acknowledge": "neg-receive"}
    sent = await api.post(path, {"messages": [{"body_text": "both"} | named]})
    assert sent.status_code == 200, sent.text
    (message,) = sent.json()["messages"]
    assert (message["lookup_id"], message["destination_queue"]) == ("0", both)
    for queue, copy in zip(queues, message["copies"], strict=True):
        found = await queue.receive(lookup_id=int(copy["lookup_id"]))
        assert (found.id, found.destination_queue) == (message["id"], copy["destination_queue"])
        assert message["response_queues"] == list(found.response_queues)
        assert message["admin_queues"] == list(found.admin_queues)
        assert len(found.admin_queues) == 2
    ids = await api.pack(path, {"like": {"body_type": 0x1011}, "bodies": [b"x"], "answer": "ids"})
    assert (ids["lookup_ids"], len(ids["copies"])) == ([0], 2)
    refused = await api.post(path, {"messages": [{"body_text": "x", "response_queue": []}]})
    assert refused.status_code == 400


@served()
async def test_a_message_object_is_the_same_in_python_json_and_messagepack(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    sent = await queue.send("x", extension=b'{"rbs2-msg-id":"5b"}', time_to_be_received=60, journal=True)
    expected = json.loads(json.dumps((await queue.peek()).to_dict()))
    (shown,) = (await api.post(f"{ORDERS}/peek", {})).json()["messages"]
    assert (shown, shown["id"], shown["headers"]) == (expected, sent.id, {"rbs2-msg-id": "5b"})
    (packed,) = (await api.pack(f"{ORDERS}/peek", {}))["messages"]
    assert (packed.pop("extension"), packed.pop("body")) == (sent.extension, sent.body)
    assert packed == {key: value for key, value in expected.items() if not key.endswith("_base64")}


@served(HttpSettings(max_batch=2))
async def test_a_batch_is_bounded(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    await queue.send_many(["1", "2", "3"])
    assert await api.bodies(f"{ORDERS}/receive", {"count": 100}) == ["1", "2"]


@served()
async def test_what_was_sent_before_a_refusal_is_told(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    refused = await api.post(f"{ORDERS}/messages", {"messages": [{"body_text": "1"}, {"priority": 9}]})
    assert refused.status_code == 400
    assert "1 of 2 messages were sent" in refused.json()["hint"]
    assert (await queue.info()).message_count == 1


REFUSED: list[Any] = [
    {},
    {"messages": []},
    {"like": {}},
    {"like": {}, "bodies": []},
    {"bodies": ["AAAA"]},
    {"messages": [{}], "like": {}, "bodies": ["AAAA"]},
    {"messages": [{"body_text": "a", "body_base64": ""}]},
    {"messages": [{"body_base64": "not base64!"}]},
    {"messages": [{"lable": "a"}]},
    {"messages": [{"priority": "3"}]},
    {"messages": [{"acknowledge": "full-receive"}]},
    {"messages": [{"label": "x" * 300}]},
    {"messages": [{}], "answer": "ids"},
    {"messages": [{}], "transaction": "nonsense"},
    {"messages": [{}], "transaction": "6b29fc40-ca47-1067-b31d-00dd010662da"},
    {"messages": [{}], "begin_s": 5},
    [],
    "text",
]


@served()
async def test_what_cannot_be_sent_is_refused_with_a_sentence(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    for data in REFUSED:
        refused = await api.client.post(f"{ORDERS}/messages", json=data)
        assert 400 <= refused.status_code < 500, data
        assert refused.json()["message"]
    assert (await queue.info()).message_count == 0


@served()
async def test_all_messages_are_moved_in_parts(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    await orders.send_many([b"x"] * 7)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(message_calls, "MOVE_PART", 2)
        patches.setattr(reading, "MAX_MOVED_PARTS", 2)
        first = (await api.post("/api/queues/orders/move-all", {"to": "orders;later"})).json()
        await orders.send("new")
        asked = {"to": "orders;later", "after": first["next"], "up_to": first["up_to"]}
        second = (await api.post("/api/queues/orders/move-all", asked)).json()
    assert (first["moved"], second["moved"], second["next"]) == (4, 3, "")
    assert (await orders.info()).message_count == 1
    assert (await orders.subqueue("later").info()).message_count == 7
    refused = await api.post("/api/queues/orders/move-all", {"to": "orders;later", "after": "x", "up_to": "1"})
    assert refused.status_code == 400
    refused = await api.post("/api/queues/DIRECT=OS:far%5Cprivate$%5Corders/move-all", {"to": "orders;later"})
    assert (refused.status_code, "another computer" in refused.text) == (400, True)


@served()
async def test_a_transaction_has_so_many_operations_and_no_more(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(transactions, "MAX_TRANSACTION_OPERATIONS", 3)
        path = "/api/queues/ledger/messages"
        asked = {"transaction": "1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11", "begin_s": 60}
        assert (await api.post(path, asked | {"messages": [{"body_text": "a"}] * 2})).status_code == 200
        refused = await api.post(path, asked | {"messages": [{"body_text": "a"}] * 2})
        assert (refused.status_code, refused.json()["error"]) == (507, "LimitReached")
        assert refused.json()["hint"] == "1 of 2 messages were sent."
        assert (await api.post(path, asked | {"messages": [{"body_text": "a"}]})).status_code == 507
        commit = f"/api/transactions/{asked['transaction']}/commit"
        assert (await api.post(commit)).status_code == 204
        assert (await ledger.info()).message_count == 3
        async with api.manager.transaction() as transaction:
            assert len(await ledger.receive_many(10, 0, transaction=transaction)) == 3
            with pytest.raises(LimitReached):
                await ledger.receive(0, transaction=transaction)
        assert (await ledger.info()).message_count == 0


@served()
async def test_a_lease_that_would_end_at_once_is_refused(api: Api) -> None:
    await api.manager.create_queue("orders")
    await api.post(f"{ORDERS}/messages", {"messages": [{"body_text": "a"}]})
    for seconds in (0, -1):
        response = await api.post(f"{ORDERS}/receive", {"lease_s": seconds})
        assert (response.status_code, response.json()["error"]) == (400, "InvalidParameter")
        assert "lease_s" in response.json()["message"]
    leased = (await api.post(f"{ORDERS}/receive", {"lease_s": 1e300})).json()
    assert leased["messages"][0]["abort_count"] == 0
    assert (await api.post(f"/api/transactions/{leased['receipt']}/commit")).status_code == 204
