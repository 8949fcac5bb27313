"""docs/reference/http.md: every request with its parameters and answers, out of the OpenAPI document."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from tools.reference.markdown import MADE, prose, table
from waypost.http.app import ROUTES
from waypost.http.openapi import _STATUSES, document

_HEAD: Final = f"""\
# HTTP reference

{MADE}
This page lists every request of the HTTP API. [The HTTP guide](../http.md) explains the requests with examples, and
[the bulk guide](../bulk.md) explains the requests under `/api/bulk`. `GET /schema` of a running daemon returns the same
information as an OpenAPI document.

If a request is refused, the answer has one of these statuses and contains an [ErrorObject](#errorobject):
"""
_GROUPS: Final = {
    "Queues and messages": "/api/queues",
    "Cursors": "/api/cursors",
    "Exclusive opens": "/api/handles",
    "Transactions": "/api/transactions",
    "Transactional sequences": "/api/sequences",
    "The queue manager": ("/api/status", "/api/identity", "/api/doctor", "/api/explain", "/api/links", "/health"),
    "Keys and certificates": ("/api/keys", "/api/certificates"),
    "Users and audit trail": ("/api/users", "/api/audit", "/api/login", "/api/logout"),
    "The store": "/api/store",
    "Bulk": "/api/bulk",
}
_JSON: Final = "application/json"
_PLURAL: Final = re.compile(r"\b(integer|number)\b")


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    found: Any = document(ROUTES, demands_token=False)
    schemas = found["components"]["schemas"]
    yield _HEAD
    yield from table(("status", "meaning"), ((f"{status}", prose(words)) for status, words in _STATUSES.items()))
    for title, prefix in _GROUPS.items():
        yield f"## {title}\n"
        for path, methods in sorted(found["paths"].items()):
            if path.startswith(prefix):
                for method, operation in methods.items():
                    yield from _operation(method.upper(), path, operation)
    yield "## Objects\n"
    yield "In a request, every key without a default is required.\n"
    for name in sorted(schemas):
        yield from _object(name, schemas[name])


def _operation(method: str, path: str, operation: Any) -> Iterator[str]:
    yield f"### {method} {path}\n"
    yield from (f"{prose(part)}\n" for part in operation["description"].split("\n\n"))
    if operation["parameters"]:
        yield from table(("parameter", "in", "type", "meaning"), map(_parameter, operation["parameters"]))
    if "requestBody" in operation:
        yield f"The body of the request is {_type(operation['requestBody']['content'][_JSON]['schema'])}.\n"
    status = next(each for each in operation["responses"] if each.startswith("2"))
    answer = operation["responses"][status].get("content", {})
    media_types = ", ".join(f"`{each}`" for each in answer)
    shown = _type(answer[_JSON]["schema"]) if _JSON in answer else media_types and f"content of the type {media_types}"
    refusals = [each for each in operation["responses"] if each != status]
    yield f"The answer has the status {status} and {f'contains {shown}' if shown else 'no body'}.\n"
    yield f"If the request fails, the answer has the status {_alternatives(refusals)}.\n"


def _parameter(found: Any) -> tuple[str, ...]:
    schema = found["schema"]
    return f"`{found['name']}`", found["in"], _with_default(schema), prose(found.get("description", ""))


def _object(name: str, schema: Any) -> Iterator[str]:
    yield f"### {name}\n"
    for part in re.split(r"\n\s*\n", schema.get("description", "").strip()):
        if part:
            yield f"{prose(' '.join(part.split()))}\n"
    required = schema.get("required", [])
    rows = [
        (f"`{key}`", _type(value) if key in required else _with_default(value), prose(value.get("description", "")))
        for key, value in schema.get("properties", {}).items()
    ]
    if rows:
        yield from table(("key", "type", "meaning"), rows)


def _with_default(schema: Any) -> str:
    if "default" not in schema:
        return _type(schema)
    default = schema["default"]
    words = {None: "null", "": "empty text", False: "false", True: "true"}
    if isinstance(default, str | bool | None) and default in words:
        shown = words[default]
    elif default in ([], ()):
        shown = "an empty list"
    else:
        shown = f"`{default if isinstance(default, str) else json.dumps(default)}`"
    return f"{_type(schema)}; the default is {shown}"


def _type(schema: Any) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return _alternatives(list(dict.fromkeys(word for each in schema["anyOf"] for word in _words(each))))
    if "enum" in schema:
        return _alternatives(_words(schema))
    match schema.get("type"):
        case "array":
            inside = schema.get("items", {})
            return "list of " + _PLURAL.sub(r"\1s", _type(inside)) if inside else "list"
        case "object":
            return "object"
        case "string":
            if schema.get("maxLength") == 0:
                return "empty text"
            return "base64 text" if schema.get("contentEncoding") == "base64" else f"text{_length(schema)}"
        case "integer" | "number" as kind:
            return f"{kind}{_bounds(schema)}"
        case "boolean":
            return "true or false"
        case "null":
            return "null"
        case _:
            return "any value"


def _words(schema: Any) -> list[str]:
    """The values of an enumeration, or the type."""
    if "enum" not in schema:
        return [_type(schema)]
    return [*(f"`{each}`" for each in schema["enum"] if each != ""), *["empty text"] * ("" in schema["enum"])]


def _alternatives(words: list[str]) -> str:
    """Words joined with commas and "or". Longer words than one need a comma before "or"."""
    if len(words) == 1:
        return words[0]
    comma = "," if any(" " in each for each in words) else ""
    return f"{', '.join(words[:-1])}{comma} or {words[-1]}"


def _bounds(schema: Any) -> str:
    low, high, above = (schema.get(each) for each in ("minimum", "maximum", "exclusiveMinimum"))
    if above is not None:
        return f" above {above:g}{'' if high is None else f' and up to {high}'}"
    if low is None:
        return "" if high is None else f" up to {high}"
    return f" of {low} or more" if high is None else f" from {low} to {high}"


def _length(schema: Any) -> str:
    return f" of up to {schema['maxLength']} characters" if schema.get("maxLength") else ""
