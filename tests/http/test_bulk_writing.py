"""/api/bulk/...: claims and stages, in JSON and MessagePack, and as the client asks for them."""

import asyncio
from base64 import b64encode
from typing import Any

import pytest

from tests.http.server import Api, served
from waypost.api.bulk import PlanRange, Stage, StagedMessages
from waypost.api.claims import Claim, ReadClaim
from waypost.api.frames import MEDIA_TYPE, Frame
from waypost.api.properties import MessageProperties
from waypost.client.bulk.client import BulkClient
from waypost.core.stored_message import stored_message
from waypost.errors import InsufficientResources, TransactionSequence, WaypostError
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
async def test_a_later_start_of_a_reader_ends_the_term_of_an_earlier_one(api: Api) -> None:
    await orders(api, "a", "b")
    take = {"claim": "c", "driver": "one", "started": 1.0, "asked": 2.0}
    taken = await ask(api, f"{CLAIMS}/take", take)
    assert taken == {"term": 1, "settled": 0, "given": 0, "is_held": False, "places": []}
    await ask(api, CLAIMS, {"claim": "c", "term": 1})
    await ask(api, f"{CLAIMS}/keep", {"claim": "c", "term": 1}, 204)
    assert (await ask(api, f"{CLAIMS}/take", take | {"driver": "two"}))["term"] == 2
    for path, data in ((CLAIMS, {}), (f"{CLAIMS}/keep", {}), (f"{CLAIMS}/read", {"number": 1, "start": 0, "stop": 1})):
        refused = await ask(api, path, {"claim": "c", "term": 1} | data, 409)
        assert refused["error"] == "ClaimTaken"
        assert "a newer run of the reader has taken over the claim c" in refused["message"]
        assert "claim" in refused["hint"]
    assert [each.count for each in await api.manager.claims("orders")] == [2]
    assert await api.manager.release_claim("orders", "c") == 2


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
    assert 50 < held["lease_left_s"] <= 60
    assert (await api.get("/api/bulk/claims")).json()["claims"][0]["claim"] == "c"
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
    assert (await ledger.info()).message_count == 0
    assert (await api.get("/api/bulk/queues/ledger")).json()["staged"] == 2
    assert await api.bodies("/api/queues/ledger/receive", {}) == []
    commit = {"query": "q", "batch": 0, "stages": [staged["stage"]]}
    assert await ask(api, "/api/bulk/commits", commit) == {"count": 2, "is_repeated": False, "left": 0}
    assert await ask(api, "/api/bulk/commits", commit) == {"count": 0, "is_repeated": True, "left": 0}
    assert (await api.get("/api/bulk/commits?query=q")).json() == {"batches": [0], "whole": [0]}
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
    assert committed == {"count": 1, "is_repeated": False, "left": 0}


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
    assert "a queue was deleted, or deleted and created again, after messages were staged" in response.json()["message"]
    assert (await api.get("/api/bulk/commits?query=q")).json() == {"batches": [], "whole": []}
    assert (await ledger.info()).message_count == 0


@served()
async def test_each_destination_has_commits_of_its_own(api: Api) -> None:
    for name in ("ledger", "books"):
        await api.manager.create_queue(name, transactional=True)
    for to in ("ledger", "books", ""):
        assert await committed(api, {"destination": to, "run": RUN}) == {"count": 1, "is_repeated": False, "left": 0}
    staged = await ask(api, "/api/bulk/stages", stage(b"1") | {"destination": "private$\\LEDGER", "run": OTHER})
    assert staged == {"stage": "", "count": 0, "is_committed": True}
    assert await committed(api, {"destination": "books", "run": OTHER}) == {"count": 0, "is_repeated": True, "left": 0}
    assert (await api.manager.queue("ledger").info()).message_count == 3


@served()
async def test_all_that_a_run_has_staged_for_a_batch_is_dropped(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True)
    of = {"destination": "ledger", "run": RUN}
    await ask(api, "/api/bulk/stages", stage(b"1") | of)
    await ask(api, "/api/bulk/stages", stage(b"2") | of | {"run": OTHER})
    await ask(api, "/api/bulk/stages/drop", {"batch": {"query": "q", "batch": 0} | of}, 204)
    assert (await api.get("/api/bulk/queues/ledger")).json()["staged"] == 1
    assert (await ledger.info()).message_count == 0


@served()
async def test_a_second_write_is_a_conflict_that_names_the_txn_id(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True)
    of = {"destination": "ledger", "run": RUN}
    await committed(api, of)
    for again in (of, {"destination": "ledger"}):
        problem = await ask(api, "/api/bulk/stages", stage(b"1") | again, 409)
        assert problem["error"] == "TransactionSequence"
        assert "so this write is refused" in problem["message"]
        assert "txnId" in problem["message"]
        problem = await ask(api, "/api/bulk/commits", {"query": "q", "batch": 0, "stages": [OTHER]} | again, 409)
        assert "txnId" in problem["message"]
    assert (await ask(api, "/api/bulk/stages", stage(b"1") | {"run": "x"}, 400))["error"] == "InvalidParameter"
    assert (await ledger.info()).message_count == 1


@served(HttpSettings())
async def test_a_client_is_told_what_is_committed_and_what_is_staged(api: Api) -> None:
    await api.manager.create_queue("ledger", transactional=True)

    def work() -> None:
        with BulkClient(f"http://127.0.0.1:{api.port}") as client:
            group = StagedMessages(queue="ledger", like=MessageProperties(), bodies=[b"1", b"2"])
            orphan = client.stage("q", 0, [group], destination="ledger", run=RUN)
            client.commit("other", 0, [client.stage("other", 0, [group])])
            queue, plan = client.queue("ledger"), client.plan(PlanRange(name="ledger"))
            assert (queue.count, queue.staged, queue.arriving, plan.counts) == (2, 2, 0, [2])
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


@served(HttpSettings())
async def test_a_commit_waits_for_readers_who_make_room(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True, quota_kb=4)
    group = StagedMessages(queue="ledger", like=MessageProperties(), bodies=[bytes([n]) * 1000 for n in range(10)])
    url = f"http://127.0.0.1:{api.port}"

    def fill() -> list[str]:
        with BulkClient(url) as client:
            stages = [client.stage("q", 0, [group])]
            with pytest.raises(
                InsufficientResources, match="is committed, but 7 of its messages wait for room in their queue"
            ):
                client.commit("q", 0, stages, quota_wait_s=0.1)
            assert client.queue("ledger").arriving == 7
            return stages

    def repeat(stages: list[str]) -> None:
        with BulkClient(url) as client:
            assert client.commit("q", 0, stages, quota_wait_s=300.0).left == 0

    async def read() -> list[int]:
        return [(await ledger.receive(300)).body[0] for _ in range(10)]

    stages = await asyncio.to_thread(fill)
    _, found = await asyncio.gather(asyncio.to_thread(repeat, stages), read())
    assert found == list(range(10))


@served()
async def test_a_rejected_row_is_a_dead_letter_message_with_its_reason(api: Api) -> None:
    await api.manager.create_queue("ledger", transactional=True)
    body = b64encode(b"1").decode()
    rows = [
        {"reason": "the label is too long", "queue": "ledger", "label": "x" * 300, "body": body},
        {"reason": "it names no queue"},
    ]
    data = {"query": "q", "batch": 0, "groups": [], "rejected": rows}
    staged = await ask(api, "/api/bulk/stages", data)
    assert staged["count"] == 2
    dead = api.manager.queue("system$;deadxact")
    assert (await dead.info()).message_count == 0
    await ask(api, "/api/bulk/commits", {"query": "q", "batch": 0, "stages": [staged["stage"]]})
    first, second = [message async for message in dead.browse()]
    assert (first.extension, first.body, len(first.label)) == (b"the label is too long", b"1", 249)
    assert (first.message_class, first.destination_queue) == (0xC004, r"DIRECT=OS:HOST\PRIVATE$\ledger")
    assert second.extension == b"it names no queue"


@served(HttpSettings())
async def test_properties_that_differ_travel_as_lists(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger", transactional=True)
    bodies, numbers = [b"1", b"22", b"333"], range(3)
    lists: dict[str, Any] = {
        "label": ["one", None, "\N{SNOWMAN}" * 249],
        "app_tag": [7, None, 0xFFFF_FFFF],
        "correlation_id": [bytes(range(20)).hex(), None, "00" * 20],
    }
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"label": ["one"]}, "`label` has 1 values for 3 bodies"),
        ({"label": ["x" * 250, "", ""]}, "at most 249"),
        ({"label": ["a\0b", "", ""]}, "contains a null before the end"),
        ({"label": [1, "", ""]}, "must be text"),
        ({"app_tag": [-1, 0, 0]}, "`app_tag` must be a number from 0"),
        ({"correlation_id": ["short", None, None]}, "`correlation_id` must be"),
        (
            {"journal": [1, 1, 1]},
            "'?journal'? is not one of the properties that can be different for each body: label, ",
        ),
    ]

    def work() -> None:
        with BulkClient(f"http://127.0.0.1:{api.port}") as client:
            for given, words in wrong:
                group = StagedMessages(queue="ledger", like=MessageProperties(), bodies=bodies, varied=given)
                with pytest.raises(WaypostError, match=words):
                    client.stage("q", 0, [group])
            group = StagedMessages(queue="ledger", like=MessageProperties(label="no"), bodies=bodies, varied=lists)
            client.commit("q", 0, [client.stage("q", 0, [group])])

    await asyncio.to_thread(work)
    found = [await ledger.receive(0) for _ in numbers]
    assert [message.body for message in found] == bodies
    assert [message.label for message in found] == ["one", "", "\N{SNOWMAN}" * 249]
    assert [message.app_tag for message in found] == [7, 0, 0xFFFF_FFFF]
    assert [bool(message.correlation_id) for message in found] == [True, False, False]
    assert [message.first_in_transaction for message in found] == [True, False, False]
    assert len({message.id for message in found}) == 3
