"""Admission of requests, and the answers to hostile clients."""

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http.server import MESSAGEPACK, Api, served
from tests.node.rig import Rig
from waypost.http.askers import Askers
from waypost.http.logins import Logins
from waypost.http.request_guard import RequestGuard
from waypost.http.sessions import Sessions
from waypost.http.settings import HttpSettings

TOKEN = HttpSettings(token="s3cret")
NODE = Rig().node


def guard(app: Any, settings: HttpSettings) -> RequestGuard:
    askers = Askers(settings, Sessions(), Logins(NODE.users, NODE.machine, settings))

    def refuse(*_: object) -> Any:
        raise AssertionError("without users no password is checked")

    return RequestGuard(app, settings, "HOST", askers, refuse_login=refuse, note=lambda *_: None)


@served(TOKEN)
async def test_a_token_is_demanded(api: Api) -> None:
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic s3cret"},
        {"authorization": "s3cret"},
    ):
        refused = await api.get("/api/status", headers=headers)
        assert (refused.status_code, refused.json()["error"]) == (401, "AccessDenied")
        assert refused.headers["www-authenticate"].startswith("Bearer")
    assert (await api.get("/metrics")).status_code == 401
    assert (await api.get("/api/status", headers={"authorization": "bearer s3cret"})).status_code == 200
    assert (await api.get("/health/live")).status_code == 200
    assert (await api.get("/health/ready")).status_code == 200


@served()
async def test_a_name_that_is_not_ours_is_refused_without_a_token(api: Api) -> None:
    for host in ("evil.example", "evil.example:8181", "", "[::1", "127.0.0.1.evil.example"):
        assert (await api.get("/api/status", headers={"host": host})).status_code == 421, host
    for host in ("localhost:1", "127.0.0.1", "[::1]:8181", "HOST", "host:8181"):
        assert (await api.get("/api/status", headers={"host": host})).status_code == 200, host


@served(TOKEN)
async def test_every_name_is_good_with_a_token(api: Api) -> None:
    headers = {"host": "queues.example", "authorization": "Bearer s3cret"}
    assert (await api.get("/api/status", headers=headers)).status_code == 200


@served()
async def test_pages_of_other_sites_are_refused(api: Api) -> None:
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": f"http://localhost:{api.port}"},
        {"sec-fetch-site": "cross-site"},
    ):
        assert (await api.client.post("/api/queues", json={"name": "x"}, headers=headers)).status_code == 403
        assert (await api.client.post("/api/queues/x/purge", headers=headers)).status_code == 403
    own = {"origin": f"http://127.0.0.1:{api.port}", "sec-fetch-site": "same-origin"}
    assert (await api.client.post("/api/queues", json={"name": "x"}, headers=own)).status_code == 201
    assert "access-control-allow-origin" not in (await api.get("/api/status")).headers


@served()
async def test_a_body_says_what_it_is(api: Api) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        refused = await api.client.post("/api/queues", content=b'{"name": "x"}', headers={"content-type": kind})
        assert refused.status_code == 415
    assert await api.manager.queues() == []


@served(HttpSettings(max_body=1000))
async def test_a_body_is_bounded(api: Api) -> None:
    data = {"name": "x" * 2000}
    refused = await api.post("/api/queues", data)
    assert (refused.status_code, refused.json()["error"]) == (413, "InvalidParameter")

    async def chunks() -> Any:
        for _ in range(200):
            yield b" " * 10

    headers = {"content-type": "application/json"}
    assert (await api.client.post("/api/queues", content=chunks(), headers=headers)).status_code == 413


@served()
async def test_what_is_not_there_is_told(api: Api) -> None:
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("GET", "/api/queues/%FF", 400),
        ("GET", "/api/queues/a%00b", 400),
        ("GET", "/api/queues/" + "a" * 5000, 400),
        ("GET", "/api/queues/DIRECT=NONSENSE", 400),
        ("PUT", "/api/queues", 405),
        ("GET", "/api/queues/x/messages", 405),
        ("DELETE", "/api/queues/x", 404),
        ("GET", "/api/queues/x/browse?limit=0", 400),
        ("GET", "/api/queues/x/browse?limit=many", 400),
        ("GET", "/api/queues/x/browse?after=x", 400),
        ("GET", "/api/queues/x/browse", 404),
        ("GET", "/api/queues/x/events", 404),
        ("GET", "/api/queues/x/events?since=yesterday", 404),
        ("GET", "/api/explain", 400),
        ("GET", "/api/explain?message=nonsense", 400),
        ("POST", "/api/queues/x/receive", 400),
        ("POST", "/api/handles", 400),
        ("GET", "/api/queues/order_queue$/browse", 404),
        ("POST", "/api/queues/x/pause", 404),
    ):
        response = await api.client.request(method, path)
        assert response.status_code == status, (path, response.text)
        assert set(response.json()) >= {"error", "hresult", "message"}, path
    assert "the body is missing" in (await api.post("/api/handles")).json()["message"]


@served()
async def test_a_query_parameter_that_is_missing_is_named(api: Api) -> None:
    await api.manager.create_queue("orders")
    for path, name in (("/api/bulk/queues/orders/seq?outgoing=false", "time"), ("/api/bulk/commits", "query")):
        answer = await api.get(path)
        assert (answer.status_code, answer.json()["message"]) == (400, f"the query parameter {name} is missing")


@served()
async def test_errors_are_messagepack_for_those_who_speak_it(api: Api) -> None:
    assert (await api.pack("/api/queues/nowhere/receive", {}))["error"] == "QueueNotFound"
    assert (await api.pack("/api/queues/nowhere/receive", {"count": 0}))["error"] == "InvalidParameter"


@served()
async def test_any_body_gets_an_answer(api: Api) -> None:
    """Every such body is an error of the client, not of the server."""
    await api.manager.create_queue("orders")
    bodies = [
        b"",
        b"{",
        b"[" * 100_000,
        b'{"count":' + b"[" * 100_000,
        b"\xff" * 100,
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
    ]
    bodies += [
        b'{"timeout_s": 1e999}',
        b'{"lookup_id": 1' + b"0" * 5000 + b"}",
        b'{"seek": "\xed\xa0\x80"}',
        b"null",
        b"\xc0",
    ]
    for path in ("/api/queues", "/api/queues/orders/messages", "/api/queues/orders/receive", "/api/transactions"):
        for kind in ("application/json", MESSAGEPACK):
            for body in bodies:
                response = await api.client.post(path, content=body, headers={"content-type": kind})
                assert response.status_code < 500, (path, kind, body[:20], response.text)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.binary(max_size=30),
    headers=st.lists(
        st.tuples(
            st.sampled_from([b"host", b"origin", b"authorization", b"content-type", b"content-length", b"accept"]),
            st.binary(max_size=30),
        ),
        max_size=6,
    ),
    token=st.sampled_from(["", "t"]),
)
def test_any_headers_are_let_in_or_refused(path: bytes, headers: list[tuple[bytes, bytes]], token: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "passed", "status": 200})

    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the guard reads no body")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "http_version": "1.0", "method": "POST", "raw_path": path, "headers": headers}
    asyncio.run(guard(app, HttpSettings(token=token))(scope, receive, send))
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in (b"host", b"origin", b"authorization")):
        assert sent[0]["status"] == 400
    else:
        assert sent[0]["status"] in (200, 401, 403, 415, 421)
