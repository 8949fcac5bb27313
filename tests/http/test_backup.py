"""GET /api/store/backup."""

import os
from pathlib import Path

import waypost
from tests.http.server import Api, served
from waypost.client.backups.container import MEDIA_TYPE
from waypost.store.folder import lock_backup


@served()
async def test_a_backup_is_a_stream_of_everything_that_is_durable(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    await orders.send("42 bolts")
    answer = await api.get("/api/store/backup")
    assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE)
    assert answer.headers["content-disposition"] == 'attachment; filename="waypost.backup"'
    place = Path(f"{api.manager.path}-copies")
    place.mkdir()
    (place / "backup").write_bytes(answer.content)
    waypost.restore(place / "backup", place / "data", new_identity=True)
    with waypost.open(place / "data") as manager:
        assert manager.queue("orders").receive(0).text == "42 bolts"


@served()
async def test_a_second_one_is_refused_until_the_first_is_over(api: Api) -> None:
    lock = lock_backup(api.manager.path)
    refused = await api.get("/api/store/backup")
    assert refused.status_code == 409
    assert refused.json()["error"] == "BackupUnderWay"
    assert f"is in progress in process {os.getpid()}" in refused.json()["message"]
    assert refused.json()["hint"] == "wait until the other backup ends"
    os.close(lock)
    assert (await api.get("/api/store/backup")).status_code == 200


@served()
async def test_the_schema_says_what_it_gives(api: Api) -> None:
    schema = (await api.get("/schema")).json()
    answers = schema["paths"]["/api/store/backup"]["get"]["responses"]
    assert list(answers["200"]["content"]) == [MEDIA_TYPE]
    assert "409" in answers
