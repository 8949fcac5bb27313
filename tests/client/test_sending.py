"""Readers get the properties of a message that its sender gave it."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import waypost
from tests.client import managers
from waypost.client.transports.http.blocking import Http
from waypost.errors import (
    DecodeError,
    HostUnreachable,
    IllegalFormatName,
    InsufficientResources,
    InvalidParameter,
    LabelTooLong,
    MessageNotFound,
    QueueNotFound,
    UnsupportedFormatName,
    WaypostError,
)

manager, orders = managers.manager, managers.orders

KEYS = (
    *("id", "lookup_id", "label", "body_base64", "body_text", "body_type", "class", "class_name", "priority"),
    *("delivery", "transactional", "sent_time", "arrived_time", "source_machine", "sender_sid"),
    *(
        "sender_verified",
        "authenticated",
        "signature",
        "certificate_subject",
        "encrypted",
        "correlation_id",
        "app_tag",
        "admin_queue",
        "response_queue",
        "destination_queue",
        "first_in_transaction",
    ),
    *("last_in_transaction", "abort_count", "move_count", "size", "class_meaning", "acknowledge", "journal"),
    *("dead_letter", "time_to_reach_queue", "time_to_reach_queue_ends", "time_to_be_received"),
    *("time_to_be_received_ends", "trace", "connector_type", "extension_base64", "headers"),
)
GUID = "12345678-9abc-def0-1234-56789abcdef0"


def test_a_message_comes_out_as_it_went_in(manager: waypost.Manager, orders: waypost.Queue) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    sent = orders.send(b"\x00\x01", label="order", priority=5)
    received = orders.receive(0)
    assert received.id == sent.id == f"{{{manager.guid}}}\\{sent.id.rpartition(chr(92))[2]}"
    assert received.lookup_id == sent.lookup_id > 0
    assert (received.label, received.body, received.priority) == ("order", b"\x00\x01", 5)
    assert before <= received.sent_time <= received.arrived_time <= datetime.now(UTC)
    assert received.source_machine == manager.guid
    assert received.destination_queue == orders.format_name
    assert received.delivery == "recoverable"
    assert not received.transactional


def test_every_property_reaches_the_reader(manager: waypost.Manager, orders: waypost.Queue) -> None:
    manager.create_queue("answers")
    request = orders.send("first")
    orders.send(
        "second",
        label="ünï",
        priority=7,
        recoverable=False,
        body_type=31,
        time_to_reach_queue=3600,
        time_to_be_received=59.5,
        acknowledge="full-receive",
        admin_queue="answers",
        response_queue=r"winserver01\private$\answers",
        correlation_id=request.id,
        app_tag=0xFFFF_FFFF,
        extension=b"more",
        journal=True,
        dead_letter=True,
        message_class=0x0123,
        connector_type=GUID,
    )
    message = orders.receive(0)
    assert message.text == "second"
    assert message.body == "second".encode("utf-16-le")
    assert (message.label, message.priority, message.delivery, message.body_type) == ("ünï", 7, "express", 31)
    assert (message.time_to_reach_queue, message.time_to_be_received) == (3600, 60)
    assert message.acknowledge == "full-receive"
    assert message.admin_queue == manager.queue("answers").format_name
    assert message.response_queue == r"DIRECT=OS:winserver01\PRIVATE$\answers"
    assert message.correlation_id == request.id
    assert (message.app_tag, message.extension) == (0xFFFF_FFFF, b"more")
    assert message.journal
    assert message.dead_letter
    assert (message.message_class, message.class_name) == (0x0123, "")


def test_a_message_has_four_days_to_reach_its_queue_at_most(orders: waypost.Queue) -> None:
    for seconds in (None, 1_000_000):
        orders.send("x", time_to_reach_queue=seconds)
        assert orders.receive(0).time_to_reach_queue == 4 * 24 * 3600


def test_what_nobody_says_has_a_default(orders: waypost.Queue) -> None:
    orders.send(b"")
    message = orders.receive(0)
    assert (message.label, message.body, message.priority, message.acknowledge) == ("", b"", 3, "none")
    assert (message.time_to_reach_queue, message.time_to_be_received) == (4 * 24 * 3600, None)
    assert message.admin_queue is message.response_queue is message.correlation_id is message.sender_sid is None
    assert message.trace is None
    assert (message.sender_verified, message.authenticated, message.encrypted) == (False, False, None)
    assert (message.app_tag, message.extension, message.abort_count, message.move_count) == (0, b"", 0, 0)
    assert (message.class_name, message.class_meaning) == ("MQMSG_CLASS_NORMAL", "a message of an application")
    assert not message.journal
    assert not message.dead_letter


@pytest.mark.parametrize(
    ("body", "options", "data", "body_type", "text"),
    [
        ("ü€", {}, b"\xfc\x00\xac\x20", 8, "ü€"),
        ("ü€", {"body_type": 31}, b"\xfc\x00\xac\x20", 31, "ü€"),
        ("ü", {"body_type": 30}, b"\xc3\xbc", 30, "ü"),
        ("ü", {"body_type": 0}, b"\xc3\xbc", 0, "ü"),
        (b"abc", {}, b"abc", 0x1011, "abc"),
        (bytearray(b"abc"), {}, b"abc", 0x1011, "abc"),
        (memoryview(b"abc"), {}, b"abc", 0x1011, "abc"),
        (b"a\0b\0\0\0", {"body_type": 31}, b"a\0b\0\0\0", 31, "ab"),
        (b"gr\xfcn\0", {"body_type": 30}, b"gr\xfcn\0", 30, "grün"),
        (waypost.xml_body("a < b"), {"body_type": 0}, None, 0, '<?xml version="1.0"?>\r\n<string>a &lt; b</string>'),
    ],
)
def test_bodies_are_bytes_or_text(
    orders: waypost.Queue, body: Any, options: dict[str, Any], data: bytes | None, body_type: int, text: str
) -> None:
    orders.send(body, **options)
    message = orders.receive(0)
    assert message.body == (body if data is None else data)
    assert message.body_type == body_type
    assert message.text == text


def test_a_body_that_is_no_text_says_so_and_stays_bytes(orders: waypost.Queue) -> None:
    orders.send(b"\xff\xfe\xfd")
    message = orders.receive(0)
    with pytest.raises(DecodeError, match="read the body as bytes"):
        print(message.text)
    assert message.to_dict()["body_text"] is None
    assert message.to_dict()["body_base64"] == "//79"


def test_a_message_object_has_the_keys_of_the_command_line_and_is_json(orders: waypost.Queue) -> None:
    orders.send("42 bolts", label="order")
    message = orders.receive(0)
    found = json.loads(json.dumps(message.to_dict()))
    assert tuple(found) == KEYS
    assert found["lookup_id"] == str(message.lookup_id)
    assert found["class"] == "0x0000"
    assert found["body_text"] == "42 bolts"
    assert found["sent_time"].endswith("Z")
    assert datetime.fromisoformat(found["sent_time"]) == message.sent_time


def test_a_message_object_says_all_that_the_message_does(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send(
        "x",
        acknowledge="full-receive",
        admin_queue="orders",
        journal=True,
        dead_letter=True,
        time_to_reach_queue=60,
        time_to_be_received=90,
        connector_type=GUID,
        extension=b"\0\1",
    )
    message = orders.receive(0)
    found = message.to_dict()
    assert (found["acknowledge"], found["journal"], found["dead_letter"]) == ("full-receive", True, True)
    assert (found["time_to_reach_queue"], found["time_to_be_received"]) == (60, 90)
    ends = [
        datetime.fromisoformat(str(found[f"{name}_ends"])) for name in ("time_to_reach_queue", "time_to_be_received")
    ]
    assert ends == [message.sent_time + timedelta(seconds=seconds) for seconds in (60, 90)]
    assert ends == [message.time_to_reach_queue_ends, message.time_to_be_received_ends]
    assert (found["extension_base64"], found["connector_type"], found["trace"]) == ("AAE=", GUID, None)
    assert found["class_meaning"] == "a message of an application"


def test_a_message_without_a_limit_of_time_has_none_in_its_object(orders: waypost.Queue) -> None:
    orders.send("x")
    message = orders.receive(0)
    assert (message.time_to_be_received_ends, message.to_dict()["time_to_be_received_ends"]) == (None, None)
    assert (message.connector_type, message.to_dict()["extension_base64"]) == (None, "")


NSERVICEBUS = (
    b'<?xml version="1.0"?><ArrayOfHeaderInfo><HeaderInfo><Key>NServiceBus.MessageId</Key><Value>1f</Value>'
    b"</HeaderInfo></ArrayOfHeaderInfo>"
)
MASS_TRANSIT = (
    b'{"messageType":["urn:message:Shop:Order"],"message":{"id":1},"headers":{"MT-Reason":"fault","n":5,"o":null}}'
)


@pytest.mark.parametrize(
    ("extension", "body", "headers"),
    [
        (NSERVICEBUS, b"<Order/>", {"NServiceBus.MessageId": "1f"}),
        (b'{"rbs2-msg-id":"5b"}', b"{}", {"rbs2-msg-id": "5b"}),
        (None, MASS_TRANSIT, {"MT-Reason": "fault", "n": "5", "o": ""}),
        (None, b"\xef\xbb\xbf " + MASS_TRANSIT, {"MT-Reason": "fault", "n": "5", "o": ""}),
        (None, b'{"messageType":["a"],"message":{}}', {}),
        (b"of somebody else", b"{}", None),
        (None, b'{"messageType":"a","message":{}}', None),
        (None, b'{"messageType":["a"],"message":{}', None),
        (None, b"", None),
    ],
)
def test_headers_of_frameworks_are_read(
    orders: waypost.Queue, extension: bytes | None, body: bytes, headers: dict[str, str] | None
) -> None:
    orders.send(body, body_type=0, extension=extension)
    message = orders.receive(0)
    assert message.headers == message.to_dict()["headers"] == headers


XML = '<?xml version="1.0" encoding="utf-16"?>\r\n<string>42 Bölts</string>'


@pytest.mark.parametrize("body_type", [0, 0x1011])
@pytest.mark.parametrize(
    "body",
    [XML.encode("utf-16"), XML.encode("utf-16-le"), XML.encode("utf-16-be"), b"\xfe\xff" + XML.encode("utf-16-be")],
    ids=["mark", "little", "big", "big mark"],
)
def test_xml_in_utf_16_is_text(orders: waypost.Queue, body: bytes, body_type: int) -> None:
    orders.send(body, body_type=body_type)
    message = orders.receive(0)
    assert message.text == message.body_text == message.to_dict()["body_text"] == XML


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"label": 5}, "a label must be text"),
        ({"priority": 8}, "from 0 to 7, not 8"),
        ({"priority": "high"}, "from 0 to 7"),
        ({"time_to_be_received": -1}, "`time_to_be_received` must be a number of seconds"),
        ({"time_to_reach_queue": float("nan")}, "`time_to_reach_queue` must be a number of seconds"),
        ({"acknowledge": "yes", "admin_queue": "orders"}, "`acknowledge` must be one of none, pos-arrival"),
        ({"acknowledge": "full-receive"}, "`acknowledge` requires an `admin_queue` for the acknowledgments"),
        ({"admin_queue": "orders"}, "`admin_queue` requires `acknowledge`, which specifies the acknowledgments"),
        ({"correlation_id": "12"}, "`correlation_id` must be the id of a message"),
        ({"correlation_id": b"12"}, "`correlation_id` must be the id of a message"),
        ({"app_tag": -1}, "`app_tag` must be a number from 0"),
        ({"app_tag": 1 << 32}, "`app_tag` must be a number from 0"),
        ({"body_type": "text"}, "`body_type` must be a number"),
        ({"extension": "text"}, "`extension` must be bytes, not str"),
        ({"trace": r"DIRECT=OS:x\private$\y"}, "PUBLIC=guid"),
        ({"message_class": 0x1000}, "`message_class` must be within the bit mask"),
        ({"connector_type": "5"}, "`connector_type` must be a GUID"),
        ({"transaction": "mine"}, r"`transaction` must come from manager.transaction\(\), not"),
    ],
)
def test_a_value_that_cannot_be_is_refused_and_nothing_is_sent(
    orders: waypost.Queue, options: dict[str, Any], sentence: str
) -> None:
    for send in (lambda: orders.send("x", **options), lambda: orders.send_many(["x", "y"], **options)):
        with pytest.raises(InvalidParameter, match=sentence):
            send()
    assert orders.info().message_count == 0


def test_a_message_is_not_traced_without_a_directory(orders: waypost.Queue) -> None:
    trace = f"PUBLIC={GUID}"
    for send in (lambda: orders.send("x", trace=trace), lambda: orders.send_many(["x", "y"], trace=trace)):
        with pytest.raises(UnsupportedFormatName, match="tracing requires a directory, and none is configured"):
            send()
    assert orders.info().message_count == 0


@pytest.mark.parametrize("scheme", ["HTTP", "HTTPS"])
def test_a_message_is_not_sent_over_http(manager: waypost.Manager, scheme: str) -> None:
    for name in (f"DIRECT={scheme}://host/msmq/q", f"DIRECT=OS:host\\q,DIRECT={scheme}://host/msmq/q"):
        with pytest.raises(UnsupportedFormatName, match="messages over HTTP are not supported yet"):
            manager.send(name, "x")
    assert manager.outgoing_queues() == []


@pytest.mark.spec("MQMQ-2.1.2-08")
def test_a_queue_that_is_reached_by_ipx_is_not_opened(manager: waypost.Manager, orders: waypost.Queue) -> None:
    name = r"DIRECT=IPX:00000012:00a0234f7500\private$\q"
    refused = "cannot open DIRECT=IPX:00000012:00a0234f7500.*: IPX is not supported"
    for destination in (name, f"{orders.format_name},{name}"):
        with pytest.raises(UnsupportedFormatName, match=refused):
            manager.send(destination, "x")
    for read in (manager.queue(name).receive, manager.queue(name).peek):
        with pytest.raises(UnsupportedFormatName, match=refused):
            read(0)
    for address in ("00000012", "12:34:56", "host:1"):
        with pytest.raises(IllegalFormatName, match="must be a network number, a colon and a host number"):
            manager.send(f"DIRECT=IPX:{address}\\q", "x")
    assert (manager.outgoing_queues(), orders.info().message_count) == ([], 0)


@pytest.mark.parametrize("seconds", [10**400, 1e308, float("inf"), float("nan"), 4294967294.5, -1])
def test_a_time_that_no_message_can_carry_is_refused(orders: waypost.Queue, seconds: float) -> None:
    for name in ("time_to_reach_queue", "time_to_be_received"):
        with pytest.raises(InvalidParameter, match=f"`{name}` must be a number of seconds"):
            orders.send("x", **{name: seconds})  # type: ignore[arg-type]


def test_an_error_does_not_repeat_a_long_argument(orders: waypost.Queue) -> None:
    for options in (
        {"correlation_id": "x" * 5000},
        {"acknowledge": "x" * 5000},
        {"priority": [0] * 5000},
        {"app_tag": 10**5000},
    ):
        with pytest.raises(InvalidParameter) as raised:
            orders.send("x", **options)
        assert len(str(raised.value)) < 300


def test_a_label_with_half_a_character_is_refused(manager: waypost.Manager, orders: waypost.Queue) -> None:
    with pytest.raises(InvalidParameter, match="label"):
        orders.send("x", label="a\ud800b")
    with pytest.raises(InvalidParameter, match="label"):
        manager.create_queue("others", label="\udfff")
    assert orders.send("x", label="\U0001f600").label == "\U0001f600"


def test_none_is_no_property_of_a_message_that_is_passed_on(orders: waypost.Queue) -> None:
    orders.send("x", correlation_id=None, response_queue=None, extension=None)
    received = orders.receive(0)
    assert (received.response_queue, received.extension) == (None, b"")


def test_only_text_becomes_xml() -> None:
    for text in (None, 5, "\ud800"):
        with pytest.raises(InvalidParameter, match="body"):
            waypost.xml_body(text)  # type: ignore[arg-type]


def test_a_program_that_only_sends_gets_the_room_of_what_expired(manager: waypost.Manager) -> None:
    small = manager.create_queue("small", quota_kb=1)
    small.send("x" * 350, time_to_be_received=1)
    with pytest.raises(InsufficientResources):
        small.send("x" * 350)
    time.sleep(2.1)
    small.send("x" * 350)


@pytest.mark.parametrize("body", [5, None, {"a": 1}, "\ud800"])
def test_a_body_that_cannot_be_is_refused(orders: waypost.Queue, body: Any) -> None:
    with pytest.raises(InvalidParameter, match="body"):
        orders.send(body)
    with pytest.raises(InvalidParameter, match="body"):
        orders.send_many(["good", body])
    assert orders.info().message_count == 0


def test_what_no_packet_can_carry_is_refused(orders: waypost.Queue) -> None:
    with pytest.raises(LabelTooLong):
        orders.send("x", label="l" * 250)
    with pytest.raises(InvalidParameter, match=r"5000000 bytes, but a message can have at most 4194304 .* in parts"):
        orders.send(bytes(5_000_000))
    with pytest.raises(WaypostError, match="PacketSize"):
        orders.send(bytes(4_194_304))
    assert orders.info().message_count == 0
    orders.send("x", label="l" * 249)
    assert orders.receive(0).label == "l" * 249


def test_a_property_that_does_not_exist_is_named(orders: waypost.Queue) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'app_tga'"):
        orders.send("x", app_tga=5)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("none", "none"),
        ("nack-receive", "nack-receive"),
        ("full-reach-queue", "full-reach-queue"),
        ("nack-reach-queue", "neg-arrival"),
        ("pos-arrival,neg-receive", "pos-arrival,neg-receive"),
        ("pos-arrival, pos-receive ", "pos-arrival,pos-receive"),
        ("pos-receive,neg-arrival,neg-receive", "full-receive"),
    ],
)
def test_acknowledgments_are_asked_for_in_words(orders: waypost.Queue, words: str, told: str) -> None:
    if words == "none":
        orders.send("x", acknowledge=words)
    else:
        orders.send("x", acknowledge=words, admin_queue="orders")
    assert orders.browse().__next__().acknowledge == told


def test_an_acknowledgment_tells_what_became_of_a_message(manager: waypost.Manager, orders: waypost.Queue) -> None:
    admin = manager.create_queue("admin")
    sent = orders.send("x", acknowledge="pos-arrival,pos-receive", admin_queue=admin)
    arrival = admin.receive(0)
    assert arrival.class_name == "MQMSG_CLASS_ACK_REACH_QUEUE"
    assert arrival.correlation_id == sent.id
    orders.receive(0)
    receipt = admin.receive(0)
    assert (receipt.class_name, receipt.correlation_id) == ("MQMSG_CLASS_ACK_RECEIVE", sent.id)


def test_a_correlation_id_is_an_id_or_any_20_bytes(orders: waypost.Queue) -> None:
    data = bytes(range(20))
    for given in (data, data.hex()):
        orders.send("x", correlation_id=given)
    first, second = orders.receive_many(2)
    assert first.correlation_id == second.correlation_id == "{03020100-0504-0706-0809-0a0b0c0d0e0f}\\319951120"


def test_an_expired_message_becomes_a_dead_letter(manager: waypost.Manager, orders: waypost.Queue) -> None:
    sent = orders.send("late", time_to_be_received=0, dead_letter=True)
    assert orders.info().message_count == 0
    letter = manager.queue("system$;deadletter").receive(0)
    assert (letter.id, letter.text) == (sent.id, "late")
    assert letter.class_name.endswith("_TIMEOUT")
    assert "expired" in letter.class_meaning


def test_a_dead_letter_goes_to_the_queue_that_was_named(manager: waypost.Manager, orders: waypost.Queue) -> None:
    mine = manager.create_queue("undelivered")
    orders.send("late", time_to_be_received=0, dead_letter=mine)
    assert mine.receive(0).text == "late"
    assert manager.queue("system$;deadletter").info().message_count == 0


def test_a_delivered_message_is_kept_in_the_journal_if_asked(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send("x", journal=True)
    assert manager.queue("system$;journal").receive(0).text == "x"


def test_many_messages_are_sent_in_one_call(orders: waypost.Queue) -> None:
    sent = orders.send_many((f"{number}" for number in range(50)), label="batch", priority=6)
    assert len({message.id for message in sent}) == 50
    assert [message.text for message in orders.receive_many(100)] == [f"{number}" for number in range(50)]
    assert orders.send_many([]) == []


def test_one_body_is_no_list_of_bodies(orders: waypost.Queue) -> None:
    with pytest.raises(InvalidParameter, match="a list of bodies"):
        orders.send_many("text")
    with pytest.raises(InvalidParameter, match="list of bodies, not NoneType"):
        orders.send_many(None)  # type: ignore[arg-type]


def test_bodies_of_one_call_are_of_one_kind(orders: waypost.Queue) -> None:
    with pytest.raises(InvalidParameter, match="all text or all bytes"):
        orders.send_many(["text", b"bytes"])
    orders.send_many(["text", b"bytes"], body_type=0)
    assert [message.text for message in orders.receive_many(5)] == ["text", "bytes"]


def test_a_queue_that_has_no_room_for_all_takes_none(manager: waypost.Manager) -> None:
    small = manager.create_queue("small", quota_kb=10)
    with pytest.raises(InsufficientResources, match="has reached its quota"):
        small.send_many([bytes(1000)] * 20)
    assert small.info().message_count == 0
    small.send_many([bytes(1000)] * 8)
    with pytest.raises(InsufficientResources, match="has reached its quota"):
        small.send(bytes(3000))
    assert small.info().message_count == 8


def test_what_goes_to_another_computer_waits_in_an_outgoing_queue(manager: waypost.Manager) -> None:
    name = r"DIRECT=OS:winserver01\PRIVATE$\orders"
    sent = manager.send(r"winserver01\private$\orders", "far", label="from here")
    (outgoing,) = manager.outgoing_queues()
    info = outgoing.info()
    assert (info.format_name, info.kind, info.message_count, info.state) == (name, "outgoing", 1, "inactive")
    found = info.to_dict()
    assert (found["next_hops"], found["connections"], found["last_error"]) == ([], [], "")
    assert (found["unacknowledged"], found["unread"]) == (0, 0)
    assert [message.id for message in outgoing.browse()] == [sent.id]
    assert manager.queues() == []
    # A daemon reads from other hosts, and this one is none.
    reads_elsewhere = isinstance(manager._transport, Http)
    with pytest.raises(HostUnreachable if reads_elsewhere else QueueNotFound):
        manager.queue(name).receive(0)
    assert outgoing.receive(0).label == "from here"
    outgoing.delete()
    assert manager.outgoing_queues() == []


def test_a_manager_sends_many_to_a_queue(manager: waypost.Manager, orders: waypost.Queue) -> None:
    sent = manager.send_many("orders", ["a", "b"], label="both")
    assert [(message.id, message.label) for message in orders.receive_many(3)] == [(each.id, "both") for each in sent]


def test_a_message_is_deleted_by_itself_or_its_lookup_id(orders: waypost.Queue) -> None:
    first, second, third = orders.send_many(["a", "b", "c"])
    orders.delete_message(second)
    orders.delete_message(third.lookup_id)
    assert [message.id for message in orders.browse()] == [first.id]
    with pytest.raises(MessageNotFound):
        orders.delete_message(second)


def test_several_queues_get_a_message_at_once(manager: waypost.Manager, orders: waypost.Queue) -> None:
    copies = manager.create_queue("copies")
    sent = manager.send(f"{orders.format_name},{copies.format_name}", "both")
    assert orders.receive(0).id == copies.receive(0).id == sent.id


def test_what_comes_back_from_a_send_to_several_queues_names_the_copy_in_each(
    manager: waypost.Manager, orders: waypost.Queue
) -> None:
    copies = manager.create_queue("copies")
    far = "DIRECT=OS:far\\PRIVATE$\\orders"
    names = sorted((orders.format_name, copies.format_name, far), key=str.lower)
    sent = manager.send(f"{orders.format_name},{copies.format_name},{far}", "both", label="x")
    outgoing, second, first = sent.copies
    assert (sent.lookup_id, sent.destination_queue) == (0, ",".join(names))
    assert {copy.id for copy in sent.copies} == {sent.id}
    assert [copy.destination_queue for copy in sent.copies] == names
    for queue, copy in ((orders, first), (copies, second)):
        found = queue.receive(lookup_id=copy.lookup_id)
        assert (found.id, found.text, found.size, found.copies) == (sent.id, "both", copy.size, ())
        assert found.packet == copy.packet
    told = sent.to_dict()
    assert (told["id"], told["lookup_id"], told["label"]) == (sent.id, "0", "x")
    assert told["copies"] == [
        {"destination_queue": copy.destination_queue, "lookup_id": str(copy.lookup_id), "size": copy.size}
        for copy in (outgoing, second, first)
    ]


def test_a_send_to_several_queues_in_a_transaction_names_its_copies(manager: waypost.Manager) -> None:
    one, other = (manager.create_queue(name, transactional=True) for name in ("one", "other"))
    with manager.transaction() as transaction:
        sent = manager.send(f"{one.format_name},{other.format_name}", "both", transaction=transaction)
    for queue, copy in zip((one, other), sent.copies, strict=True):
        assert queue.receive(lookup_id=copy.lookup_id).id == sent.id


def test_a_send_to_several_queues_reaches_all_of_them_or_none(manager: waypost.Manager, orders: waypost.Queue) -> None:
    """So that to send it again after a refusal does not double it."""
    full = manager.create_queue("full", quota_kb=1)
    same = full.info().private_format_name
    for other, size in ((orders.format_name, 2000), (same, 600)):
        name = f"{full.format_name},{other}"
        with pytest.raises(InsufficientResources, match="has reached its quota"):
            manager.send(name, b"x" * size)
    with pytest.raises(UnsupportedFormatName):
        manager.send(f"{orders.format_name},MULTICAST=234.1.1.1:8001", "x")
    assert (orders.info().message_count, full.info().message_count) == (0, 0)
    assert manager.send(f"{orders.format_name},{full.format_name}", b"x").copies
    assert (orders.info().message_count, full.info().message_count) == (1, 1)


def test_several_queues_get_the_answers_and_the_acknowledgments(
    manager: waypost.Manager, orders: waypost.Queue
) -> None:
    """MS-MQMQ 2.2.20.1: the UserHeader has the first of them, and the MultiQueueFormatHeader all."""
    acks = [manager.create_queue(name) for name in ("acks", "more-acks")]
    names = [queue.format_name for queue in acks]
    answers = ["DIRECT=OS:far\\PRIVATE$\\one", "DIRECT=OS:far\\PRIVATE$\\two"]
    orders.send("x", response_queue=answers, admin_queue=acks, acknowledge="pos-arrival,pos-receive")
    found = orders.receive(0)
    assert (found.response_queue, found.response_queues) == (answers[0], tuple(answers))
    assert (found.admin_queue, found.admin_queues) == (names[0], tuple(names))
    told = found.to_dict()
    assert (told["response_queues"], told["admin_queues"]) == (answers, names)
    for queue in acks:
        assert [(each.class_name, each.correlation_id) for each in queue.browse()] == [
            ("MQMSG_CLASS_ACK_REACH_QUEUE", found.id),
            ("MQMSG_CLASS_ACK_RECEIVE", found.id),
        ]
        assert {each.destination_queue for each in queue.browse()} == {queue.format_name}


@pytest.mark.parametrize("names", ["one", ["one"], ["one", "one"], "DIRECT=OS:HOST\\PRIVATE$\\one"])
def test_one_queue_for_answers_is_named_in_any_way(orders: waypost.Queue, names: str | list[str]) -> None:
    orders.send("x", response_queue=names)
    found = orders.receive(0)
    assert found.response_queues == (found.response_queue,) == ("DIRECT=OS:HOST\\PRIVATE$\\one",)
    assert "response_queues" not in found.to_dict()


@pytest.mark.parametrize("names", [[], ["q"] * 3 + [f"q{number}" for number in range(16)], [1]])
def test_queues_for_answers_that_cannot_be_named(orders: waypost.Queue, names: list[str]) -> None:
    with pytest.raises(InvalidParameter):
        orders.send("x", response_queue=names)
    assert orders.info().message_count == 0


def test_names_joined_with_commas_are_several_queues_for_answers(orders: waypost.Queue) -> None:
    orders.send("x", response_queue="DIRECT=OS:far\\PRIVATE$\\one,DIRECT=OS:far\\PRIVATE$\\two")
    assert len(orders.receive(0).response_queues) == 2
