"""`waypost status`, `waypost explain` and `waypost doctor`: what the queue manager says about itself."""

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from waypost.cli.daemon import Json, session
from waypost.cli.program import Output, printable
from waypost.cli.tables import write_json, write_pairs, write_table


def status(context: typer.Context, *, as_json: Json = False) -> None:
    """Show the queue manager: its name and identifier, where it listens, its queues and sessions.

    \b
    waypost status
    waypost --url http://10.0.0.2:8181 status --json
    """
    out = Output()
    with session(context) as manager:
        answer = manager.status().to_dict()
    if as_json:
        write_json(out, answer)
    else:
        write_pairs(out, list(_flat(answer)))
    out.flush()


def explain(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGE_ID|QUEUE", help="The id of a message, {guid}\\number, or a queue.", show_default=False
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Say why a message does not move, or what keeps the messages of a queue where they are.

    A message is found in every queue. Of one that is in none, the command shows what is remembered: why it was not
    taken on arrival, or to which host it was handed. The exit code is 1 if there is no such message or queue.

    \b
    waypost explain '{1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11}\\7'
    waypost explain 'DIRECT=OS:other\\private$\\orders'
    """
    out = Output()
    with session(context) as manager:
        explanation = manager.explain(subject)
    if as_json:
        write_json(out, explanation.to_dict())
    else:
        for sentence in explanation.sentences:
            out.write(f"{printable(sentence)}\n")
    out.flush()
    raise typer.Exit(0 if explanation.found else 1)


def doctor(context: typer.Context, *, as_json: Json = False) -> None:
    """Look for what is wrong: ports, names, addresses, duplicate queue manager ids, the store, permissions.

    The exit code is 1 if something has to be mended.

    \b
    waypost doctor
    """
    out = Output()
    with session(context) as manager:
        checks = manager.doctor()
    if as_json:
        write_json(out, {"checks": [each.to_dict() for each in checks]})
    else:
        rows = [(each.check, "ok" if each.ok else "WRONG", each.message) for each in checks]
        write_table(out, ("CHECK", "", "FINDING"), rows)
    out.flush()
    for each in checks:
        if each.hint:
            typer.echo(printable(f"hint: {each.check}: {each.hint}"), err=True)
    raise typer.Exit(0 if all(each.ok for each in checks) else 1)


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """The values with dots in the names of what is in parts. A part of a list is known by its `name`."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            for each in value:
                rest = dict(each)
                yield from _flat(rest, f"{prefix}{name}.{rest.pop('name', '')}.")
        else:
            yield f"{prefix}{name}", value
