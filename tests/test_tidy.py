"""What the linters cannot say about the source: pure layers stay pure, files stay small, nothing is left to do."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/waypost"
SOURCES = sorted(PACKAGE.rglob("*.py"))
OUR_FILES = [
    path for part in ("src", "tests", "tools", "bench", "fuzz") for path in sorted((ROOT / part).rglob("*.py"))
]

PURE = {"wire", "core", "transfer", "routing", "rpc", "remote", "store", "node", "security"}
WORDS = {"errors.py", "hresult.py", "limits.py", "guid.py", "clock.py"}
ENGINE = "store/lmdb.py"

# What a pure layer must not import, and what it uses instead.
EFFECTS = "hand out an effect; the daemon and the simulator carry it out"
CLOCK = "take `now: Now` (waypost.clock) as an argument"
CHANCE = "use the generator that the node is given"
STORE = "go through the store port"
INSTEAD = {
    "asyncio": EFFECTS,
    "socket": EFFECTS,
    "threading": EFFECTS,
    "logging": EFFECTS,
    "time": CLOCK,
    "random": CHANCE,
    "secrets": CHANCE,
    "uuid": "keep GUIDs as 16 bytes (waypost.guid); for a new one " + CHANCE,
    "os": STORE,
    "pathlib": STORE,
}

MAX_LINES = 450


def is_pure(path: Path) -> bool:
    inside = path.relative_to(PACKAGE)
    return str(inside) in WORDS or (inside.parts[0] in PURE and str(inside) != ENGINE)


def impurities(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the complaint for everything in `tree` that reaches outside."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for module in imported(node) & INSTEAD.keys():
                yield node.lineno, f"a pure layer imports {module}; {INSTEAD[module]}"
        elif isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
            owner = ast.unparse(node.value).rpartition(".")[2]
            if owner in {"datetime", "date"}:
                yield node.lineno, f"a pure layer calls {owner}.{node.attr}; {CLOCK}"


def imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    """The top-level modules that an import statement names."""
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return {name.partition(".")[0] for name in names}


def hidden_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield node.lineno, "an import in a function hides a cycle; move it up, or what both sides need down"


def complaints(paths: list[Path], check: Callable[[ast.Module], Iterator[tuple[int, str]]]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {complaint}"
        for path in paths
        for line, complaint in check(ast.parse(path.read_text(encoding="utf-8")))
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


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "from random import Random",
        "from datetime import datetime\ndef f(): return datetime.now()",
        "import datetime\ndatetime.date.today()",
        "def f():\n import socket",
    ],
)
def test_the_check_sees_what_reaches_outside(source: str) -> None:
    assert len(list(impurities(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source", ["import struct", "from waypost.clock import Now", "def f(clock): return clock.now()"]
)
def test_the_check_lets_the_rest_pass(source: str) -> None:
    assert list(impurities(ast.parse(source))) == []


def test_the_check_sees_a_hidden_import() -> None:
    assert [line for line, _ in hidden_imports(ast.parse("import a\nclass C:\n def f(self):\n  from b import c"))] == [
        4
    ]
