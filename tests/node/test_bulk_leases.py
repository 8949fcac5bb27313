"""Leases that are put off more often than they end."""

from hypothesis import given
from hypothesis import strategies as st

from waypost.node.bulk_leases import Leases

KEYS = st.sampled_from((b"a", b"b", b"c"))
STEPS = st.lists(
    st.tuples(st.just("start"), KEYS, st.integers(0, 20))
    | st.tuples(st.just("end"), KEYS, st.just(0))
    | st.tuples(st.just("wait"), KEYS, st.integers(0, 20)),
    max_size=40,
)


@given(STEPS)
def test_leases_end_in_the_order_of_their_deadlines_and_not_before(steps: list[tuple[str, bytes, int]]) -> None:
    leases: Leases[bytes] = Leases()
    deadlines: dict[bytes, float] = {}
    now = 0.0
    for step, key, seconds in steps:
        if step == "start":
            leases.start(key, now + seconds)
            deadlines[key] = now + seconds
        elif step == "end":
            leases.end(key)
            deadlines.pop(key, None)
        else:
            now += seconds
            ended = []
            while (expired := leases.take_expired(now)) is not None:
                ended.append(deadlines.pop(expired))
            assert ended == sorted(ended)
            assert all(deadline <= now for deadline in ended)
        assert leases.next_deadline() == min(deadlines.values(), default=None)
        assert all(deadline > now for deadline in deadlines.values()) or step != "wait"
        assert {key: leases.left(key, now) for key in deadlines} == {
            key: max(deadline - now, 0) for key, deadline in deadlines.items()
        }


def test_a_lease_that_is_put_off_again_and_again_takes_no_room() -> None:
    leases: Leases[bytes] = Leases()
    for number in range(10_000):
        leases.end(b"a")
        leases.start(b"a", 100.0 + number)
        leases.next_deadline()
    assert len(leases._heap) == 1
