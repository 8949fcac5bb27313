"""docs/reference/http.md: every request with its parameters and answers, out of the OpenAPI document."""

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

The answer to a refused request has one of these statuses and an [ErrorObject](#errorobject):
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
    yield "In a request, a key without a default is required.\n"
    for name in sorted(schemas):
        yield from _object(name, schemas[name])


def _operation(method: str, path: str, operation: Any) -> Iterator[str]:
    yield f"### {method} {path}\n"
    yield from (f"{prose(part)}\n" for part in operation["description"].split("\n\n"))
    if operation["parameters"]:
        yield from table(("parameter", "in", "type", "meaning"), map(_parameter, operation["parameters"]))
    if "requestBody" in operation:
        yield f"Body: {_type(operation['requestBody']['content'][_JSON]['schema'])}.\n"
    status = next(each for each in operation["responses"] if each.startswith("2"))
    answer = operation["responses"][status].get("content", {})
    shown = _type(answer[_JSON]["schema"]) if _JSON in answer else ", ".join(f"`{each}`" for each in answer)
    refusals = ", ".join(each for each in operation["responses"] if each != status)
    yield f"Answer: {status}{f', {shown}' if shown else ''}. Errors: {refusals}.\n"


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
    words = {None: "none", "": "empty", False: "false", True: "true"}
    shown = words[default] if isinstance(default, str | bool | None) and default in words else f"`{default}`"
    return f"{_type(schema)}; default: {shown}"


def _type(schema: Any) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join("empty" if each == "" else f"`{each}`" for each in schema["enum"])
    match schema.get("type"):
        case "array":
            inside = schema.get("items", {})
            return f"list of {_type(inside)}" if inside else "list"
        case "object":
            return "object"
        case "string":
            return "base64 text" if schema.get("contentEncoding") == "base64" else f"text{_length(schema)}"
        case "integer" | "number" as kind:
            return f"{kind}{_bounds(schema)}"
        case "boolean":
            return "true or false"
        case "null":
            return "null"
        case _:
            return "any value"


def _bounds(schema: Any) -> str:
    low, high, above = (schema.get(each) for each in ("minimum", "maximum", "exclusiveMinimum"))
    start = f" above {above:g}" if above is not None else "" if low is None else f" from {low}"
    return f"{start}{'' if high is None else f' to {high}'}"


def _length(schema: Any) -> str:
    return f" of up to {schema['maxLength']} characters" if "maxLength" in schema else ""
