"""/api/store/damaged: messages that were damaged on disk and set aside."""

from litestar import delete, get
from litestar.params import FromQuery

from waypost.client.remote.damaged import DamagedObject, DamagedObjects, Forgotten
from waypost.client.storage.damaged import info_of
from waypost.errors import InvalidParameter
from waypost.http.parameters import After, Served


@get("/api/store/damaged")
async def list_damaged(
    service: Served, after: After = "", with_bytes: FromQuery[bool] = False
) -> DamagedObjects:  # fmt: skip
    """Messages that were damaged on disk and set aside, `with_bytes` also what was found in their place.

    A page has a thousand at most; `after` goes on where its `next` says.
    """
    try:
        start = bytes.fromhex(after)
    except ValueError:
        raise InvalidParameter(f"{after[:80]!r} is not the `next` of a page") from None
    messages, following = await service.shell.do(service.shell.engine.application.damaged, start, with_bytes)
    return DamagedObjects(
        messages=[DamagedObject(**info_of(each).to_dict()) for each in messages],  # type: ignore[arg-type]  # its types
        next="" if following is None else following.hex(),
    )


@delete("/api/store/damaged", status_code=200)
async def forget_damaged(service: Served) -> Forgotten:
    """Let go what is kept of messages that were damaged on disk."""
    return Forgotten(await service.shell.do(service.shell.engine.application.forget_damaged))
