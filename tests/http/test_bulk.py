"""/api/bulk/queues: ranges of messages in binary frames, and what is refused."""

import time
from typing import Any

import httpx
import pytest

from tests.http.server import Api, served
from waypost import aio
from waypost.api.frames import MEDIA_TYPE, Frame
from waypost.core.stored_message import stored_message
from waypost.errors import DecodeError
from waypost.http.settings import HttpSettings

BULK = "/api/bulk/queues"
ORDERS = f"{BULK}/orders"


async def filled(api: Api, count: int = 5) -> aio.Queue:
    queue = await api.manager.create_queue("orders", journal=True)
    for number in range(count):
        await queue.send(str(number), label=str(number), priority=number % 8)
    return queue


def labels(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    frame = Frame.decode(response.content)
    offsets = frame.offsets.cast("i")
    assert offsets[0] == 0
    return [
        stored_message(bytes(frame.packets[offsets[at] : offsets[at + 1]])).label for at in range(frame.count)
    ]  # fmt: skip


def refused(response: httpx.Response, status: int, error: str) -> str:
    """The sentence of a refusal."""
    problem = response.json()
    assert (response.status_code, problem["error"]) == (status, error)
    sentence: str = problem["message"]
    return sentence


@served()
async def test_a_queue_is_planned_and_read(api: Api) -> None:
    await filled(api)
    queue = (await api.get(ORDERS)).json()
    assert queue["format_name"] == "DIRECT=OS:HOST\\PRIVATE$\\orders"
    assert (queue["kind"], queue["count"], queue["held"], queue["held_s"]) == ("private", 5, 0, 0.0)
    assert queue["first"] == 1
    assert queue["last"] == queue["stable"] == queue["committed"] == 5
    assert abs(queue["oldest"] - time.time()) < 60
    plan = (await api.post(f"{ORDERS}/plan", {"parts": 2})).json()
    assert (plan["epoch"], plan["bounds"], plan["counts"]) == (queue["epoch"], [0, 2, 5], [2, 3])
    assert sum(plan["sizes"]) == queue["bytes"]
    assert (plan["held_by"], plan["behind"], plan["is_gone"], plan["oldest"]) == ("", 0, False, queue["oldest"])
    ranges = [{"name": "orders", "after": 3}, {"name": "nowhere"}]
    some, gone = (await api.post("/api/bulk/plan", {"ranges": ranges, "part_messages": 1})).json()["plans"]
    assert (some["bounds"], gone["is_gone"]) == ([3, 4, 5], True)
    for after, up_to, expected in ((0, 2, ["0", "1"]), (2, 5, ["2", "3", "4"])):
        data = {"after": after, "up_to": up_to, "epoch": plan["epoch"]}
        response = await api.post(f"{ORDERS}/read", data)
        assert labels(response) == expected
        frame = Frame.decode(response.content)
        assert (frame.end, frame.is_last) == (up_to, True)
        assert [lookup_id & 0xFF for lookup_id in frame.lookup_ids.cast("Q")] == list(range(after + 1, up_to + 1))


@served()
async def test_the_limits_of_a_request_end_a_frame(api: Api) -> None:
    await filled(api)
    response = await api.post(f"{ORDERS}/read", {"up_to": 5, "max_messages": 2})
    assert labels(response) == ["0", "1"]
    assert (Frame.decode(response.content).end, Frame.decode(response.content).is_last) == (2, False)
    assert labels(await api.post(f"{ORDERS}/read", {"after": 2, "up_to": 5, "max_bytes": 1})) == ["2"]


@served()
async def test_locked_messages_are_waited_for_or_skipped(api: Api) -> None:
    queue = await filled(api, 2)
    async with api.manager.transaction() as transaction:
        first = await queue.receive(0, transaction=transaction)
        state = (await api.get(ORDERS)).json()
        assert (state["stable"], state["committed"], state["held"]) == (1, 2, 1)
        assert first.label == "1"
        assert (await api.post(f"{ORDERS}/plan", {})).json()["bounds"] == [0, 1]
        plan = (await api.post(f"{ORDERS}/plan", {"locked": "skip"})).json()
        assert plan["bounds"] == [0, 1]
        assert labels(await api.post(f"{ORDERS}/read", {"up_to": 2, "locked": "skip"})) == ["0"]
        assert labels(await api.post(f"{ORDERS}/read", {"up_to": 2})) == ["0", "1"]


@served()
async def test_removed_messages_are_in_the_journal(api: Api) -> None:
    await filled(api)
    rest = {"first_moved": 0, "end": 0}
    asked = {"up_to": 4, "max_messages": 3}
    assert (await api.post(f"{ORDERS}/remove", asked)).json() == {"count": 3, "left": 1, **rest}
    assert (await api.post(f"{ORDERS}/remove", {"up_to": 4})).json() == {"count": 1, "left": 0, **rest}
    assert labels(await api.post(f"{ORDERS}/read", {"up_to": 99})) == ["4"]
    assert labels(await api.post(f"{BULK}/orders%3Bjournal/read", {"up_to": 99})) == ["0", "1", "2", "3"]


@served()
async def test_a_time_leads_to_a_number(api: Api) -> None:
    await filled(api)
    assert (await api.get(f"{ORDERS}/seq?time={time.time() + 5}")).json() == {"seq": 5}
    assert (await api.get(f"{ORDERS}/seq?time=0")).json() == {"seq": 0}


@served()
async def test_queues_are_listed_by_kind_and_pattern(api: Api) -> None:
    orders = await filled(api)
    first = await orders.peek(0)
    await orders.move(first.lookup_id, "orders;retry")
    await api.manager.create_queue("invoices", transactional=True)
    await api.manager.queue("DIRECT=OS:far\\private$\\orders").send("x")

    async def names(query: str) -> list[str]:
        found = (await api.get(f"{BULK}{query}")).json()["queues"]
        return [queue["format_name"].removeprefix("DIRECT=OS:HOST\\") for queue in found]

    assert await names("") == await names("?kind=local") == ["PRIVATE$\\invoices", "PRIVATE$\\orders"]
    assert await names("?pattern=ORD*") == ["PRIVATE$\\orders"]
    assert await names("?kind=journal") == ["PRIVATE$\\invoices;JOURNAL", "PRIVATE$\\orders;JOURNAL"]
    assert await names("?kind=subqueue&pattern=orders;*") == ["PRIVATE$\\orders;retry"]
    assert await names("?kind=system&pattern=*dead*") == ["SYSTEM$;DEADLETTER", "SYSTEM$;DEADXACT"]
    assert await names("?kind=outgoing") == ["DIRECT=OS:far\\PRIVATE$\\orders"]
    assert len(await names("?kind=all")) == 9
    queues = (await api.get(f"{BULK}?kind=all")).json()["queues"]
    assert len({queue["epoch"] for queue in queues}) == 9
    assert {queue["kind"] for queue in queues} == {"private", "journal", "subqueue", "system", "outgoing"}
    for queue in queues:
        response = await api.post(f"{BULK}/{queue['format_name'].replace('%', '%25')}/read", {"up_to": 99})
        assert len(labels(response)) == queue["count"], queue


@served()
async def test_an_outgoing_queue_can_be_asked_for_as_such(api: Api) -> None:
    far = "DIRECT=OS:far\\private$\\orders"
    await api.manager.queue(far).send("x", label="on its way")
    assert labels(await api.post(f"{BULK}/{far}/read?outgoing=true", {"up_to": 99})) == ["on its way"]
    await filled(api)
    sentence = refused(await api.get(f"{ORDERS}?outgoing=true"), 404, "QueueNotFound")
    assert "not an outgoing queue" in sentence


@served(HttpSettings(token="secret"))
async def test_the_token_is_asked_for(api: Api) -> None:
    await filled(api)
    for response in (
        await api.get(BULK),
        await api.get(ORDERS),
        await api.post(f"{ORDERS}/read", {"up_to": 5}),
        await api.post(f"{ORDERS}/remove", {"up_to": 5}),
        await api.get(f"{ORDERS}/claims"),
        await api.post(f"{ORDERS}/claims", {"claim": "c"}),
        await api.post(f"{ORDERS}/claims/read", {"claim": "c", "number": 1, "start": 0, "stop": 1}),
        await api.post(f"{ORDERS}/claims/return", {"claim": "c"}),
        await api.post("/api/bulk/stages", {"query": "q", "batch": 0, "groups": []}),
        await api.post("/api/bulk/stages/drop", {"stages": []}),
        await api.post("/api/bulk/commits", {"query": "q", "batch": 0, "stages": []}),
        await api.get("/api/bulk/commits?query=q"),
    ):
        assert "token" in refused(response, 401, "AccessDenied")
    api.client.headers["authorization"] = "Bearer secret"
    assert labels(await api.post(f"{ORDERS}/read", {"up_to": 5})) == ["0", "1", "2", "3", "4"]


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("plan", {"after": -1}, "int` >= 0 - at `$.after"),
    ("plan", {"parts": 0}, "int` >= 1 - at `$.parts"),
    ("plan", {"locked": "maybe"}, "Invalid enum value 'maybe' - at `$.locked"),
    ("plan", {"epoch": "old"}, "`epoch` must be empty, or the `epoch` of an earlier answer"),
    ("plan", {"until": 1}, "unknown field `until`"),
    ("read", {}, "missing required field `up_to`"),
    ("read", {"up_to": 1 << 56}, "<= 72057594037927935"),
    ("read", {"up_to": "5"}, "Expected `int`, got `str` - at `$.up_to`"),
    ("read", {"up_to": 5, "max_messages": 0}, "at `$.max_messages`"),
    ("remove", {"up_to": 5, "max_messages": 0}, "at `$.max_messages`"),
]


@pytest.mark.parametrize(("action", "data", "sentence"), BAD)
def test_what_a_request_cannot_be_is_said_in_a_sentence(
    tmp_path: Any, action: str, data: dict[str, Any], sentence: str
) -> None:
    @served()
    async def ask(api: Api) -> None:
        await filled(api, 1)
        assert sentence in refused(await api.post(f"{ORDERS}/{action}", data), 400, "InvalidParameter")

    ask(tmp_path)


@served()
async def test_a_bad_query_is_said_in_a_sentence(api: Api) -> None:
    await filled(api, 1)
    assert "kind" in refused(await api.get(f"{BULK}?kind=nice"), 400, "InvalidParameter")
    assert "time" in refused(await api.get(f"{ORDERS}/seq"), 400, "InvalidParameter")
    assert "time" in refused(await api.get(f"{ORDERS}/seq?time=noon"), 400, "InvalidParameter")


@served()
async def test_a_queue_that_is_not_there_or_not_the_same_is_refused(api: Api) -> None:
    queue = await filled(api, 1)
    epoch = (await api.get(ORDERS)).json()["epoch"]
    await queue.delete()
    for response in (await api.get(ORDERS), await api.post(f"{ORDERS}/read", {"up_to": 5})):
        assert "orders is not a queue of this computer" in refused(response, 404, "QueueNotFound")
    await api.manager.create_queue("orders")
    for action in ("plan", "read", "remove"):
        data = {"epoch": epoch} if action == "plan" else {"epoch": epoch, "up_to": 5}
        sentence = refused(await api.post(f"{ORDERS}/{action}", data), 409, "QueueDeleted")
        assert "deleted and created again" in sentence


@served()
async def test_the_schema_tells_what_a_frame_is(api: Api) -> None:
    schema = (await api.get("/schema")).json()
    content = schema["paths"]["/api/bulk/queues/{name}/read"]["post"]["responses"]["200"]["content"]
    assert list(content) == [MEDIA_TYPE]
    paths = {path for path in schema["paths"] if path.startswith("/api/bulk/queues")}
    assert paths >= {f"/api/bulk/queues{rest}" for rest in ("", "/{name}", "/{name}/plan", "/{name}/seq")}


@pytest.mark.parametrize("data", [b"", b"WPB0" + bytes(40), b"WPB1" + b"\xff" * 36, b"WPB1" + bytes(35)])
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        Frame.decode(data)
