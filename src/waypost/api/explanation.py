"""Explanation: why a message, or the messages of a queue, are where they are."""

from typing import Any

from waypost.api.records import Record


class Explanation(Record, frozen=True):
    """The explanation of a message or a queue. `str()` returns the sentences, one per line.

    `facts` contains the same information as values for programs. The page docs/http.md describes these values.
    """

    sentences: tuple[str, ...]
    facts: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def found(self) -> bool:
        """Whether the message or queue exists now. Otherwise, the sentences contain the known facts."""
        return bool(self.facts["found"])

    def with_sentence(self, sentence: str) -> "Explanation":
        """The same explanation with one more sentence at the end."""
        return Explanation((*self.sentences, sentence), self.facts)
