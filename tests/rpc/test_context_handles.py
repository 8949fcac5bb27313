import pytest

from tests.rpc.serving import NOW, Guids
from waypost.clock import Now
from waypost.rpc import context_handles
from waypost.rpc.calls import FaultStatus
from waypost.rpc.context_handles import ContextHandles, HandleKind, run_down_all
from waypost.rpc.faults import RpcFault
from waypost.wire.ndr import ContextHandle


def _forget(state: str, now: Now) -> None:
    pass


QUEUE = HandleKind[str]("queue", _forget)
READ = HandleKind[str]("read", _forget)


def status_of(handles: ContextHandles, handle: ContextHandle, kind: HandleKind[str]) -> int:
    with pytest.raises(RpcFault) as raised:
        handles.find(handle, kind)
    return raised.value.status


def test_a_handle_finds_what_it_stands_for_until_it_is_closed() -> None:
    handles = ContextHandles(Guids())
    first, second = handles.new(QUEUE, "orders"), handles.new(QUEUE, "bills")
    assert not first.is_null
    assert first != second
    assert (handles.find(first, QUEUE), handles.find(second, QUEUE)) == ("orders", "bills")
    handles.close(first)
    assert status_of(handles, first, QUEUE) == 0x1C00001A
    assert handles.find(second, QUEUE) == "bills"
    assert len(handles) == 1


def test_to_close_a_handle_twice_changes_nothing() -> None:
    handles = ContextHandles(Guids())
    handle = handles.new(QUEUE, "orders")
    handles.close(handle)
    handles.close(handle)
    assert len(handles) == 0


@pytest.mark.parametrize("handle", [ContextHandle(), ContextHandle(0, bytes(range(16)))])
def test_the_null_handle_and_a_made_up_one_are_not_found(handle: ContextHandle) -> None:
    assert status_of(ContextHandles(Guids()), handle, QUEUE) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH


def test_all_20_bytes_of_a_handle_count() -> None:
    handles = ContextHandles(Guids())
    handle = handles.new(QUEUE, "orders")
    assert status_of(handles, ContextHandle(1, handle.uuid), QUEUE) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH


def test_a_handle_of_another_kind_is_not_found() -> None:
    handles = ContextHandles(Guids())
    handle = handles.new(READ, "message")
    assert status_of(handles, handle, QUEUE) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert handles.find(handle, READ) == "message"


def test_handles_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_handles, "MAX_RPC_HANDLES", 2)
    handles = ContextHandles(Guids())
    first = handles.new(QUEUE, "1")
    handles.new(QUEUE, "2")
    with pytest.raises(RpcFault) as raised:
        handles.new(QUEUE, "3")
    assert raised.value.status == FaultStatus.NCA_SERVER_TOO_BUSY
    handles.close(first)
    assert not handles.new(QUEUE, "3").is_null


def test_a_rundown_goes_by_the_order_of_the_kinds_and_then_of_the_making() -> None:
    events: list[str] = []
    queues = HandleKind[str]("queue", lambda state, now: events.append(state), 2)
    reads = HandleKind[str]("read", lambda state, now: events.append(state), 1)
    one, other = ContextHandles(Guids()), ContextHandles(Guids())
    one.new(queues, "queue 1")
    one.new(reads, "read 1")
    closed = one.new(queues, "closed")
    one.close(closed)
    other.new(reads, "read 2")
    other.new(queues, "queue 2")
    one.new(reads, "read 3")
    run_down_all([one, other], NOW)
    assert events == ["read 1", "read 3", "read 2", "queue 1", "queue 2"]
    assert len(one) == len(other) == 0


def test_a_rundown_may_close_other_handles() -> None:
    events: list[str] = []
    handles = ContextHandles(Guids())
    read = ContextHandle()

    def run_down(state: str, now: Now) -> None:
        events.append(state)
        handles.close(read)

    kind = HandleKind[str]("queue", run_down)
    handles.new(kind, "queue")
    read = handles.new(kind, "read")
    run_down_all([handles], NOW)
    assert events == ["queue"]


def test_the_rundown_is_told_what_time_it_is() -> None:
    times: list[Now] = []
    handles = ContextHandles(Guids())
    handles.new(HandleKind[str]("queue", lambda state, now: times.append(now)), "orders")
    run_down_all([handles], NOW)
    assert times == [NOW]
