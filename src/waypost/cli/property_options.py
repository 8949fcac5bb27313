"""Options of the command line that come from the tables of waypost.api.properties."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Annotated, Any, Final, TypeAlias

import typer

from waypost.api.properties import Algorithm, Hash, Privacy
from waypost.api.rows import Kind, PropertyRow

# The properties that a command was given, by their names.
Given: TypeAlias = dict[str, Any]

_TYPES: Final[dict[Kind, Any]] = {
    Kind.TEXT: str,
    Kind.NUMBER: int,
    Kind.FLAG: bool,
    Kind.SECONDS: float,
    Kind.ACKNOWLEDGMENTS: str,
    Kind.QUEUES: list[str],
    Kind.DEAD_LETTER: bool,
    Kind.IDENTIFIER: str,
    # The name of a file that has them.
    Kind.BYTES: str,
    Kind.PUBLIC_QUEUE: str,
    Kind.MESSAGE_CLASS: int,
    Kind.GUID: str,
    # A number, or the word none.
    Kind.KILOBYTES: str,
    Kind.WORD: Privacy,
    Kind.MULTICAST: str,
}
# Properties of one kind with values of different types.
_NAMED_TYPES: Final[dict[str, Any]] = {
    "sign": bool,
    "certificate": str,
    "signature": int,
    "hash": Hash,
    "encrypt": bool,
    "algorithm": Algorithm,
}


def with_options(rows: Iterable[PropertyRow]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each row. It gets those that were used in its parameter `properties`."""
    wanted = tuple(rows)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*args: Any, **options: Any) -> None:
            properties: Given = {}
            for row in wanted:
                value = options.pop(row.name)
                if value not in (None, []):
                    properties[row.name] = _kilobytes(value) if row.kind is Kind.KILOBYTES else value
            command(*args, properties=properties, **options)

        signature = inspect.signature(command)
        parameters: list[inspect.Parameter] = []
        for each in signature.parameters.values():
            parameters += map(_parameter, wanted) if each.name == "properties" else (each,)
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def _parameter(row: PropertyRow) -> inspect.Parameter:
    value: Any = _NAMED_TYPES[row.name] if row.kind is Kind.PROTECTION else _TYPES[row.kind]
    limits = {"min": row.constraints.get("minimum"), "max": row.constraints.get("maximum")}
    option = typer.Option(
        *row.options,
        metavar=row.facts.metavar,
        help=row.help,
        show_default=False,
        **(limits if value in (int, float) else {}),  # type: ignore[arg-type]  # min and max
    )
    annotation = Annotated[value | None, option]
    return inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _kilobytes(text: str) -> int | None:
    if text.lower() == "none":
        return None
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a number of kilobytes nor 'none'")
    return int(text)
