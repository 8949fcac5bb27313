"""Serialize readers and writers for the workers of Spark, with a clear error if a worker lacks the package."""

import pickle
from typing import Any


def unpack(content: bytes) -> Any:
    try:
        return pickle.loads(content)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the Python of a Spark worker has no module {error.name}: install waypost[spark] there, in the same "
            "version as on the driver, or set PYSPARK_PYTHON to a Python that contains waypost[spark]",
            name=error.name,
        ) from None


# Functions of __main__ travel by value, so that this one needs no package on the worker.
unpack.__module__ = "__main__"


class Shipped:
    """An object that a worker creates again from the constructor arguments, without open connections."""

    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the constructor."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return unpack, (pickle.dumps(_Parcel(type(self), self.arguments())),)


class _Parcel:
    """A pickle of the object's arguments that becomes the object. Pickling Shipped itself would never end."""

    def __init__(self, kind: type, arguments: tuple[Any, ...]) -> None:
        self._made = (kind, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made
