"""Browsers: a link with a code, valid once and for ten minutes, becomes a session that only its account can use."""

import pytest

from tests.http.server import Api, served
from waypost.http.sessions import CODE_SECONDS, SESSION_SECONDS, Sessions
from waypost.http.settings import HttpSettings, Listener
from waypost.limits import MAX_HTTP_SESSIONS

SETTINGS = HttpSettings(token="s3cret", listeners=(Listener("http", "127.0.0.1", 8181),))
TOKEN = {"authorization": "Bearer s3cret"}


async def link(api: Api) -> str:
    made = await api.client.post("/api/links", headers=TOKEN)
    assert (made.status_code, made.json()["expires_s"]) == (201, CODE_SECONDS)
    return str(made.json()["path"])


@served(SETTINGS)
async def test_a_link_logs_a_browser_on_once(api: Api) -> None:
    path = await link(api)
    assert (await api.client.head(path)).status_code == 401
    first = await api.get(path)
    cookie = first.headers["set-cookie"]
    assert first.status_code == 200
    assert cookie.startswith("waypost_8181=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert (await api.get("/api/status")).status_code == 200
    assert "This is its HTTP server" in (await api.get("/")).text
    api.client.cookies.clear()
    again = await api.get(path)
    assert (again.status_code, "set-cookie" in again.headers) == (403, False)
    assert "waypost open" in again.text
    assert (await api.get("/api/status")).status_code == 401


@served(SETTINGS)
async def test_without_a_session_the_page_says_how_to_get_one(api: Api) -> None:
    page = await api.get("/")
    assert page.status_code == 200
    assert "waypost open" in page.text
    assert "/api/status" not in page.text
    for path in ("/open", "/open?code=", "/open?code=x", "/open?code=%FF"):
        assert (await api.get(path)).status_code in (400, 403), path
    assert (await api.client.post("/open")).status_code == 401
    assert (await api.client.post("/api/links")).status_code == 401


@served(SETTINGS)
async def test_a_session_is_for_pages_of_this_server_and_its_own_names(api: Api) -> None:
    await api.get(await link(api))
    for site in ("cross-site", "same-site"):
        assert (await api.get("/api/status", headers={"sec-fetch-site": site})).status_code == 403
    assert (await api.get("/api/status", headers={"origin": "http://evil.example"})).status_code == 403
    cookie = "; ".join(f"{name}={value}" for name, value in api.client.cookies.items())
    assert (await api.get("/api/status", headers={"host": "evil.example", "cookie": cookie})).status_code == 421
    assert (await api.get("/api/status", headers={"cookie": f"a=b; {cookie}"})).status_code == 200
    assert (await api.get("/api/status", headers={"cookie": cookie.replace("8181", "8182")})).status_code == 401


@served(HttpSettings(token="s3cret", tls_cert="cert.pem"))
async def test_the_cookie_of_a_server_with_tls_never_goes_without_it(api: Api) -> None:
    assert (await api.get(await link(api))).headers["set-cookie"].endswith("; Secure")


def test_a_code_ends_after_ten_minutes_and_a_session_after_half_a_day() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    late, code = sessions.new_code(), sessions.new_code()
    now[0] = CODE_SECONDS - 1
    session = sessions.open(code, 1)
    assert session is not None
    assert sessions.open(code, 1) is None
    now[0] = CODE_SECONDS
    assert sessions.open(late, 1) is None
    assert sessions.admits(session, lambda: 1)
    now[0] += SESSION_SECONDS
    assert not sessions.admits(session, lambda: 1)


@pytest.mark.parametrize(("opener", "user"), [(1, 2), (1, None), (None, 1)])
def test_a_session_in_the_hands_of_another_account_is_worth_nothing(opener: int | None, user: int | None) -> None:
    """Browsers send a cookie to every port of an address, so other accounts may see it."""
    sessions = Sessions()
    session = sessions.open(sessions.new_code(), opener)
    assert session is not None
    assert sessions.admits(session, lambda: opener)
    assert not sessions.admits(session, lambda: user)


def test_only_the_last_codes_and_sessions_are_kept() -> None:
    sessions = Sessions()
    codes = [sessions.new_code() for _ in range(MAX_HTTP_SESSIONS + 1)]
    assert sessions.open(codes[0], 1) is None
    opened = [sessions.open(code, 1) for code in codes[1:]]
    extra = sessions.open(sessions.new_code(), 1)
    assert None not in (*opened, extra)
    assert not sessions.knows(str(opened[0]))
    assert sessions.knows(str(extra))
