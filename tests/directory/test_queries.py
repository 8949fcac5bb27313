"""Filters, attribute lists and sort orders: MS-MQDMPR 3.1.7.1.20 and 3.1.7.1.21."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.directory.rig import END_OF_DATA, GENERIC_ERROR, NO_ATTRIBUTE, NOT_FOUND, OK, Rig, equals, guid
from waypost.directory.attributes import codecs_of
from waypost.directory.objects import DirectoryObject, Queue, QueueManager
from waypost.directory.queries import AttributeFilter, Operator, Query, SortOrder
from waypost.directory.topology import RoutingLink, Site, User
from waypost.errors import InvalidParameter
from waypost.wire.sid import ADMINISTRATORS, EVERYONE


def labels(rig: Rig, query: Query[Queue]) -> list[str]:
    """The labels of all queues that match, until the end of the data."""
    begun = rig.events.read_directory_begin(query, rig.now)
    assert begun.status is OK
    assert begun.value is not None
    found = []
    while (answer := rig.events.read_directory_next(begun.value)).status is OK:
        assert isinstance(answer.value, Queue)
        found.append(answer.value.label)
    assert answer.status is END_OF_DATA
    assert rig.events.read_directory_next(begun.value).status is END_OF_DATA
    assert rig.events.read_directory_end(begun.value) is OK
    return found


def with_queues(*values: tuple[str, int, int]) -> Rig:
    """A directory with queues of these labels, quotas and base priorities, in this order."""
    rig = Rig()
    for number, (label, quota, priority) in enumerate(values, 1):
        rig.put(
            Queue(
                identifier=guid(number), pathname=f"host\\q{number}", label=label, quota=quota, base_priority=priority
            )
        )
    return rig


@pytest.mark.spec("MQDMPR-3.1.7.1.20-01")
def test_a_read_gives_the_first_object_that_satisfies_all_filters_or_the_first_of_all() -> None:
    rig = with_queues(("a", 1, 0), ("b", 2, 0), ("b", 3, 0), ("b", 3, 1))
    rig.put(Site(identifier=guid(0xFF), name="b"))

    def first(*filters: AttributeFilter) -> bytes | None:
        found = rig.events.read_directory(Query(Queue, filters), rig.now)
        assert (found.status is OK) == (found.value is not None)
        return None if found.value is None else found.value.identifier

    assert first() == guid(1)
    assert first(*equals("label", "b")) == guid(2)
    assert first(*equals("label", "b"), *equals("quota", 3)) == guid(3)
    assert first(*equals("label", "a"), *equals("quota", 3)) is None
    assert rig.events.read_directory(Query(Queue, equals("label", "c")), rig.now).status is NOT_FOUND
    assert rig.events.read_directory(Query(QueueManager), rig.now).status is NOT_FOUND


@pytest.mark.spec("MQDMPR-3.1.7.1.20-02")
def test_filters_compare_in_six_ways_and_are_joined_by_and() -> None:
    rig = with_queues(("a", 1, 0), ("b", 2, 0), ("c", 3, 0))

    def found(*expressions: tuple[Operator, int]) -> list[str]:
        filters = tuple(AttributeFilter("quota", operator, value) for operator, value in expressions)
        return labels(rig, Query(Queue, filters))

    assert found((Operator.EQUALS, 2)) == ["b"]
    assert found((Operator.NOT_EQUALS, 2)) == ["a", "c"]
    assert found((Operator.LESS_THAN, 2)) == ["a"]
    assert found((Operator.GREATER_THAN, 2)) == ["c"]
    assert found((Operator.LESS_THAN_OR_EQUAL, 2)) == ["a", "b"]
    assert found((Operator.GREATER_THAN_OR_EQUAL, 2)) == ["b", "c"]
    assert found((Operator.GREATER_THAN, 1), (Operator.LESS_THAN, 3)) == ["b"]
    assert found((Operator.EQUALS, 1), (Operator.EQUALS, 2)) == []
    with pytest.raises(InvalidParameter, match="no directory attribute colour"):
        Query(Queue, equals("colour", "red"))
    with pytest.raises(InvalidParameter, match="no directory attribute queue_type"):
        Query(Queue, equals("queue_type", "public"))


def test_texts_compare_without_regard_to_case() -> None:
    queue = Queue(pathname="Host\\Orders")
    assert equals("pathname", "hOST\\oRDERS")[0].matches(queue)
    assert AttributeFilter("pathname", Operator.GREATER_THAN, "HOST\\A").matches(queue)
    assert not AttributeFilter("pathname", Operator.LESS_THAN, "HOST\\A").matches(queue)


def test_a_list_equals_what_is_in_it() -> None:
    manager = QueueManager(site_identifier_list=(guid(1), guid(2)))
    assert equals("site_identifier_list", guid(2))[0].matches(manager)
    assert not equals("site_identifier_list", guid(3))[0].matches(manager)
    assert AttributeFilter("site_identifier_list", Operator.NOT_EQUALS, guid(3)).matches(manager)
    assert not AttributeFilter("site_identifier_list", Operator.NOT_EQUALS, guid(1)).matches(manager)
    assert equals("site_identifier_list", (guid(1), guid(2)))[0].matches(manager)
    assert not equals("site_identifier_list", (guid(2), guid(1)))[0].matches(manager)


def test_structures_compare_as_the_bytes_that_they_are() -> None:
    assert equals("security_identifier", EVERYONE)[0].matches(User(security_identifier=EVERYONE))
    assert not equals("security_identifier", EVERYONE)[0].matches(User(security_identifier=ADMINISTRATORS))


@given(
    st.sampled_from([Queue(), QueueManager(site_identifier_list=(guid(1),)), RoutingLink(), User()]),
    st.sampled_from(Operator),
    st.none() | st.integers() | st.text() | st.binary() | st.floats() | st.booleans() | st.tuples(st.integers()),
)
def test_any_value_can_be_compared_with_any_attribute(item: DirectoryObject, operator: Operator, value: object) -> None:
    for name in codecs_of(type(item)):
        assert AttributeFilter(name, operator, value).matches(item) in (True, False)


def test_an_attribute_that_is_not_set_satisfies_no_expression() -> None:
    rig = Rig()
    rig.put(Queue(pathname="host\\q", label="l", quota=5), ("label",))
    assert rig.events.read_directory(Query(Queue, equals("label", "l")), rig.now).status is OK
    for operator in Operator:
        unset = Query(Queue, (AttributeFilter("quota", operator, 5),))
        assert rig.events.read_directory(unset, rig.now).status is NOT_FOUND


@pytest.mark.spec("MQDMPR-3.1.7.1.20-03")
def test_only_listed_attributes_are_read_and_all_without_a_list() -> None:
    rig = with_queues(("a", 7, 3))
    some = rig.events.read_directory(Query(Queue, attribute_list=("quota",)), rig.now).value
    assert some == Queue(identifier=guid(1), quota=7)
    every = rig.events.read_directory(Query(Queue), rig.now).value
    assert every is not None
    assert (every.label, every.quota, every.base_priority, every.pathname) == ("a", 7, 3, "host\\q1")
    with pytest.raises(InvalidParameter, match="colour"):
        Query(Queue, attribute_list=("colour",))


@pytest.mark.spec("MQDMPR-3.1.7.1.21-01")
def test_an_enumeration_opens_on_all_objects_that_satisfy_every_filter() -> None:
    rig = with_queues(("a", 1, 0), ("b", 1, 0), ("c", 2, 0))
    rig.put(Site(name="s"))
    assert labels(rig, Query(Queue)) == ["a", "b", "c"]
    assert labels(rig, Query(Queue, equals("quota", 1))) == ["a", "b"]
    assert labels(rig, Query(Queue, (*equals("quota", 1), *equals("label", "b")))) == ["b"]
    one = rig.events.read_directory_begin(Query(Queue), rig.now).value
    other = rig.events.read_directory_begin(Query(Queue), rig.now).value
    assert one is not None
    assert other is not None
    assert one != other


@pytest.mark.spec("MQDMPR-3.1.7.1.21-02")
def test_a_higher_sort_priority_takes_precedence_and_zero_is_not_used() -> None:
    rig = with_queues(("x", 1, 2), ("y", 2, 1), ("z", 2, 2), ("w", 1, 1))
    attributes = ("quota", "base_priority", "label")

    def ordered(*orders: tuple[int, bool]) -> list[str]:
        sort = tuple(SortOrder(priority, ascending) for priority, ascending in orders)
        return labels(rig, Query(Queue, (), attributes, sort))

    assert ordered((2, True), (1, True), (0, True)) == ["w", "x", "y", "z"]
    assert ordered((1, True), (2, True), (0, True)) == ["w", "y", "x", "z"]
    assert ordered((2, False), (1, True), (0, True)) == ["y", "z", "w", "x"]
    assert ordered((2, True), (1, False), (0, False)) == ["x", "w", "z", "y"]
    assert ordered((0, True), (0, True), (1, False)) == ["z", "y", "x", "w"]
    assert ordered((0, True), (0, True), (0, True)) == ["x", "y", "z", "w"]
    with pytest.raises(InvalidParameter, match="one value for each"):
        Query(Queue, (), attributes, (SortOrder(1),))


@pytest.mark.spec("MQDMPR-3.1.7.1.22-01")
def test_next_gives_the_objects_in_order_with_the_asked_attributes_and_then_the_end() -> None:
    rig = with_queues(("a", 1, 5), ("b", 2, 6))
    query = Query(Queue, (), ("quota",), (SortOrder(1, sort_ascending=False),))
    handle = rig.events.read_directory_begin(query, rig.now).value
    assert handle is not None
    rig.put(Queue(pathname="host\\late"))
    answers = [rig.events.read_directory_next(handle) for _ in range(4)]
    assert [answer.value for answer in answers[:2]] == [
        Queue(identifier=guid(2), quota=2),
        Queue(identifier=guid(1), quota=1),
    ]
    assert [answer.status for answer in answers] == [OK, OK, END_OF_DATA, END_OF_DATA]


def test_an_object_of_an_enumeration_that_lacks_an_attribute_says_so_and_the_next_follows() -> None:
    rig = with_queues(("a", 1, 5))
    rig.put(Queue(identifier=guid(2), pathname="host\\bare"), ("label",))
    rig.put(Queue(identifier=guid(3), pathname="host\\full", quota=9))
    handle = rig.events.read_directory_begin(Query(Queue, attribute_list=("quota",)), rig.now).value
    assert handle is not None
    statuses = [rig.events.read_directory_next(handle).status for _ in range(4)]
    assert statuses == [OK, NO_ATTRIBUTE, OK, END_OF_DATA]


@pytest.mark.spec("MQDMPR-3.1.7.1.23-01")
def test_a_handle_is_of_no_use_after_its_end() -> None:
    rig = with_queues(("a", 1, 5))
    handle = rig.events.read_directory_begin(Query(Queue), rig.now).value
    assert handle is not None
    assert rig.events.read_directory_end(handle) is OK
    assert rig.events.read_directory_next(handle).status is GENERIC_ERROR
    assert rig.events.read_directory_end(handle) is GENERIC_ERROR
