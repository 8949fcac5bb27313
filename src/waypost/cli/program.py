"""Conventions of every command: stdout is for data, stderr for messages, and an error is one sentence, then a hint."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, NoReturn

import typer
from typer.core import TyperGroup

from waypost.api.excerpt import printable as printable

# The exit code that shells use for a program that SIGINT has ended.
INTERRUPTED: Final = 130
# The exit code for a damaged store (EX_DATAERR of sysexits.h): a restart does not help.
DAMAGED: Final = 65
# Messages, queues or seeds of one command: what it has done is in its memory.
MOST: Final = 10_000_000
# Characters of a sentence: names and values of a command line can be of any length.
_LONGEST: Final = 2000
# Set to see where something happened that should not.
_TRACEBACK: Final = "WAYPOST_TRACEBACK"


def bounded(text: str) -> str:
    """A sentence for a terminal: printable, and not too long to read."""
    # Most of a long text need not be looked at.
    shown = printable(text[: _LONGEST + 1])
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


class Failure(Exception):
    """A command failed, fully or in part: one sentence, a hint about what to do, and the exit code 1."""

    exit_code: ClassVar = 1

    def __init__(self, sentence: str, hint: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint

    def show(self) -> None:
        typer.echo(f"{bounded(self.sentence)}\nhint: {bounded(self.hint)}", err=True)


class Output:
    """Standard output. A failed write is a Failure; a reader who left (BrokenPipeError) ends the program."""

    def __init__(self) -> None:
        if sys.stdout is None:
            raise Failure("Standard output is closed.", "connect standard output to a terminal, a file or a pipe.")
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
            f"Cannot write to standard output: {error.strerror or error}.",
            "free disk space, or redirect the output to another file.",
        )


class Program(TyperGroup):
    """All commands together. Exit codes: that of a Failure, 2 for wrong usage, 130 if it was interrupted."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        try:
            _check_words(sys.argv[1:] if options.get("args") is None else options["args"])
            code = super().main(*args, **options | {"standalone_mode": False})
        except Failure as failure:
            failure.show()
            code = failure.exit_code
        except typer.Abort:
            code = INTERRUPTED
        except typer.TyperException as error:
            _wrong_usage(error, self.name or "").show()
            code = error.exit_code
        except Exception as error:  # a mistake of the program is a sentence, too
            if os.environ.get(_TRACEBACK):
                raise
            _unexpected(error).show()
            code = Failure.exit_code
        sys.exit(code)


def _check_words(words: Sequence[str]) -> None:
    """No operating system hands over such characters, and no name or path has one."""
    for word in words:
        if "\0" in word:
            raise typer.BadParameter(f"{word!r} contains a NUL character")
        try:
            # As bytes that are not UTF-8 come, which a path may have.
            word.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            raise typer.BadParameter(f"{word!r} is not text") from None


def _unexpected(error: Exception) -> Failure:
    if isinstance(error, MemoryError):
        return Failure("There is not enough memory for this command.", "process fewer messages at a time.")
    return Failure(
        f"Internal error in Waypost: {type(error).__name__}: {error}.",
        f"run the command again with {_TRACEBACK}=1 in its environment, and report the traceback.",
    )


def _wrong_usage(error: typer.TyperException, program: str) -> Failure:
    # pydantic, with which typer checks values, says so of a choice.
    sentence = error.format_message().replace("Value error, ", "").replace("Input should be", "must be")
    # It says the same twice of a number.
    sentence = sentence.partition(", unable to parse")[0]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else program
    hint = f"{command} --help shows the usage."
    return Failure(sentence if sentence.endswith((".", "?")) else f"{sentence}.", hint)
