"""How a property is declared: one annotated field of a record.

    app_tag: Annotated[int, says("A number of your own.", minimum=0, maximum=9), Property("ApplicationTag", ...)] = 0

The record is the JSON and MessagePack form. `says` has the sentence for help, documents and OpenAPI, and the
constraints in the words of JSON Schema, of which OpenAPI and the checks of values are made. `Property` has the rest.
`rows` reads the fields of a record; whatever lists properties goes by these rows.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, get_args, get_type_hints

from msgspec import Meta, Struct, structs

from waypost.wire.codec import attribute_name

_UNDERSCORE: Final = re.compile(r"_([a-z])")


class Kind(Enum):
    """What a value is: how it is checked, which option of the command line gives it and which columns hold it."""

    TEXT = auto()
    NUMBER = auto()
    FLAG = auto()
    # Numbers of seconds; None without an end.
    SECONDS = auto()
    # Kilobytes; None without a limit.
    KILOBYTES = auto()
    # Whether it is recoverable.
    DELIVERY = auto()
    # Words for acknowledgments, joined with commas.
    ACKNOWLEDGMENTS = auto()
    # Names of queues, one or several.
    QUEUES = auto()
    # Whether, or in which queue.
    DEAD_LETTER = auto()
    # The id of a message.
    IDENTIFIER = auto()
    BYTES = auto()
    PUBLIC_QUEUE = auto()
    MESSAGE_CLASS = auto()
    GUID = auto()
    # One of several words.
    WORD = auto()
    MULTICAST = auto()


@dataclass(frozen=True, slots=True)
class Property:
    """The facts about a property that its field does not say.

    `spec` is its name in the specification, and in snake_case that of the core's attribute, unless `attribute` is
    another. `wire` is its place in a packet. The option of the command line has the name of the property; `old_options`
    are accepted too. `column` is its name in Arrow and Spark, if messages can be written with it; `old_columns` are
    accepted too.
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
    """A property with everything that there is to know of it."""

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
        """The attribute of the core's message or queue."""
        return self.facts.attribute or attribute_name(self.facts.spec)

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the command line, the one to show first."""
        return (self.facts.option or f"--{self.name.replace('_', '-')}", *self.facts.old_options)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a message can be written with, the one to show first; none if it has no column."""
        return (self.facts.column, *self.facts.old_columns) if self.facts.column else ()

    @property
    def stored_column(self) -> str:
        """The oldest of `columns`, which is that of archives."""
        return self.columns[-1]


def says(sentence: str, **constraints: object) -> Meta:
    """What OpenAPI says of a field.

    The constraints are not checked while a request is decoded: that would refuse all of its messages for one of them,
    and in other words than everywhere else.
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
