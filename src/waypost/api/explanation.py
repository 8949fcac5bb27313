"""Explanation: why a message, or the messages of a queue, are where they are."""

from typing import Any

from waypost.api.records import Record


class Explanation(Record, frozen=True):
    """What a queue manager says about a message or a queue. `str()` gives its sentences, one a line.

    `facts` has the same as values: see docs/http.md.
    """

    sentences: tuple[str, ...]
    facts: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def found(self) -> bool:
        """Whether there is such a message or queue now. Of a message that is gone, the sentences say what is known."""
        return bool(self.facts["found"])

    def with_sentence(self, sentence: str) -> "Explanation":
        """The same with one more at the end."""
        return Explanation((*self.sentences, sentence), self.facts)
