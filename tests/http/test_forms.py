"""One form for one fact: a time, a GUID, a lookup_id, an error number and an address look the same in every answer."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.client.managers import driver_of
from tests.http.server import Api, served
from waypost.core.management import record_connection
from waypost.hresult import HResult
from waypost.wire.management import ConnectionStatus

FAR = "DIRECT=TCP:192.0.2.1\\private$\\far"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")
GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
FORMS = {
    **dict.fromkeys(
        ("time", "sent_time", "arrived_time", "created", "modified", "started", "expires", "time_stamp", "at"), TIME
    ),
    **dict.fromkeys(("guid", "type_id", "receipt", "transaction", "epoch"), GUID),
    "lookup_id": re.compile(r"\d+"),
    "id": re.compile(rf"{GUID.pattern}|\{{{GUID.pattern}\}}\\\d+"),
    "class": re.compile("0x[0-9a-f]{4}"),
    "error": re.compile("0x[0-9a-f]{8}|"),
    "address": re.compile(r"[0-9.]+|[0-9a-f:]+"),
    "delivery": re.compile("express|recoverable"),
}


def facts(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth."""
    match value:
        case dict():
            for key, each in value.items():
                yield key, each
                yield from facts(each)
        case list():
            for each in value:
                yield from facts(each)


def check(content: Any) -> set[str]:
    """The keys that were seen and have a form."""
    seen = set()
    for key, value in facts(content):
        if key in FORMS and value is not None:
            assert isinstance(value, str), (key, value)
            assert FORMS[key].fullmatch(value), (key, value)
            seen.add(key)
    return seen


async def prepare(api: Api) -> str:
    """The id of a message; and a queue whose connections have failed."""
    orders = await api.manager.create_queue("orders")
    await api.manager.create_queue("alone")
    sent = await orders.send("1", label="x")
    await api.manager.queue(FAR).send("2")
    node = driver_of(api.manager).node
    (queue,) = node.manager.collection.outgoing.values()
    failure = ConnectionStatus.CONNECT_SOCKET_FAILURE
    record_connection(queue, failure, HResult.MQ_ERROR, ["192.0.2.1"], 1_700_000_000)
    record_connection(queue, failure, HResult.MQ_ERROR, ["192.0.2.1"], 1_700_000_009)
    return str(sent.id)


@served()
async def test_connections_of_a_queue_look_the_same_where_it_is_shown_and_explained(api: Api) -> None:
    await prepare(api)
    shown = (await api.get("/api/queues", params={"kind": "outgoing"})).json()["queues"][0]["connections"]
    explained = (await api.get("/api/explain", params={"queue": FAR})).json()["facts"]["connections"]
    assert explained == shown
    assert [each["time"] for each in shown] == ["2023-11-14T22:13:20Z", "2023-11-14T22:13:29Z"]


@served()
async def test_times_of_a_message_look_the_same_where_it_is_read_and_explained(api: Api) -> None:
    identifier = await prepare(api)
    (read,) = (await api.get("/api/queues/orders/browse")).json()["messages"]
    (explained,) = (await api.get("/api/explain", params={"message": identifier})).json()["facts"]["places"]
    for key in ("sent_time", "arrived_time", "lookup_id", "class"):
        assert explained[key] == read[key], key


@served()
async def test_a_fact_has_one_form_in_every_answer(api: Api) -> None:
    identifier = await prepare(api)
    seen: set[str] = set()
    for path, query in (
        ("/api/status", {}),
        ("/api/queues", {"kind": "all"}),
        ("/api/queues/orders", {}),
        ("/api/queues/orders/browse", {}),
        ("/api/explain", {"queue": FAR}),
        ("/api/explain", {"message": identifier}),
        ("/api/bulk/queues", {"kind": "all"}),
        ("/api/sequences", {"direction": "out"}),
        ("/api/sequences/admitted", {}),
        ("/api/store/damaged", {}),
    ):
        response = await api.get(path, params=query)
        assert response.status_code == 200, response.text
        seen |= check(response.json())
    for path, data in (
        ("/api/transactions", {}),
        ("/api/handles", {"queue": "alone"}),
        ("/api/queues/orders/receive", {"lease_s": 9}),
    ):
        response = await api.post(path, data)
        assert response.status_code in (200, 201), response.text
        seen |= check(response.json())
    assert seen >= {
        "time",
        "sent_time",
        "arrived_time",
        "created",
        "guid",
        "epoch",
        "lookup_id",
        "id",
        "class",
        "error",
    }


@pytest.mark.parametrize("value", [1_700_000_000, "2023-11-14 22:13:20", "1700000000.5"])
def test_another_form_of_a_time_is_seen(value: object) -> None:
    with pytest.raises(AssertionError):
        check({"facts": [{"time": value}]})
