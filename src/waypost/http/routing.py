"""The decorators of handlers. They say in the schema what a refusal is, which litestar cannot know."""

from functools import partial
from typing import Final

import litestar
from litestar.openapi.datastructures import ResponseSpec

from waypost.client.remote.schema import ErrorObject

_REFUSALS: Final = {
    status: ResponseSpec(ErrorObject, generate_examples=False, description=description)
    for status, description in (
        (400, "The request is wrong in itself."),
        (404, "There is no such queue, message, cursor or handle."),
        (409, "It cannot be done now."),
        (503, "The queue manager cannot do it."),
    )
}

get: Final = partial(litestar.get, responses=_REFUSALS)
post: Final = partial(litestar.post, responses=_REFUSALS)
patch: Final = partial(litestar.patch, responses=_REFUSALS)
delete: Final = partial(litestar.delete, responses=_REFUSALS)
