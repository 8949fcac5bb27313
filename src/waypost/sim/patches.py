"""Values that replace those of the engine while one simulation runs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patch:
    """The value that the attribute `name` of a module or a class gets."""

    owner: object
    name: str
    value: object


@contextmanager
def patched(*patches: Patch) -> Iterator[None]:
    with ExitStack() as stack:
        for patch in patches:
            stack.callback(setattr, patch.owner, patch.name, getattr(patch.owner, patch.name))
            setattr(patch.owner, patch.name, patch.value)
        yield
