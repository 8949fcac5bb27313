"""`status` and `doctor` of a queue manager, inside the process and on a daemon, for threads and for asyncio."""

import asyncio
from pathlib import Path

import pytest

import waypost
from tests.client import managers
from tests.client.managers import opened
from tests.http.server import Api, served
from waypost import aio
from waypost.api.status import ShowVerification, StartVerification
from waypost.errors import InvalidParameter, ServiceNotAvailable

manager = managers.manager


def test_a_queue_manager_in_the_process_shows_its_state(manager: waypost.Manager) -> None:
    manager.create_queue("orders").send(b"x" * 1000)
    manager.send(r"DIRECT=TCP:192.0.2.1\private$\far", "1")
    status = manager.status()
    assert (status.name, status.guid, status.path) == ("HOST", manager.guid, str(manager.path))
    assert (status.queues, status.outgoing_queues, status.trouble, status.shortage) == (1, 1, "", "")
    assert status.bytes > 1000
    assert status.started <= status.time
    assert (status.max_wait_s, status.max_batch, status.listeners) == (None, None, ())


def test_the_doctor_of_a_queue_manager_in_the_process_looks_at_its_folder(manager: waypost.Manager) -> None:
    manager.path.chmod(0o700)
    assert [each for each in manager.doctor() if not each.ok] == []
    manager.path.chmod(0o755)
    (wrong,) = [each for each in manager.doctor() if not each.ok]
    assert (wrong.check, wrong.hint) == ("permissions", f"chmod o-rwx {manager.path}")


def test_what_is_closed_shows_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as manager:
        pass
    with pytest.raises(ServiceNotAvailable):
        manager.status()
    with pytest.raises(ServiceNotAvailable):
        manager.doctor()


@pytest.mark.parametrize("operation", [StartVerification(), ShowVerification()])
def test_a_verification_in_parts_is_for_daemons(
    manager: waypost.Manager, operation: StartVerification | ShowVerification
) -> None:
    with pytest.raises(
        InvalidParameter, match=r"the operation '.* verification' requires a daemon; use verify_store instead"
    ):
        manager._transport.call(operation)


def test_coroutines_show_the_same(tmp_path: Path) -> None:
    async def shown() -> None:
        async with aio.open(tmp_path / "data", name="HOST") as manager:
            await manager.create_queue("orders")
            status = await manager.status()
            assert (status.name, status.queues) == ("HOST", 1)
            assert {each.check for each in await manager.doctor()} >= {"store", "disk", "quota", "network"}

    asyncio.run(shown())


@served()
async def test_coroutines_ask_a_daemon(api: Api) -> None:
    async with aio.connect(f"http://127.0.0.1:{api.port}") as manager:
        status = await manager.status(turns_s=600.0)
        assert status.to_dict() | {"time": "", "room_bytes": 0} == (await api.get("/api/status")).json() | {
            "time": "",
            "room_bytes": 0,
        }
        assert status.max_batch
        in_json = (await api.get("/api/doctor")).json()["checks"]
        assert [each.check for each in await manager.doctor()] == [each["check"] for each in in_json]
