"""The two sides of the API have the same names, arguments and documentation."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

import waypost
from waypost import aio

TWINS = ["Cursor", "Lease", "Manager", "Queue", "Transaction"]

# What answers at once on both sides, because it asks nobody.
AT_ONCE = {"queue", "transaction", "cursor", "subqueue", "identifier_for"}


def members(cls: type) -> dict[str, Any]:
    """What a user sees: methods and properties, also those of base classes."""
    return {
        name: inspect.getattr_static(cls, name)
        for name in dir(cls)
        if not name.startswith("_") and not inspect.ismemberdescriptor(inspect.getattr_static(cls, name))
    }


@pytest.mark.parametrize("name", TWINS)
def test_both_sides_have_the_same_members(name: str) -> None:
    assert members(getattr(waypost, name)).keys() == members(getattr(aio, name)).keys()


@pytest.mark.parametrize("name", TWINS)
def test_both_sides_take_the_same_arguments(name: str) -> None:
    for member, twin in members(getattr(aio, name)).items():
        if not isinstance(twin, property):
            ours = inspect.signature(getattr(getattr(waypost, name), member))
            assert str(inspect.signature(twin)).split(" -> ")[0] == str(ours).split(" -> ")[0], member


@pytest.mark.parametrize("name", ["open", "restore", "salvage", "verify"])
def test_both_sides_have_functions_with_the_same_arguments(name: str) -> None:
    ours, theirs = getattr(waypost, name), getattr(aio, name)
    assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
    assert inspect.getdoc(theirs)


@pytest.mark.parametrize("name", TWINS)
def test_whatever_waits_is_a_coroutine_or_an_asynchronous_generator(name: str) -> None:
    for member, twin in members(getattr(aio, name)).items():
        if not isinstance(twin, property) and member not in AT_ONCE:
            assert inspect.iscoroutinefunction(twin) or inspect.isasyncgenfunction(twin), member


@pytest.mark.parametrize("module", [waypost, aio])
@pytest.mark.parametrize("name", TWINS)
def test_everything_is_documented(module: Any, name: str) -> None:
    cls = getattr(module, name)
    assert cls.__doc__
    assert [member for member, found in members(cls).items() if not inspect.getdoc(found)] == []


def test_the_public_names_are_there() -> None:
    assert set(waypost.__all__) <= set(dir(waypost))
    assert all(getattr(waypost, name) is not None for name in waypost.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'opne'"):
        print(waypost.opne)  # type: ignore[attr-defined]


def test_the_package_alone_loads_nothing_else() -> None:
    script = "import sys, waypost; print([name for name in sys.modules if name.startswith('waypost.')])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    "script",
    [
        "import waypost; waypost.connect",
        "from typer.testing import CliRunner; from waypost.cli import app; "
        "result = CliRunner().invoke(app, ['--url', 'http://127.0.0.1:9', 'status']); assert result.exit_code == 3",
    ],
    ids=["connect", "status"],
)
def test_whoever_talks_to_a_daemon_loads_no_engine(script: str) -> None:
    heavy = (
        *("waypost.drive.driver", "waypost.node.node", "waypost.store", "waypost.transfer", "waypost.routing"),
        *("waypost.directory", "waypost.security", "lmdb", "cryptography"),
    )
    script += f"; import sys; print([name for name in sys.modules if name.startswith({heavy})])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "[]\n"
