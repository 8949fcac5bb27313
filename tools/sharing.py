"""A pytest plugin that assigns tests to workers: those of one file share one, and all of Spark, for its one session.

It takes the place of pytest-xdist's `--dist loadfile`. (The marks of `--dist loadgroup` do nothing with pytest 9.2.)
"""

from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling

SHARED: Final = "tests/spark/"


class Sharing(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A scope is what one worker runs."""

    def _split_scope(self, nodeid: str) -> str:
        return SHARED if nodeid.startswith(SHARED) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing | None:
    return Sharing(config, log) if config.getvalue("dist") == "loadfile" else None
