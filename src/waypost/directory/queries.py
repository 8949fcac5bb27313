"""Queries to the directory: MS-MQDMPR 3.1.7.1.20 and 3.1.7.1.21.

Attributes go by the names of the fields. Texts compare without regard to case, as in LDAP; a list equals a value in
it; and an attribute that is not set, or of another type than the value, satisfies no expression.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, TypeVar

from waypost.directory.attributes import codecs_of, comparable
from waypost.directory.objects import DirectoryObject
from waypost.errors import InvalidParameter

T = TypeVar("T", bound=DirectoryObject)
V = TypeVar("V")


class Operator(Enum):
    """The six comparisons."""

    EQUALS = "EQUALS"
    NOT_EQUALS = "NOT-EQUALS"
    LESS_THAN = "LESS-THAN"
    GREATER_THAN = "GREATER-THAN"
    LESS_THAN_OR_EQUAL = "LESS-THAN-OR-EQUAL"
    GREATER_THAN_OR_EQUAL = "GREATER-THAN-OR-EQUAL"


_COMPARE: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    Operator.EQUALS: operator.eq,
    Operator.NOT_EQUALS: operator.ne,
    Operator.LESS_THAN: operator.lt,
    Operator.GREATER_THAN: operator.gt,
    Operator.LESS_THAN_OR_EQUAL: operator.le,
    Operator.GREATER_THAN_OR_EQUAL: operator.ge,
}


@dataclass(frozen=True, slots=True)
class AttributeFilter:
    """An attribute-filter expression: an attribute of the object on the left, a value on the right."""

    attribute: str
    operator: Operator
    value: object

    def matches(self, item: DirectoryObject) -> bool:
        left, right = comparable(getattr(item, self.attribute)), comparable(self.value)
        if isinstance(left, tuple) and not isinstance(right, tuple):
            if self.operator is Operator.NOT_EQUALS:
                return right not in left
            return any(self._compare(each, right) for each in left)
        return self._compare(left, right)

    def _compare(self, left: object, right: object) -> bool:
        if left is None or type(left) is not type(right):
            return False
        try:
            return _COMPARE[self.operator](left, right)
        except TypeError:
            # Lists whose members are of different types.
            return False


def by_identifier(identifier: bytes) -> tuple[AttributeFilter]:
    return (AttributeFilter("identifier", Operator.EQUALS, identifier),)


@dataclass(frozen=True, slots=True)
class SortOrder:
    """An attribute-sort-order value. A higher priority takes precedence, 0 means that it is not sorted by this."""

    sort_priority: int = 0
    sort_ascending: bool = True


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """The arguments of Read Directory and Read Directory Begin.

    No filters are the NULL filter, and no `attribute_list` asks for all attributes. The `attribute_sort_order` has one
    value for each attribute of the list, or is empty. Raises InvalidParameter for what no object of the type has.
    """

    object_type: type[T]
    filters: tuple[AttributeFilter, ...] = ()
    attribute_list: tuple[str, ...] | None = None
    attribute_sort_order: tuple[SortOrder, ...] = ()

    def __post_init__(self) -> None:
        check_attributes(self.object_type, (each.attribute for each in self.filters))
        check_attributes(self.object_type, self.attribute_list or ())
        if self.attribute_sort_order and len(self.attribute_sort_order) != len(self.attribute_list or ()):
            raise InvalidParameter("attribute_sort_order must contain one value for each attribute in attribute_list")

    @property
    def identifier(self) -> bytes | None:
        """The Identifier that an object must have to match, if the filters say so."""
        return self.value_of("identifier", bytes)

    def value_of(self, attribute: str, value_type: type[V]) -> V | None:
        """The value of this type that an attribute must have, if the filters say so."""
        for each in self.filters:
            is_equal = each.attribute == attribute and each.operator is Operator.EQUALS
            if is_equal and isinstance(each.value, value_type):
                return each.value
        return None

    def matches(self, item: DirectoryObject) -> bool:
        return all(each.matches(item) for each in self.filters)

    def sort(self, items: list[T]) -> None:
        """Sorting keeps the order among equals, so the attribute of the highest priority comes last."""
        orders = zip(self.attribute_list or (), self.attribute_sort_order, strict=False)
        used = [(name, order) for name, order in orders if order.sort_priority]
        used.reverse()
        used.sort(key=lambda each: each[1].sort_priority)
        for name, order in used:
            items.sort(key=partial(_sort_key, name), reverse=not order.sort_ascending)


def _sort_key(attribute: str, item: DirectoryObject) -> tuple[bool, Any]:
    """Sort key: an attribute that is not set comes first."""
    value = comparable(getattr(item, attribute))
    return value is not None, value


def check_attributes(object_type: type[DirectoryObject], names: Iterable[str]) -> None:
    """Raises InvalidParameter unless all names are those of directory attributes of the type."""
    unknown = set(names).difference(codecs_of(object_type))
    if unknown:
        raise InvalidParameter(f"{object_type.__name__} has no directory attribute {', '.join(sorted(unknown))}")


def only(item: T, names: Iterable[str]) -> T:
    """An object with the Identifier and the named attributes of another; what else it has is as in a new one."""
    return type(item)(**{name: getattr(item, name) for name in {"identifier", *names}})
