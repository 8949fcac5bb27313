"""/api/bulk/queues: to list queues, and to plan, read and remove ranges of their messages by arrival numbers.

The structures are those of waypost.client.bulk.schema. A frame is binary, whatever the request accepts; a refusal is
not.
"""

from typing import Literal, TypeAlias

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, JSONBody

from waypost.client.bulk.frame import MEDIA_TYPE
from waypost.client.bulk.local import (
    bulk_queue,
    frame_of,
    matching,
    parse_epoch,
    planned_range,
    range_to_plan,
    range_to_read,
)
from waypost.client.bulk.schema import (
    BulkQueue,
    BulkQueues,
    PlannedRange,
    PlanRange,
    ReadRange,
    Removed,
    RemoveRange,
    SeqAt,
)
from waypost.http.parameters import Name, Outgoing, Served, decoded
from waypost.http.service import Service
from waypost.http.slices import slices
from waypost.node.bulk import BulkReading, Plan, QueueState, Removal, Rows, Target, is_there

Kind = Literal["", "local", "private", "public", "journal", "subqueue", "system", "outgoing", "all"]
Bulk: TypeAlias = NamedDependency[BulkReading]


@get("/api/bulk/queues")
async def bulk_queues(
    service: Served, bulk: Bulk, kind: FromQuery[Kind] = "", pattern: FromQuery[str] = ""
) -> BulkQueues:  # fmt: skip
    """The queues that applications have created; with `kind` those of one kind, or all.

    `pattern` has * and ? for any characters, and is compared with names like orders, orders;journal, orders;retry and
    system$;deadletter, and with the format names of outgoing queues. Of many queues each is shown as it is when its
    turn comes: one that is created or deleted meanwhile may be missing.
    """
    found: list[BulkQueue] = []
    async for targets in slices(service.shell.look(matching, service.node.manager, pattern, kind)):
        there = [target for target in targets if is_there(service.node, target)]
        states: list[QueueState] = await service.shell.do(bulk.describe, there)
        found += [bulk_queue(*each) for each in zip(there, states, strict=True)]
    return BulkQueues(found)


@get("/api/bulk/queues/{name:str}")
async def show_bulk_queue(name: Name, service: Served, bulk: Bulk, outgoing: Outgoing = False) -> BulkQueue:
    """How far a queue can be read."""
    target = _target(service, name, outgoing=outgoing)
    states: list[QueueState] = await service.shell.do(bulk.describe, [target])
    return bulk_queue(target, states[0])


@post("/api/bulk/queues/{name:str}/plan", status_code=200)
async def plan(
    name: Name, data: JSONBody[PlanRange], service: Served, bulk: Bulk, outgoing: Outgoing = False
) -> PlannedRange:
    """Divide the messages behind a number into ranges of about the same count."""
    target = _target(service, name, outgoing=outgoing, epoch=data.epoch)
    found: Plan = await service.shell.do(bulk.plan, target, range_to_plan(data), data.parts)
    return planned_range(found)


@post("/api/bulk/queues/{name:str}/read", status_code=200, media_type=MEDIA_TYPE)
async def read(
    name: Name, data: JSONBody[ReadRange], service: Served, bulk: Bulk, outgoing: Outgoing = False
) -> Response[bytes]:
    """Messages of a range in one binary frame, in the order of arrival, and how far the frame has come."""
    target = _target(service, name, outgoing=outgoing, epoch=data.epoch)
    rows: Rows = await service.shell.do(bulk.read, target, range_to_read(data))
    return frame_response(rows)


@get("/api/bulk/queues/{name:str}/seq")
async def seq_at(name: Name, time: FromQuery[float], service: Served, bulk: Bulk, outgoing: Outgoing = False) -> SeqAt:
    """Which number to start behind, to read what arrived at this time, in seconds since 1970, or later."""
    return SeqAt(await service.shell.do(bulk.seq_at, _target(service, name, outgoing=outgoing), time))


@post("/api/bulk/queues/{name:str}/remove", status_code=200)
async def remove(
    name: Name, data: JSONBody[RemoveRange], service: Served, bulk: Bulk, outgoing: Outgoing = False
) -> Removed:
    """Take the messages of a range out of the queue, as a receive does. To ask twice is as good as to ask once."""
    target = _target(service, name, outgoing=outgoing, epoch=data.epoch)
    removal: Removal = await service.shell.do(bulk.remove, target, data.up_to, data.max_messages, data.after)
    return Removed(removal.count, removal.left)


def frame_response(rows: Rows) -> Response[bytes]:
    return Response(frame_of(rows), media_type=MEDIA_TYPE)


def _target(service: Service, name: str, *, outgoing: bool, epoch: str = "") -> Target:
    return Target(service.name(decoded(name)), parse_epoch(epoch), outgoing)
