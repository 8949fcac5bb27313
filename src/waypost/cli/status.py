"""`waypost status`, `waypost explain` and `waypost doctor`: what the queue manager says about itself."""

from typing import Annotated

import typer

from waypost.cli.asking import say
from waypost.cli.completion import queue_names
from waypost.cli.daemon import Json, session
from waypost.cli.program import Output, printable
from waypost.cli.progress import waiting
from waypost.cli.status_page import status_page
from waypost.cli.tables import write_json, write_table


def status(context: typer.Context, *, as_json: Json = False) -> None:
    """Show the name and the GUID of the queue manager, with its listeners, queues and sessions.

    \b
    waypost status
    waypost --url http://10.0.0.2:8181 status --json
    """
    out = Output()
    with session(context) as manager:
        found = manager.status()
    if as_json:
        write_json(out, found.to_dict())
    else:
        for line in status_page(found):
            out.write(f"{printable(line)}\n")
    out.flush()


def explain(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGE_ID|QUEUE",
            help="Id of a message ({guid}\\number), or name of a queue.",
            show_default=False,
            autocompletion=queue_names,
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Explain why a message has not been delivered or received, or why the messages in a queue are waiting.

    If you specify the id of a message, the command looks for the message in all queues. If the message is not in a
    queue, the queue manager might remember why it refused the message, or to which host it sent the message. The
    command then shows this information. The exit code is 1 if the message or the queue does not exist.

    \b
    waypost explain '{1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11}\\7'
    waypost explain 'DIRECT=OS:other\\private$\\orders'
    """
    out = Output()
    with session(context) as manager, waiting("looking for it"):
        explanation = manager.explain(subject)
    if as_json:
        write_json(out, explanation.to_dict())
    else:
        for sentence in explanation.sentences:
            out.write(f"{printable(sentence)}\n")
    out.flush()
    raise typer.Exit(0 if explanation.found else 1)


def doctor(context: typer.Context, *, as_json: Json = False) -> None:
    """Check for problems with ports, names, addresses, duplicate queue manager ids, the store and permissions.

    The command also lists queues above 80 % of their quota, dead-letter messages, and messages that were received and
    returned many times. It also reports messages that have waited for more than 7 days, and an HTTP certificate that
    expires soon. The exit code is 1 if a check finds a problem.

    \b
    waypost doctor
    """
    out = Output()
    with session(context) as manager, waiting("running the checks"):
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
    if wrong := sum(not each.ok for each in checks):
        say(f"{wrong} of {len(checks)} checks found a problem.")
    raise typer.Exit(0 if all(each.ok for each in checks) else 1)
