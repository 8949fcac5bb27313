"""Every operation is one record, and each surface has it under the same words."""

import inspect
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import waypost
from tests.client.managers import driver_of, opened
from tests.http.server import MESSAGEPACK, Api, served
from tools.reference import http_page
from tools.reference.markdown import prose
from waypost import aio
from waypost.api.bulk import (
    BULK_OPERATIONS,
    BatchOfQuery,
    CommitStages,
    DropStages,
    FindSeq,
    ListBatches,
    ListBulkQueues,
    PlanRange,
    PlanRanges,
    RangeOfQueue,
    ReadRange,
    RemoveRange,
    ShowBulkQueue,
    Stage,
    StagedMessages,
)
from waypost.api.claims import (
    CLAIM_OPERATIONS,
    Claim,
    KeepClaim,
    ListAllClaims,
    ListClaims,
    ReadClaim,
    ReturnClaim,
    TakeClaim,
)
from waypost.api.keys import (
    KEY_OPERATIONS,
    CreateCertificate,
    ExportKeys,
    ImportCertificate,
    ImportKey,
    ListCertificates,
    ListTrustedKeys,
    RegisterCertificate,
    RemoveCertificate,
    RotateKeys,
    ShowKeys,
    TrustKeys,
    UntrustKeys,
)
from waypost.api.local import LOCAL_OPERATIONS
from waypost.api.operations import (
    OPERATIONS,
    AbortTransaction,
    AdmitAddress,
    BeginTransaction,
    Browse,
    CloseCursor,
    CloseQueue,
    CommitTransaction,
    CreateQueue,
    CursorNext,
    CursorPeek,
    CursorReceive,
    DeleteMessage,
    DeleteQueue,
    Explain,
    ForgetDamaged,
    ListAdmitted,
    ListDamaged,
    ListQueues,
    ListSequences,
    MoveAll,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Operation,
    PauseQueue,
    Peek,
    PurgeQueue,
    Receive,
    Resend,
    ResetSequences,
    ResumeQueue,
    RevokeAddress,
    Send,
    SetAcl,
    SetQueue,
    ShowAcl,
    ShowQueue,
    operation,
)
from waypost.api.properties import MESSAGE_ROWS, MessageProperties
from waypost.api.status import (
    STATUS_OPERATIONS,
    CreateLink,
    Doctor,
    ShowIdentity,
    ShowVerification,
    StartVerification,
    Status,
)
from waypost.api.users import (
    PREPARED,
    USER_OPERATIONS,
    AddUser,
    CreateToken,
    ListAudit,
    ListUsers,
    RemoveToken,
    RemoveUser,
    SetPassword,
    SetUser,
    ShowUser,
)
from waypost.client.transports.http.exchanges import exchange_of
from waypost.errors import WaypostError
from waypost.http import operation_routes, quick
from waypost.http.app import _Router
from waypost.http.askers import Askers
from waypost.http.request_guard import RequestGuard
from waypost.http.requests import Request
from waypost.http.routes import Route
from waypost.http.service import Service
from waypost.http.settings import HttpSettings
from waypost.http.users import note_stranger, refused_login
from waypost.node.operation_handlers import Handlers
from waypost.security.callers import Role

# The node has a handler for the first, and its shells answer the others.
EVERY = (*OPERATIONS, *KEY_OPERATIONS, *BULK_OPERATIONS, *CLAIM_OPERATIONS, *STATUS_OPERATIONS, *USER_OPERATIONS)
PAGE = http_page.page()
GUID = "1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11"
FAR = r"DIRECT=TCP:192.0.2.1\PRIVATE$\far & away?"

# The method of a Manager that asks for each, as "Class.method".
METHODS = {
    ListQueues: "Manager.queues",
    ShowQueue: "Queue.info",
    DeleteQueue: "Queue.delete",
    PauseQueue: "Queue.pause",
    ResumeQueue: "Queue.resume",
    CreateQueue: "Manager.create_queue",
    SetQueue: "Queue.set",
    ShowAcl: "Queue.acl",
    SetAcl: "Queue.set_acl",
    PurgeQueue: "Queue.purge",
    Send: "Queue.send_many",
    Receive: "Queue.receive",
    Peek: "Queue.peek",
    Browse: "Queue.browse",
    DeleteMessage: "Queue.delete_message",
    MoveMessage: "Queue.move",
    MoveAll: "Queue.move_all",
    Resend: "Queue.resend",
    OpenQueue: "Manager.queue",
    CloseQueue: "Queue.close",
    OpenCursor: "Queue.cursor",
    CloseCursor: "Cursor.close",
    CursorPeek: "Cursor.peek",
    CursorNext: "Cursor.peek_next",
    CursorReceive: "Cursor.receive",
    BeginTransaction: "Manager.transaction",
    CommitTransaction: "Transaction.commit",
    AbortTransaction: "Transaction.abort",
    ListSequences: "Manager.sequences",
    ResetSequences: "Manager.reset_sequences",
    AdmitAddress: "Manager.admit_sequence_address",
    RevokeAddress: "Manager.revoke_sequence_address",
    ListAdmitted: "Manager.admitted_sequence_addresses",
    Status: "Manager.status",
    ShowIdentity: "Manager.identity",
    Doctor: "Manager.doctor",
    StartVerification: "Manager.verify_store",
    ShowVerification: "Manager.verify_store",
    CreateLink: "Manager.browser_link",
    Explain: "Manager.explain",
    ListDamaged: "Manager.damaged_messages",
    ForgetDamaged: "Manager.forget_damaged_messages",
    ShowKeys: "Manager.keys",
    ExportKeys: "Manager.export_keys",
    ImportKey: "Manager.import_key",
    RotateKeys: "Manager.rotate_keys",
    ListTrustedKeys: "Manager.trusted_keys",
    TrustKeys: "Manager.trust_keys",
    UntrustKeys: "Manager.untrust_keys",
    ListCertificates: "Manager.certificates",
    RegisterCertificate: "Manager.register_certificate",
    CreateCertificate: "Manager.create_certificate",
    ImportCertificate: "Manager.import_certificate",
    RemoveCertificate: "Manager.remove_certificate",
    ListClaims: "Manager.claims",
    ListAllClaims: "Manager.claims",
    ReturnClaim: "Manager.release_claim",
}

# Fields whose parameter has another name; "" for what the method knows by itself: it asks for all pages, and a queue
# object has its name.
PARAMETERS: dict[tuple[type[Operation[object]], str], str] = {
    (ResetSequences, "older_than_s"): "older_than",
    (Explain, "message"): "subject",
    (Explain, "queue"): "subject",
    (ShowQueue, "name"): "",
    (DeleteQueue, "name"): "",
    (PauseQueue, "name"): "",
    (ResumeQueue, "name"): "",
    (SetQueue, "name"): "",
    (ShowAcl, "name"): "",
    (SetAcl, "name"): "",
    **{(kind, name): "" for kind in (PurgeQueue, Send, Receive, Peek, Browse) for name in ("name", "outgoing", "form")},
    **{
        (kind, name): ""
        for kind in (MoveMessage, MoveAll, Resend, DeleteMessage)
        for name in ("name", "outgoing", "form")
    },
    **{(kind, "begin_s"): "" for kind in (Send, Receive, Peek, MoveMessage, CursorPeek, CursorNext, CursorReceive)},
    **{(kind, "identifier"): "" for kind in (CloseQueue, CloseCursor, CursorPeek, CursorNext, CursorReceive)},
    **{(kind, "identifier"): "" for kind in (CommitTransaction, AbortTransaction)},
    **{(kind, "form"): "" for kind in (CursorPeek, CursorNext, CursorReceive)},
    **{(kind, "timeout_s"): "timeout" for kind in (Receive, Peek, CursorPeek, CursorNext, CursorReceive)},
    **{(kind, name): "" for kind in (Receive, Peek) for name in ("handle", "lease_s", "acknowledge", "count")},
    **{(kind, "transaction"): "" for kind in (Peek, CursorPeek, CursorNext)},
    (Send, "messages"): "",
    (Send, "like"): "",
    (Send, "answer"): "",
    **{(kind, "lookup_id"): "message" for kind in (MoveMessage, Resend)},
    (DeleteMessage, "number"): "message",
    (Browse, "after"): "",
    (Browse, "limit"): "",
    (MoveAll, "after"): "",
    (MoveAll, "up_to"): "",
    (OpenQueue, "queue"): "name",
    (OpenCursor, "queue"): "",
    (OpenCursor, "outgoing"): "",
    (OpenCursor, "handle"): "",
    (BeginTransaction, "id"): "",
    (BeginTransaction, "timeout_s"): "timeout",
    (ListSequences, "after"): "",
    (ResetSequences, "after"): "",
    (ListDamaged, "after"): "",
    (ListClaims, "name"): "queue",
    (ReturnClaim, "name"): "queue",
}

# Parameters that are not fields: `like` has the properties by name, and `progress` hears of each part.
MORE: dict[type[Operation[object]], set[str]] = {
    # The client reads the file of a certificate with its password.
    Send: {row.name for row in MESSAGE_ROWS} | {"certificate_password"},
    MoveAll: {"progress"},
    StartVerification: {"progress"},
    ShowVerification: {"progress"},
}

SAMPLES: list[Operation[object]] = [
    CreateQueue(name="orders", transactional=True, label="all orders", quota_kb=None),
    SetQueue(name=FAR, journal=True),
    ShowAcl(name=FAR),
    SetAcl(name=FAR, grant=["alice:send"], deny=["anonymous:send"], revoke=["everyone"], owner="alice", force=True),
    SetAcl(name="orders", sddl="D:(A;;0x4;;;WD)"),
    PurgeQueue(name=FAR, outgoing=True),
    Send(name="orders", like=MessageProperties(label="a", body_type=8), bodies=[b"a", b"\xff"], answer="ids"),
    Receive(name=FAR, outgoing=True, count=3, lookup_id=7, seek="next", form="packet"),
    Peek(name="orders", handle=GUID, form="packet"),
    Browse(name=FAR, after="7", limit=3, outgoing=True, form="packet"),
    DeleteMessage(name=FAR, number="7", outgoing=True),
    MoveMessage(name="orders", lookup_id=7, to="orders;retry", transaction=GUID),
    MoveAll(name="orders", to="orders;retry", after=7, up_to=8),
    Resend(name="orders", lookup_id=7, to=FAR, form="packet"),
    OpenQueue(queue="no queue of this name"),
    CloseQueue(identifier=GUID),
    OpenCursor(queue="no queue of this name", handle=GUID),
    CloseCursor(identifier=GUID),
    CursorPeek(identifier=GUID, form="packet"),
    CursorNext(identifier=GUID, form="packet"),
    CursorReceive(identifier=GUID, transaction=GUID, begin_s=3, form="packet"),
    BeginTransaction(timeout_s=5),
    CommitTransaction(identifier=GUID),
    AbortTransaction(identifier=GUID),
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
    Status(turns_s=600.0),
    ShowIdentity(),
    Doctor(),
    StartVerification(),
    ShowVerification(),
    CreateLink(),
    Explain(queue=FAR),
    Explain(message=f"{{{GUID}}}\\7"),
    ListDamaged(after="00", with_bytes=True),
    ForgetDamaged(),
    ListBulkQueues(),
    ListBulkQueues(kind="outgoing", pattern="ord?rs & *"),
    ShowBulkQueue(name=FAR, outgoing=True),
    PlanRange(name=FAR, after=3, up_to=9, max_messages=5, max_bytes=1000, parts=2, locked="skip", epoch=GUID),
    PlanRanges(
        ranges=[RangeOfQueue(name=FAR, after=3, up_to=9, epoch=GUID), RangeOfQueue(name=FAR, since=1.5, before=2.5)],
        max_messages=5,
        max_bytes=1000,
        locked="skip",
    ),
    ReadRange(name="orders", up_to=9),
    ReadRange(name=FAR, after=3, up_to=9, max_messages=5, max_bytes=1000, locked="skip", epoch=GUID, outgoing=True),
    FindSeq(name=FAR, time=1.5, outgoing=True),
    RemoveRange(name=FAR, after=3, up_to=9, max_messages=5, epoch=GUID, outgoing=True),
    RemoveRange(name=FAR, up_to=9, as_of=1_700_000_000, fresh=[3, 4]),
    PlanRange(name=FAR, marks_moves=True),
    Claim(name=FAR, claim="c & d", after=3, max_messages=0, max_bytes=5, lease_s=0.5, max_aborts=0, epoch=GUID),
    ReadClaim(name=FAR, claim="c", number=1, start=0, stop=5, max_bytes=7, epoch=GUID),
    ReturnClaim(name=FAR, claim="c"),
    ListClaims(name=FAR),
    ListAllClaims(),
    TakeClaim(name=FAR, claim="c", driver="d", started=0.5, asked=1.5, is_new=True, epoch=GUID),
    KeepClaim(name=FAR, claim="c", term=3, epoch=GUID),
    Claim(name=FAR, claim="c", term=3, reader="r"),
    ReadClaim(name=FAR, claim="c", number=1, start=0, stop=5, term=3, query="q", batch=7, run=GUID),
    Stage(query="q & r", batch=7, destination="", run=GUID, groups=[StagedMessages(queue=FAR)], lease_s=0.5),
    Stage(query="q", batch=0, groups=[StagedMessages(queue="a", like=MessageProperties(label="l"), bodies=[b"\xff"])]),
    DropStages(stages=[GUID], batch=BatchOfQuery(query="q", batch=7)),
    CommitStages(query="q", batch=0, destination="orders", stages=[GUID]),
    ListBatches(query="q & r"),
    ShowKeys(),
    ExportKeys(kind="signing", format="pem"),
    ImportKey(data=b"key", kind="signing", password="p", grace=1),
    RotateKeys(kind="exchange", grace=0),
    ListTrustedKeys(),
    TrustKeys(who="host", data=b"keys"),
    UntrustKeys(who="10.0.0.7"),
    ListCertificates(user="a & b"),
    RegisterCertificate(certificate=b"one", user="a"),
    CreateCertificate(user="a", days=7),
    ImportCertificate(data=b"both", user="a", password="p"),
    RemoveCertificate(digest="0a" * 20),
    ListUsers(),
    ShowUser(name="ada"),
    SetUser(name="ada", role="read", groups=["a"], ntlm=False),
    SetPassword(name="ada", password="two", current="one"),
    CreateToken(name="ada", role="read", expires_days=1.5),
    RemoveToken(name="ada", id="00"),
    RemoveUser(name="ada"),
    ListAudit(limit=3, after=7),
    # The last one: with a user, the server asks who you are.
    AddUser(name="ada", role="read", groups=["a", "b"], ntlm=True, password="one"),
]


def test_every_operation_has_a_handler(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as manager:
        wanted = {*EVERY, *LOCAL_OPERATIONS}.difference(STATUS_OPERATIONS, PREPARED)
        assert Handlers(driver_of(manager).node).types == wanted


@served()
async def test_every_operation_has_a_route_that_the_schema_describes(api: Api) -> None:
    schema = (await api.get("/schema")).json()
    for kind in EVERY:
        row = kind.row
        described = schema["paths"][row.path][row.method.lower()]
        places = {(each["in"], each["name"]) for each in described.get("parameters", ())}
        assert places == {*(("path", name) for name in row.path_names), *(("query", name) for name in row.query_names)}
        assert ("requestBody" in described) is bool(row.body_names), kind
        assert str(row.status) in described["responses"]
        assert described["description"].startswith(row.help)


@pytest.mark.parametrize("kind", [*OPERATIONS, *KEY_OPERATIONS, *STATUS_OPERATIONS])
def test_every_operation_is_a_method_of_both_sides_with_the_same_parameters(kind: type[Operation[object]]) -> None:
    owner, _, name = METHODS[kind].partition(".")
    ours, theirs = (getattr(getattr(module, owner), name) for module in (waypost, aio))
    parameters = list(inspect.signature(ours).parameters)
    assert parameters == list(inspect.signature(theirs).parameters)
    assert inspect.getdoc(ours)
    assert inspect.getdoc(theirs)
    wanted = {PARAMETERS.get((kind, field), field) for field in kind.__struct_fields__} - {""}
    assert wanted | MORE.get(kind, set()) == set(parameters) - {"self"}


@pytest.mark.parametrize("kind", EVERY)
def test_every_operation_is_on_the_page_about_http(kind: type[Operation[object]]) -> None:
    row = kind.row
    assert f"### {row.method} {row.path}\n\n{prose(row.help)}\n" in PAGE


def _all_records(kind: type[Operation[object]]) -> Iterator[type[Operation[object]]]:
    for each in kind.__subclasses__():
        yield each
        yield from _all_records(each)


def test_every_record_is_in_a_list_of_operations() -> None:
    known = {kind for kind in _all_records(Operation) if kind.__module__.startswith("waypost.") and "row" in vars(kind)}
    assert known == {*EVERY, *LOCAL_OPERATIONS}


def test_every_operation_has_a_sample_here() -> None:
    assert {type(each) for each in SAMPLES} == set(EVERY)


@served()
async def test_what_a_client_asks_for_is_what_the_queue_manager_gets(api: Api) -> None:
    got: list[object] = []
    routed, quick_one = Route._asked, quick._operation

    async def asked(*arguments: Any) -> Any:
        got.append(await routed(*arguments))
        return got[-1]

    def quickly(*arguments: Any, **path: Any) -> Any:
        got.append(quick_one(*arguments, **path))
        return got[-1]

    async with aio.connect(f"http://127.0.0.1:{api.port}") as manager:
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(Route, "_asked", asked)
            patches.setattr(quick, "_operation", quickly)
            for each in SAMPLES:
                with suppress(WaypostError):
                    reply = await manager._transport.call(each)
                    assert isinstance(reply, each.row.reply)
    assert got == SAMPLES


def test_a_request_repeats_only_what_may_be_repeated() -> None:
    for each in SAMPLES:
        is_repeatable = each.row.reads_only or isinstance(
            each, SetQueue | SetAcl | SetUser | Peek | CursorPeek | CommitTransaction
        )
        is_repeatable = is_repeatable or type(each) in (*BULK_OPERATIONS, *CLAIM_OPERATIONS)
        assert exchange_of(each).is_repeatable is each.row.is_repeatable is is_repeatable


@served()
async def test_a_query_parameter_that_is_not_known_is_refused_with_the_nearest_that_is(api: Api) -> None:
    for query, hint in (
        ("dirction=out", "unknown query parameter 'dirction'; did you mean 'direction'?"),
        ("x=1", "unknown query parameter 'x'; use address, after, direction, queue, source"),
    ):
        answer = await api.get(f"/api/sequences?{query}")
        assert (answer.status_code, answer.json()["error"], answer.json()["message"]) == (400, "InvalidParameter", hint)
    answer = await api.get("/api/sequences/admitted?guid=1")
    assert answer.json()["message"] == "unknown query parameter 'guid'; this path has no query parameters"


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


@operation("PATCH /api/examples/{name}?loud", asks=Role.ADMIN, status=204)
class Example(Operation[None], frozen=True, kw_only=True):
    """Have something in every place of a request."""

    name: str
    loud: bool = False
    size: int
    note: str | None = None


@served()
async def test_a_record_may_be_in_the_path_the_query_and_the_body_of_one_request(api: Api) -> None:
    got: list[Example] = []

    async def perform(_: Service, operation: Example, _request: Request) -> None:
        got.append(operation)

    service = api.app._service
    askers = Askers(HttpSettings(), service.sessions, service.logins)
    router = _Router([operation_routes._route(Example, perform)], service, lambda error: error)
    app: Any = RequestGuard(
        router,
        HttpSettings(),
        "HOST",
        askers,
        refuse_login=partial(refused_login, service),
        note=partial(note_stranger, service),
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
