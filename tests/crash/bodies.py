"""The bodies of the messages of a crash test: each says which message it is, and shows damage."""

from typing import NamedTuple

NOBODY = "-"


class Body(NamedTuple):
    """`name` is unique. `origin` is the message that this one was made from when it was moved."""

    name: str
    origin: str
    size: int


def compose(name: str, origin: str, size: int) -> str:
    head = f"{name} {origin} {size} "
    return (head + name * (size // len(name) + 1))[: max(size, len(head))]


def parse(text: str) -> Body:
    """Raises ValueError if it is not a body that `compose` made, whole."""
    name, origin, size, _ = text.split(" ", 3)
    if compose(name, origin, int(size)) != text:
        raise ValueError(f"the body of {name} is damaged")
    return Body(name, origin, int(size))
