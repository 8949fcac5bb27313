"""Bytes of the messages of each peer: waypost.core.sources."""

from hypothesis import given
from hypothesis import strategies as st

from waypost.core.positions import SEQUENCE_BITS
from waypost.core.sources import Sources
from waypost.limits import MAX_REFUSED_ADDRESSES


def test_messages_of_programs_here_are_nobodys() -> None:
    sources = Sources()
    sources.share = 0.5
    sources.placed(1, 5, 1000)
    assert sources.totals() == {}
    assert sources.has_room(10, 1_000_000)
    sources.removed(3, 200)


def test_a_peer_has_its_share_and_no_more() -> None:
    sources = Sources()
    sources.share = 0.5
    sources.current = "10.0.0.1"
    assert sources.has_room(100, 50)
    assert not sources.has_room(100, 51)
    sources.placed(1, 2, 40)
    assert not sources.has_room(100, 11)
    assert sources.refused == {"10.0.0.1": 2}
    sources.current = "10.0.0.2"
    assert sources.has_room(100, 50)
    sources.removed(2, 20)
    assert sources.bytes_of("10.0.0.1") == 20
    sources.current = "10.0.0.1"
    assert sources.has_room(100, 30)


def test_a_share_of_all_is_no_limit() -> None:
    sources = Sources()
    sources.current = "10.0.0.1"
    assert sources.has_room(1, 1000)


def test_only_so_many_refused_peers_are_remembered() -> None:
    sources = Sources()
    sources.share = 0.1
    for number in range(MAX_REFUSED_ADDRESSES + 5):
        sources.current = f"10.0.0.{number}"
        assert not sources.has_room(10, 10)
    assert len(sources.refused) == MAX_REFUSED_ADDRESSES
    assert "10.0.0.0" not in sources.refused


@given(st.lists(st.one_of(st.tuples(st.sampled_from("abc_"), st.integers(1, 5)), st.integers(0, 10_000)), max_size=300))
def test_the_bytes_of_each_peer_are_those_of_its_messages(steps: list[tuple[str, int] | int]) -> None:
    """A pair puts messages of a peer, or of a program here; a number removes one of those that are there."""
    sources = Sources()
    there: dict[int, tuple[str, int]] = {}
    last = 0
    for step in steps:
        if isinstance(step, tuple):
            source, count = step
            sources.current = "" if source == "_" else source
            sources.placed(last + 1, count, 10 * count)
            there |= {last + 1 + each: (source, 10) for each in range(count)}
            last += count
        elif there:
            identifier = sorted(there)[step % len(there)]
            sources.removed(identifier, there.pop(identifier)[1])
        expected: dict[str, int] = {}
        for source, size in there.values():
            if source != "_":
                expected[source] = expected.get(source, 0) + size
        assert sources.totals() == expected
        assert sources.runs <= 2 * len({key for key, (source, _) in there.items() if source != "_"}) + 130


def test_messages_of_one_run_leave_together() -> None:
    sources = Sources()
    sources.current = "10.0.0.1"
    sources.placed(1, 10, 100)
    sources.current = "10.0.0.2"
    sources.placed(11, 2, 20)
    top = 3 << SEQUENCE_BITS
    assert sources.removed_all([top | 4, top | 2, top | 3], 30)
    assert sources.totals() == {"10.0.0.1": 70, "10.0.0.2": 20}
    # Of two peers, of two priorities, and of nobody.
    assert not sources.removed_all([top | 10, top | 11], 20)
    assert not sources.removed_all([top | 5, 5 << SEQUENCE_BITS | 6], 20)
    assert not sources.removed_all([top | 99], 10)
    assert sources.totals() == {"10.0.0.1": 70, "10.0.0.2": 20}
