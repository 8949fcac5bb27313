"""Rules beyond the linters: pure layers stay pure, files stay small, nothing is left to do, citations are right."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/waypost"
SOURCES = sorted(PACKAGE.rglob("*.py"))
OUR_FILES = [
    path
    for part in ("src", "tests", "tools", "bench", "fuzz", "examples")
    for path in sorted((ROOT / part).rglob("*.py"))
]

PURE = {"api", "wire", "core", "transfer", "routing", "rpc", "remote", "directory", "store", "node", "security"}
WORDS = {"errors.py", "hresult.py", "limits.py", "guid.py", "clock.py", "timers.py"}
ENGINE = (
    *("store/lmdb.py", "store/lmdb_reading.py", "store/folder.py", "store/upgrade.py"),
    *("store/page_file.py", "store/start_check.py", "store/space.py"),
)

# The modules that a pure layer may import besides its own package.
HARMLESS = {
    *("__future__", "abc", "array", "base64", "binascii", "bisect", "codecs", "collections", "contextlib", "copy"),
    *("cryptography", "dataclasses", "datetime", "decimal", "enum", "errno", "fnmatch", "functools", "hashlib"),
    *(
        "heapq",
        "hmac",
        "html",
        "ipaddress",
        "itertools",
        "math",
        "msgspec",
        "operator",
        "re",
        "string",
        "struct",
        "types",
    ),
    *("typing", "unicodedata", "urllib.parse", "waypost", "weakref", "xml.parsers.expat", "xxhash", "zlib"),
}

# The replacements for the rest.
EFFECTS = "hand out an effect; the daemon and the simulator carry it out"
CLOCK = "take `now: Now` (waypost.clock) as an argument"
CHANCE = "use the generator that the node is given"
STORE = "go through the store port"
REVIEW = "if it knows no outside, no clock and no chance, add it to HARMLESS in tests/test_tidy.py"
INSTEAD = {
    **dict.fromkeys(("asyncio", "concurrent", "http", "io", "logging", "multiprocessing", "select", "signal"), EFFECTS),
    **dict.fromkeys(("socket", "ssl", "subprocess", "sys", "threading", "urllib"), EFFECTS),
    **dict.fromkeys(("lmdb", "os", "pathlib", "shutil", "tempfile"), STORE),
    **dict.fromkeys(("random", "secrets"), CHANCE),
    "time": CLOCK,
    "uuid": "keep GUIDs as 16 bytes (waypost.guid); for a new one " + CHANCE,
}

# Names that it must not even use: of builtins, and of modules that are harmless otherwise.
FORBIDDEN = {
    **dict.fromkeys(("open", "print", "input", "breakpoint", "eval", "exec", "__import__", "codecs.open"), EFFECTS),
    **dict.fromkeys(("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today"), CLOCK),
    "datetime.date.today": CLOCK,
}

MAX_LINES = 600

NODE = "waypost.node.node"

# `readings MQRR 3.24`, and several as `readings MQQB 1, MQMQ 3.1`: the lookahead refuses what would go on otherwise.
READING = r"(?:MQMQ|MQQB|MQRR|MQDMPR|MQQP) \d(?!\d)(?:\.(?:\d+|[A-Z]{1,2}\b))?"
CITATION = re.compile(
    rf"readings (?>({READING}(?:, {READING})*))(?!(?:,| and) (?:{READING}|\d\.\w|[A-Z]{{1,2}}\b(?!-)))"
)


def is_pure(path: Path) -> bool:
    inside = path.relative_to(PACKAGE)
    return str(inside) in WORDS or (inside.parts[0] in PURE and str(inside) not in ENGINE)


def impurities(source: str) -> Iterator[tuple[int, str]]:
    """The line and the complaint for everything that reaches outside."""
    tree = ast.parse(source)
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            paths = imported(node)
            for module in sorted({path.partition(".")[0] for path in paths if not is_harmless(path)}):
                yield node.lineno, f"a pure layer imports {module}; {INSTEAD.get(module, REVIEW)}"
            for alias, path in zip(node.names, paths, strict=True):
                is_bare = isinstance(node, ast.Import) and alias.asname is None
                origins[alias.asname or alias.name.partition(".")[0]] = path.partition(".")[0] if is_bare else path
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node, origins)) in FORBIDDEN:
            yield node.lineno, f"a pure layer uses {name}; {FORBIDDEN[name]}"


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules that the names of an import statement stand for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    module = "waypost" if node.level else node.module
    return [f"{module}.{alias.name}" for alias in node.names]


def is_harmless(path: str) -> bool:
    return any(f"{path}.".startswith(f"{module}.") for module in HARMLESS)


def dotted(node: ast.expr, origins: dict[str, str]) -> str:
    """`dt.now` as datetime.datetime.now, if `dt` was imported so."""
    match node:
        case ast.Name(id=name):
            return origins.get(name, name)
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value, origins)}.{attr}"
        case _:
            return ""


def hidden_imports(source: str) -> Iterator[tuple[int, str]]:
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield node.lineno, "an import in a function hides a cycle; move it up, or what both sides need down"


def miscitations(source: str) -> Iterator[tuple[int, str]]:
    """The line and the complaint for every citation of a reading that has another form or names none."""
    for word in re.finditer(r"(?<!/)\breadings\b", source, re.IGNORECASE):
        line = source.count("\n", 0, word.start()) + 1
        # A citation may run over the end of a line, in a docstring or a comment.
        citation = CITATION.match(re.sub(r"\n *(# )?", " ", source[word.start() :][:200]))
        if citation is None:
            yield line, "a reading is cited by document and number: `readings MQRR 3.24`, `readings MQQB 1, MQMQ 3.1`"
        else:
            for reading in set(citation[1].split(", ")).difference(readings()):
                yield line, f"docs/readings.md has no {reading}"


def readings() -> list[str]:
    return re.findall(rf"^- \*\*({READING})\*\* ", (ROOT / "docs/readings.md").read_text("utf-8"), re.MULTILINE)


def complaints(paths: list[Path], check: Callable[[str], Iterator[tuple[int, str]]]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {complaint}"
        for path in paths
        for line, complaint in check(path.read_text(encoding="utf-8"))
    ]


def test_pure_layers_reach_nothing_outside() -> None:
    assert complaints([path for path in SOURCES if is_pure(path)], impurities) == []


def test_imports_stand_at_the_top() -> None:
    assert complaints(SOURCES, hidden_imports) == []


def test_no_file_is_too_long() -> None:
    long = [path for path in SOURCES if len(path.read_text(encoding="utf-8").splitlines()) > MAX_LINES]
    assert long == [], "a file that has more than one reason to change is two files"


def test_nothing_is_left_to_do() -> None:
    note = re.compile(r"\b(TO[D]O|FIX[M]E)\b")
    assert [path for path in OUR_FILES if note.search(path.read_text(encoding="utf-8"))] == []


def test_readings_are_cited_in_one_form_and_exist() -> None:
    assert complaints([path for path in OUR_FILES if path != Path(__file__)], miscitations) == []


def test_a_reading_is_listed_once() -> None:
    assert len(readings()) == len(set(readings())) > 0


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "import io",
        "import sys",
        "import subprocess, struct",
        "import somebody_elses_package",
        "from random import Random, choice",
        "from concurrent.futures import ThreadPoolExecutor",
        "from urllib import request",
        "import urllib.request as r",
        "from datetime import datetime\ndef f(): return datetime.now()",
        "from datetime import datetime as dt\ndef f(): return dt.now()",
        "from datetime import datetime\nclock = datetime.utcnow",
        "import datetime\ndatetime.date.today()",
        "import datetime as d\nd.datetime.today()",
        "import codecs as c\nc.open('x')",
        "def f():\n import socket",
        "def f(): return open('x')",
        "write = print",
        "input()",
    ],
)
def test_the_check_sees_what_reaches_outside(source: str) -> None:
    assert len(list(impurities(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import struct",
        "import collections.abc",
        "import urllib.parse",
        "from urllib.parse import unquote",
        "from waypost.clock import Now",
        "from . import codec",
        "from datetime import datetime\ndatetime.fromtimestamp(0)",
        "def f(clock): return clock.now()",
        "def f(queue): return queue.open()",
    ],
)
def test_the_check_lets_the_rest_pass(source: str) -> None:
    assert list(impurities(source)) == []


def test_the_check_sees_a_hidden_import() -> None:
    assert [line for line, _ in hidden_imports("import a\nclass C:\n def f(self):\n  from b import c")] == [4]


@pytest.mark.parametrize(
    "citation",
    [
        "readings 24",
        "Readings MQRR 3.24",
        "readings, MQRR 3.24",
        "readings MQRR 24",
        "readings MQRR 3.99",
        "readings MQQB B13",
        "readings MQMQ 3.9, 3.19",
        "readings MQMQ 3.9 and MQMQ 3.19",
        "readings MQDMPR 3.F and G",
        "readings MQDMPR 3.O, Z",
    ],
)
def test_the_check_sees_a_wrong_citation(citation: str) -> None:
    assert [line for line, _ in miscitations(f"first = 1\n# {citation}: so it is.\n")] == [2]


@pytest.mark.parametrize(
    "citation",
    [
        "(readings MQRR 3.24)",
        "readings MQRR 5.",
        "readings MQQB 1, MQMQ 3.1: so it is",
        "readings MQDMPR 3.A, MS-MQRR 2.2.5.1",
        "readings\n    # MQMQ 3.19",
        "docs/readings.md",
    ],
)
def test_the_check_lets_a_right_citation_pass(citation: str) -> None:
    assert list(miscitations(f"# {citation}\n")) == []


def imports_of(module: str) -> set[str]:
    """The modules of the package that a module names in its imports, also of those for the type checker alone."""
    path = ROOT / "src" / Path(*module.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8"))
    froms = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and each.module is not None]
    names = {f"{each.module}.{alias.name}" for each in froms for alias in each.names}
    return {
        name
        for name in {*names, *(str(each.module) for each in froms)}
        if (ROOT / "src" / Path(*name.split("."))).with_suffix(".py").exists()
    }


def test_nothing_that_the_node_is_made_of_knows_the_node() -> None:
    below: set[str] = set()
    found = imports_of(NODE)
    while found:
        below |= found
        found = {name for each in found for name in imports_of(each)} - below
    assert {"waypost.node.kernel", "waypost.node.claims", "waypost.node.network.arrivals"} <= below
    assert NODE not in below
