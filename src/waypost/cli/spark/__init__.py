"""`waypost spark ...`: pipelines over whole queues. A verb is loaded when it is asked for, and Spark when it runs."""

from typing import ClassVar, Final

import typer

from waypost.cli.verbs import Verb, Verbs

# In the order of the help.
VERBS: Final = {
    "archive": Verb("waypost.cli.spark.archive:archive", "Archive the messages of queues into files."),
    "deadletters": Verb(
        "waypost.cli.spark.deadletters:deadletters",
        "Show why messages became dead-letter messages, and resend, park or drop these messages.",
    ),
    "audit": Verb("waypost.cli.spark.audit:audit", "Find messages that are lost, late or duplicated."),
    "trace": Verb("waypost.cli.spark.trace:trace", "Show the routes of traced messages."),
    "decode": Verb("waypost.cli.spark.decode:decode", "Decode captures and raw packets into columns."),
    "replay": Verb("waypost.cli.spark.replay:replay", "Send archived messages again."),
    "inventory": Verb(
        "waypost.cli.spark.inventory:inventory", "Report the sizes, ages, rates and kinds of messages in queues."
    ),
}


class Pipelines(Verbs):
    verbs: ClassVar = VERBS


app = typer.Typer(cls=Pipelines, add_completion=False, rich_markup_mode=None)


@app.callback()
def _spark() -> None:
    """Find lost messages, and audit, archive, inspect and resend whole queues with Spark.

    Every command prints a summary and writes a report (Markdown, HTML and CSV). To install the required packages, run
    pip install 'waypost[spark]'.
    """
