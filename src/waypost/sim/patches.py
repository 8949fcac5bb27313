"""Other values in the place of the engine's own, for as long as one simulation runs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patch:
    """The attribute `name` of a module or a class is `value`."""

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
