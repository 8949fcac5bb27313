"""Values that are valid in /schema are accepted, as far as a schema can say it, and invalid ones are refused."""

import re
from typing import Any

import pytest

from tests.http.server import Api, served
from waypost.api.properties import MESSAGE_ROWS, QUEUE_ROWS

MESSAGES = "/api/queues/orders/messages"
# Companions of a property, because one needs the other.
BESIDE: dict[str, Any] = {
    "acknowledge": {"admin_queue": "orders"},
    "admin_queue": {"acknowledge": "full-receive"},
    "signature": {"sign": True},
}

# Values of properties of messages that are none, each next to one that is.
WRONG: list[tuple[str, Any, Any]] = [
    ("label", "x" * 250, "x" * 249),
    ("priority", -1, 0),
    ("priority", 8, 7),
    ("signature", 0, 1),
    ("signature", 4, 2),
    ("body_type", -1, 0),
    ("body_type", 1 << 32, (1 << 32) - 1),
    ("time_to_reach_queue", -1, 0.5),
    ("time_to_reach_queue", (1 << 32) - 1, (1 << 32) - 2),
    ("time_to_be_received", -0.5, 60),
    ("time_to_be_received", 1e10, None),
    ("acknowledge", "yes", "none"),
    ("acknowledge", "full-receive,", "pos-arrival, pos-receive"),
    ("admin_queue", [], ["orders"]),
    ("admin_queue", [f"q{number}" for number in range(17)], [f"q{number}" for number in range(16)]),
    ("response_queue", [], "orders"),
    ("response_queue", [f"q{number}" for number in range(17)], [f"q{number}" for number in range(16)]),
    ("correlation_id", "12", "ab" * 20),
    ("correlation_id", "{12345678-9abc-def0-1234-56789abcdef0}", "{12345678-9abc-def0-1234-56789abcdef0}\\7"),
    ("app_tag", -1, 0),
    ("app_tag", 1 << 32, (1 << 32) - 1),
    ("extension", "not base64!", "AAAA"),
    ("message_class", -1, 0),
    ("message_class", 0x10000, 0x0123),
    ("connector_type", "5", "12345678-9abc-def0-1234-56789abcdef0"),
    ("trace", "orders", None),
]


def is_valid(schema: dict[str, Any], value: Any) -> bool:
    """As far as the constraints go that properties have."""
    words = [word for each in (schema, *schema.get("oneOf", ())) for word in each.get("enum", ())]
    if words:
        return value in words
    match value:
        case str():
            return len(value) <= schema.get("maxLength", len(value)) and bool(
                re.search(schema.get("pattern", ""), value)
            )
        case bool() | None:
            return True
        case int() | float():
            return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
        case list():
            return bool(schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)))
    return False


@served()
async def test_the_schema_and_the_server_refuse_the_same_properties_of_messages(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    schemas = (await api.get("/schema")).json()["components"]["schemas"]
    for name, wrong, right in WRONG:
        schema = schemas["MessageProperties"]["properties"][name]
        assert schema == schemas["NewMessage"]["properties"][name]
        for value, is_right in ((wrong, False), (right, True)):
            beside = {} if value == "none" else BESIDE.get(name, {})
            answer = await api.post(MESSAGES, {"messages": [{name: value, **beside}]})
            assert (answer.status_code == 200) is is_right, (name, value, answer.text)
            assert is_valid(schema, value) is is_right, (name, value, schema)
            await queue.purge()


WRONG_QUEUES: list[tuple[str, Any, Any]] = [
    ("label", "x" * 125, "x" * 124),
    ("quota_kb", -1, 0),
    ("quota_kb", (1 << 32) - 1, (1 << 32) - 2),
    ("journal_quota_kb", -1, None),
    ("journal_quota_kb", (1 << 32) - 1, 5),
    ("privacy", "full", "body"),
    ("base_priority", -32769, -32768),
    ("base_priority", 32768, 32767),
    ("type_id", "5", "12345678-9abc-def0-1234-56789abcdef0"),
    ("multicast", "234.1.1.1:8001", ""),
]


@served()
async def test_the_schema_and_the_server_refuse_the_same_properties_of_queues(api: Api) -> None:
    await api.manager.create_queue("orders")
    schemas = (await api.get("/schema")).json()["components"]["schemas"]
    for name, wrong, right in WRONG_QUEUES:
        schema = schemas["SetQueueBody"]["properties"][name]
        assert schema == schemas["CreateQueue"]["properties"][name]
        for value, is_right in ((wrong, False), (right, True)):
            answers = [
                await api.client.patch("/api/queues/orders", json={name: value}),
                await api.post("/api/queues", {"name": "other", name: value}),
            ]
            assert [each.status_code < 300 for each in answers] == [is_right] * 2, (name, value, answers[0].text)
            assert is_valid(schema, value) is is_right, (name, value, schema)
            if is_right:
                await api.manager.queue("other").delete()


@served()
async def test_the_schema_says_what_each_property_of_a_message_means(api: Api) -> None:
    found = (await api.get("/schema")).json()["components"]["schemas"]["MessageProperties"]["properties"]
    assert [(name, schema["description"]) for name, schema in found.items()] == [
        (row.name, row.help) for row in MESSAGE_ROWS
    ]


@pytest.mark.parametrize("row", MESSAGE_ROWS, ids=lambda row: row.name)
def test_whatever_has_a_constraint_is_tried(row: Any) -> None:
    assert not row.constraints or row.name in {name for name, _, _ in WRONG}


@pytest.mark.parametrize("row", QUEUE_ROWS, ids=lambda row: row.name)
def test_whatever_of_a_queue_has_a_constraint_is_tried(row: Any) -> None:
    assert not row.constraints or row.name in {name for name, _, _ in WRONG_QUEUES}
