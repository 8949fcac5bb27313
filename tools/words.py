"""Find sentences that are hard to read, in texts for people: documents, help, errors, logs, docstrings and comments.

`python -m tools.words [PATH ...]` lists them, one a line; without a path it reads the whole project. The test of it
(tests/test_words.py) demands an empty list. Identifiers are not read, nor is code in documents.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PYTHON: Final = ("src", "tests", "tools", "bench", "fuzz", "examples")

SCRIPTS: Final = ("Makefile", "tools/*.sh", "packaging/*", ".ci/*")
# These hold the patterns, and examples of bad sentences.
EXEMPT: Final = (
    *("tools/words.py", "tests/test_words.py"),
    # These repeat labels that stand in data folders of older versions.
    *(f"tests/upgrade/{name}.py" for name in ("make_folders", "make_format_1", "test_format_1", "test_upgrade")),
)

# Letters of the alphabet are letters; a message in a dead-letter queue is a dead-letter message.
_ALPHABET: Final = r"(?!-spacing)(?!,? (?:and |or |by )?(?:digit|case|letter|of the alphabet|number|underscore))"
_OF_THE_ALPHABET: Final = (
    r"(?i:(?<!dead-)(?<!drive )(?<!capital )(?<!the )(?<!small )(?<!any )(?<!first )(?<!digits and )(?<!case )(?<!by ))"
)

# The first word of a sentence that is not a question.
_SENTENCE_STARTS: Final = r"(?:\A|(?<=[.!?] )|(?<=\n\n)|(?<=\n- )|(?<=[.!?]\n))"
_NOT_A_QUESTION: Final = r"(?=[^?]*(?:\Z|[.!;:](?:\s|\Z)))"
# "How to do it" is a fine heading.
_NOT_A_HEADING: Final = r"(?! to\b[^.]{0,40}\Z)"

PATTERNS: Final[dict[str, re.Pattern[str]]] = {
    "say 'not a', 'does not exist' or 'missing'": re.compile(
        r"\b(?:is|are|was|were|be) no\b(?! longer| more| less| (?:larger|later|earlier|older|newer) than)"
    ),
    "say what does not work, or who must do what": re.compile(r"\bcannot be\b"),
    "name the thing": re.compile(r"\bthat there (?:is|are)\b"),
    "say 'cannot change later', or a time": re.compile(r"\bfor ever\b|\bforever\b"),
    "say 'again' or 'new'": re.compile(r"\banew\b"),
    "say 'default is X'": re.compile(r"\bunless given\b"),
    "say 'shows', 'reports' or 'says'": re.compile(r"\btells\b"),
    "say 'three times'": re.compile(r"\bthrice\b"),
    "say 'own', 'separate' or nothing": re.compile(r"\bof (?:its|their) own\b"),
    "say 'dead-letter message'": re.compile(rf"\bdead letters?\b|{_OF_THE_ALPHABET}\bletters?\b{_ALPHABET}"),
    "name the thing, then the verb": re.compile(
        rf"{_SENTENCE_STARTS}(?:[Ww]ho|[Ww]hoever|[Ww]hat|[Ww]hatever|[Ww]hich|[Hh]ow)\b{_NOT_A_QUESTION}{_NOT_A_HEADING}"
    ),
}

_FENCED: Final = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence that breaks a rule."""

    path: Path
    line: int
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.text!r}: {self.advice}"


def findings(paths: list[Path]) -> Iterator[Finding]:
    """Every sentence in these files that breaks a rule."""
    for path in paths:
        for line, text in texts(path):
            for advice, excerpt in judged(text):
                yield Finding(path, line, excerpt, advice)


def judged(text: str) -> Iterator[tuple[str, str]]:
    """The advice and the words around each break of a rule in one text."""
    for advice, pattern in PATTERNS.items():
        for match in pattern.finditer(text):
            excerpt = text[max(0, match.start() - 30) : match.end() + 30]
            yield advice, re.sub(r"\s+", " ", excerpt).strip()


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file, each with its line."""
    source = path.read_text("utf-8")
    match path.suffix:
        case ".py":
            yield from _strings(source)
            yield from _comments(source)
        case ".md":
            yield from _paragraphs(source)
        case _:
            yield from _script_lines(source)


def _strings(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings and literals of several words; an f-string counts as one text."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            inside.update(id(part) for part in node.values)
            text = "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield node.lineno, _joined(text)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments, lines below each other as one text."""
    start, block, last = 0, "", -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, words = token.start[0], token.string.lstrip("#: ")
        if line != last + 1 and block:
            yield start, block
            block = ""
        start, block, last = (start if block else line), f"{block} {words}".strip(), line
    if block:
        yield start, block


def _paragraphs(source: str) -> Iterator[tuple[int, str]]:
    """The prose of a document: no fenced code, no code in a line, no addresses of links."""
    prose = _FENCED.sub(lambda code: "\n" * code[0].count("\n"), source)
    at = 1
    for paragraph in re.split(r"\n(?=\s*\n|\s*[-*|#] |\s*\d+\. |\|)", prose):
        text = re.sub(r"`[^`]*`", "`code`", paragraph)
        text = re.sub(r"\]\([^)]*\)", "]", text)
        for cell in text.split("|") if text.lstrip().startswith("|") else [text]:
            words = re.sub(r"\A[\s>#*|-]+|\A\s*\d+\. ", "", _joined(cell))
            if " " in words:
                yield at + len(paragraph) - len(paragraph.lstrip("\n")), words
        at += paragraph.count("\n") + 1


def _script_lines(source: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.splitlines(), 1):
        words = line.lstrip("#@ \t")
        if " " in words:
            yield number, words


def _joined(text: str) -> str:
    """Single line ends as spaces; empty lines and bullets begin something new."""
    return re.sub(r"[ \t]*\n[ \t]*(?!\n|- )(?<!\n\n)", " ", re.sub(r"\n[ \t]+", "\n", text)).strip()


def project() -> list[Path]:
    """All files with texts for people."""
    found = {path for part in PYTHON for path in (ROOT / part).rglob("*.py")}
    found |= set(ROOT.glob("*.md")) | set((ROOT / "docs").rglob("*.md"))
    found |= {path for pattern in SCRIPTS for path in ROOT.glob(pattern)}
    return sorted(path for path in found if str(path.relative_to(ROOT)) not in EXEMPT)


def main(arguments: list[str]) -> int:
    """List the findings; 1 if there are any."""
    named = [ROOT / name for name in arguments]
    paths = [path for path in project() if any(path.is_relative_to(each) for each in named)] if named else project()
    found = list(findings(paths))
    for each in found:
        print(each)
    print(f"{len(found)} in {len({each.path for each in found})} of {len(paths)} files", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
