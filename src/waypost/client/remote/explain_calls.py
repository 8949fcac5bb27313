"""`explain` of a daemon."""

from typing import Any, Final
from urllib.parse import urlencode

from msgspec import Struct

from waypost.api.excerpt import excerpt
from waypost.api.explanation import Explanation
from waypost.client.remote.exchanges import Conversation, Decoder, get
from waypost.errors import DecodeError, InvalidParameter
from waypost.wire.identifiers import MessageIdentifier


class ExplanationObject(Struct):
    """`facts` has what the sentences say as values; its `found` tells whether there is such a message or queue."""

    sentences: list[str]
    facts: dict[str, Any]


_explanation: Final = Decoder(ExplanationObject)


class RemoteExplainCalls:
    """What waypost.node.explain_calls.ExplainCalls does in this process."""

    __slots__ = ()

    def explain(self, subject: object) -> Conversation[Explanation]:
        if not isinstance(subject, str):
            raise InvalidParameter(f"what to explain is the id of a message or a queue, not {excerpt(subject)}")
        found: ExplanationObject = _explanation((yield get(explain_path(subject))))
        return Explanation(bool(found.facts["found"]), tuple(found.sentences), found.facts)


def explain_path(subject: str) -> str:
    """What to ask for, of a message by its identifier or a queue by its name."""
    try:
        MessageIdentifier.parse(subject)
    except DecodeError:
        return f"/api/explain?{urlencode({'queue': subject})}"
    return f"/api/explain?{urlencode({'message': subject})}"
