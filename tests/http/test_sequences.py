"""/api/sequences."""

import asyncio

import pytest

from tests.http.server import Api, served

FAR = r"DIRECT=TCP:192.0.2.1\PRIVATE$\far"


async def send(api: Api, body: str) -> str:
    async with api.manager.transaction() as transaction:
        return (await api.manager.send(FAR, body, transaction=transaction)).id


@served()
async def test_sequences_are_listed_and_begin_again(api: Api) -> None:
    sent = await send(api, "1")
    assert (await api.get("/api/sequences")).json() == {"sequences": [], "next": ""}
    assert (await api.get("/api/sequences?direction=refused")).json() == {"sequences": [], "next": ""}
    (before,) = (await api.get("/api/sequences", params={"direction": "out", "queue": FAR})).json()["sequences"]
    assert (before["queue"], before["source"], before["number"]) == (FAR, api.manager.guid, 1)
    trial = (await api.post("/api/sequences/reset", {"queue": FAR, "trial": True})).json()
    assert (await api.get("/api/sequences?direction=out")).json()["sequences"] == [before]
    done = (await api.post("/api/sequences/reset", {"queue": FAR})).json()
    assert done == trial
    assert (done["sequences"], done["renumbered"], done["identifiers"]) == (1, 1, [sent])
    assert sent in done["warning"]
    (after,) = (await api.get("/api/sequences?direction=out")).json()["sequences"]
    assert after["time_stamp"] > before["time_stamp"]


@served()
async def test_wrong_words_are_refused_in_a_sentence(api: Api) -> None:
    answer = await api.post("/api/sequences/reset", {})
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidParameter")
    assert "a reset requires at least one of the options queue, source, address and age" in answer.json()["message"]
    assert (await api.get("/api/sequences?after=xyz")).status_code == 400
    assert (await api.get("/api/sequences?source=me")).status_code == 400
    assert (await api.get("/api/sequences?direction=up")).status_code == 400
    assert (await api.get("/api/sequences?queue=none")).status_code == 404


@served()
async def test_a_second_reset_of_a_queue_is_refused_while_one_is_under_way(api: Api) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("waypost.node.renumbering.RENUMBERED_PART", 1)
        async with api.manager.transaction() as transaction:
            await api.manager.queue(FAR).send_many(["x"] * 500, transaction=transaction)
        asked = [api.post("/api/sequences/reset", {"queue": FAR}) for _ in range(2)]
        done, refused = sorted(await asyncio.gather(*asked), key=lambda answer: answer.status_code)
    assert (done.status_code, done.json()["renumbered"]) == (200, 500)
    assert (refused.status_code, refused.json()["error"]) == (409, "ResetUnderWay")
    assert "of its messages have new numbers" in refused.json()["message"]
    assert "waypost explain QUEUE" in refused.json()["hint"]
