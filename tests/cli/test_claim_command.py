"""`waypost claim`: what readers have claimed, of one queue and of all, and its release."""

from uuid import uuid4

import pytest

from tests.cli import desk as _desk
from tests.cli.desk import Desk
from waypost.api.bulk import CommitStages
from waypost.api.claims import Claim, ReadClaim, TakeClaim

desk = _desk.desk


@pytest.fixture
def claimed(desk: Desk) -> Desk:
    """Two of three messages are claimed by a query, which has committed some of its batch."""
    desk.manager.create_queue("orders").send_many(["a", "b", "c"])
    desk.manager.create_queue("returns").send("x")
    run = str(uuid4())
    desk.manager.call(TakeClaim(name="orders", claim="nightly", driver="d", started=1.0, asked=2.0))
    desk.manager.call(Claim(name="orders", claim="nightly", max_messages=2, lease_s=1000.0, term=1))
    read = ReadClaim(name="orders", claim="nightly", number=1, start=0, stop=2, term=1, query="q", batch=7, run=run)
    desk.manager.call(read)
    desk.manager.call(CommitStages(query="q", batch=7, run=run, stages=[]))
    # From here on, the lease ends at once.
    desk.manager.call(Claim(name="orders", claim="nightly", lease_s=0.0, term=1))
    desk.manager.call(Claim(name="returns", claim="other", lease_s=1000.0))
    return desk


def test_claims_are_listed_with_their_queries_and_what_holds_them(claimed: Desk) -> None:
    head, first, second = claimed.do("claim", "list").splitlines()
    assert head.split("  ")[0] == "QUEUE"
    assert "nightly" in first
    assert "has committed some of batch 7" in first
    assert "other" in second
    (found,) = claimed.json("claim", "list", "orders")
    assert found["held_by"]
    assert (found["claim"], found["number"], found["count"], found["term"]) == ("nightly", 1, 2, 1)
    assert (found["query"], found["batch"], found["lease_left_s"]) == ("q", 7, 0.0)
    assert [each.claim for each in claimed.manager.claims()] == ["nightly", "other"]
    assert [each.claim for each in claimed.manager.claims("returns")] == ["other"]


def test_the_doctor_names_a_claim_that_waits_for_its_query(claimed: Desk) -> None:
    (found,) = [check for check in claimed.manager.doctor() if check.check == "claims"]
    assert not found.ok
    assert "2 messages of" in found.message
    assert "by nightly" in found.message
    assert "waypost claim release" in found.hint
    claimed.do("claim", "release", "orders", "nightly", "--yes")
    (found,) = [check for check in claimed.manager.doctor() if check.check == "claims"]
    assert found.ok


def test_a_claim_is_released(claimed: Desk) -> None:
    assert claimed.json("claim", "release", "orders", "nightly", "--yes") == {"count": 2}
    result = claimed.run("claim", "release", "orders", "nightly")
    assert (result.exit_code, result.stderr) == (0, "0 messages released.\n")
    assert [claimed.manager.queue("orders").receive(0).text for _ in range(3)] == ["a", "b", "c"]
    assert claimed.manager.release_claim("returns", "other") == 1
    assert claimed.manager.claims() == []


def test_a_claim_of_a_reader_that_does_not_come_back_is_forgotten(claimed: Desk) -> None:
    refused = claimed.run("claim", "release", "returns", "other", "--forget", "--yes")
    assert refused.exit_code != 0
    assert "A reader used the claim other" in refused.stderr
    assert "hint: stop the reader, and try again when the claim has been unused for 1000 s" in refused.stderr
    claimed.do("claim", "release", "orders", "nightly", "--yes")
    listed = claimed.json("claim", "list", "--idle")
    assert [(each["claim"], each["count"]) for each in listed] == [("nightly", 0), ("other", 1)]
    assert claimed.json("claim", "release", "orders", "nightly", "--forget") == {"count": 0}
    assert [each.claim for each in claimed.manager.claims(idle=True)] == ["other"]
    assert claimed.manager.claims("orders", idle=True) == []


def test_a_person_is_asked_before_a_release(claimed: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.cli.asking.is_asked", lambda: True)
    result = claimed.run("claim", "release", "orders", "nightly", given=b"n\n")
    assert result.exit_code != 0
    assert "Release 2 messages of" in result.stderr
    assert len(claimed.manager.claims("orders")) == 1


def test_a_queue_that_does_not_exist_is_named(desk: Desk) -> None:
    result = desk.run("claim", "list", "nothing")
    assert result.exit_code != 0
    assert "nothing" in result.stderr
