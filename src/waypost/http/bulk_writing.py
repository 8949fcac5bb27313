"""/api/bulk: claims of messages, and stages of messages that are seen when their batch is committed.

The structures are those of waypost.client.bulk.schema, which says what they mean.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, TypeAlias

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from msgspec import UNSET

from waypost.api.excerpt import excerpt
from waypost.api.forms import BULK_NAME_FORM
from waypost.api.message_attributes import message_attributes
from waypost.api.names import check_can_be_sent_to
from waypost.api.properties import MessageProperties, NewMessage
from waypost.client.bodies import encode_bodies, encode_body
from waypost.client.bulk import schema
from waypost.client.bulk.frame import MEDIA_TYPE
from waypost.client.bulk.local import parse_epoch
from waypost.client.bulk.schema import Batches, Claimed, ClaimObject, Claims, Committed, Returned, Staged
from waypost.core.message import Message
from waypost.errors import DecodeError, InvalidParameter, TransactionSequence
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.http.bulk import frame_response
from waypost.http.parameters import Name, Served, decoded
from waypost.http.sending import body_of
from waypost.http.service import Service
from waypost.node import claims, stages
from waypost.node.bulk import Rows, Target
from waypost.node.bulk_writing import BulkWriting
from waypost.node.commits import BY_COLUMN

Writing: TypeAlias = NamedDependency[BulkWriting]
Query = Annotated[str, QueryParameter(name="query", description="Whose batches they are.", schema_extra=BULK_NAME_FORM)]


@post("/api/bulk/queues/{name:str}/claims", status_code=200)
async def new_claim(name: Name, data: JSONBody[schema.NewClaim], service: Served, writing: Writing) -> Claimed:
    """Say which parts of a claim are processed, which takes them out of the queue, and ask for the next part.

    The same question has the same answer until the next one is asked.
    """
    wish = claims.NewClaim(
        data.claim,
        data.after,
        data.max_messages,
        None if data.max_bytes is UNSET else data.max_bytes,
        data.lease_s,
        data.max_aborts,
    )
    with _hint("a reader that cannot go on begins another claim, from what is in the queue"):
        epoch, found = await service.shell.do(writing.claim, _target(service, name, data.epoch), wish)
    return Claimed(number=found.number, count=found.count, bytes=found.size, epoch=guid_text(epoch))


@get("/api/bulk/queues/{name:str}/claims")
async def list_claims(name: Name, service: Served, writing: Writing) -> Claims:
    """The parts of the queue that readers have."""
    held: list[claims.Held] = await service.shell.do(writing.claims, _target(service, name))
    return Claims(
        [
            ClaimObject(claim=each.claim, number=each.number, count=each.count, lease_left_s=each.lease_left_s)
            for each in held
        ]
    )


@post("/api/bulk/queues/{name:str}/claims/read", status_code=200, media_type=MEDIA_TYPE)
async def read_claim(
    name: Name, data: JSONBody[schema.ReadClaim], service: Served, writing: Writing
) -> Response[bytes]:
    """Messages of a part in one binary frame, by their places in the order of arrival."""
    target, places = _target(service, name, data.epoch), range(data.start, data.stop)
    with _hint("a reader that cannot go on begins another claim, from what is in the queue"):
        rows: Rows = await service.shell.do(
            writing.read_claim, target, (data.claim, data.number), places, data.max_bytes
        )
    return frame_response(rows)


@post("/api/bulk/queues/{name:str}/claims/return", status_code=200)
async def return_claim(
    name: Name, data: JSONBody[schema.ReturnClaim], service: Served, writing: Writing
) -> Returned:  # fmt: skip
    """Give back what is claimed, as the end of the lease does."""
    return Returned(await service.shell.do(writing.return_claim, _target(service, name), data.claim))


@post("/api/bulk/stages", status_code=200)
async def stage(data: JSONBody[schema.Stage], service: Served, writing: Writing) -> Staged:
    """Write messages to disk that nobody sees before their batch is committed."""
    groups = [_group(service, each) for each in data.groups]
    found: stages.Staged = await service.shell.do(writing.stage, _batch(service, data), groups, data.lease_s)
    return Staged(guid_text(found.stage) if found.stage else "", found.count, is_committed=not found.stage)


@post("/api/bulk/stages/drop", status_code=204)
async def drop_stages(data: JSONBody[schema.DropStages], service: Served, writing: Writing) -> None:
    """Let nothing be left of these stages, and of all that a run has staged for a batch. What is gone stays gone."""
    batch = None if data.batch is UNSET else _batch(service, data.batch)
    await service.shell.do(writing.drop, _identifiers(data.stages), batch)


@post("/api/bulk/commits", status_code=200)
async def commit(data: JSONBody[schema.Commit], service: Served, writing: Writing) -> Committed:
    """Make what is staged seen in one moment, once: a batch that was committed before changes nothing.

    What else is staged for the batch is dropped.
    """
    with _hint("GET /api/bulk/commits tells which batches were committed; others have to be staged again"):
        found: stages.Committed = await service.shell.do(
            writing.commit, _batch(service, data), _identifiers(data.stages)
        )
    return Committed(found.count, found.is_repeated)


@get("/api/bulk/commits")
async def committed_batches(of: Query, service: Served, writing: Writing) -> Batches:
    """The last batches of a query that were committed."""
    return Batches(await service.shell.do(writing.batches, of))


def _target(service: Service, name: str, epoch: str = "") -> Target:
    return Target(service.name(decoded(name)), parse_epoch(epoch))


def _batch(service: Service, data: schema.BatchOfQuery) -> stages.Batch:
    to = data.destination
    destination = None if to is UNSET else service.name(to) if to else BY_COLUMN
    try:
        run = parse_guid(data.run) if data.run else NULL_GUID
    except DecodeError as error:
        raise InvalidParameter(f"a run is a GUID, or nothing if it is not known: {excerpt(error)}") from None
    return stages.Batch(data.query, data.batch, destination, run)


def _group(service: Service, data: schema.StagedMessages) -> stages.Group:
    name = service.name(data.queue)
    check_can_be_sent_to(name)
    if bool(data.bodies) != (data.like is not UNSET):
        raise InvalidParameter("`like` is what `bodies` share: give both, or `messages` alone")
    messages = [_message(service, each) for each in data.messages]
    if data.like is UNSET:
        return stages.Group(name, messages=messages)
    like = _plain_message(service, data.like)
    bodies, like.body_type = encode_bodies(data.bodies, data.like.body_type)
    return stages.Group(name, like, bodies, messages)


def _message(service: Service, data: NewMessage) -> Message:
    message = _plain_message(service, data)
    message.body, message.body_type = encode_body(body_of(data), data.body_type)
    return message


def _plain_message(service: Service, properties: MessageProperties) -> Message:
    """A message without its body."""
    return Message(**message_attributes(properties, computer=service.manager.name))


def _identifiers(texts: Sequence[str]) -> list[bytes]:
    try:
        return [parse_guid(text) for text in texts]
    except DecodeError as error:
        raise InvalidParameter(f"a stage is the GUID that its staging was answered with: {excerpt(error)}") from None


@contextmanager
def _hint(hint: str) -> Iterator[None]:
    """What to do when things have gone on without the client."""
    try:
        yield
    except TransactionSequence as error:
        error.add_note(hint)
        raise
