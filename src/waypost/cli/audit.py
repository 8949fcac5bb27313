"""`waypost audit`: who changed what, from where, and what was refused."""

import json
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from waypost.api.times import iso_8601
from waypost.cli.daemon import Json, session
from waypost.cli.program import Output
from waypost.cli.tables import write_json, write_table

if TYPE_CHECKING:
    from waypost import AuditEntry

_COLUMNS: Final = ("TIME", "WHO", "FROM", "WHAT", "OBJECT", "COUNT", "RESULT")
_LOOK_SECONDS: Final = 0.5


def audit(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Number of entries to show.")] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new entries as they are written, until you press Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the audit trail, which contains all changes and refused requests, with the user, the origin and the result.

    The oldest entry comes first. With --follow and --json, each entry is one line.

    \b
    waypost audit --limit 20
    waypost audit --follow --json
    """
    out = Output()
    with session(context) as manager:
        found = manager.audit(limit=limit)
        if as_json and not follow:
            write_json(out, [entry.to_dict() for entry in found])
        else:
            _write(out, found, as_json=as_json)
        out.flush()
        last = found[-1].number if found else -1
        while follow:
            new = [entry for entry in manager.audit(limit=1000, after=max(last, 0)) if entry.number > last]
            if not new:
                time.sleep(_LOOK_SECONDS)
                continue
            _write(out, new, as_json=as_json)
            out.flush()
            last = new[-1].number


def _write(out: Output, entries: "list[AuditEntry]", *, as_json: bool) -> None:
    if as_json:
        for entry in entries:
            out.write(json.dumps(entry.to_dict()) + "\n")
    else:
        write_table(out, _COLUMNS, [_row(entry) for entry in entries])


def _row(entry: "AuditEntry") -> tuple[object, ...]:
    return (
        *(iso_8601(entry.time), entry.who, entry.origin, entry.what, entry.object or None, entry.count),
        entry.result,
    )
