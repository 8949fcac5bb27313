"""POST /api/sequences/admit, and what doctor and the metrics say of acknowledgments that are kept."""

import pytest

import waypost
from tests.client import managers
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
    assert api.manager._calls._engine.node.destinations.admitted == {(parse_guid(GUID), "192.0.2.7")}


@served()
async def test_what_is_wrong_is_said_over_http(api: Api) -> None:
    for body, complaint in (
        ({"guid": "x", "address": "192.0.2.7"}, "'x' is not the GUID of a queue manager"),
        ({"guid": GUID, "address": "x"}, "'x' is not an IP address"),
        ({"guid": GUID}, "address"),
    ):
        answer = await api.post(PATH, body)
        assert answer.status_code == 400
        assert complaint in answer.text


def test_an_address_is_admitted_from_python(manager: waypost.Manager) -> None:
    assert manager.admit_sequence_address(GUID, "2001:DB8::1") == 0
    assert manager._calls._engine.node.destinations.admitted == {(parse_guid(GUID), "2001:db8::1")}
    with pytest.raises(InvalidParameter, match="is not an IP address"):
        manager.admit_sequence_address(GUID, "winserver01")


def test_there_is_a_bound_on_what_is_admitted(manager: waypost.Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.node.destinations.MAX_ADMITTED_ADDRESSES", 1)
    manager.admit_sequence_address(GUID, "192.0.2.7")
    with pytest.raises(LimitReached, match="there is no room for more"):
        manager.admit_sequence_address(GUID, "192.0.2.8")
    manager.admit_sequence_address(GUID, "192.0.2.7")
