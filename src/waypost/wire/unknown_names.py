"""Queue names of packets that are not understood."""

from dataclasses import dataclass
from typing import Final

from waypost.wire.format_names import FormatName

# Prefix of their text, which is not a format name.
UNKNOWN: Final = "UNKNOWN="


@dataclass(frozen=True, slots=True, eq=False)
class UnknownFormatName(FormatName):
    """A text that a packet has instead of a name. It is carried and shown, and leads nowhere.

    It is the text of a direct name, or the number of a private queue whose computer the packet does not tell.
    """

    text: str
    number: int | None = None

    def __str__(self) -> str:
        if self.number is not None:
            return f"{UNKNOWN}\\{self.number:08x}"
        # A packet can hold half a surrogate pair, which nothing else can write.
        return UNKNOWN + self.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
