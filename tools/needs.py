"""A pytest plugin for the needs of tests: programs and packages that `make test` does not install.

A test says so with `@pytest.mark.needs("kerberos")`. Where something is missing it is skipped, and the reason stands at
the end of the run. `WAYPOST_NEED=kerberos,chromium` names the needs that this computer must have: their tests fail
instead.
"""

import os
import shutil
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import Final, NamedTuple

import pytest

VARIABLE: Final = "WAYPOST_NEED"


class Need(NamedTuple):
    """Packages and programs; of alternatives with a bar between them, one is enough. `remedy` is for Debian."""

    packages: tuple[str, ...]
    programs: tuple[str, ...]
    remedy: str


NEEDS: Final[Mapping[str, Need]] = {
    "chromium": Need((), ("chromium|chromium-browser|google-chrome",), "apt-get install chromium"),
    "kerberos": Need(
        ("gssapi", "krb5"),
        ("krb5kdc", "kdb5_util", "kadmin.local"),
        "apt-get install gcc krb5-admin-server krb5-kdc libkrb5-dev && .venv/bin/pip install '.[kerberos]'",
    ),
    "samba": Need((), ("samba", "samba-tool"), "apt-get install samba-ad-dc samba-ad-provision samba-dsdb-modules"),
}


@cache
def missing(need: str) -> tuple[str, ...]:
    """The packages and programs of a need that are not here."""
    packages, programs, _ = NEEDS[need]
    return (
        *(package for package in packages if find_spec(package) is None),
        *(program for program in programs if not any(map(shutil.which, program.split("|")))),
    )


def demanded() -> set[str]:
    """The needs that the environment names."""
    names = {name.strip() for name in os.environ.get(VARIABLE, "").split(",")} - {""}
    if unknown := sorted(names - NEEDS.keys()):
        raise pytest.UsageError(f"{VARIABLE} names {', '.join(unknown)}; known are {', '.join(sorted(NEEDS))}")
    return names


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(need): programs and packages that the test needs (tools/needs.py)")
    demanded()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures, which use what is needed."""
    for mark in item.iter_markers("needs"):
        (need,) = mark.args
        if lacking := missing(need):
            reason = f"needs {need}, and this computer lacks {', '.join(lacking)}: {NEEDS[need].remedy}"
            if need in demanded():
                pytest.fail(f"{reason}; {VARIABLE} demands it", pytrace=False)
            pytest.skip(reason)
