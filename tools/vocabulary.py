"""Measure what a reader of the code has to walk through, and print it as a table: `make vocabulary`.

The walks are those of one message in a running daemon (tools/walk.py): one that comes from another host, from TCP port
1801 to its SessionAck, express and recoverable; and the daemon's half of a send over HTTP. The rest is read from the
source. `--modules` lists the modules of each walk, and `--calls` every call.

The seam, on which no signature shall have Any or a callable of unknown arguments, is the packages api, client, drive
and http, and in node what is asked for: application.py, operation_handlers.py and the modules named ..._calls.py.
"""

import argparse
import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Final

import waypost
from tools.walk import ROOT, Walk, traced

PACKAGE: Final = ROOT / "src/waypost"
BIND: Final = "127.0.92.1"
QUEUE: Final = "walked"
SEAM: Final = (
    "api/*",
    "client/*",
    "drive/*",
    "http/*",
    "node/operation_handlers.py",
    "node/*_calls.py",
)
TCP: Final = "daemon/tcp.py"
HTTP: Final = "daemon/http_connection.py"
NODE: Final = "node/node.py"
DECODES: Final = (("wire/user_header.py", "UserHeader.decode"),)
QUOTA_CHECKS: Final = tuple(
    ("core/position_events.py", f"PositionEvents.{name}") for name in ("sure_room", "fits_machine")
)
# Names that ask when the next timer is due.
POLLS: Final = ("next_deadline", "next_expiry", "earliest", "wake_at")
SAME_NAMES: Final = ("Queue", "Cursor", "Transaction", "Manager")
LARGEST: Final = 8

Row = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Module:
    """`name` is the file, relative to the package."""

    name: str
    lines: int
    tree: ast.Module


def read(package: Path) -> list[Module]:
    """All modules of a package."""
    found = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Module(path.relative_to(package).as_posix(), text.count("\n"), ast.parse(text)))
    return found


def read_rows(modules: Sequence[Module]) -> list[Row]:
    """Facts that the source alone shows."""
    timers = [module for module in modules for name in _functions(module) if name.name in ("tick", *POLLS)]
    classes = [(node, module) for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    same = [f"{sum(node.name == name for node, _ in classes)}" for name in SAME_NAMES]
    vague = [module for module in modules if is_on_seam(module) for _ in filter(is_vague, _functions(module))]
    cycles = [module.name for module in modules if module.name.startswith("node/") and imports_for_types(module)]
    invariants = [module for module in modules for node in ast.walk(module.tree) if is_invariant(node)]
    largest = sorted(((_length(node), f"{module.name} {node.name}") for node, module in classes), reverse=True)
    outside = sum(not module.name.startswith("sim/") for module in timers)
    return [
        ("definitions of tick and of what polls a deadline", f"{len(timers)}, {outside} outside sim"),
        ("signatures with Any or an untyped callable on the seam", f"{len(vague)}{_by_package(vague)}"),
        (f"classes named {' / '.join(SAME_NAMES)}", " / ".join(same)),
        ("modules of node with TYPE_CHECKING imports", " ".join((str(len(cycles)), *cycles))),
        ("assertions of invariants", f"{len(invariants)}{_by_package(invariants)}"),
        ("lines and files of src", f"{sum(module.lines for module in modules)}, {len(modules)}"),
        ("largest classes, in lines", ", ".join(f"{name} {lines}" for lines, name in largest[:LARGEST])),
    ]


def is_on_seam(module: Module) -> bool:
    return any(fnmatch(module.name, pattern) for pattern in SEAM)


def is_vague(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether its signature has Any, or a callable whose arguments are not said."""
    args = function.args
    given = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    annotations = [function.returns, *(arg.annotation for arg in given if arg is not None)]
    return any(_is_vague(node) for annotation in annotations if annotation for node in _within(annotation))


def is_invariant(node: ast.AST) -> bool:
    """An assertion that says more than the type of a value or that it exists, which is for the type checker."""
    if not isinstance(node, ast.Assert):
        return False
    match node.test:
        case ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return False
        case ast.Call(func=ast.Name(id="isinstance")):
            return False
        case ast.Constant():
            return False
    return True


def imports_for_types(module: Module) -> bool:
    """Whether it imports something for the type checker only, because it would be imported in a circle."""
    return any(
        isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for node in ast.walk(module.tree)
    )


def walk_rows(walk: Walk) -> list[Row]:
    """The figures of one walk."""
    return [
        ("calls", str(len(walk.calls))),
        ("modules", str(len(walk.modules))),
        ("changes of module", str(walk.changes)),
        ("times node.py is entered", str(walk.count_module(NODE))),
        ("packet decodes", str(walk.count(*DECODES))),
        ("quota checks", str(walk.count(*QUOTA_CHECKS))),
        ("polls for the next deadline", str(sum(map(walk.count_named, POLLS)))),
    ]


def measure_walks() -> dict[str, Walk]:
    """Walk a message through a daemon in each way."""
    with traced(BIND) as daemon:
        host, port = daemon.transfer
        with waypost.connect(daemon.url) as manager, waypost.msmq(host, port=port, bind=BIND) as sender:
            manager.create_queue(QUEUE)
            send = partial(sender.send, f"private$\\{QUEUE}", "42 bolts")
            with manager.queue(QUEUE) as queue:
                return {
                    "express message, TCP 1801 to SessionAck": daemon.walk(partial(send, recoverable=False), TCP),
                    "recoverable message, TCP 1801 to SessionAck": daemon.walk(partial(send, recoverable=True), TCP),
                    "daemon's half of a send over HTTP": daemon.walk(partial(queue.send, "42 bolts"), HTTP),
                }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the walk of a message and the vocabulary of the code.")
    parser.add_argument("--package", type=Path, default=PACKAGE, help="package to read (default: src/waypost)")
    parser.add_argument("--source-only", action="store_true", help="start no daemon")
    parser.add_argument("--modules", action="store_true", help="list the modules of each walk")
    parser.add_argument("--calls", action="store_true", help="list the calls of each walk")
    options = parser.parse_args()
    walks: Mapping[str, Walk] = {} if options.source_only else measure_walks()
    for name, walk in walks.items():
        _print(name, walk_rows(walk))
        if options.modules:
            print("    " + "\n    ".join(sorted(walk.modules)))
        if options.calls:
            print("    " + "\n    ".join(f"{call.module} {call.function}" for call in walk.calls))
    _print("source", read_rows(read(options.package)))


def _print(title: str, rows: Sequence[Row]) -> None:
    print(title)
    for name, value in rows:
        print(f"  {name:56} {value}")


def _functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _within(annotation: ast.expr) -> Iterator[ast.AST]:
    """All that an annotation names, also if it is written as text."""
    for node in ast.walk(annotation):
        yield node
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                yield from ast.walk(ast.parse(node.value, mode="eval"))
            except SyntaxError:
                # The text of a Literal.
                continue


def _is_vague(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="Any"):
            return True
        case ast.Subscript(value=ast.Name(id="Callable"), slice=ast.Tuple(elts=[ast.Constant(value=value), _])):
            return value is ...
    return False


def _by_package(modules: Sequence[Module]) -> str:
    """The number of each package, in words."""
    counts: dict[str, int] = {}
    for module in modules:
        package = module.name.split("/", 1)[0]
        counts[package] = counts.get(package, 0) + 1
    return f" ({', '.join(f'{name} {count}' for name, count in counts.items())})" if counts else ""


def _length(node: ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


if __name__ == "__main__":
    main()
