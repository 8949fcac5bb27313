"""How every command speaks: stdout is data, stderr is talk, and what goes wrong is one sentence, then a hint."""

import os
import sys
from contextlib import suppress
from typing import Any, ClassVar, Final, NoReturn

import typer
from typer.core import TyperGroup

from waypost.api.excerpt import printable as printable

# What shells say of a program that SIGINT has ended.
INTERRUPTED: Final = 130
# What it says of a store that is damaged (EX_DATAERR of sysexits.h): to start it again would not help.
DAMAGED: Final = 65
# Options that stand before the verb, and that people put behind it.
_OF_THE_PROGRAM: Final = ("--url", "--token")


class Failure(Exception):
    """A command cannot do its work, or a part of it: one sentence, and a hint what to do. 1 is its exit code."""

    exit_code: ClassVar = 1

    def __init__(self, sentence: str, hint: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint

    def show(self) -> None:
        typer.echo(f"{printable(self.sentence)}\nhint: {self.hint}", err=True)


class Output:
    """Standard output. What cannot be written is a Failure; a reader who left (BrokenPipeError) ends the program."""

    def __init__(self) -> None:
        if sys.stdout is None:
            raise Failure("Standard output is closed.", "let it go to a terminal, a file or a pipe.")
        self._stream = sys.stdout

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except OSError as error:
            raise self._failure(error) from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise self._failure(error) from None

    def _failure(self, error: OSError) -> Exception:
        if isinstance(error, BrokenPipeError):
            return error
        # Python writes what is left when it ends, and would complain once more.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        return Failure(
            f"Standard output cannot be written: {error.strerror or error}.", "make room, or write to another place."
        )


class Program(TyperGroup):
    """All commands together. Exit codes: that of a Failure, 2 for wrong usage, 130 if it was interrupted."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        try:
            code = super().main(*args, **options | {"standalone_mode": False})
        except Failure as failure:
            failure.show()
            code = failure.exit_code
        except typer.Abort:
            code = INTERRUPTED
        except typer.TyperException as error:
            _wrong_usage(error, self.name or "").show()
            code = error.exit_code
        sys.exit(code)


def _wrong_usage(error: typer.TyperException, program: str) -> Failure:
    # pydantic, with which typer checks values, says so of a choice.
    sentence = error.format_message().replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    command = context.command_path if context else program
    hint = f"{command} --help tells the usage."
    option = getattr(error, "option_name", "")
    if option in _OF_THE_PROGRAM:
        hint = f"put {option} before the verb: {program} {option} ... {command.removeprefix(program).strip()}"
    return Failure(sentence if sentence.endswith((".", "?")) else f"{sentence}.", hint)
