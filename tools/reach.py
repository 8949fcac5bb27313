"""Tests that go through a whole queue manager, to code that a user can switch on.

tests/ledger/reach.toml names the folders whose tests drive a node, a daemon or a client, and the modules that no user
can reach yet, each with the reason. A test reaches the product if it lives in such a folder and neither it nor a helper
that it uses takes anything from such a module. It is read from the source of the test, without running it.
"""

import ast
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Self

REACH: Final = "reach.toml"


@dataclass(frozen=True, slots=True)
class Source:
    """One module: the sources of its imported names, and the names that each of its definitions uses."""

    imports: Mapping[str, str]
    uses: Mapping[str, frozenset[str]]

    @classmethod
    def read(cls, path: Path) -> Self:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports: dict[str, str] = {}
        uses: dict[str, frozenset[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                imports |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                imports |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        for node in tree.body:
            for name in _defined(node):
                uses[name] = frozenset(_names(node))
        return cls(imports, uses)

    def modules_of(self, name: str) -> set[str]:
        """The imports behind a definition, also by way of other definitions of the module (fixtures too)."""
        seen, waiting = set[str](), [name]
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting += self.uses.get(each, ())
        return {self.imports[each] for each in seen if each in self.imports}


def _defined(node: ast.stmt) -> Iterable[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _names(node: ast.AST) -> Iterable[str]:
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) | ast.arg(arg=name):
                yield name
            case ast.Constant(value=str(text)) if text.isidentifier():
                # A fixture may be named by its text alone.
                yield text


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """`root` is the folder of the project. `unreachable` has the reason for each module."""

    root: Path
    folders: tuple[str, ...] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path, ledger: Path) -> Self:
        """Without reach.toml every test counts."""
        path = root / ledger / REACH
        if not path.exists():
            return cls(root, ("",))
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(root, tuple(given["folders"]), given["unreachable"])

    def is_reached_by(self, test: str) -> bool:
        """`test` is a node id of pytest: FILE::NAME..."""
        file, _, name = test.partition("::")
        if not any(file.startswith(folder) for folder in self.folders):
            return False
        source = _source(self.root / file)
        modules = source.modules_of(name.partition("::")[0].partition("[")[0])
        return not any(map(self._is_unreachable, modules))

    def _is_unreachable(self, name: str) -> bool:
        if name.startswith("tests."):
            return self._helper_is_unreachable(name)
        return any(name == module or name.startswith(f"{module}.") for module in self.unreachable)

    def _helper_is_unreachable(self, name: str) -> bool:
        """`name` is a definition in a helper module of the tests, or the module itself."""
        module, _, definition = name.rpartition(".")
        path = self.root / f"{module.replace('.', '/')}.py"
        if path.exists():
            modules = _source(path).modules_of(definition)
        else:
            path = self.root / f"{name.replace('.', '/')}.py"
            modules = set(_source(path).imports.values()) if path.exists() else set()
        return any(map(self._is_unreachable, modules))


@cache
def _source(path: Path) -> Source:
    return Source.read(path)
