"""Questions before something is deleted or sent again, and what was done, in numbers."""

import sys
from typing import Annotated

import typer

from waypost.cli.program import Failure, printable

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt, which appears only on a terminal.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the number of affected messages without changing anything.")
]


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def is_asked() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str, *, yes: bool) -> None:
    """Ask for confirmation. Raises Failure unless the answer is yes. Without a terminal, nothing is asked."""
    if not yes and not _agreed(question):
        raise Failure("Nothing was changed.", "answer y to the prompt, or add --yes.")


def _agreed(question: str) -> bool:
    if not is_asked():
        return True
    # Standard output is for data.
    typer.echo(f"{printable(question)} [y/N]: ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def say(sentence: str) -> None:
    """To standard error, which is for talk."""
    typer.echo(printable(sentence), err=True)
