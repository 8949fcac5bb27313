"""Queues over HTTP."""

from urllib.parse import quote

from tests.http.server import Api, served


@served()
async def test_a_queue_is_created_shown_changed_and_deleted(api: Api) -> None:
    created = await api.post("/api/queues", {"name": "orders", "transactional": True, "label": "incoming"})
    assert created.status_code == 201
    assert created.json()["path"] == "HOST\\private$\\orders"
    shown = (await api.get("/api/queues/orders")).json()
    assert (shown["label"], shown["transactional"], shown["quota_kb"]) == ("incoming", True, None)
    changed = await api.client.patch("/api/queues/orders", json={"quota_kb": 5, "journal": True})
    assert (changed.json()["quota_kb"], changed.json()["journal"], changed.json()["label"]) == (5, True, "incoming")
    assert (await api.client.patch("/api/queues/orders", json={"quota_kb": None})).json()["quota_kb"] is None
    assert (await api.delete("/api/queues/orders")).status_code == 204
    gone = await api.get("/api/queues/orders")
    assert (gone.status_code, gone.json()["error"]) == (404, "QueueNotFound")


@served()
async def test_queues_are_listed_by_kind_and_pattern(api: Api) -> None:
    for name in ("orders", "offers", "bills"):
        await api.post("/api/queues", {"name": name})
    await api.manager.send("DIRECT=TCP:192.0.2.1\\private$\\far", "hello")
    for query, expected in (
        ("", ["bills", "offers", "orders"]),
        ("?pattern=O*", ["offers", "orders"]),
        ("?kind=outgoing", ["far"]),
        ("?kind=system", ["SYSTEM$;DEADLETTER", "SYSTEM$;DEADXACT", "SYSTEM$;JOURNAL"]),
    ):
        found = [
            queue["format_name"].rpartition("\\")[2]
            for queue in (await api.get(f"/api/queues{query}")).json()["queues"]
        ]
        assert found == expected
    assert len((await api.get("/api/queues?kind=all")).json()["queues"]) == 7
    assert (await api.get("/api/queues?kind=odd")).status_code == 400


@served()
async def test_every_name_of_a_queue_can_stand_in_a_path(api: Api) -> None:
    await api.post("/api/queues", {"name": "orders"})
    for name in (
        "orders",
        "private%24%5Corders",
        "HOST%5Cprivate$%5Corders",
        "DIRECT%3DOS%3AHOST%5Cprivate%24%5Corders",
        "orders;journal",
        "%6Frders",
    ):
        assert (await api.get(f"/api/queues/{name}")).status_code == 200, name
    refused = await api.post(
        "/api/queues/DIRECT=HTTP:%2F%2F192.0.2.1%2Fmsmq%2Fprivate$%2Ffar/messages", {"messages": [{}]}
    )
    assert refused.json()["message"] == (
        "cannot send to DIRECT=HTTP://192.0.2.1/msmq/PRIVATE$/far: messages over HTTP are not supported yet"
    )


@served()
async def test_a_queue_that_is_reached_by_ipx_is_refused_in_words(api: Api) -> None:
    path = "/api/queues/DIRECT=IPX:12:34%5Cprivate$%5Cfar"
    sends, reads = await api.post(f"{path}/messages", {"messages": [{}]}), await api.post(f"{path}/receive", {})
    for refused in (sends, reads):
        assert refused.status_code == 400
        assert refused.json()["error"] == "UnsupportedFormatName"
        assert refused.json()["message"] == "cannot open DIRECT=IPX:12:34\\PRIVATE$\\far: IPX is not supported"


@served()
async def test_what_does_not_work_yet_is_refused_in_words(api: Api) -> None:
    await api.post("/api/queues", {"name": "orders"})
    created = await api.post("/api/queues", {"name": "group", "multicast": "234.1.1.1:8001"})
    assert (created.status_code, created.json()["message"]) == (
        400,
        "cannot listen on '234.1.1.1:8001': multicast is not supported yet",
    )
    traced = {"messages": [{"trace": "PUBLIC=12345678-9abc-def0-1234-56789abcdef0"}]}
    sent = await api.post("/api/queues/orders/messages", traced)
    assert sent.status_code == 400
    assert sent.json()["message"].endswith(
        "cannot receive reports: tracing requires a directory, and none is configured"
    )
    for scheme in ("HTTP", "HTTPS"):
        sent = await api.post(f"/api/queues/DIRECT={scheme}:%2F%2Fhost%2Fmsmq%2Fq/messages", {"messages": [{}]})
        assert sent.status_code == 400
    assert (await api.get("/api/queues?kind=outgoing")).json()["queues"] == []


@served()
async def test_a_purge_empties_a_queue(api: Api) -> None:
    queue = await api.manager.create_queue("orders")
    await queue.send_many([b"1", b"2"])
    assert (await api.post("/api/queues/orders/purge")).status_code == 204
    assert (await queue.info()).message_count == 0


@served()
async def test_an_outgoing_queue_is_paused_and_resumed(api: Api) -> None:
    name = "DIRECT=TCP:192.0.2.1%5Cprivate$%5Cfar"
    await api.post(f"/api/queues/{name}/messages", {"messages": [{"body_text": "hello"}]})
    assert (await api.post(f"/api/queues/{name}/pause")).status_code == 204
    assert (await api.get(f"/api/queues/{name}")).json()["state"] == "on_hold"
    assert (await api.post(f"/api/queues/{name}/resume")).status_code == 204
    assert (await api.get(f"/api/queues/{name}")).json()["state"] == "inactive"
    await api.manager.create_queue("orders")
    refused = await api.post("/api/queues/orders/pause")
    assert (refused.status_code, refused.json()["error"]) == (400, "InvalidParameter")


@served()
async def test_messages_of_an_outgoing_queue_are_read_by_an_administrator(api: Api) -> None:
    name = "DIRECT=TCP:192.0.2.1%5Cprivate$%5Cfar"
    await api.post(f"/api/queues/{name}/messages", {"messages": [{"body_text": "1"}, {"body_text": "2"}]})
    assert await api.bodies(f"/api/queues/{name}/peek?outgoing=true", {}) == ["1"]
    assert await api.bodies(f"/api/queues/{name}/receive?outgoing=true", {}) == ["1"]
    assert (await api.get(f"/api/queues/{name}/browse?outgoing=true")).json()["messages"][0]["body_text"] == "2"
    assert (await api.post(f"/api/queues/{name}/purge?outgoing=true")).status_code == 204
    assert (await api.get(f"/api/queues/{name}")).json()["message_count"] == 0
    assert (await api.post("/api/queues/nowhere/peek?outgoing=true", {})).status_code == 404


@served()
async def test_what_waits_to_be_sent_is_not_moved_where_it_goes(api: Api) -> None:
    """The queue of the other computer has the same name."""
    name = "DIRECT=TCP:192.0.2.1\\private$\\far"
    await api.manager.queue(name).send("1")
    for verb, data in (("move", {"lookup_id": "1", "to": "orders;x"}), ("move-all", {"to": "orders;x"})):
        refused = await api.post(f"/api/queues/{quote(name)}/{verb}?outgoing=true", data)
        assert (refused.status_code, refused.json()["error"]) == (404, "QueueNotFound")


@served()
async def test_what_changes_nothing_is_said_in_the_answer(api: Api) -> None:
    """MS-MQMQ 2.3.1.6."""
    created = await api.post("/api/queues", {"name": "orders", "base_priority": 5})
    assert (created.status_code, created.json()["base_priority"]) == (201, 0)
    assert created.json()["notes"] == [
        "`base_priority` has no effect, because it is always 0 for a private queue (MS-MQMQ 2.3.1.6)"
    ]
    changed = await api.client.patch("/api/queues/orders", json={"base_priority": 5, "label": "x"})
    assert (changed.json()["label"], len(changed.json()["notes"])) == ("x", 1)
    assert "notes" not in (await api.get("/api/queues/orders")).json()
