"""Explanation: why a message, or the messages of a queue, are where they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a queue manager says about a message or a queue. `str()` gives its sentences, one a line.

    `found` says whether there is such a message or queue now; of a message that is not here any more the sentences say
    what is remembered. `facts` has the same as values: see docs/http.md.
    """

    found: bool
    sentences: tuple[str, ...]
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        return "\n".join(self.sentences)
