"""/api/sequences: transactional sequences at both ends, and how to begin them again."""

from typing import Annotated, Literal

from litestar import get, post
from litestar.params import FromQuery, JSONBody, QueryParameter

from waypost.client.remote.forms import ADDRESS_OR_NOTHING_FORM, GUID_OR_NOTHING_FORM
from waypost.client.remote.sequence_schema import ResetSequences, SequenceObject, SequenceResetObject, SequencesObject
from waypost.client.sequence_calls import SequenceCalls
from waypost.client.sequence_info import SequencePage, SequenceQuery, SequenceReset
from waypost.http.parameters import After, Served
from waypost.http.service import Service


@get("/api/sequences")
async def list_sequences(
    service: Served,
    direction: FromQuery[Literal["in", "out", "refused"]] = "in",
    queue: FromQuery[str] = "",
    source: Annotated[str, QueryParameter(schema_extra=GUID_OR_NOTHING_FORM)] = "",
    address: Annotated[str, QueryParameter(schema_extra=ADDRESS_OR_NOTHING_FORM)] = "",
    after: After = "",
) -> SequencesObject:
    """Transactional sequences: `in` what comes from others, `out` what is sent from here, `refused` what is not taken.

    `queue`, `source` (a GUID) and `address` leave the others out. A page has a thousand at most; `after` goes on where
    its `next` says.
    """
    query = SequenceQuery(queue or None, source or None, address or None)
    page: SequencePage = await service.shell.do(_calls(service).page, direction, query, after)
    return SequencesObject(
        sequences=[SequenceObject(**info.to_dict()) for info in page.sequences],  # type: ignore[arg-type]  # its types
        next=page.next,
    )


@post("/api/sequences/reset", status_code=200)
async def reset_sequences(data: JSONBody[ResetSequences], service: Served) -> SequenceResetObject:
    """Begin transactional sequences again, which may let messages come twice: `warning` says which.

    A request looks at ten thousand sequences at most; `after` goes on where its `next` says.
    """
    query = SequenceQuery(data.queue, data.source, data.address, data.older_than_s)
    reset: SequenceReset = await service.shell.do(_calls(service).reset, query, data.after, data.trial)
    return SequenceResetObject(**reset.to_dict(), next=reset.next)  # type: ignore[arg-type]  # its types


def _calls(service: Service) -> SequenceCalls:
    return service.shell.engine.sequences
