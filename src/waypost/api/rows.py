"""Declarations of properties: a property is one annotated field of a record.

    app_tag: Annotated[int, says("Any number.", minimum=0, maximum=9), Property("ApplicationTag", ...)] = 0

The record is the JSON and MessagePack form. `says` has the sentence for help, documents and OpenAPI, and the
constraints in the words of JSON Schema, for OpenAPI and for the checks of values. `Property` has the other facts.
`rows` reads the fields of a record; every list of properties comes from these rows.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, get_args, get_type_hints

from msgspec import Meta, Struct, structs

from waypost.wire.codec import attribute_name

_UNDERSCORE: Final = re.compile(r"_([a-z])")


class Kind(Enum):
    """The kind of a value. It determines the checks, the command-line option and the columns."""

    TEXT = auto()
    NUMBER = auto()
    FLAG = auto()
    # Numbers of seconds; None for no limit.
    SECONDS = auto()
    # Kilobytes; None for no limit.
    KILOBYTES = auto()
    # Recoverable or express.
    DELIVERY = auto()
    # Words for acknowledgments, joined with commas.
    ACKNOWLEDGMENTS = auto()
    # Names of queues, one or several.
    QUEUES = auto()
    # A flag, or the name of a queue.
    DEAD_LETTER = auto()
    # The id of a message.
    IDENTIFIER = auto()
    BYTES = auto()
    PUBLIC_QUEUE = auto()
    MESSAGE_CLASS = auto()
    GUID = auto()
    # A request to sign or to encrypt (waypost.api.protection), which is not an attribute of a message.
    PROTECTION = auto()
    # One of several words.
    WORD = auto()
    MULTICAST = auto()


@dataclass(frozen=True, slots=True)
class Property:
    """Facts about a property that its field does not have.

    `spec` is its name in the specification. The attribute of the core has the same name in snake_case, unless
    `attribute` names another. `wire` is its place in a packet. The command-line option has the name of the property;
    `old_options` are accepted too. `column` is its name in Arrow and Spark, if it can be written there; `old_columns`
    are accepted too.
    """

    spec: str
    kind: Kind
    wire: str = ""
    attribute: str = ""
    option: str | None = None
    old_options: tuple[str, ...] = ()
    metavar: str | None = None
    column: str = ""
    old_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PropertyRow:
    """A property with all its facts."""

    name: str
    default: Any
    help: str
    # In the words of JSON Schema: minimum, max_length, pattern, ...
    constraints: dict[str, Any]
    facts: Property

    @property
    def kind(self) -> Kind:
        return self.facts.kind

    @property
    def attribute(self) -> str:
        """The attribute of the message or queue of the core."""
        return self.facts.attribute or attribute_name(self.facts.spec)

    @property
    def options(self) -> tuple[str, ...]:
        """The command-line options, the preferred one first."""
        return (self.facts.option or f"--{self.name.replace('_', '-')}", *self.facts.old_options)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns for writing messages, the preferred one first; empty if the property has none."""
        return (self.facts.column, *self.facts.old_columns) if self.facts.column else ()

    @property
    def stored_column(self) -> str:
        """The column in archives: the oldest of `columns`."""
        return self.columns[-1]


def says(sentence: str, **constraints: object) -> Meta:
    """The description and constraints of a field, for OpenAPI.

    Decoding a request does not check the constraints: it would refuse all messages of a request for one of them, and
    with other words than everywhere else.
    """
    schema = {_UNDERSCORE.sub(lambda found: found[1].upper(), name): value for name, value in constraints.items()}
    return Meta(description=sentence, extra_json_schema=schema)


def rows(record: type[Struct]) -> tuple[PropertyRow, ...]:
    """The properties of a record, in their order."""
    hints = get_type_hints(record, include_extras=True)
    found = []
    for field in structs.fields(record):
        _, *notes = get_args(hints[field.name])
        meta = next(note for note in notes if isinstance(note, Meta))
        entry = next(note for note in notes if isinstance(note, Property))
        schema = meta.extra_json_schema or {}
        constraints = {attribute_name(name): value for name, value in schema.items()}
        found.append(PropertyRow(field.name, field.default, meta.description or "", constraints, entry))
    return tuple(found)
