"""/api/store/verification: a verification beside the work of the queue manager."""

import asyncio
from pathlib import Path

import waypost
from tests.cli.daemons import daemon, shell
from tests.http.server import Api, served


async def over(api: Api) -> dict[str, object]:
    """The state when nothing is under way any more."""
    async with asyncio.timeout(60):
        while (state := (await api.get("/api/store/verification")).json())["running"]:
            await asyncio.sleep(0.02)
    found: dict[str, object] = state
    return found


@served()
async def test_a_verification_goes_on_beside_the_work(api: Api) -> None:
    assert (await api.get("/api/store/verification")).json()["running"] is False
    queue = await api.manager.create_queue("orders")
    await queue.send("42 bolts")
    first = await api.post("/api/store/verification")
    assert first.status_code == 202
    assert first.json()["running"] is True
    # A second one joins the first.
    assert (await api.post("/api/store/verification")).json()["running"] is True
    await queue.send("43 bolts")
    state = await over(api)
    assert state["error"] == ""
    report = state["report"]
    assert isinstance(report, dict)
    assert report["is_whole"] is True
    assert report["records"]["messages"] in (1, 2)


@served()
async def test_a_stop_ends_a_verification(api: Api) -> None:
    await api.post("/api/store/verification")
    api.app.stop()
    state = await over(api)
    assert state["error"] or state["report"]


def test_a_client_and_the_command_line_ask_the_daemon(tmp_path: Path) -> None:
    with daemon(tmp_path / "data") as environment:
        seen: list[tuple[int, int]] = []
        with waypost.connect(environment["WAYPOST_URL"]) as manager:
            manager.create_queue("orders").send("42 bolts")
            report = manager.verify_store(progress=lambda done, total: seen.append((done, total)))
        assert report.is_whole
        assert report.records["messages"] == 1
        assert seen
        done = shell("waypost store verify", environment, tmp_path)
        assert done.returncode == 0, done.stderr
        assert "No damage found." in done.stdout
        offline = shell("waypost store verify --data data", environment, tmp_path)
        assert offline.returncode == 0, offline.stderr
