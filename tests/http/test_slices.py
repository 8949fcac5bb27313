"""Long lists are made part by part: others have their turn between two parts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.http.server import Api, served
from waypost.api.operations import DeleteQueue
from waypost.client.aio_opening import shell_of
from waypost.http import queue_metrics
from waypost.limits import LIST_PART
from waypost.node import queue_calls
from waypost.node.bulk import BulkReadingCalls
from waypost.node.queue_info import queue_info

MANY = 5 * LIST_PART


class Counting:
    """Counts how often something is called between two turns of somebody else."""

    def __init__(self) -> None:
        self.calls = 0
        self.most = 0
        self.turns = 0

    def counted(self, function: Callable[..., Any], size: Callable[..., int] = lambda *_: 1) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.calls += size(*args)
            self.most = max(self.most, self.calls)
            return function(*args, **options)

        return call

    async def beside(self, work: Awaitable[Any]) -> Any:
        """Have a turn whenever the loop gives one, until the work is done."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.sleep(0)
            self.turns += self.calls > 0
            self.calls = 0
        return task.result()


async def make_queues(api: Api) -> None:
    await asyncio.gather(*(api.manager.create_queue(f"queue{number:03}") for number in range(MANY)))


@served()
async def test_a_list_of_queues_gives_others_their_turns(api: Api) -> None:
    await make_queues(api)
    counting = Counting()
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(queue_calls, "queue_info", counting.counted(queue_info))
        found = (await counting.beside(api.get("/api/queues"))).json()["queues"]
    assert [each["path"] for each in found] == [f"HOST\\private$\\queue{number:03}" for number in range(MANY)]
    assert counting.most <= LIST_PART
    assert counting.turns >= MANY // LIST_PART


@served()
async def test_metrics_give_others_their_turns(api: Api) -> None:
    await make_queues(api)
    counting = Counting()
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(queue_metrics, "_add_local", counting.counted(queue_metrics._add_local))
        text = (await counting.beside(api.get("/metrics"))).text
    assert text.count("waypost_queue_messages{") == MANY + 3
    assert counting.most <= LIST_PART


@served()
async def test_a_list_for_bulk_readers_gives_others_their_turns(api: Api) -> None:
    await make_queues(api)
    counting = Counting()
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(BulkReadingCalls, "_shown", counting.counted(BulkReadingCalls._shown))
        found = (await counting.beside(api.get("/api/bulk/queues"))).json()["queues"]
    assert len(found) == MANY
    assert counting.most <= LIST_PART


@served()
async def test_a_queue_that_is_deleted_while_a_list_is_made_is_left_out(api: Api) -> None:
    await make_queues(api)
    last = api.manager.queue(f"queue{MANY - 1:03}")
    made = 0

    def delete_last(*args: Any, **options: Any) -> Any:
        nonlocal made
        made += 1
        if made == 1:
            shell = shell_of(api.manager)
            shell.start(DeleteQueue(name=last.name), shell.driver.node.administrator)
        return queue_info(*args, **options)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(queue_calls, "queue_info", delete_last)
        found = (await api.get("/api/queues")).json()["queues"]
    assert len(found) == MANY - 1


@served()
async def test_status_counts_queues_without_looking_at_them(api: Api) -> None:
    await make_queues(api)
    await api.manager.delete_queue("queue000")
    await api.manager.queue("queue001").move_all("queue001;sub")
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(queue_calls.QueueCalls, "names", None)
        assert (await api.get("/api/status")).json()["queues"] == MANY - 1


@served()
async def test_an_outgoing_queue_is_found_without_a_list_of_all(api: Api) -> None:
    await api.manager.send("DIRECT=TCP:192.0.2.1\\private$\\far", "hello")
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(queue_calls.QueueCalls, "names", None)
        path = "/api/queues/DIRECT=TCP:192.0.2.1%5Cprivate$%5Cfar/purge?outgoing=true"
        assert (await api.post(path)).status_code == 204
        assert (await api.post(path.replace("far", "farther"))).status_code == 404
