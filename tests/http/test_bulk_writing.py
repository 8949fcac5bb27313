"""/api/bulk/...: claims and stages, in JSON and MessagePack, and as the client asks for them."""

import asyncio
from base64 import b64encode
from typing import Any

import pytest

from tests.http.server import Api, served
from waypost.api.bulk import Claim, PlanRange, ReadClaim, Stage, StagedMessages
from waypost.api.frames import MEDIA_TYPE, Frame
from waypost.api.properties import MessageProperties
from waypost.client.bulk.client import BulkClient
from waypost.core.stored_message import stored_message
from waypost.errors import TransactionSequence
from waypost.http.settings import HttpSettings

CLAIMS = "/api/bulk/queues/orders/claims"


async def ask(api: Api, path: str, data: object, status: int = 200) -> Any:
    response = await api.post(path, data)
    assert response.status_code == status, response.text
    return response.json() if response.content else None


async def orders(api: Api, *bodies: str) -> None:
    queue = await api.manager.create_queue("orders")
    if bodies:
        await queue.send_many(list(bodies))


def stage(*bodies: bytes, queue: str = "ledger", batch: int = 0) -> dict[str, Any]:
    group = {"queue": queue, "like": {"label": "l"}, "bodies": [b64encode(body).decode() for body in bodies]}
    return {"query": "q", "batch": batch, "groups": [group]}


@served()
async def test_a_claim_is_read_processed_and_returned(api: Api) -> None:
    await orders(api, "a", "b", "c")
    claimed = await ask(api, CLAIMS, {"claim": "c", "max_messages": 2})
    assert (claimed["number"], claimed["count"]) == (1, 2)
    assert claimed["bytes"] > 0
    wanted = {"claim": "c", "number": 1, "start": 1, "stop": 2, "epoch": claimed["epoch"]}
    response = await api.post(f"{CLAIMS}/read", wanted)
    assert response.headers["content-type"] == MEDIA_TYPE
    frame = Frame.decode(response.content)
    assert (frame.count, frame.end, frame.is_last) == (1, 2, True)
    assert stored_message(bytes(frame.packets)).body == "b".encode("utf-16-le")
    (held,) = (await api.get(CLAIMS)).json()["claims"]
    assert (held["claim"], held["number"], held["count"]) == ("c", 1, 2)
    assert 3590 < held["lease_left_s"] <= 3600
    claimed = await ask(api, CLAIMS, {"claim": "c", "after": 1})
    assert (claimed["number"], claimed["count"]) == (2, 1)
    assert await ask(api, f"{CLAIMS}/return", {"claim": "c"}) == {"count": 1}
    assert (await api.get(CLAIMS)).json() == {"claims": []}
    message = await api.manager.queue("orders").receive(0)
    assert (message.text, message.abort_count) == ("c", 1)


@served()
async def test_a_claim_that_is_over_is_a_conflict_that_says_so(api: Api) -> None:
    await orders(api, "a")
    problem = await ask(api, CLAIMS, {"claim": "c", "after": 3}, 409)
    assert problem["error"] == "TransactionSequence"
    assert "this queue has no claim c" in problem["message"]
    assert "begin another claim" in problem["hint"]
    await ask(api, CLAIMS, {"claim": "c"})
    await ask(api, f"{CLAIMS}/return", {"claim": "c"})
    wanted = {"claim": "c", "number": 1, "start": 0, "stop": 1}
    problem = await ask(api, f"{CLAIMS}/read", wanted, 409)
    assert "its messages are in the queue again" in problem["message"]


@served()
async def test_a_lease_ends_by_itself(api: Api) -> None:
    await orders(api, "a")
    await ask(api, CLAIMS, {"claim": "c", "lease_s": 0.05})
    assert (await api.manager.queue("orders").receive(10)).text == "a"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"claim": ""},
        {"claim": "c", "after": -1},
        {"claim": "c", "max_messages": -1},
        {"claim": "c", "epoch": "no guid"},
        {"claim": "c", "unknown": 1},
        {"claim": "x" * 256},
    ],
)
def test_a_claim_that_cannot_be_is_a_bad_request(data: object, tmp_path: Any) -> None:
    @served()
    async def run(api: Api) -> None:
        await orders(api)
        assert (await ask(api, CLAIMS, data, 400))["error"] == "InvalidParameter"

    run(tmp_path)


@served()
async def test_what_is_staged_is_seen_after_its_commit_and_once(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True)
    staged = await ask(api, "/api/bulk/stages", stage(b"1", b"2"))
    assert staged["count"] == 2
    assert (await ledger.info()).message_count == 2
    assert await api.bodies("/api/queues/ledger/receive", {}) == []
    commit = {"query": "q", "batch": 0, "stages": [staged["stage"]]}
    assert await ask(api, "/api/bulk/commits", commit) == {"count": 2, "is_repeated": False}
    assert await ask(api, "/api/bulk/commits", commit) == {"count": 0, "is_repeated": True}
    assert (await api.get("/api/bulk/commits?query=q")).json() == {"batches": [0]}
    messages = [await ledger.receive(0) for _ in range(2)]
    assert [(message.body, message.label) for message in messages] == [(b"1", "l"), (b"2", "l")]


@served()
async def test_messages_of_their_own_are_staged_in_their_order(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True)
    messages = [{"body_text": "text", "label": "1"}, {"body_base64": "AAE=", "label": "2", "app_tag": 7}]
    data = {"query": "q", "batch": 0, "groups": [{"queue": "ledger", "messages": messages}]}
    staged = await ask(api, "/api/bulk/stages", data)
    await ask(api, "/api/bulk/commits", {"query": "q", "batch": 0, "stages": [staged["stage"]]})
    first, second = await ledger.receive(0), await ledger.receive(0)
    assert (first.text, first.label) == ("text", "1")
    assert (second.body, second.label, second.app_tag) == (b"\0\1", "2", 7)


@served()
async def test_what_is_dropped_is_gone(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True)
    staged = await ask(api, "/api/bulk/stages", stage(b"1"))
    await ask(api, "/api/bulk/stages/drop", {"stages": [staged["stage"]]}, 204)
    assert (await ledger.info()).message_count == 0
    problem = await ask(api, "/api/bulk/commits", {"query": "q", "batch": 0, "stages": [staged["stage"]]}, 409)
    assert "does not exist" in problem["message"]
    assert "/api/bulk/commits" in problem["hint"]


@served()
async def test_what_cannot_be_staged_is_refused_with_a_sentence(api: Api) -> None:
    await orders(api)
    problem = await ask(api, "/api/bulk/stages", stage(b"1", queue="orders"), 409)
    assert problem["error"] == "TransactionUsage"
    assert "create it with --transactional, or write with delivery=at-least-once" in problem["message"]
    groups: list[dict[str, Any]] = [
        {"queue": "ledger", "bodies": ["AA=="]},
        {"queue": "ledger", "like": {}},
        {"queue": "ledger", "like": {"priority": 9}, "bodies": ["AA=="]},
        {"queue": "ledger", "messages": [{"body_text": "", "body_base64": ""}]},
    ]
    await api.manager.create_queue("ledger", transactional=True)
    for group in groups:
        await ask(api, "/api/bulk/stages", {"query": "q", "batch": 0, "groups": [group]}, 400)
    await ask(api, "/api/bulk/stages", stage(b"1") | {"query": ""}, 400)
    await ask(api, "/api/bulk/stages/drop", {"stages": ["no guid"]}, 400)
    assert (await api.manager.queue("ledger").info()).message_count == 0


@served()
async def test_message_pack_is_as_good_as_json(api: Api) -> None:
    await orders(api, "a")
    claimed = await api.pack(CLAIMS, {"claim": "c"})
    assert (claimed["number"], claimed["count"]) == (1, 1)
    await api.manager.create_queue("ledger", transactional=True)
    data = {"query": "q", "batch": 0, "groups": [{"queue": "ledger", "like": {}, "bodies": [b"\0\1"]}]}
    staged = await api.pack("/api/bulk/stages", data)
    committed = await api.pack("/api/bulk/commits", {"query": "q", "batch": 0, "stages": [staged["stage"]]})
    assert committed == {"count": 1, "is_repeated": False}


@served(HttpSettings())
async def test_a_client_claims_stages_and_commits_by_the_thousand(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True)

    def work() -> None:
        with BulkClient(f"http://127.0.0.1:{api.port}") as client:
            group = StagedMessages(queue="ledger", like=MessageProperties(), bodies=[bytes(1024)] * 10_000)
            stages = [client.stage("q", 7, [group]) for _ in range(2)]
            client.drop([client.stage("q", 7, [group])])
            assert client.commit("q", 7, stages).count == 20_000
            assert client.commit("q", 7, stages).is_repeated
            assert client.batches("q") == [7]
            claimed = client.claim(Claim(name="ledger", claim="c", max_messages=15_000))
            assert (claimed.number, claimed.count) == (1, 15_000)
            wanted = ReadClaim(name="ledger", claim="c", number=1, start=0, stop=15_000, epoch=claimed.epoch)
            frames = list(client.read_claim_all(wanted))
            assert len(frames) > 1
            assert sum(frame.count for frame in frames) == 15_000
            client.settle("ledger", "c", 1, epoch=claimed.epoch)
            assert client.claims("ledger") == []
            claimed = client.claim(Claim(name="ledger", claim="c", after=1))
            assert (claimed.number, claimed.count) == (2, 5000)
            assert [each.count for each in client.claims("ledger")] == [5000]
            assert client.return_claim("ledger", "c") == 5000
            with pytest.raises(TransactionSequence, match="part 2 of the claim c has ended"):
                client.claim(Claim(name="ledger", claim="c", after=2))

    await asyncio.to_thread(work)
    assert (await ledger.info()).message_count == 5000


RUN, OTHER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


async def committed(api: Api, of: dict[str, Any], status: int = 200) -> Any:
    """Stage a message for a batch, if that is not committed, and commit it."""
    staged = await ask(api, "/api/bulk/stages", stage(b"1") | of)
    stages = [staged["stage"]] if staged["stage"] else []
    return await ask(api, "/api/bulk/commits", {"query": "q", "batch": 0, "stages": stages} | of, status)


@served()
async def test_a_commit_into_a_queue_that_was_created_again_is_refused(api: Api) -> None:
    await api.manager.create_queue("ledger", transactional=True)
    staged = await ask(api, "/api/bulk/stages", stage(b"1"))
    await api.manager.delete_queue("ledger")
    ledger = await api.manager.create_queue("ledger", transactional=True)
    commit = {"query": "q", "batch": 0, "stages": [staged["stage"]]}
    response = await api.post("/api/bulk/commits", commit)
    assert response.status_code >= 400
    assert response.json()["error"] == "QueueDeleted"
    assert "ledger was deleted, or deleted and created again, after messages were staged" in response.json()["message"]
    assert (await api.get("/api/bulk/commits?query=q")).json() == {"batches": []}
    assert (await ledger.info()).message_count == 0


@served()
async def test_each_destination_has_commits_of_its_own(api: Api) -> None:
    for name in ("ledger", "books"):
        await api.manager.create_queue(name, transactional=True)
    for to in ("ledger", "books", ""):
        assert await committed(api, {"destination": to, "run": RUN}) == {"count": 1, "is_repeated": False}
    staged = await ask(api, "/api/bulk/stages", stage(b"1") | {"destination": "private$\\LEDGER", "run": OTHER})
    assert staged == {"stage": "", "count": 0, "is_committed": True}
    assert await committed(api, {"destination": "books", "run": OTHER}) == {"count": 0, "is_repeated": True}
    assert (await api.manager.queue("ledger").info()).message_count == 3


@served()
async def test_all_that_a_run_has_staged_for_a_batch_is_dropped(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True)
    of = {"destination": "ledger", "run": RUN}
    await ask(api, "/api/bulk/stages", stage(b"1") | of)
    await ask(api, "/api/bulk/stages", stage(b"2") | of | {"run": OTHER})
    await ask(api, "/api/bulk/stages/drop", {"batch": {"query": "q", "batch": 0} | of}, 204)
    assert (await ledger.info()).message_count == 1


@served()
async def test_a_second_write_is_a_conflict_that_names_the_txn_id(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True)
    of = {"destination": "ledger", "run": RUN}
    await committed(api, of)
    for again in (of, {"destination": "ledger"}):
        problem = await ask(api, "/api/bulk/stages", stage(b"1") | again, 409)
        assert problem["error"] == "TransactionSequence"
        assert "a second write under its name" in problem["message"]
        assert "txnId" in problem["message"]
        problem = await ask(api, "/api/bulk/commits", {"query": "q", "batch": 0, "stages": [OTHER]} | again, 409)
        assert "txnId" in problem["message"]
    assert (await ask(api, "/api/bulk/stages", stage(b"1") | {"run": "x"}, 400))["error"] == "InvalidParameter"
    assert (await ledger.info()).message_count == 1


@served(HttpSettings())
async def test_a_client_is_told_what_is_committed_and_what_hides_messages(api: Api) -> None:
    await api.manager.create_queue("ledger", transactional=True)

    def work() -> None:
        with BulkClient(f"http://127.0.0.1:{api.port}") as client:
            group = StagedMessages(queue="ledger", like=MessageProperties(), bodies=[b"1", b"2"])
            orphan = client.stage("q", 0, [group], destination="ledger", run=RUN)
            client.commit("other", 0, [client.stage("other", 0, [group])])
            queue, plan = client.queue("ledger"), client.plan(PlanRange(name="ledger"))
            assert (queue.count, queue.behind, plan.behind, plan.counts) == (4, 2, 2, [])
            words = f"messages that are staged for batch 0 of the query q to {queue.path.lower()} and not committed"
            assert queue.held_by == plan.held_by == words
            stage = client.stage("q", 0, [group], destination="ledger", run=RUN)
            assert client.commit("q", 0, [stage], destination="ledger", run=RUN).count == 2
            assert client.plan(PlanRange(name="ledger")).counts == [4]
            with pytest.raises(TransactionSequence, match="txnId"):
                client.commit("q", 0, [orphan], destination="ledger", run=RUN)
            assert client.stage("q", 0, [group], destination="ledger", run=OTHER) == ""
            wish = Stage(query="q", batch=0, groups=[group], destination="ledger", run=OTHER)
            assert client.call(wish).is_committed
            assert client.commit("q", 0, [""], destination="ledger", run=OTHER).is_repeated

    await asyncio.to_thread(work)
