"""The OpenAPI document says what is true: requests that it calls valid are taken, and statuses that occur are in it."""

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.client.daemons import Daemon
from tests.daemon.running import loopback
from waypost.http.app import ROUTES
from waypost.http.openapi import document
from waypost.http.settings import HttpSettings

EXAMPLES = 25
DOCUMENT: Any = document(ROUTES, demands_token=False)
SCHEMAS = DOCUMENT["components"]["schemas"]

# MS-MQMQ 2.1 defines names of queues, without a pattern: these are some of each kind.
NAMES = ["orders", "sums", "orders;later", "nowhere", "system$;deadletter", "orders;journal"]
NAMED = {"name", "queue", "to", "destination"}
# Properties of messages and queues have a separate table, and tests of it.
PROPERTIES: dict[str, Any] = {
    "MessageProperties": {},
    "NewMessage": {"body_text": "x"},
    "NewQueue": {"name": "new", "label": "x"},
    "QueueChange": {"label": "x"},
}
# Left out: a second process reads the store, and there is nothing to vary.
SKIPPED = {"/api/store/backup", "/api/store/verification"}

# Requests that the document cannot call invalid: the beginning of a refusal, or something within, and the reason.
EXCEPTIONS = {
    "no change is specified": "one of several",
    "the file is ": "bytes of keys and certificates",
    " is not a host name, an address or a GUID": "IPv6 addresses and hosts",
    " contains a port, but keys are pinned": "IPv6 addresses and hosts",
    "`sddl` is not allowed together": "one of two",
    "rights must be given as `WHO:RIGHT": "texts",
    "the SDDL must contain": "texts",
    " is not a user, a group or a SID": "names",
    " is not a SID": "names",
    " is a user, not a group": "names",
    " NTLM must have a password": "two go together",
    "`ntlm` also requires": "two go together",
    " is not a right": "names",
    " (MS-DTYP 2.5.1.1)": "texts",
    "set either `message` or `queue`": "one of two",
    "send either `messages`, or `like` with `bodies`": "one of two",
    'the answer "ids" requires `like` and `bodies`': "one of two",
    "set either `like` and `bodies` together": "two go together",
    "`varied` requires `like` and `bodies`": "two go together",
    "`write` requires `run`": "two go together",
    " is not one of the properties that can be different for each body": "names",
    "`lease_s` and `transaction` are mutually exclusive": "one of two",
    "a peek does not accept `lease_s`, `transaction`": "one structure for receive and peek",
    "`begin_s` requires the id of the transaction": "two go together",
    "`seek='": "`next`, `previous` and `current` go with a lookup_id",
    "`after` and `up_to` must be set together": "two go together",
    "a reset requires at least one of the options queue, source, address and age": "one of several",
    " is not a valid name for a new queue": "names",
    "messages are sent to": "names",
    "cannot send to DIRECT=": "names: a queue that refuses messages",
    "DIRECT=": "names: a queue that refuses sends, moves or a pause",
    "MACHINE=": "names: a queue that refuses sends, moves or a pause",
    "the handle is for": "the handle of another queue",
    "HOST\\": "names: a queue that is not deleted alone",
    " is not the address of a host": "multicast addresses and 0.0.0.0 are addresses",
    " is not admitted for": "nothing to take back",
}


class Operation(NamedTuple):
    method: str
    path: str
    content: dict[str, Any]

    @property
    def body(self) -> Any:
        request = self.content.get("requestBody")
        return None if request is None else request["content"]["application/json"]["schema"]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


OPERATIONS = [
    Operation(method.upper(), path, content)
    for path, methods in DOCUMENT["paths"].items()
    for method, content in methods.items()
]


def valid(schema: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Values that a schema calls valid."""
    match schema:
        case {"$ref": reference}:
            kind = reference.rpartition("/")[2]
            if kind in PROPERTIES:
                return st.just(PROPERTIES[kind])
            return valid(SCHEMAS[kind], name)
        case {"anyOf": kinds} if "type" not in schema:
            # Constraints beside it hold for each of them.
            beside = {key: value for key, value in schema.items() if key != "anyOf"}
            return st.one_of([valid(beside | kind, name) for kind in kinds])
        case {"const": value}:
            return st.just(value)
        case {"enum": values}:
            return st.sampled_from(values)
        case {"type": "string"}:
            return texts(schema, name)
        case {"type": "integer"}:
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case {"type": "number"}:
            above = schema.get("exclusiveMinimum")
            bounds = schema.get("minimum", above), schema.get("maximum")
            return st.floats(*bounds, allow_nan=False, allow_infinity=False, exclude_min=above is not None)
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "null"}:
            return st.none()
        case {"type": "array", "items": items}:
            return st.lists(valid(items, name), min_size=schema.get("minItems", 0), max_size=3)
        case {"type": "object", "additionalProperties": values} if "properties" not in schema:
            return st.dictionaries(st.text(max_size=5), valid(values, name), max_size=2)
        case {"type": "object", "properties": properties}:
            required = set(schema.get("required", ()))
            kept = {key: valid(each, key) for key, each in properties.items()}
            return st.fixed_dictionaries(
                {key: kept[key] for key in kept if key in required},
                optional={key: kept[key] for key in kept if key not in required},
            )
    raise AssertionError(schema)


def texts(schema: Any, name: str) -> st.SearchStrategy[str]:
    if schema.get("contentEncoding") == "base64":
        return st.binary(max_size=20).map(lambda data: base64.b64encode(data).decode())
    if "pattern" in schema:
        return st.from_regex(schema["pattern"].removesuffix("$") + r"\Z", alphabet=st.characters(codec="ascii"))
    if name in NAMED:
        return st.sampled_from(NAMES)
    if schema.get("format") == "uuid":
        return st.uuids().map(str)
    if {"format": "ipv4"} in schema.get("anyOf", ()):
        return st.ip_addresses().map(str)
    return st.text(
        st.characters(codec="utf-8"), min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 30)
    )


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """With a token: requests of others are refused once a request has added a user."""
    settings = HttpSettings(max_wait_s=0.0, max_body=1 << 19, token="secret")
    headers = {"authorization": "Bearer secret"}
    with (
        Daemon(tmp_path_factory.mktemp("openapi") / "data", settings) as daemon,
        httpx.Client(base_url=daemon.url, headers=headers, timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def open_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    settings = HttpSettings(max_wait_s=0.0, max_body=1 << 19)
    with (
        Daemon(tmp_path_factory.mktemp("open") / "data", settings) as daemon,
        httpx.Client(base_url=daemon.url, timeout=60) as client,
    ):
        assert client.post("/api/queues", json={"name": "orders"}).status_code == 201
        yield client


@pytest.fixture
def queues(client: httpx.Client) -> None:
    """They may have been deleted."""
    for queue in ({"name": "orders", "journal": True}, {"name": "sums", "transactional": True}):
        assert client.post("/api/queues", json=queue).status_code in (201, 409)


def is_excepted(message: str) -> bool:
    return any(message.startswith(each) or (each[0] == " " and each in message) for each in EXCEPTIONS)


@pytest.mark.usefixtures("queues")
@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.path not in SKIPPED], ids=str)
def test_a_request_that_the_document_calls_valid_is_taken(operation: Operation, client: httpx.Client) -> None:
    parameters = operation.content["parameters"]
    paths = {each["name"]: valid(each["schema"], each["name"]) for each in parameters if each["in"] == "path"}
    needed = {each["name"]: each for each in parameters if each["in"] == "query"}
    queries = st.fixed_dictionaries(
        {name: valid(each["schema"], name) for name, each in needed.items() if each["required"]},
        optional={name: valid(each["schema"], name) for name, each in needed.items() if not each["required"]},
    )

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(
        path=st.fixed_dictionaries(paths),
        query=queries,
        body=st.none() if operation.body is None else valid(operation.body),
        is_packed=st.booleans(),
    )
    def ask(path: dict[str, str], query: dict[str, Any], body: Any, *, is_packed: bool) -> None:
        target = operation.path.format(**{name: quote(value, safe="") for name, value in path.items()})
        kind = "application/msgpack" if is_packed else "application/json"
        options: dict[str, Any] = {"params": query, "headers": {"accept": kind}}
        if body is not None:
            options["content"] = msgspec.json.encode(body)
            options["headers"]["content-type"] = "application/json"
        # A stream would not end.
        method = "HEAD" if operation.path.endswith("/events") else operation.method
        response = client.request(method, target, **options)
        assert str(response.status_code) in operation.content["responses"], response.content
        if response.status_code == 400 and response.content:
            decode = msgspec.msgpack.decode if "msgpack" in response.headers["content-type"] else msgspec.json.decode
            message = decode(response.content)["message"]
            assert is_excepted(message), message
        assert response.status_code != 400 or response.content, response.headers
        assert response.status_code != 500, response.content

    ask()


def test_the_document_is_what_is_served(client: httpx.Client) -> None:
    response = client.get("/schema")
    assert response.headers["content-type"].startswith("application/vnd.oai.openapi+json")
    # This daemon has a token, which the document says.
    expected = document(ROUTES, demands_token=True)
    assert response.json() == msgspec.json.decode(msgspec.json.encode(expected))


def test_a_token_is_in_the_document_where_one_is_demanded() -> None:
    found: Any = document(ROUTES, demands_token=True)
    assert found["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert found["security"] == [{"token": []}]
    assert found["paths"]["/health/live"]["get"]["security"] == []
    assert "401" in found["paths"]["/api/status"]["get"]["responses"]
    assert "421" not in found["paths"]["/api/status"]["get"]["responses"]
    assert DOCUMENT["security"] == []


def test_bodies_and_answers_are_json_or_messagepack() -> None:
    receive = DOCUMENT["paths"]["/api/queues/{name}/receive"]["post"]
    kinds = {"application/json", "application/msgpack", "application/x-msgpack", "application/vnd.msgpack"}
    for content in (receive["requestBody"], receive["responses"]["200"], receive["responses"]["404"]):
        assert set(content["content"]) == kinds
    read = DOCUMENT["paths"]["/api/bulk/queues/{name}/read"]["post"]
    assert set(read["responses"]["200"]["content"]) == {"application/vnd.waypost.packets"}


def test_constraints_are_those_that_are_enforced() -> None:
    read = SCHEMAS["ReceiveBody"]["properties"]
    assert read["begin_s"]["minimum"] == 0
    assert read["transaction"]["format"] == "uuid"
    assert SCHEMAS["ReceiveBody"]["additionalProperties"] is False
    assert SCHEMAS["OpenQueue"]["properties"]["exclusive"]["const"] is True
    limit = next(
        each for each in operation("GET", "/api/queues/{name}/browse")["parameters"] if each["name"] == "limit"
    )
    assert limit["schema"] == {"type": "integer", "minimum": 1, "default": 100}


def operation(method: str, path: str) -> Any:
    return DOCUMENT["paths"][path][method.lower()]


@pytest.mark.parametrize(
    ("status", "method", "path", "options"),
    [
        (403, "GET", "/api/status", {"headers": {"origin": "https://elsewhere.example"}}),
        (404, "GET", "/api/queues/{name}", {}),
        (404, "DELETE", "/api/cursors/{identifier}", {}),
        (409, "POST", "/api/queues", {"json": {"name": "orders"}}),
        (409, "POST", "/api/transactions/{identifier}/commit", {}),
        (413, "POST", "/api/queues", {"content": bytes(1 << 20), "headers": {"content-type": "application/json"}}),
        (415, "POST", "/api/queues/{name}/purge", {"content": b"x", "headers": {"content-type": "text/plain"}}),
        (421, "GET", "/api/doctor", {"headers": {"host": "elsewhere.example"}}),
        (502, "POST", "/api/cursors/{identifier}/next", {"json": {}}),
        (507, "POST", "/api/queues/{name}/messages", {"json": {"messages": [{"body_text": "x" * 5000}]}}),
    ],
)
def test_a_status_that_occurs_is_in_the_document(
    status: int, method: str, path: str, options: dict[str, Any], open_client: httpx.Client
) -> None:
    target = path.format(name="full" if status == 507 else "nowhere", identifier=UUID(int=1))
    if status == 507:
        open_client.post("/api/queues", json={"name": "full", "quota_kb": 1})
    if status == 502:
        cursor = open_client.post("/api/cursors", json={"queue": f"DIRECT=TCP:{loopback(250)}\\private$\\far"})
        target = path.format(identifier=cursor.json()["id"])
    response = open_client.request(method, target, **options)
    assert response.status_code == status, response.content
    assert str(status) in operation(method, path)["responses"]
