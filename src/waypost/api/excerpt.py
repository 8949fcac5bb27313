"""Values and text that somebody else gave, as they can be shown."""

from typing import Final

_LENGTH: Final = 80


def excerpt(value: object) -> str:
    """The value as Python writes it, as far as it fits in a sentence."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001, the value is anybody's; a number of thousands of digits raises ValueError
        return f"this {type(value).__name__}"
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."


def printable(text: str, keep: str = "") -> str:
    """The text with everything that a terminal could obey, bidirectional marks too, written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape", "surrogatepass").decode()
        for letter in text
    )
