"""Every operation is one record, and each surface has it under the same words."""

import inspect
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar
from litestar.di import Provide

import waypost
from tests.client.managers import opened
from tests.http.server import MESSAGEPACK, Api, served
from waypost import aio
from waypost.api.operations import (
    OPERATIONS,
    AdmitAddress,
    DeleteQueue,
    Explain,
    ForgetDamaged,
    ListAdmitted,
    ListDamaged,
    ListQueues,
    ListSequences,
    Operation,
    PauseQueue,
    ResetSequences,
    ResumeQueue,
    RevokeAddress,
    Right,
    ShowQueue,
    operation,
)
from waypost.client.remote.exchanges import exchange_of
from waypost.errors import WaypostError
from waypost.http import bound, problems
from waypost.http.media import ApiRequest
from waypost.http.service import Service
from waypost.node.handlers import Handlers

PAGE = Path(__file__).parents[2] / "docs/http.md"
GUID = "1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11"
FAR = r"DIRECT=TCP:192.0.2.1\PRIVATE$\far & away?"

# The method of a Manager that asks for each, as "Class.method".
METHODS = {
    ListQueues: "Manager.queues",
    ShowQueue: "Queue.info",
    DeleteQueue: "Queue.delete",
    PauseQueue: "Queue.pause",
    ResumeQueue: "Queue.resume",
    ListSequences: "Manager.sequences",
    ResetSequences: "Manager.reset_sequences",
    AdmitAddress: "Manager.admit_sequence_address",
    RevokeAddress: "Manager.revoke_sequence_address",
    ListAdmitted: "Manager.admitted_sequence_addresses",
    Explain: "Manager.explain",
    ListDamaged: "Manager.damaged_messages",
    ForgetDamaged: "Manager.forget_damaged_messages",
}

# Fields whose parameter has another name; "" for what the method knows by itself: it asks for all pages, and a queue
# object has its name. `outgoing_queues` is another kind of `queues`, and who has all of them needs no pattern.
PARAMETERS: dict[tuple[type[Operation[object]], str], str] = {
    (ResetSequences, "older_than_s"): "older_than",
    (Explain, "message"): "subject",
    (Explain, "queue"): "subject",
    (ListQueues, "kind"): "",
    (ListQueues, "pattern"): "",
    (ShowQueue, "name"): "",
    (DeleteQueue, "name"): "",
    (PauseQueue, "name"): "",
    (ResumeQueue, "name"): "",
    (ListSequences, "after"): "",
    (ResetSequences, "after"): "",
    (ListDamaged, "after"): "",
}

SAMPLES: list[Operation[object]] = [
    ListQueues(),
    ListQueues(kind="outgoing", pattern="ord?rs & *"),
    ShowQueue(name=FAR),
    DeleteQueue(name=FAR),
    PauseQueue(name=FAR),
    ResumeQueue(name=FAR),
    ListSequences(),
    ListSequences(direction="out", queue=FAR, source=GUID, address="::1", after="00ff"),
    ResetSequences(queue=FAR, trial=True),
    ResetSequences(source=GUID, address="192.0.2.7", older_than_s=0.5, after="00"),
    AdmitAddress(guid=GUID, address="192.0.2.7"),
    RevokeAddress(guid=GUID, address="192.0.2.7"),
    ListAdmitted(),
    Explain(queue=FAR),
    Explain(message=f"{{{GUID}}}\\7"),
    ListDamaged(after="00", with_bytes=True),
    ForgetDamaged(),
]


def test_every_operation_has_a_handler(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as manager:
        assert Handlers(manager._calls._driver.node).types == set(OPERATIONS)


@served()
async def test_every_operation_has_a_route_that_the_schema_describes(api: Api) -> None:
    schema = (await api.get("/schema")).json()
    for kind in OPERATIONS:
        row = kind.row
        described = schema["paths"][row.path][row.method.lower()]
        places = {(each["in"], each["name"]) for each in described.get("parameters", ())}
        assert places == {*(("path", name) for name in row.path_names), *(("query", name) for name in row.query_names)}
        assert ("requestBody" in described) is bool(row.body_names), kind
        assert str(row.status) in described["responses"]
        assert described["description"].startswith(row.help)


@pytest.mark.parametrize("kind", OPERATIONS)
def test_every_operation_is_a_method_of_both_sides_with_the_same_parameters(kind: type[Operation[object]]) -> None:
    owner, _, name = METHODS[kind].partition(".")
    ours, theirs = (getattr(getattr(module, owner), name) for module in (waypost, aio))
    parameters = list(inspect.signature(ours).parameters)
    assert parameters == list(inspect.signature(theirs).parameters)
    assert inspect.getdoc(ours)
    assert inspect.getdoc(theirs)
    wanted = {PARAMETERS.get((kind, field), field) for field in kind.__struct_fields__} - {""}
    assert wanted == set(parameters) - {"self"}


@pytest.mark.parametrize("kind", OPERATIONS)
def test_every_operation_has_a_row_in_the_page_about_http(kind: type[Operation[object]]) -> None:
    row = kind.row
    assert f"| `{row.method} {row.path}` | {row.help} |\n" in PAGE.read_text("utf-8")


def test_every_operation_has_a_sample_here() -> None:
    assert {type(each) for each in SAMPLES} == set(OPERATIONS)


@served()
async def test_what_a_client_asks_for_is_what_the_queue_manager_gets(api: Api) -> None:
    got: list[object] = []
    decode: Any = bound.operation_of

    def operation_of(*arguments: Any) -> Any:
        got.append(decode(*arguments))
        return got[-1]

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(bound, "operation_of", operation_of)
        async with aio.connect(f"http://127.0.0.1:{api.port}") as manager:
            for each in SAMPLES:
                with suppress(WaypostError):
                    reply = await manager._shell.call(each)
                    assert isinstance(reply, each.row.reply)
    assert got == SAMPLES


def test_a_request_repeats_only_what_may_be_repeated() -> None:
    for each in SAMPLES:
        assert exchange_of(each).is_repeatable is each.row.is_repeatable is each.row.reads_only


@served()
async def test_a_query_parameter_that_is_not_known_is_refused_with_the_nearest_that_is(api: Api) -> None:
    for query, hint in (
        ("dirction=out", "unknown query parameter 'dirction'; did you mean 'direction'?"),
        ("x=1", "unknown query parameter 'x'; known are address, after, direction, queue, source"),
    ):
        answer = await api.get(f"/api/sequences?{query}")
        assert (answer.status_code, answer.json()["error"], answer.json()["message"]) == (400, "InvalidParameter", hint)
    answer = await api.get("/api/sequences/admitted?guid=1")
    assert answer.json()["message"] == "unknown query parameter 'guid'; there are none here"


@served()
async def test_a_reply_has_the_same_values_in_json_messagepack_and_python(api: Api) -> None:
    async with api.manager.transaction() as transaction:
        await api.manager.send(r"DIRECT=TCP:192.0.2.1\PRIVATE$\far", "1", transaction=transaction)
    path = "/api/sequences?direction=out"
    (found,) = [info async for info in api.manager.sequences("out")]
    in_json = (await api.get(path)).json()
    packed = await api.get(path, headers={"accept": MESSAGEPACK})
    assert in_json == {"sequences": [found.to_dict()], "next": ""}
    assert msgspec.msgpack.decode(packed.content) == in_json
    assert in_json["sequences"][0]["time_stamp"].endswith("Z")


@operation("PATCH /api/examples/{name}?loud", asks=Right.ADMIN, status=204)
class Example(Operation[None], frozen=True, kw_only=True):
    """Have something in every place of a request."""

    name: str
    loud: bool = False
    size: int
    note: str | None = None


@served()
async def test_a_record_may_be_in_the_path_the_query_and_the_body_of_one_request(api: Api) -> None:
    got: list[Example] = []

    async def perform(_: Service, operation: Example) -> None:
        got.append(operation)

    app: Any = Litestar(
        [bound._route(Example, perform)],
        dependencies={"service": Provide(lambda: api.app._service, sync_to_thread=False)},
        request_class=ApiRequest,
        exception_handlers={WaypostError: problems.refuse},
    )
    samples = [Example(name="a b", loud=True, size=3, note="x"), Example(name="ä;1", size=0)]
    headers = {"content-type": MESSAGEPACK}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        for each in samples:
            exchange = exchange_of(each)
            answer = await client.patch(exchange.target, content=exchange.body, headers=headers)
            assert answer.status_code == 204, answer.text
        refused = await client.patch("/api/examples/a", json={"size": 1, "name": "b"})
    assert got == samples
    assert (refused.status_code, "`name`" in refused.json()["message"]) == (400, True)
