"""docs/reference/python.md and aio.md: what a program may use of waypost and waypost.aio, out of the docstrings."""

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import waypost
from tools.reference.markdown import MADE, docstring, table
from waypost import aio
from waypost.client import aio_host, host

_HEAD: Final = f"""\
# Python reference

{MADE}
This page lists everything in the module `waypost`. [The Python guide](../python.md) explains the module with
examples. [waypost.aio](aio.md) is the same API for asyncio. [A separate page](errors.md) lists the errors.
"""
_AIO_HEAD: Final = f"""\
# Python reference: asyncio

{MADE}
This page lists everything in the module `waypost.aio`. The module has the same names as [waypost](python.md),
but every function that can wait is a coroutine. Records such as `Message` and `QueueInfo` are the same in both modules.
The reference of `waypost` describes these records.
"""
_MODULE: Final = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")
_OPTIONAL: Final = re.compile(r"Optional\[(\w+\[[^]]*\])\]")
_QUOTED: Final = re.compile(r"'([A-Z]\w+(?: \| None)?)'")


def page() -> str:
    return "\n".join((_HEAD, *_module(waypost, host.Host)))


def aio_page() -> str:
    return "\n".join((_AIO_HEAD, *_module(aio, aio_host.Host)))


def _module(module: ModuleType, given: type) -> Iterator[str]:
    """All that a module names, and the class of what its function `msmq` gives."""
    names = [name for name in module.__all__ if name not in ("aio", "errors", "__version__")]
    functions = [name for name in names if not inspect.isclass(getattr(module, name))]
    classes = [name for name in names if inspect.isclass(getattr(module, name))]
    yield "## Functions\n"
    for name in functions:
        yield from _function(f"{module.__name__}.{name}", getattr(module, name), 3)
    for name in sorted(classes, key=_order):
        yield from _class(f"{module.__name__}.{name}", getattr(module, name))
    yield from _class("Host", given)


def _order(name: str) -> tuple[int, str]:
    """Classes that programs use most come first."""
    first = ("Manager", "Queue", "Message", "Transaction", "Cursor")
    return (first.index(name) if name in first else len(first), name)


def _class(name: str, kind: type) -> Iterator[str]:
    yield f"## {name}\n"
    yield from docstring(_doc(kind))
    members = {each: inspect.getattr_static(kind, each) for each in dir(kind) if not each.startswith("_")}
    slots = [each for each, member in members.items() if _is_field(member)]
    fields = [each for each in getattr(kind, "__struct_fields__", slots) if each in members]
    if fields:
        yield f"Fields: {', '.join(f'`{each}`' for each in fields)}.\n"
    properties = {each: member for each, member in members.items() if isinstance(member, property)}
    if properties:
        rows = ((f"`{each}`", " ".join(docstring(_doc(member)))) for each, member in properties.items())
        yield from table(("attribute", "meaning"), rows)
    for each, member in members.items():
        if callable(getattr(kind, each)) and each not in fields and not inspect.isclass(member):
            yield from _function(f"{name.rpartition('.')[2]}.{each}", getattr(kind, each), 3)


def _is_field(member: object) -> bool:
    return inspect.ismemberdescriptor(member)


def _function(name: str, function: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    yield f"```py\n{signature(name.rpartition('.')[2], function)}\n```\n"
    yield from docstring(_doc(function))


def signature(name: str, function: Any) -> str:
    """A call as a reader of the source sees it, on one line if it fits."""
    found = inspect.signature(function)
    words = [_short(str(each)) for each in found.parameters.values() if each.name != "self"]
    kinds = [each.kind for each in found.parameters.values() if each.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        words.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    before = "async " if inspect.iscoroutinefunction(function) else ""
    answer = (
        "" if found.return_annotation is inspect.Signature.empty else f" -> {_short(_name(found.return_annotation))}"
    )
    line = f"{before}{name}({', '.join(words)}){answer}"
    if len(line) <= 100:
        return line
    return "\n".join((f"{before}{name}(", *(f"    {word}," for word in words), f"){answer}"))


def _name(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _short(text: str) -> str:
    """Without the modules of names, the quotes of what is imported for the type checker alone, and addresses."""
    text = re.sub(r"<function \w+ at 0x\w+>", "...", text)
    text = _OPTIONAL.sub(r"\1 | None", _MODULE.sub("", text))
    return _QUOTED.sub(r"\1", text)


def _doc(found: Any) -> str:
    return inspect.getdoc(found) or ""
