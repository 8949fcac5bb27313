"""`waypost sequence admit`."""

from tests.cli import desk as _desk
from tests.cli.desk import Desk

desk = _desk.desk

GUID = "1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11"


def test_an_address_is_admitted(desk: Desk) -> None:
    told = desk.do("sequence", "admit", GUID, "192.0.2.7")
    assert told == f"192.0.2.7 is admitted for {GUID}. Number of stored acknowledgments that were applied now: 0.\n"
    # A second time it changes nothing.
    assert desk.json("sequence", "admit", GUID, "192.0.2.7") == {"guid": GUID, "address": "192.0.2.7", "believed": 0}


def test_what_is_admitted_is_listed_and_revoked(desk: Desk) -> None:
    assert desk.do("sequence", "admitted") == ""
    desk.do("sequence", "admit", GUID, "192.0.2.7")
    assert [line.split() for line in desk.do("sequence", "admitted").splitlines()] == [
        ["GUID", "ADDRESS"],
        [GUID, "192.0.2.7"],
    ]
    assert desk.json("sequence", "admitted") == [{"guid": GUID, "address": "192.0.2.7"}]
    assert desk.do("sequence", "revoke", GUID, "192.0.2.7") == f"192.0.2.7 is no longer admitted for {GUID}.\n"
    assert desk.json("sequence", "admitted") == []
    again = desk.run("sequence", "revoke", GUID, "192.0.2.7")
    assert (again.exit_code, f"192.0.2.7 is not admitted for {GUID}." in again.stderr) == (2, True)


def test_what_is_no_guid_or_no_address_is_wrong_usage(desk: Desk) -> None:
    for arguments, complaint in (
        ((GUID, "host"), "'host' is not an IP address."),
        (("nobody", "192.0.2.7"), "'nobody' is not the GUID of a queue manager."),
        (("00000000-0000-0000-0000-000000000000", "192.0.2.7"), "is not the GUID of a queue manager."),
    ):
        result = desk.run("sequence", "admit", *arguments)
        assert result.exit_code == 2
        assert complaint in result.stderr
        assert "hint: " in result.stderr
