"""MS-MQDMPR 3.1.7.1.5, readings MQDMPR 3.AA, MQRR 3.29: subqueues that opening makes."""

import pytest

from tests.core.engine import Rig
from waypost.core.queues import AccessType
from waypost.errors import LimitReached, QueueExists
from waypost.hresult import HResult
from waypost.limits import MAX_SUBQUEUES

ORDERS = "DIRECT=OS:host\\private$\\orders"
MAKING = (AccessType.RECEIVE, AccessType.PEEK, AccessType.MOVE)


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize("access", MAKING)
def test_a_subqueue_is_made_for_whoever_opens_it(rig: Rig, access: AccessType) -> None:
    assert rig.open(access, name=f"{ORDERS};late").queue is rig.orders.subqueues["late"]


def test_a_queue_has_a_bounded_number_of_subqueues(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_SUBQUEUES == 10_000
    monkeypatch.setattr("waypost.core.creating.MAX_SUBQUEUES", 2)
    rig.create("orders;late")
    rig.open(AccessType.PEEK, name=f"{ORDERS};early")
    last = rig.manager.last_number
    for access in MAKING:
        with pytest.raises(LimitReached) as raised:
            rig.open(access, name=f"{ORDERS};more")
        assert raised.value.hresult == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES
    with pytest.raises(LimitReached):
        rig.create("orders;more")
    with pytest.raises(QueueExists):
        rig.create("orders;early")
    assert (list(rig.orders.subqueues), rig.manager.last_number) == (["late", "early"], last), "nothing is left behind"
    assert rig.open(AccessType.PEEK, name=f"{ORDERS};LATE").queue is rig.orders.subqueues["late"]
    rig.manager.delete_queue(rig.orders.subqueues["early"])
    assert rig.open(AccessType.MOVE, name=f"{ORDERS};more").queue is rig.orders.subqueues["more"]
