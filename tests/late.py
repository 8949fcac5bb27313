"""Modules that tests use and that collecting them does not load, because they take seconds: Spark, scapy, impacket.

    if TYPE_CHECKING:
        from pyspark import errors
    else:
        errors = late("pyspark.errors")

`tests/test_machinery.py` sees to it that collecting loads none of them.
"""

from importlib import import_module
from typing import Any


class _Late:
    """A module, loaded when something of it is asked for. It can be patched."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        # pytest asks everything in a file for such names, in search of tests and fixtures.
        if name == "_mock_name" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return vars(import_module(self._name))

    def __setattr__(self, name: str, value: object) -> None:
        setattr(import_module(self._name), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(import_module(self._name), name)


def late(name: str) -> Any:
    return _Late(name)
