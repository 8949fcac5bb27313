"""POST /api/sequences/admit, and what doctor and the metrics say of acknowledgments that are kept."""

import pytest

import waypost
from tests.client import managers
from tests.client.managers import driver_of
from tests.http.server import Api, served
from waypost.errors import InvalidParameter, LimitReached
from waypost.guid import parse_guid

manager = managers.manager

GUID = "1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11"
PATH = "/api/sequences/admit"


@served()
async def test_an_address_is_admitted_over_http(api: Api) -> None:
    answer = await api.post(PATH, {"guid": GUID, "address": "::ffff:192.0.2.7"})
    assert (answer.status_code, answer.json()) == (200, {"believed": 0})
    assert driver_of(api.manager).node.destinations.admitted == {(parse_guid(GUID), "192.0.2.7")}


@served()
async def test_what_is_wrong_is_said_over_http(api: Api) -> None:
    for body, complaint in (
        ({"guid": "x", "address": "192.0.2.7"}, "'x' is not the GUID of a queue manager"),
        ({"guid": GUID, "address": "x"}, "'x' is not an IP address"),
        # It would not fit into a key of the store.
        ({"guid": GUID, "address": f"fe80::1%{'x' * 600}"}, "is not an IP address"),
        ({"guid": GUID, "address": "fe80::1%\x1b[31m"}, "is not an IP address"),
        ({"guid": GUID, "address": "0.0.0.0"}, "0.0.0.0 is not the address of a host"),
        ({"guid": GUID, "address": "ff02::1"}, "ff02::1 is not the address of a host"),
        ({"guid": api.manager.guid, "address": "192.0.2.7"}, "is this queue manager"),
        ({"guid": GUID}, "address"),
    ):
        answer = await api.post(PATH, body)
        assert answer.status_code == 400
        assert complaint in answer.text


def test_an_address_is_admitted_from_python(manager: waypost.Manager) -> None:
    assert manager.admit_sequence_address(GUID, "2001:DB8::1") == 0
    assert driver_of(manager).node.destinations.admitted == {(parse_guid(GUID), "2001:db8::1")}
    with pytest.raises(InvalidParameter, match="is not an IP address"):
        manager.admit_sequence_address(GUID, "winserver01")


@served()
async def test_what_is_admitted_is_listed_and_revoked_over_http(api: Api) -> None:
    asked = {"guid": GUID, "address": "::ffff:192.0.2.7"}
    await api.post(PATH, asked)
    answer = await api.get("/api/sequences/admitted")
    assert answer.json() == {"addresses": [{"guid": GUID, "address": "192.0.2.7"}]}
    assert (await api.post("/api/sequences/revoke", asked)).status_code == 204
    assert (await api.get("/api/sequences/admitted")).json() == {"addresses": []}
    again = await api.post("/api/sequences/revoke", asked)
    assert (again.status_code, f"192.0.2.7 is not admitted for {GUID}" in again.text) == (400, True)


def test_what_is_admitted_is_listed_and_revoked_from_python(manager: waypost.Manager) -> None:
    for address in ("192.0.2.8", "192.0.2.7"):
        manager.admit_sequence_address(GUID, address)
    assert manager.admitted_sequence_addresses() == [(GUID, "192.0.2.7"), (GUID, "192.0.2.8")]
    manager.revoke_sequence_address(GUID, "192.0.2.8")
    assert manager.admitted_sequence_addresses() == [(GUID, "192.0.2.7")]
    with pytest.raises(InvalidParameter, match="is not admitted for"):
        manager.revoke_sequence_address(GUID, "192.0.2.8")


def test_there_is_a_bound_on_what_is_admitted(manager: waypost.Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.node.destinations.MAX_ADMITTED_ADDRESSES", 1)
    manager.admit_sequence_address(GUID, "192.0.2.7")
    with pytest.raises(LimitReached, match="the limit of 1 admitted addresses is reached"):
        manager.admit_sequence_address(GUID, "192.0.2.8")
    manager.admit_sequence_address(GUID, "192.0.2.7")
