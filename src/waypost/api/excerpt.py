"""What an error shows of a value that somebody gave."""

from typing import Final

_LENGTH: Final = 80


def excerpt(value: object) -> str:
    """The value as Python writes it, as far as it fits in a sentence."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001, the value is anybody's; a number of thousands of digits raises ValueError
        return f"this {type(value).__name__}"
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."
