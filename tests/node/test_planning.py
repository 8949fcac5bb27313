"""Plans by the real sizes of messages: limits hold, parts are as many as wanted, and queues share limits."""

from itertools import accumulate, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from tests.node.rig import letter
from tests.node.test_bulk_reading import BulkRig, full
from waypost.api.bulk import PlannedRange, PlanRanges, RangeOfQueue, Rest
from waypost.api.claims import Claim

sends = st.tuples(st.sampled_from((3, 3, 0, 7)), st.integers(0, 5000))


def limit(most: int) -> st.SearchStrategy[object]:
    return st.one_of(st.just(UNSET), st.integers(1, most))


@settings(max_examples=60)
@given(data=st.data(), messages=st.lists(sends, min_size=1, max_size=40), is_restarted=st.booleans())
def test_a_plan_keeps_its_limits_by_the_sizes_of_the_messages(
    data: st.DataObject, messages: list[tuple[int, int]], *, is_restarted: bool
) -> None:
    rig = BulkRig()
    for priority, size in messages:
        rig.send(letter("", priority=priority, body=bytes(size)))
    rig.settle()
    for at in data.draw(st.lists(st.integers(0, 40), max_size=10)):
        rig.remove(at, 1)
    if is_restarted:
        rig.crash()
    sizes = [len(packet) for packet in rig.read().each_packet()]
    max_messages, max_bytes = data.draw(limit(50)), data.draw(limit(40_000))
    parts, part_messages, part_bytes = data.draw(st.integers(1, 9)), data.draw(limit(9)), data.draw(limit(9000))
    plan = rig.plan(
        max_messages=max_messages,
        max_bytes=max_bytes,
        parts=parts,
        part_messages=part_messages,
        part_bytes=part_bytes,
    )
    count = min([len(sizes), *([max_messages] if isinstance(max_messages, int) else [])])
    if isinstance(max_bytes, int) and sizes:
        count = min(count, max(sum(end <= max_bytes for end in accumulate(sizes)), 1))
    assert sum(plan.counts) == count
    ends = list(accumulate(plan.counts, initial=0))
    assert plan.sizes == [sum(sizes[start:stop]) for start, stop in pairwise(ends)]
    assert len(plan.counts) >= min(parts, count)
    assert 0 not in plan.counts
    if isinstance(part_messages, int):
        assert max(plan.counts, default=0) <= part_messages
    if isinstance(part_bytes, int):
        assert all(size <= part_bytes or one == 1 for size, one in zip(plan.sizes, plan.counts, strict=True))
    if (part_messages, part_bytes) == (UNSET, UNSET):
        assert len(plan.counts) == min(parts, count)


def planned(rig: BulkRig, *ranges: RangeOfQueue, **limits: int) -> list[PlannedRange]:
    return rig.ask_for(PlanRanges(ranges=list(ranges), **limits)).plans  # type: ignore[arg-type]


def two_queues() -> tuple[BulkRig, tuple[RangeOfQueue, RangeOfQueue]]:
    """`orders` with thirty small messages, and `ledger` with two large ones that arrived later."""
    rig = BulkRig()
    rig.create("returns")
    rig.send_many([bytes(1000)] * 30)
    rig.send(letter("", body=bytes(20_000)), "returns")
    rig.send(letter("", body=bytes(20_000)), "returns")
    rig.settle()
    return rig, (RangeOfQueue(name=full("orders")), RangeOfQueue(name=full("returns")))


def test_queues_share_the_limits_of_a_plan() -> None:
    rig, ranges = two_queues()
    orders, returns = planned(rig, *ranges)
    assert (sum(orders.counts), sum(returns.counts)) == (30, 2)
    orders, returns = planned(rig, *ranges, max_messages=8)
    assert (sum(orders.counts), sum(returns.counts)) == (7, 1)
    orders, returns = planned(rig, *ranges, max_bytes=50_000)
    assert (sum(returns.counts), sum(orders.sizes) + sum(returns.sizes) <= 50_000) == (1, True)
    assert sum(orders.counts) > 10
    orders, returns = planned(rig, *ranges, parts=10)
    assert len(orders.counts) + len(returns.counts) in (6, 7, 8)
    assert len(returns.counts) == 2


@settings(max_examples=30)
@given(available=st.lists(st.integers(0, 12), min_size=1, max_size=4), most=st.integers(1, 30))
def test_queues_share_a_limit_of_messages_and_none_of_it_is_lost(available: list[int], most: int) -> None:
    rig = BulkRig()
    names = [f"shared-{number}" for number in range(len(available))]
    for name, count in zip(names, available, strict=True):
        rig.create(name)
        for _ in range(count):
            rig.send(letter(""), name)
    rig.settle()
    plans = planned(rig, *(RangeOfQueue(name=full(name)) for name in names), max_messages=most)
    found = [sum(plan.counts) for plan in plans]
    assert sum(found) == min(most, sum(available))
    assert [count + plan.rest.count for count, plan in zip(found, plans, strict=True)] == available


def test_a_large_message_does_not_wait_for_good_behind_a_full_queue() -> None:
    rig, ranges = two_queues()
    orders, returns = planned(rig, *ranges, max_bytes=2000)
    assert (sum(orders.counts), returns.counts) == (1, [])
    # When it has waited longest, it comes alone.
    rest = RangeOfQueue(name=full("orders"), after=30)
    rig.send_many([bytes(1000)] * 30)
    rig.settle()
    orders, returns = planned(rig, rest, ranges[1], max_bytes=2000)
    assert (orders.counts, returns.counts) == ([], [1])


def test_a_queue_that_is_gone_does_not_fail_the_others() -> None:
    rig, ranges = two_queues()
    wrong = RangeOfQueue(name=full("orders"), epoch="6f3c9a50-0000-4000-8000-0123456789ab")
    gone, missing, there = planned(rig, wrong, RangeOfQueue(name=full("nowhere")), ranges[1])
    assert gone.is_gone
    assert missing.is_gone
    assert (there.is_gone, there.counts) == (False, [2])


def test_a_plan_says_when_its_first_message_arrived() -> None:
    rig, ranges = two_queues()
    arrived = min(message.arrival_time for message in rig.contents())
    orders, _ = planned(rig, *ranges)
    assert orders.oldest == arrived
    assert planned(rig, RangeOfQueue(name=full("returns"), after=1000))[0].oldest == 0


def test_a_plan_describes_the_messages_after_it() -> None:
    rig, (orders, returns) = two_queues()
    arrived = [message.arrival_time for message in rig.contents()]
    (plan,) = planned(rig, orders, max_messages=10)
    (behind,) = planned(rig, RangeOfQueue(name=full("orders"), after=plan.bounds[-1]))
    rest = plan.rest
    assert (rest.count, rest.bytes, rest.last) == (20, sum(behind.sizes), behind.bounds[-1])
    assert rest.oldest == behind.oldest == arrived[10]
    assert behind.rest == Rest()
    # An end of the plan does not end the rest.
    (bounded,) = planned(rig, RangeOfQueue(name=full("orders"), up_to=plan.bounds[-1]))
    assert bounded.rest == rest
    (empty,) = planned(rig, RangeOfQueue(name=full("orders"), after=plan.bounds[-1], up_to=plan.bounds[-1]))
    assert (empty.counts, empty.rest) == ([], rest)
    # Messages that are held back are not part of it.
    rig.ask_for(Claim(name=full("returns"), claim="c", max_messages=1))
    (held,) = planned(rig, returns)
    assert (held.counts, held.rest) == ([], Rest(held_by="the claim c", behind=2))
    assert (held.held_by, held.behind) == ("the claim c", 2)


def test_a_plan_names_its_queue_and_begins_and_ends_at_times() -> None:
    rig, _ = two_queues()
    (whole,) = planned(rig, RangeOfQueue(name="orders"))
    assert (whole.name, whole.kind) == (full("orders"), "private")
    arrived = rig.contents()[0].arrival_time

    def between(since: float | UnsetType = UNSET, before: float | UnsetType = UNSET) -> int:
        (plan,) = planned(rig, RangeOfQueue(name="orders", since=since, before=before))
        return sum(plan.counts)

    assert (between(since=arrived), between(since=arrived + 1)) == (30, 0)
    assert (between(before=arrived + 1), between(before=arrived)) == (30, 0)
    assert between(since=arrived, before=arrived + 1) == 30
    assert between(since=arrived + 1, before=arrived) == 0
