"""The asynchronous side is documented by the synchronous one: the two differ in nothing but how one waits."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def documented_by(twin: type) -> Callable[[type[T]], type[T]]:
    """Give a class and its public members the docstrings of their twins."""

    def document(cls: type[T]) -> type[T]:
        cls.__doc__ = cls.__doc__ or twin.__doc__
        for name, member in vars(cls).items():
            if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                member.__doc__ = getattr(twin, name).__doc__
        return cls

    return document
