"""Safe display of values and text from others."""

from typing import Final

_LENGTH: Final = 80


def excerpt(value: object) -> str:
    """The repr of a value, cut to fit in a sentence."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001, the value may be anything; a number of thousands of digits raises ValueError
        return f"this {type(value).__name__}"
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."


def printable(text: str, keep: str = "") -> str:
    """The text with control characters of a terminal and bidirectional marks as escapes."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape", "surrogatepass").decode()
        for letter in text
    )
