"""Roles: every route declares what decides about its callers, and a declared role is enforced."""

import re
from http import HTTPStatus
from unittest.mock import patch

import msgspec
import pytest

from tests.http.server import Api, served
from waypost.api.bulk import BULK_OPERATIONS
from waypost.api.claims import CLAIM_OPERATIONS
from waypost.api.local import LOCAL_OPERATIONS
from waypost.api.operations import OPERATIONS, Operation
from waypost.api.status import STATUS_OPERATIONS
from waypost.errors import AccessDenied
from waypost.http.app import ROUTES
from waypost.http.request_guard import OPEN, RequestGuard
from waypost.http.routes import Route
from waypost.node.kernel import Call
from waypost.security.callers import Caller, Role, account_sid, machine_sid, verified

KINDS: tuple[type[Operation[object]], ...] = (
    *OPERATIONS,
    *BULK_OPERATIONS,
    *CLAIM_OPERATIONS,
    *LOCAL_OPERATIONS,
    *STATUS_OPERATIONS,
)
BELOW = {Role.READ: Role.NONE, Role.OPERATE: Role.READ, Role.ADMIN: Role.OPERATE}
MACHINE = machine_sid(bytes(16))


def caller(role: Role) -> Caller:
    return verified(account_sid(MACHINE, 1001), frozenset(), role, "ada", "http 127.0.0.1")


def role_of(route: Route) -> Role | None:
    return route.asks if isinstance(route.asks, Role) else None


async def status_of(api: Api, route: Route, role: Role) -> tuple[int, str]:
    """The status of the answer to a request of a caller with this role, with an empty body."""
    path = re.sub(r"\{\w+\}", "orders", route.path)
    with patch.object(RequestGuard, "admit", lambda *_: caller(role)):
        answer = await api.client.request(route.method, path, json={} if route.body is not None else None)
    return answer.status_code, answer.text


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_operation_says_what_decides_about_its_callers(kind: type[Operation[object]]) -> None:
    row = kind.row
    assert [row.role is not None, row.queue_right is not None, row.is_owned].count(True) == 1


def test_only_health_logins_and_the_page_need_no_role() -> None:
    open_paths = {route.path for route in ROUTES if role_of(route) is Role.NONE}
    assert open_paths == {*OPEN, "/", "/api/login", "/api/logout", "/open"}


@served()
async def test_every_operation_of_the_document_says_its_role_its_right_or_its_owner(api: Api) -> None:
    document = (await api.get("/schema")).json()
    by_key = {(route.method.lower(), route.path): route.asks for route in ROUTES}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            asks = by_key[method, path]
            found = operation.get("x-role"), operation.get("x-queue-right")
            if isinstance(asks, Role):
                assert found == (asks.word, None)
            else:
                assert found == (None, asks.value if asks.value != "owned" else None)


@served()
async def test_a_route_with_a_role_refuses_the_role_below_and_names_both(api: Api) -> None:
    routes = [route for route in ROUTES if role_of(route)]
    assert len(routes) > 15
    for route in routes:
        role = role_of(route)
        assert role is not None
        status, text = await status_of(api, route, BELOW[role])
        assert status == HTTPStatus.FORBIDDEN, f"{route.name}: {text}"
        assert f"ada has the role {BELOW[role].word}, but the role {role.word} is required for the" in text
        assert f"for the operation '{route.name.replace('_', ' ')}'" in text
        assert "0xc00e0025" in text


@served()
async def test_a_route_with_a_role_lets_the_role_in(api: Api) -> None:
    for route in ROUTES:
        role = role_of(route)
        if role and route.name != "backup":
            status, text = await status_of(api, route, role)
            assert status not in (HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED), f"{route.name}: {text}"


@served()
async def test_the_queue_manager_enforces_roles_itself(api: Api) -> None:
    """A door that forgets the role lets nobody in."""
    with patch("waypost.http.routes.check_role"):
        for route in ROUTES:
            role = role_of(route)
            if role and route.name in {kind.row.name for kind in OPERATIONS if kind.row.name != "list_queues"}:
                status, text = await status_of(api, route, BELOW[role])
                assert status in (HTTPStatus.FORBIDDEN, HTTPStatus.BAD_REQUEST), f"{route.name}: {text}"


def handled() -> list[type[Operation[object]]]:
    return [kind for kind in KINDS if kind.row.role and kind not in STATUS_OPERATIONS]


@served()
async def test_a_handler_is_not_reached_without_its_role(api: Api) -> None:
    driver = api.app._service.shell.driver
    for kind in handled():
        role = kind.row.role
        assert role is not None
        with pytest.raises(
            AccessDenied, match=f"the role {role.word} is required for the operation {kind.row.words!r}"
        ):
            driver.handlers.start(Call(1, driver.node.kernel.now, caller(BELOW[role])), _blank(kind))


def _blank(kind: type[Operation[object]]) -> Operation[object]:
    """A record of this kind, which nobody looks into."""
    required = [each.name for each in msgspec.structs.fields(kind) if each.required]
    return kind(**dict.fromkeys(required, ""))


@served()
async def test_the_bytes_of_damaged_messages_are_for_administrators(api: Api) -> None:
    with patch.object(RequestGuard, "admit", lambda *_: caller(Role.OPERATE)):
        assert (await api.get("/api/store/damaged")).status_code == HTTPStatus.OK
        assert (await api.get("/api/store/damaged?with_bytes=true")).status_code == HTTPStatus.FORBIDDEN
