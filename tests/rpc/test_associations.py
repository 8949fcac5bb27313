from tests.rpc.serving import NOW, Guids
from waypost.clock import Now
from waypost.rpc.associations import Association, Associations
from waypost.rpc.context_handles import HandleKind


def joined(associations: Associations, group_id: int, connection: int, address: str = "10.0.0.9") -> Association:
    association = associations.join(group_id, connection, "2103", address)
    assert association is not None
    return association


def test_each_bind_with_0_makes_an_association_of_its_own() -> None:
    associations = Associations(Guids())
    one, other = joined(associations, 0, 1), joined(associations, 0, 2)
    assert one is not other
    assert len({0, one.group_id, other.group_id}) == 3


def test_a_connection_joins_the_association_that_it_names() -> None:
    associations = Associations(Guids())
    association = joined(associations, 0, 1)
    assert joined(associations, association.group_id, 2) is association
    assert association.connections == {1, 2}


def test_nobody_joins_an_association_that_is_not_there() -> None:
    associations = Associations(Guids())
    assert associations.join(77, 1, "2103", "10.0.0.9") is None
    association = joined(associations, 0, 1)
    associations.leave(association, 1, NOW)
    assert associations.join(association.group_id, 2, "2103", "10.0.0.9") is None
    assert len(associations) == 0


def test_nobody_joins_from_another_address_or_at_another_listener() -> None:
    associations = Associations(Guids())
    group_id = joined(associations, 0, 1).group_id
    assert associations.join(group_id, 2, "2103", "10.0.0.10") is None
    assert associations.join(group_id, 2, "2105", "10.0.0.9") is None


def test_the_handles_of_an_interface_and_a_caller_are_one_object_and_no_others() -> None:
    association = joined(Associations(Guids()), 0, 1)
    handles = association.handles(b"i" * 16, "alice")
    assert association.handles(b"i" * 16, "alice") is handles
    assert association.handles(b"j" * 16, "alice") is not handles
    assert association.handles(b"i" * 16, "bob") is not handles
    assert association.handles(b"i" * 16, None) is not handles


def test_handles_run_down_with_the_last_connection_of_the_association() -> None:
    events: list[str] = []

    def run_down(state: str, now: Now) -> None:
        events.append(state)

    associations = Associations(Guids())
    association = joined(associations, 0, 1)
    joined(associations, association.group_id, 2)
    association.handles(b"i" * 16, "alice").new(HandleKind[str]("queue", run_down), "orders")
    associations.leave(association, 1, NOW)
    assert events == []
    associations.leave(association, 2, NOW)
    assert events == ["orders"]


def test_numbers_are_found_even_when_the_source_of_randomness_repeats_itself() -> None:
    associations = Associations(lambda: bytes(16))
    assert len({joined(associations, 0, number).group_id for number in range(5)} - {0}) == 5
