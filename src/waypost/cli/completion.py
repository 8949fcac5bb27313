"""Completion of the names of queues in a shell."""

import re
from contextlib import suppress
from typing import Final

import typer

import waypost
from waypost.cli.program_options import target_of
from waypost.errors import WaypostError

_SECONDS: Final = 2.0
# A shell would take other names apart: they have to be quoted, and then nothing is completed.
_PLAIN: Final = re.compile(r"[\w.@%+,-]+", re.ASCII)


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """The queues of the daemon. Without one there are none: a shell that completes a line shows no error."""
    target = target_of(context)
    with (
        suppress(WaypostError, OSError),
        waypost.connect(target.url, token=target.token, cacert=target.cacert, timeout=_SECONDS) as manager,
    ):
        names = (queue.name for queue in manager.queues())
        return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]
    return []
