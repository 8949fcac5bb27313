"""Text of the code as Markdown: escapes, tables, docstrings."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

MADE: Final = "<!-- Generated from the code by .venv/bin/python -m tools.reference. -->\n"

_CODE: Final = re.compile(r"(`[^`]*`)")
_SPECIAL: Final = re.compile(r"([<*])|(?<!\w)_|_(?!\w)")
# A name and its meaning, in the columns of a docstring.
_ENTRY: Final = re.compile(r"^(\w+) {2,}(\S.*)$")


def prose(text: str) -> str:
    """Text that shows as it is, with its `code`."""
    parts = _CODE.split(text)
    return "".join(
        part if number % 2 else _SPECIAL.sub(lambda found: f"\\{found[0]}", part) for number, part in enumerate(parts)
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; cells are Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        cells = (" ".join(re.sub(r"(?<!\\)\|", r"\\|", cell).split()) for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""


def docstring(text: str) -> Iterator[str]:
    """The lines of a cleaned docstring: paragraphs, code that is indented, and tables of names with their meanings."""
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = part.splitlines()
        if all(line.startswith("    ") for line in lines):
            yield from ("```py", *(line[4:] for line in lines), "```", "")
        elif _ENTRY.match(lines[0]):
            yield from table(("property", "meaning"), _entries(lines))
        else:
            yield prose(" ".join(line.strip() for line in lines))
            yield ""


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    name, words = "", ""
    for line in lines:
        found = _ENTRY.match(line)
        if found is None:
            words = f"{words} {line.strip()}"
            continue
        if name:
            yield f"`{name}`", prose(words)
        name, words = found[1], found[2]
    yield f"`{name}`", prose(words)
