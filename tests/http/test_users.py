"""Users over HTTP: tokens, passwords, sessions and their limits; roles in practice; the audit trail."""

import asyncio
import base64
from typing import Any
from unittest.mock import patch

import httpx
import msgspec
import pytest

import waypost
from tests.http.server import Api, served
from waypost import aio
from waypost.api.status import Check
from waypost.drive.passwords import is_password
from waypost.errors import AccessDenied, InvalidParameter, TokenNotFound, UserExists, UserNotFound
from waypost.http.doctor import examine
from waypost.http.service import Service
from waypost.http.settings import HttpSettings
from waypost.limits import MAX_FAILED_LOGINS
from waypost.wire.sid import Sid

TOKEN = HttpSettings(token="s3cret")
ADMIN = {"authorization": "Bearer s3cret"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


async def add(api: Api, name: str, **fields: object) -> Any:
    answer = await api.client.post("/api/users", json={"name": name, **fields}, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def token(api: Api, name: str, **fields: object) -> str:
    answer = await api.client.post(f"/api/users/{name}/token", json=fields, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["token"]
    return found


async def access(service: Service) -> str:
    (found,) = [check.message for check in await examine(service) if check.check == "access"]
    return found


async def audit(api: Api) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = (await api.client.get("/api/audit", headers=ADMIN)).json()["entries"]
    return entries


@served(TOKEN)
async def test_a_user_gets_a_sid_of_the_machine_and_is_listed(api: Api) -> None:
    node = api.app._service.node
    found = await add(api, "Ada", role="operate", groups=["Sales", "administrators"])
    assert found["name"] == "Ada"
    assert found["sid"] == f"{node.machine}-1002"
    assert found["role"] == "operate"
    assert found["groups"] == ["Sales", "administrators"]
    assert (found["ntlm"], found["has_password"], found["tokens"]) == (False, False, [])
    other = await add(api, "bob")
    assert (other["sid"], other["role"], other["groups"]) == (f"{node.machine}-1003", "none", [])
    users = (await api.client.get("/api/users", headers=ADMIN)).json()["users"]
    assert [user["name"] for user in users] == ["Ada", "bob"]
    assert (await api.client.get("/api/users/ADA", headers=ADMIN)).json() == users[0]


@served(TOKEN)
async def test_a_sid_is_never_given_twice(api: Api) -> None:
    first = await add(api, "ada")
    assert (await api.client.delete("/api/users/ada", headers=ADMIN)).status_code == 204
    assert (await add(api, "ada"))["sid"] != first["sid"]


@served(TOKEN)
async def test_a_given_sid_is_never_given_to_a_new_account(api: Api) -> None:
    machine = api.app._service.node.machine
    await add(api, "dup", sid=f"{machine}-1003")
    await add(api, "member", groups=[f"{machine}-1006"])
    added = [await add(api, f"user{number}", groups=[f"group{number}"]) for number in range(4)]
    found = [user["sid"] for user in (await api.client.get("/api/users", headers=ADMIN)).json()["users"]]
    assert len(set(found)) == len(found)
    assert f"{machine}-1006" not in found
    assert (await api.client.delete("/api/users/dup", headers=ADMIN)).status_code == 204
    assert (await add(api, "late"))["sid"] not in (f"{machine}-1003", *found)
    for user in ("member", "late", *(user["name"] for user in added)):
        assert (await api.client.delete(f"/api/users/{user}", headers=ADMIN)).status_code == 204


@served(TOKEN)
async def test_two_users_with_one_sid_in_an_old_store_can_be_removed(api: Api) -> None:
    first = await add(api, "one", sid="S-1-5-21-7-7-7-1103")
    node = api.app._service.node
    with node.kernel.operation(node.kernel.now):
        node.users.put(msgspec.structs.replace(node.users.get("one"), name="two"))
    assert (await api.client.delete("/api/users/two", headers=ADMIN)).status_code == 204
    assert node.users.of_sid(Sid.parse(first["sid"])) is node.users.get("one")
    assert (await api.client.delete("/api/users/one", headers=ADMIN)).status_code == 204
    assert node.users.of_sid(Sid.parse(first["sid"])) is None
    assert (await api.client.get("/api/users", headers=ADMIN)).json()["users"] == []


@served(TOKEN)
async def test_nobody_gets_the_sid_of_the_local_administrator(api: Api) -> None:
    machine = api.app._service.node.machine
    for fields in ({"sid": f"{machine}-500"}, {"groups": [f"{machine}-500"]}):
        answer = await api.client.post("/api/users", json={"name": "carl", **fields}, headers=ADMIN)
        assert answer.status_code == 400
        assert "is the SID of the local administrator" in answer.text
    answer = await api.client.post("/api/users", json={"name": "carl", "sid": f"{machine}-4294967295"}, headers=ADMIN)
    assert answer.status_code == 400
    assert (await add(api, "carl"))["sid"] == f"{machine}-1001"


@served(TOKEN)
async def test_a_group_never_has_the_sid_of_a_user_or_of_many_callers(api: Api) -> None:
    ann = await add(api, "ann")
    machine = api.app._service.node.machine
    for sid, reason in (
        (ann["sid"], "is the SID of the user ann, not of a group"),
        *((each, "is not the SID of a group that users can belong to") for each in _OF_MANY),
        (str(machine), "is not the SID of a group that users can belong to"),
    ):
        for method, path, fields in (("POST", "", {"name": "mole"}), ("PATCH", "/ann", {})):
            answer = await api.client.request(
                method, f"/api/users{path}", json={**fields, "groups": [sid]}, headers=ADMIN
            )
            assert (answer.status_code, reason in answer.text, "hint" in answer.text) == (400, True, True), answer.text
    own = await api.client.post(
        "/api/users", json={"name": "mole", "sid": _FAR, "groups": ["sales", _FAR]}, headers=ADMIN
    )
    assert "is the SID of the user mole, not of a group" in own.text
    await add(api, "bob", groups=[_FAR])
    taken = await api.client.post("/api/users", json={"name": "mole", "sid": _FAR}, headers=ADMIN)
    assert (taken.status_code, "is already a group of bob" in taken.text) == (409, True)
    found = (await api.client.get("/api/users", headers=ADMIN)).json()["users"]
    assert [(user["name"], user["groups"]) for user in found] == [("ann", []), ("bob", [_FAR])]


_FAR = "S-1-5-21-1-2-3-1105"
_OF_MANY = (
    "S-1-1-0",
    "S-1-5-7",
    "S-1-3-0",
    "S-1-3-4",
    "S-1-5-11",
    "S-1-5-18",
    "S-1-5-64-10",
    "S-1-5-5-0-1",
    "S-1-16-1",
)


@served(TOKEN)
async def test_a_group_is_stored_once_under_all_its_names(api: Api) -> None:
    first = await add(api, "ann", groups=["g1", "G1", "S-1-5-32-544", "Administrators", "S-1-5-32-545"])
    assert first["groups"] == ["g1", "administrators", "S-1-5-32-545"]
    sid = api.app._service.node.users.sid_of("g1")
    assert (await add(api, "bob", groups=[str(sid), "G1"]))["groups"] == ["g1"]


@served(TOKEN)
async def test_a_user_has_the_sid_of_an_account(api: Api) -> None:
    machine = api.app._service.node.machine
    wrong = ("S-1-5-32-544", "S-1-5-32-545", "S-1-5-32-544-1", "S-1-5-21-1-2-3", "S-1-5-21-1-2-3-4-5", str(machine))
    for sid in (*_OF_MANY, *wrong):
        answer = await api.client.post("/api/users", json={"name": "bob", "sid": sid}, headers=ADMIN)
        assert (answer.status_code, "is not the SID of a user account" in answer.text) == (400, True), answer.text
    assert "such as S-1-5-21-1-2-3-1001" in answer.json()["hint"]
    for number, sid in enumerate((_FAR, f"{machine}-1500", "S-1-12-1-1-2-3-4", "S-1-5-80-1-2-3-4-5", "S-1-22-1-1000")):
        assert (await add(api, f"user{number}", sid=sid))["sid"] == sid


@served(TOKEN)
async def test_names_that_differ_only_in_case_are_one_name(api: Api) -> None:
    await add(api, "stra\u00dfe", groups=["Gro\u00df"])
    for name in ("STRASSE", "strasse", "Stra\u00dfe", "GROSS", "admini\u017ftrator"):
        answer = await api.client.post("/api/users", json={"name": name}, headers=ADMIN)
        assert answer.status_code in (400, 409), name
    assert (await api.client.get("/api/users/STRASSE", headers=ADMIN)).json()["name"] == "stra\u00dfe"
    assert (await add(api, "bob", groups=["GROSS"]))["groups"] == ["Gro\u00df"]
    assert (await api.client.delete("/api/users/STRASSE", headers=ADMIN)).status_code == 204
    await add(api, "SS")


@served(TOKEN)
async def test_names_are_checked_before_anything_changes(api: Api) -> None:
    await add(api, "ada", groups=["sales"], sid="S-1-5-21-1-2-3-1104")
    for fields, status in (
        ({"name": "ADA"}, 409),
        ({"name": "sales"}, 409),
        ({"name": "everyone"}, 400),
        ({"name": "administrator"}, 400),
        ({"name": "a,b"}, 400),
        ({"name": ""}, 400),
        ({"name": "S-1-5-7"}, 400),
        ({"name": "bob", "sid": "S-1-5-21-1-2-3-1104"}, 409),
        ({"name": "bob", "sid": "S-1-1-0"}, 400),
        ({"name": "bob", "sid": "hello"}, 400),
        ({"name": "bob", "groups": ["ada"]}, 400),
        ({"name": "bob", "groups": ["a:b"]}, 400),
        ({"name": "bob", "role": "king"}, 400),
        ({"name": "bob", "ntlm": True}, 400),
        ({"name": "bob", "password": ""}, 400),
    ):
        answer = await api.client.post("/api/users", json=fields, headers=ADMIN)
        assert answer.status_code == status, f"{fields}: {answer.text}"
    assert len((await api.client.get("/api/users", headers=ADMIN)).json()["users"]) == 1
    assert (await api.client.get("/api/users/bob", headers=ADMIN)).status_code == 404


@served(TOKEN)
async def test_a_token_gives_the_role_of_its_user_at_most(api: Api) -> None:
    await add(api, "ada", role="operate")
    full, little = await token(api, "ada"), await token(api, "ada", role="read")
    create = {"name": "orders"}
    assert (await api.client.get("/api/status", headers=bearer(little))).status_code == 200
    refused = await api.client.post("/api/queues", json=create, headers=bearer(little))
    assert refused.status_code == 403
    message = "the user ada has the role read, but the role operate is required for the operation 'create queue'"
    assert refused.json()["message"] == message
    assert (await api.client.post("/api/queues", json=create, headers=bearer(full))).status_code == 201
    above = await api.client.post("/api/users/ada/token", json={"role": "admin"}, headers=ADMIN)
    assert above.status_code == 400
    await api.client.patch("/api/users/ada", json={"role": "none"}, headers=ADMIN)
    assert (await api.client.get("/api/status", headers=bearer(full))).status_code == 403


@served(TOKEN)
async def test_tokens_end_with_their_user_their_removal_and_their_time(api: Api) -> None:
    await add(api, "ada", role="read")
    short, removed, last = await token(api, "ada", expires_days=1), await token(api, "ada"), await token(api, "ada")
    assert len({short, removed, last}) == 3
    shown = (await api.client.get("/api/users/ada", headers=ADMIN)).json()["tokens"]
    assert [each["expires"] is None for each in shown] == [False, True, True]
    assert not any(secret in str(shown) for secret in (short, removed, last))
    assert (await api.client.get("/api/status", headers=bearer(short))).status_code == 200
    with patch("waypost.http.logins.time.time", lambda: 4e9):
        assert (await api.client.get("/api/status", headers=bearer(short))).status_code == 401
        assert (await api.client.get("/api/status", headers=bearer(last))).status_code == 200
    await api.client.request("DELETE", f"/api/users/ada/token?id={shown[1]['id']}", headers=ADMIN)
    assert (await api.client.get("/api/status", headers=bearer(removed))).status_code == 401
    await api.client.delete("/api/users/ada", headers=ADMIN)
    assert (await api.client.get("/api/status", headers=bearer(last))).status_code == 401


@served(TOKEN)
async def test_no_removed_user_leaves_a_queue_that_nobody_can_change_without_force(api: Api) -> None:
    ann = await add(api, "ann")
    for name in ("q", "r"):
        created = await api.client.post("/api/queues", json={"name": name}, headers=ADMIN)
        assert created.status_code == 201
        locked = {"owner": "ann", "deny": ["everyone:full"]}
        assert (await api.client.patch(f"/api/queues/{name}/acl", json=locked, headers=ADMIN)).status_code == 200
    refused = await api.client.delete("/api/queues/q", headers=ADMIN)
    assert "only ann can remove the entries of everyone, which deny the right" in refused.json()["hint"]
    kept = await api.client.delete("/api/users/ann", headers=ADMIN)
    assert kept.status_code == 403
    assert kept.json()["message"].endswith("no known account could change the rights on q and 1 more queue")
    assert "`waypost queue acl q --revoke everyone --grant administrators:full`" in kept.json()["hint"]
    # The hint works: an administrator can make a token of the user.
    opening = {"revoke": ["everyone"], "grant": ["administrators:full"]}
    assert (await api.client.patch("/api/queues/q/acl", json=opening, headers=ADMIN)).status_code == 403
    mine = bearer(await token(api, "ann"))
    assert (await api.client.patch("/api/queues/q/acl", json=opening, headers=mine)).status_code == 200
    kept = await api.client.delete("/api/users/ann", headers=ADMIN)
    assert kept.json()["message"].endswith("no known account could change the rights on r")
    assert (await api.client.delete("/api/users/ann?force=true", headers=ADMIN)).status_code == 204
    # The doctor names the queue, and its hint works.
    check = await locked_queues(api)
    assert (check.ok, check.message) == (False, "no known account can change the rights on r")
    refused = await api.client.delete("/api/queues/r", headers=ADMIN)
    assert check.hint == refused.json()["hint"]
    assert check.hint.endswith(f"waypost user add NAME --sid {ann['sid']}")
    await add(api, "bob")
    other = await api.client.delete("/api/queues/r", headers=bearer(await token(api, "bob")))
    assert "ask an administrator to run `waypost doctor`" in other.json()["hint"]
    await add(api, "again", sid=ann["sid"])
    mine = bearer(await token(api, "again"))
    assert (await api.client.patch("/api/queues/r/acl", json=opening, headers=mine)).status_code == 200
    assert (await locked_queues(api)).ok


async def locked_queues(api: Api) -> Check:
    (found,) = [check for check in await examine(api.app._service) if check.check == "locked queues"]
    return found


@served(TOKEN)
async def test_only_the_word_all_removes_all_tokens(api: Api) -> None:
    await add(api, "ada", role="read")
    secret = await token(api, "ada")
    for query, status, message in (
        ("", 400, "the query parameter id is missing"),
        ("?id=", 400, "the id of a token must not be empty"),
        ("?id=00", 404, "the user ada does not have a token with the id '00'"),
    ):
        refused = await api.client.delete(f"/api/users/ada/token{query}", headers=ADMIN)
        assert (refused.status_code, refused.json()["message"]) == (status, message)
        assert bool(refused.json().get("hint")) is bool(query)
    users = api.manager.users
    with pytest.raises(InvalidParameter, match="the id of a token must not be empty"):
        await users.remove_token("ada", "")
    with pytest.raises(TokenNotFound):
        await users.remove_token("ada", "00")
    assert (await api.client.get("/api/status", headers=bearer(secret))).status_code == 200
    assert (await api.client.delete("/api/users/ada/token?id=all", headers=ADMIN)).status_code == 204
    assert (await api.client.get("/api/status", headers=bearer(secret))).status_code == 401


@served()
async def test_the_first_user_closes_an_open_server(api: Api) -> None:
    assert (await api.get("/api/status")).status_code == 200
    service = api.app._service
    assert "has full control" in await access(service)
    await api.manager.users.add("ada", role="admin")
    assert "requires a token or password of a user" in await access(service)
    refused = await api.get("/api/status")
    assert refused.status_code == 401
    assert "Bearer" in refused.headers["www-authenticate"]
    assert (await api.get("/health/live")).status_code == 200
    secret = (await api.manager.users.token("ada")).token
    assert (await api.client.get("/api/status", headers=bearer(secret))).status_code == 200


@served(TOKEN)
async def test_the_token_of_the_daemon_stays_the_local_administrator(api: Api) -> None:
    await add(api, "ada")
    assert (await api.client.get("/api/users", headers=ADMIN)).status_code == 200
    assert (await api.client.get("/api/users", headers=bearer("s3cre"))).status_code == 401


@served(TOKEN)
async def test_a_password_opens_a_session_with_a_strict_cookie(api: Api) -> None:
    await add(api, "ada", role="read", password="correct horse")
    wrong = await api.client.post("/api/login", json={"name": "ada", "password": "battery"})
    assert wrong.status_code == 401
    assert "battery" not in wrong.text
    answer = await api.client.post("/api/login", json={"name": "ADA", "password": "correct horse"})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert (await api.get("/api/status")).status_code == 200
    assert (await api.get("/api/users")).status_code == 403
    foreign = await api.client.post("/api/logout", headers={"origin": "http://evil.example"})
    assert foreign.status_code == 403
    assert (await api.client.post("/api/logout")).status_code == 204
    api.client.cookies.clear()
    assert (await api.get("/api/status")).status_code == 401


@served(TOKEN)
async def test_a_session_ends_at_logout_and_with_its_password(api: Api) -> None:
    await add(api, "ada", role="read", password="one")
    for end in ("logout", "password", "removal"):
        async with httpx.AsyncClient(base_url=api.client.base_url, timeout=60) as browser:
            password = (await api.client.get("/api/users/ada", headers=ADMIN)).json()["has_password"] and "one"
            assert (await browser.post("/api/login", json={"name": "ada", "password": password})).status_code == 204
            kept = dict(browser.cookies)
            assert (await browser.get("/api/status")).status_code == 200
            if end == "logout":
                await browser.post("/api/logout")
            elif end == "password":
                body = {"password": "two"}
                assert (await api.client.post("/api/users/ada/password", json=body, headers=ADMIN)).status_code == 204
                assert (
                    await api.client.post("/api/users/ada/password", json={"password": "one"}, headers=ADMIN)
                ).is_success
            else:
                await api.client.delete("/api/users/ada", headers=ADMIN)
            cookies = "; ".join(f"{name}={value}" for name, value in kept.items())
            assert (await api.client.get("/api/status", headers={"cookie": cookies})).status_code == 401, end


@served(TOKEN)
async def test_basic_authentication_is_checked_once_for_a_while(api: Api) -> None:
    await add(api, "ada", role="read", password="p:w")
    with patch("waypost.http.logins.is_password", wraps=is_password) as check:
        assert (await api.client.get("/api/status", headers=basic("ada", "p:w"))).status_code == 200
        assert (await api.client.get("/api/status", headers=basic("ada", "p:w"))).status_code == 200
        assert check.call_count == 1
        assert (await api.client.get("/api/status", headers=basic("ada", "other"))).status_code == 401
    await api.client.post("/api/users/ada/password", json={"password": "new"}, headers=ADMIN)
    assert (await api.client.get("/api/status", headers=basic("ada", "p:w"))).status_code == 401


@served(TOKEN)
async def test_a_user_without_a_password_does_not_log_in(api: Api) -> None:
    await add(api, "ada")
    for password in ("", "ada"):
        answer = await api.client.post("/api/login", json={"name": "ada", "password": password})
        assert answer.status_code == 401


@served(TOKEN)
async def test_failed_logins_are_limited_by_user_and_by_address(api: Api) -> None:
    await add(api, "ada", password="right")
    await add(api, "bob", password="right")
    logins = api.app._service.logins
    with patch("waypost.http.logins.is_password", lambda password, hashed: password == "right"):
        for _ in range(MAX_FAILED_LOGINS):
            assert (await api.client.post("/api/login", json={"name": "ada", "password": "no"})).status_code == 401
        for name in ("ada", "bob"):
            answer = await api.client.post("/api/login", json={"name": name, "password": "right"})
            assert answer.status_code == 429
            assert "retry in" in answer.json()["message"]
        assert (await api.client.get("/api/status", headers=basic("ada", "right"))).status_code == 429
        assert (await api.client.get("/api/status", headers=ADMIN)).status_code == 200
        with pytest.raises(waypost.errors.TooManyLogins):
            await logins.open_session("ada", "right", "http 127.0.0.2")
        assert await logins.open_session("bob", "right", "http 127.0.0.2")
        later = logins._clock() + 301
        logins._clock = lambda: later
        assert (await api.client.post("/api/login", json={"name": "ada", "password": "right"})).status_code == 204
    assert (logins.failed, logins.limited) == (MAX_FAILED_LOGINS, 4)


@served(TOKEN)
async def test_a_person_changes_its_own_password_with_the_current_one(api: Api) -> None:
    await add(api, "ada", role="admin", password="one")
    await add(api, "bob", password="one")
    little = await token(api, "ada", role="read")
    path = "/api/users/ada/password"
    for headers, body, status in (
        (bearer(little), {"password": "two"}, 403),
        (bearer(little), {"password": "two", "current": "wrong"}, 403),
        (bearer(await token(api, "bob")), {"password": "two", "current": "one"}, 403),
        (bearer(little), {"password": "two", "current": "one"}, 204),
    ):
        assert (await api.client.post(path, json=body, headers=headers)).status_code == status
    assert (await api.client.get("/api/status", headers=basic("ada", "two"))).status_code == 200


@served(TOKEN)
async def test_a_person_without_a_password_sets_the_first_one(api: Api) -> None:
    await add(api, "ada", role="operate")
    path, body = "/api/users/ada/password", {"password": "one"}
    # A password has the whole role of its user, so a token with less cannot set it.
    little = await token(api, "ada", role="read")
    refused = await api.client.post(path, json=body, headers=bearer(little))
    assert refused.status_code == 403
    assert refused.json()["hint"].startswith("use a token with the role of ada")
    whole = await token(api, "ada")
    assert (await api.client.post(path, json=body, headers=bearer(whole))).status_code == 204
    assert (await api.client.get("/api/status", headers=basic("ada", "one"))).status_code == 200
    refused = await api.client.post(path, json={"password": "two"}, headers=bearer(whole))
    assert refused.status_code == 403
    assert "--current-file" in refused.json()["hint"]
    other = await token(api, "ada")
    await add(api, "bob")
    refused = await api.client.post("/api/users/bob/password", json=body, headers=bearer(other))
    assert refused.status_code == 403
    assert refused.json()["hint"].startswith("an administrator can set it")


@served(TOKEN)
async def test_changes_and_refusals_are_in_the_audit_trail(api: Api) -> None:
    await add(api, "ada", role="read", password="secret one")
    secret = await token(api, "ada")
    await api.client.post("/api/queues", json={"name": "orders"}, headers=bearer(secret))
    await api.client.post("/api/queues", json={"name": "orders"}, headers=ADMIN)
    sends = {"messages": [{"body_text": "x"}] * 3}
    assert (await api.client.post("/api/queues/orders/messages", json=sends, headers=ADMIN)).status_code == 200
    await api.client.post("/api/queues/orders/purge", headers=ADMIN)
    await api.client.post("/api/login", json={"name": "ada", "password": "wrong one"})
    await api.client.post("/api/login", json={"name": "ada", "password": "secret one"})
    api.client.cookies.clear()
    entries = await audit(api)
    assert [(each["who"], each["what"], each["object"], each["count"]) for each in entries] == [
        ("administrator", "add user", "ada", 1),
        ("administrator", "create token", "ada", 1),
        ("ada", "create queue", "", 1),
        ("administrator", "create queue", "orders", 1),
        ("administrator", "purge queue", "orders", 3),
        ("anonymous", "log in", "ada", 1),
        ("anonymous", "log in", "ada", 1),
    ]
    assert [each["result"] == "ok" for each in entries] == [True, True, False, True, True, False, True]
    assert {each["from"] for each in entries} == {"http 127.0.0.1"}
    assert "the role operate is required" in entries[2]["result"]
    for word in (secret, "secret one", "wrong one", "s3cret"):
        assert word not in str(entries)
    after = (await api.client.get(f"/api/audit?after={entries[4]['number']}", headers=ADMIN)).json()["entries"]
    assert after == entries[5:]
    assert (await api.client.get("/api/audit?limit=1", headers=ADMIN)).json()["entries"] == entries[-1:]
    assert (await api.client.get("/api/audit", headers=bearer(secret))).status_code == 403


@served()
async def test_python_has_the_same_words_sync_async_and_remote(api: Api) -> None:
    users = api.manager.users
    added = await users.add("ada", role="read", groups=["sales"], password="one", ntlm=True)
    assert (added.ntlm, added.has_password) == (True, True)
    secret = (await users.token("ada")).token
    root = (await users.token((await users.add("root", role="admin")).name)).token
    url = f"http://127.0.0.1:{api.port}"

    def sync() -> None:
        with waypost.connect(url, token=root) as manager:
            assert [user.name for user in manager.users.list()] == ["ada", "root"]
            assert manager.users.set("ada", role="operate", ntlm=False).ntlm is False
            with pytest.raises(InvalidParameter, match="`ntlm` also requires `password`"):
                manager.users.set("ada", ntlm=True)
            manager.users.set_password("ada", "two")
            with pytest.raises(UserExists):
                manager.users.add("ada")
            with pytest.raises(UserNotFound):
                manager.users.show("nobody")
            for empty in (manager.users.show, manager.users.remove, manager.untrust_keys, manager.remove_certificate):
                with pytest.raises(InvalidParameter, match="` must not be empty"):
                    empty("")
            assert manager.audit(limit=1)[0].what == "add user"
        with waypost.connect(url, token=secret) as manager:
            manager.create_queue("orders")
            with pytest.raises(AccessDenied, match="ada has the role operate, but the role admin is required"):
                manager.users.list()

    await asyncio.to_thread(sync)
    async with aio.connect(url, token=root) as manager:
        assert (await manager.users.show("ada")).role == "operate"
        await manager.users.remove_token("ada", "all")
        await manager.users.remove("ada")
    assert [user.name for user in await users.list()] == ["root"]
