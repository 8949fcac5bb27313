"""How readers and writers travel to the workers of Spark, and what they say where the package is missing."""

import pickle
from typing import Any


def unpack(content: bytes) -> Any:
    try:
        return pickle.loads(content)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the Python of a Spark worker has no module {error.name}: install waypost[spark] there, in the version "
            "that the driver has, or name the right Python with PYSPARK_PYTHON",
            name=error.name,
        ) from None


# Functions of __main__ travel by value, so that this one needs no package where it arrives.
unpack.__module__ = "__main__"


class Shipped:
    """Is made again from its arguments where it arrives; what it has opened meanwhile stays behind."""

    def arguments(self) -> tuple[Any, ...]:
        """Of its constructor."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return unpack, (pickle.dumps(_Parcel(type(self), self.arguments())),)


class _Parcel:
    """Becomes the object when it is unpickled: without Shipped in between, which would wrap itself for ever."""

    def __init__(self, kind: type, arguments: tuple[Any, ...]) -> None:
        self._made = (kind, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made
