"""The tables of properties: whatever lists properties elsewhere has those of the tables."""

import ast
import inspect
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import waypost
from tests.client import managers
from waypost import aio
from waypost.api.properties import MESSAGE_ROWS, QUEUE_ROWS, MessageObject, MessageProperties
from waypost.api.records import plain, record_of
from waypost.api.rows import Kind
from waypost.cli import app
from waypost.client.aio_host import Host as AioHost
from waypost.client.host import Host
from waypost.core.message import Message
from waypost.core.queues import QueueAttributes
from waypost.wire.base_header import BaseHeader
from waypost.wire.debug_header import DebugHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.user_header import UserHeader

manager, orders = managers.manager, managers.orders

HEADERS = {each.__name__: each for each in (BaseHeader, DebugHeader, MessagePropertiesHeader, UserHeader)}
SOURCE = Path(waypost.__file__).parent
SENDERS: list[Any] = [
    *(waypost.Queue.send, waypost.Queue.send_many, waypost.Manager.send, waypost.Manager.send_many),
    *(aio.Queue.send, aio.Queue.send_many, aio.Manager.send, aio.Manager.send_many),
    *(Host.send, Host.send_many, AioHost.send, AioHost.send_many),
]

# Something else than the default for each property.
VALUES: dict[str, Any] = {
    "label": "order",
    "priority": 5,
    "recoverable": False,
    "body_type": 0,
    "time_to_reach_queue": 60,
    "time_to_be_received": 90,
    "acknowledge": "full-receive",
    "admin_queue": "acks",
    "response_queue": ["one", "two"],
    "journal": True,
    "dead_letter": True,
    "correlation_id": "{12345678-9abc-def0-1234-56789abcdef0}\\7",
    "app_tag": 42,
    "extension": b"more",
    "trace": "PUBLIC=12345678-9abc-def0-1234-56789abcdef0",
    "message_class": 0x123,
    "connector_type": "12345678-9abc-def0-1234-56789abcdef1",
    "sign": True,
    "certificate": "00" * 20,
    "signature": 1,
    "hash": "sha256",
    "encrypt": True,
    "algorithm": "rc2",
}
# Requests to sign and to encrypt: what came of them is shown by other attributes of a message.
PROTECTION = [row.name for row in MESSAGE_ROWS if row.kind is Kind.PROTECTION]
# Companions of a property, because one needs the other.
NEEDS: dict[str, dict[str, Any]] = {
    "acknowledge": {"admin_queue": "acks"},
    "admin_queue": {"acknowledge": "full-receive"},
}


@pytest.mark.parametrize("send", SENDERS, ids=lambda send: f"{send.__module__}.{send.__qualname__}")
def test_a_sender_takes_each_property_by_name_in_the_order_of_the_table(send: Any) -> None:
    parameters = inspect.signature(send).parameters.values()
    others = {"transaction", "certificate_password"}
    named = [each for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY and each.name not in others]
    assert [(each.name, each.default) for each in named] == [(row.name, row.default) for row in MESSAGE_ROWS]
    assert not [each for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD]


@pytest.mark.parametrize(
    "method",
    [waypost.Queue.set, waypost.Manager.create_queue, aio.Queue.set, aio.Manager.create_queue],
    ids=lambda method: f"{method.__module__}.{method.__qualname__}",
)
def test_a_queue_takes_each_property_by_name_in_the_order_of_the_table(method: Any) -> None:
    parameters = inspect.signature(method).parameters.values()
    named = [each for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    told = [(each.name, each.default) for each in named if each.name != "transactional"]
    assert told == [(row.name, row.default) for row in QUEUE_ROWS]
    assert not [each for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD]


@pytest.mark.parametrize(
    ("method", "rows"),
    [
        (waypost.Queue.send, MESSAGE_ROWS),
        (aio.Queue.send, MESSAGE_ROWS),
        (waypost.Queue.set, QUEUE_ROWS),
        (aio.Queue.set, QUEUE_ROWS),
        (waypost.Manager.create_queue, QUEUE_ROWS),
        (aio.Manager.create_queue, QUEUE_ROWS),
    ],
)
def test_help_shows_what_each_property_means(method: Any, rows: Any) -> None:
    shown = " ".join((inspect.getdoc(method) or "").split())
    for row in rows:
        assert f"{row.name} {row.help}" in shown


QUEUE_VALUES: dict[str, Any] = {
    "label": "orders",
    "journal": True,
    "quota_kb": 7,
    "journal_quota_kb": 8,
    "authenticate": True,
    "privacy": "none",
    "base_priority": 0,
    "type_id": "12345678-9abc-def0-1234-56789abcdef0",
    "multicast": "",
}


@pytest.mark.parametrize("name", [row.name for row in QUEUE_ROWS])
def test_a_property_of_a_queue_is_shown_as_it_was_given(manager: waypost.Manager, name: str) -> None:
    created = manager.create_queue("created", **{name: QUEUE_VALUES[name]})
    changed = manager.create_queue("changed")
    changed.set(**{name: QUEUE_VALUES[name]})
    for queue in (created, changed):
        info = queue.info()
        assert getattr(info, name) == info.to_dict()[name] == QUEUE_VALUES[name]


def test_the_properties_of_a_queue_are_kept_on_disk(tmp_path: Path) -> None:
    with managers.opened(tmp_path) as manager:
        manager.create_queue("kept", **QUEUE_VALUES)
    with managers.opened(tmp_path) as manager:
        info = manager.queue("kept").info()
    assert {name: getattr(info, name) for name in QUEUE_VALUES} == QUEUE_VALUES


def test_a_queue_object_has_a_key_for_each_property() -> None:
    names = {row.name for row in QUEUE_ROWS}
    assert names <= set(waypost.QueueInfo.__struct_fields__)
    assert {row.attribute for row in QUEUE_ROWS} <= {each.name for each in fields(QueueAttributes)}


# The answer of the first daemons. A key that came later has a default, so that a newer client reads an older daemon.
FIRST_QUEUE: dict[str, Any] = {
    "path": "HOST\\private$\\orders",
    "format_name": "DIRECT=OS:HOST\\private$\\orders",
    "private_format_name": None,
    "kind": "private",
    "label": "orders",
    "transactional": True,
    "message_count": 1,
    "bytes": 300,
    "journal": False,
    "journal_count": 0,
    "journal_bytes": 0,
    "quota_kb": None,
    "journal_quota_kb": 8,
    "authenticate": False,
    "privacy": "optional",
    "base_priority": 0,
    "type_id": "00000000-0000-0000-0000-000000000000",
    "multicast": "",
    "subqueues": [],
    "created": "2025-01-02T03:04:05Z",
    "modified": "2025-01-02T03:04:05Z",
}
# The attributes that Message has first had, and the message object without defaults with them.
FIRST_MESSAGE: dict[str, Any] = {
    **dict.fromkeys(("id", "label", "class", "class_name", "delivery", "class_meaning", "acknowledge"), ""),
    **dict.fromkeys(("sent_time", "arrived_time", "source_machine", "lookup_id"), ""),
    **dict.fromkeys(("body_type", "priority", "app_tag", "abort_count", "move_count", "size"), 0),
    **dict.fromkeys(("transactional", "first_in_transaction", "last_in_transaction", "journal", "dead_letter"), False),
    **dict.fromkeys(("body_text", "sender_sid", "correlation_id", "admin_queue", "response_queue"), None),
    **dict.fromkeys(("destination_queue", "trace", "connector_type", "headers"), None),
    **dict.fromkeys(("time_to_reach_queue", "time_to_be_received"), None),
    **dict.fromkeys(("time_to_reach_queue_ends", "time_to_be_received_ends"), None),
}


@pytest.mark.parametrize(("first", "record"), [(FIRST_QUEUE, waypost.QueueInfo), (FIRST_MESSAGE, MessageObject)])
def test_an_object_of_an_older_daemon_is_read_with_defaults_for_what_it_does_not_know(first: Any, record: Any) -> None:
    found = plain(record_of(first, record))
    assert {name: found[name] for name in first} == first


def test_a_key_that_came_later_is_in_the_json_of_every_queue() -> None:
    found = record_of(FIRST_QUEUE, waypost.QueueInfo).to_dict()
    assert found["damaged_count"] == 0
    assert {row.name for row in QUEUE_ROWS} <= found.keys()


class Recorder(waypost.Queue):
    """Notes the record that a send makes of its arguments."""

    def __init__(self) -> None:
        self.found: list[MessageProperties] = []

    def send_record(self, body: Any, properties: MessageProperties, transaction: Any = None) -> Any:
        self.found.append(properties)

    def send_records(self, bodies: Any, properties: MessageProperties, transaction: Any = None) -> Any:
        self.found.append(properties)


@pytest.mark.parametrize("name", VALUES)
def test_an_argument_is_the_property_of_its_name(name: str) -> None:
    queue = Recorder()
    queue.send("x", **{name: VALUES[name]})
    queue.send_many(["x"], **{name: VALUES[name]})
    assert queue.found == [MessageProperties(**{name: VALUES[name]})] * 2


# Without a directory nobody can have a trace.
@pytest.mark.parametrize("name", [name for name in VALUES if name not in ("trace", *PROTECTION)])
def test_a_message_that_is_sent_once_more_says_the_same(
    manager: waypost.Manager, orders: waypost.Queue, name: str
) -> None:  # fmt: skip
    found = orders.send("x", **{name: VALUES[name]} | NEEDS.get(name, {}))
    again = orders.resend(found, manager.create_queue("others").name)
    shown = {"recoverable": "delivery"}.get(name, name)
    assert getattr(again, shown) == getattr(found, shown) != getattr(orders.send("x"), shown)


# An express message is not kept.
@pytest.mark.parametrize("name", [name for name in VALUES if name not in ("trace", "recoverable", *PROTECTION)])
@pytest.mark.parametrize("count", [1, 2])
def test_a_property_of_a_message_is_kept_on_disk(tmp_path: Path, name: str, count: int) -> None:
    """One message and several are encoded in different places."""
    with managers.opened(tmp_path) as manager:
        queue = manager.create_queue("orders")
        given = {name: VALUES[name]} | NEEDS.get(name, {})
        sent = queue.send_many(["x"] * count, **given)[0] if count > 1 else queue.send("x", **given)
        plain = queue.send("x")
    with managers.opened(tmp_path) as manager:
        found = manager.queue("orders").peek(0, lookup_id=sent.lookup_id)
        assert getattr(found, name) == getattr(sent, name) != getattr(plain, name)


FACADES = {"client/with_properties.py", "client/aio_with_properties.py"}


@pytest.mark.parametrize(
    ("names", "files"),
    [
        # The table, its header, the core and the facades; a signature covers it (MS-MQMQ 2.5.2).
        (
            {"app_tag", "application_tag", "ApplicationTag"},
            {"api/properties.py", "wire/message_properties.py", "core/message.py", "security/signatures.py", *FACADES},
        ),
        # The table, its record, the core, which checks it too, the directory and the facades.
        (
            {"type_id", "type_guid"},
            {"api/properties.py", "store/queue_records.py", "core/queues.py", "core/creating.py", *FACADES}
            | {"directory/objects.py"},
        ),
    ],
)
def test_whatever_else_goes_by_the_table_and_does_not_name_a_property(names: set[str], files: set[str]) -> None:
    assert {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if names & _names_in(path) and "sim" not in path.parts
    } == files


@cache
def _names_in(path: Path) -> set[object]:
    """Identifiers and texts; those of a sentence are not found."""
    kinds = {ast.Name: "id", ast.Attribute: "attr", ast.keyword: "arg", ast.arg: "arg", ast.Constant: "value"}
    tree = ast.walk(ast.parse(path.read_bytes()))
    return {getattr(node, kinds[type(node)]) for node in tree if type(node) in kinds}


def test_every_property_has_a_value_to_test_with() -> None:
    assert list(VALUES) == [row.name for row in MESSAGE_ROWS]


@pytest.mark.parametrize("row", MESSAGE_ROWS, ids=lambda row: row.name)
def test_a_property_has_a_help_sentence_an_attribute_and_a_place_in_a_packet(row: Any) -> None:
    assert row.help.endswith(".")
    if row.kind is Kind.PROTECTION:
        return
    assert row.attribute in {each.name for each in fields(Message)}
    header, field, *_ = row.facts.wire.split(".")
    assert re.sub(r"(?<=[a-z])(?=[A-Z])", "_", field).lower() in {each.name for each in fields(HEADERS[header])}


@pytest.mark.parametrize(
    "row", [row for row in MESSAGE_ROWS if row.kind is not Kind.PROTECTION], ids=lambda row: row.name
)
def test_a_message_has_an_attribute_for_each_property(row: Any) -> None:
    name = {"recoverable": "delivery"}.get(row.name, row.name)
    assert isinstance(inspect.getattr_static(waypost.Message, name), property)


def test_the_command_line_has_an_option_for_each_property() -> None:
    shown = " ".join(CliRunner().invoke(app, ["send", "--help"], env={"COLUMNS": "200"}).stdout.split())
    for row in MESSAGE_ROWS:
        if row.name != "recoverable":
            assert f"{', '.join(row.options)} " in shown
            assert row.help.split(".")[0].replace("- ", "-") in shown.replace("- ", "-")
    assert "--recoverable" in shown


@pytest.mark.parametrize("verb", ["create", "set"])
def test_the_command_line_has_an_option_for_each_property_of_a_queue(verb: str) -> None:
    shown = " ".join(CliRunner().invoke(app, ["queue", verb, "--help"], env={"COLUMNS": "200"}).stdout.split())
    for row in QUEUE_ROWS:
        assert row.options[0].replace("/", " / ") in shown
        assert row.help.split(".")[0] in shown
