"""Rules of HTTP on every path of a daemon, byte by byte: queries, methods, and headers of both directions."""

import json
import socket
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.cli.daemons import daemon, shell
from waypost.http.app import ROUTES

PACKED = b"Content-Type: application/msgpack\r\nAccept: application/msgpack\r\n"
SECONDS = 60


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def message(self) -> str:
        return str(json.loads(self.content)["message"])


class Raw:
    """Sends bytes, and reads what comes back until the daemon closes."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.address = (str(parts.hostname), int(parts.port or 0))

    def ask(self, request: bytes) -> Answer:
        with socket.create_connection(self.address, SECONDS) as connection:
            connection.sendall(request)
            data = b""
            while part := connection.recv(1 << 16):
                data += part
        head, _, content = data.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        return Answer(int(line.split()[1]), dict(_field(field) for field in fields), content)

    def get(self, target: str, method: str = "GET", more: bytes = b"", body: bytes = b"") -> Answer:
        head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n".encode("latin-1")
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        return self.ask(head + more + length + b"\r\n" + body)


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(": ")
    return name.lower(), value


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raw]:
    folder = tmp_path_factory.mktemp("protocol")
    with daemon(folder / "data", "--set", "http.access=open") as environment:
        for name in ("orders", "gone"):
            assert shell(f"waypost queue create {name}", environment, folder).returncode == 0
        yield Raw(environment["WAYPOST_URL"])


def test_a_query_parameter_that_is_not_known_is_refused_with_the_nearest(raw: Raw) -> None:
    answer = raw.get("/api/queues/orders/browse?limti=3")
    assert (answer.status, answer.message) == (
        400,
        "unknown query parameter 'limti'; did you mean 'limit'?",
    )
    assert raw.get("/health/live?x").message == "unknown query parameter 'x'; this path has no query parameters"
    assert raw.get("/api/queues/orders/browse?limit=1&limit=2").status == 400
    assert raw.get("/api/queues/orders/browse?limit=1&form=full").status == 200


def paths() -> list[tuple[str, str]]:
    found = [(route.method, route.path) for route in ROUTES]
    return [*found, ("GET", "/schema"), ("GET", "/schema/openapi.json")]


def filled(path: str) -> str:
    return path.replace("{name}", "nowhere").replace("{identifier}", "0").replace("{number}", "0")


@pytest.mark.parametrize(("method", "path"), paths())
def test_every_path_refuses_a_query_parameter_that_it_does_not_know(raw: Raw, method: str, path: str) -> None:
    answer = raw.get(f"{filled(path)}?no_such_name=1", str(method))
    assert (answer.status, "no_such_name" in answer.message) == (400, True)


def test_the_names_of_query_parameters_are_those_that_are_read() -> None:
    known = {(route.method, route.path): route.query_names for route in ROUTES}
    assert known["GET", "/api/bulk/commits"] == {"query"}
    assert known["GET", "/api/queues/{name}/browse"] == {"after", "limit", "form", "outgoing"}


@pytest.mark.parametrize("path", ["/api/queues/orders/messages", "/api/queues/orders/receive"])
def test_what_a_connection_answers_itself_refuses_unknown_query_parameters_too(raw: Raw, path: str) -> None:
    body = msgspec.msgpack.encode({"like": {}, "bodies": [b"x"]} if path.endswith("messages") else {})
    assert raw.get(path, "POST", PACKED, body).status == 200
    answer = raw.get(f"{path}?outgoign=true", "POST", PACKED, body)
    assert (answer.status, msgspec.msgpack.decode(answer.content)["error"]) == (400, "InvalidParameter")


def test_a_method_that_a_path_does_not_have_is_answered_with_those_it_has(raw: Raw) -> None:
    for method, path, allowed in (
        ("PUT", "/api/queues", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/api/status", "GET, HEAD, OPTIONS"),
        ("GET", "/api/queues/orders/receive", "OPTIONS, POST"),
        ("HEAD", "/api/queues/orders/receive", "OPTIONS, POST"),
        ("TRACE", "/", "GET, HEAD, OPTIONS"),
    ):
        answer = raw.get(path, method)
        assert (answer.status, answer.headers["allow"]) == (405, allowed), (method, path)
    assert raw.get("/api/queues", "OPTIONS").headers["allow"] == "GET, HEAD, OPTIONS, POST"


GETS = [
    "/",
    "/api/status",
    "/api/queues",
    "/api/queues/orders",
    "/api/queues/nowhere",
    "/api/queues/orders/browse",
    "/api/queues/orders/browse?limit=0",
    "/api/doctor",
    "/api/explain?queue=orders",
    "/api/bulk/queues/orders/seq?time=0",
    "/api/store/damaged",
    "/metrics",
    "/schema",
    "/health/live",
    "/health/ready",
    "/nowhere",
]


@pytest.mark.parametrize("path", GETS)
def test_a_head_is_answered_like_a_get_without_its_content(raw: Raw, path: str) -> None:
    # Numbers of /metrics and times of /api/status may change between the two.
    get, head = raw.get(path), raw.get(path, "HEAD")
    assert (head.status, head.content) == (get.status, b"")
    ignored = {"date", "content-length"}
    assert {**head.headers, **dict.fromkeys(ignored)} == {**get.headers, **dict.fromkeys(ignored)}
    assert head.headers.keys() == get.headers.keys()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/queues/orders/events?since=start", "text/event-stream"),
        ("/api/store/backup", "application/vnd.waypost.backup"),
    ],
)
def test_a_head_of_a_stream_ends_and_leaves_nothing_open(raw: Raw, path: str, kind: str) -> None:
    for _ in range(3):
        answer = raw.get(path, "HEAD")
        assert (answer.status, answer.headers["content-type"].partition(";")[0], answer.content) == (200, kind, b"")
    lines = raw.get("/metrics").content.decode().splitlines()
    assert "waypost_http_streams 0.0" in lines


def test_two_hosts_are_refused(raw: Raw) -> None:
    for path in (b"/api/status", b"/health/live"):
        head = b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n" % path
        answer = raw.ask(head)
        assert (answer.status, answer.message) == (400, "the request has 2 Host headers; send only one")
        assert answer.headers["connection"] == "close"
    body = msgspec.msgpack.encode({})
    assert raw.get("/api/queues/orders/receive", "POST", PACKED + b"Host: evil.example\r\n", body).status == 400
    assert raw.ask(b"GET /api/status HTTP/1.1\r\n\r\n").status == 400


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: 2\r\nContent-Length: 2\r\n",
        b"Content-Length: 2, 3\r\n",
        b"Content-Length: -2\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
    ],
)
def test_a_body_whose_length_is_not_clear_is_refused_and_the_connection_closed(raw: Raw, fields: bytes) -> None:
    head = b"POST /api/queues HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    hidden = b"DELETE /api/queues/gone HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answer = raw.ask(head + fields + b"\r\n2\r\n{}\r\n0\r\n\r\n" + hidden)
    assert answer.status == 400
    assert raw.get("/api/queues/gone").status == 200


def test_the_page_is_closed_to_scripts_and_frames(raw: Raw) -> None:
    headers = raw.get("/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_no_answer_is_kept_or_taken_for_something_else(raw: Raw) -> None:
    packed = msgspec.msgpack.encode({})
    answers = [
        raw.get("/api/queues/orders/browse"),
        raw.get("/api/queues/orders/receive", "POST", b"Content-Type: application/json\r\n", b"{}"),
        raw.get("/api/queues/orders/receive", "POST", PACKED, packed),
        raw.get("/api/queues/orders/messages", "POST", PACKED, packed),
        raw.get("/api/queues/nowhere"),
        raw.get("/api/queues/orders/events", "HEAD"),
        raw.get("/nowhere"),
        raw.get("/api/queues/orders", "PUT"),
        raw.ask(b"GET /api/status HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
    ]
    assert [answer.status for answer in answers] == [200, 200, 200, 400, 404, 200, 404, 405, 421]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
