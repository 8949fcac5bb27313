"""Values that a core can hand to its store, as Hypothesis makes them."""

from dataclasses import replace

from hypothesis import strategies as st

from tests.core.strategies import direct_names, private_names, public_names, queue_names
from tests.wire.strategies import guids, texts, u32, u64
from waypost.core.message import Message
from waypost.core.message_values import AuthenticationLevel
from waypost.core.outgoing import destination_path
from waypost.core.queues import OutgoingQueue, Queue, QueueAttributes, base_priority
from waypost.core.system import Identity, QueueManagerAttributes
from waypost.core.transaction_records import OperationType, Transaction, TransactionalOperation
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_values import QueuePrivacy, Scope
from waypost.wire.remote_packet import Origin
from waypost.wire.remote_trailers import HostAddress

ME = Identity(b"\x11" * 16, "host", "host.example.org")

numbers = st.integers(1, 0xFFFF_FFFF_FFFF_FFFF)
addresses = st.builds(HostAddress, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), u32)
moves = st.just((0, 0)) | st.tuples(st.integers(1, 0xFFFF_FFFF), u32)


@st.composite
def with_local_attributes(draw: st.DrawFn, message: Message) -> Message:
    """The message with what no packet carries, too."""
    move_count, last_move_time = draw(moves)
    levels = AuthenticationLevel if message.signature else [AuthenticationLevel.NONE]
    return replace(
        message,
        allow_peek_when_locked=draw(st.booleans()),
        application_deadletter_queue=draw(texts),
        arrival_time=draw(u32),
        authentication_level=draw(st.sampled_from(levels)),
        transaction_status_queue_format_name=draw(st.none() | queue_names),
        unit_of_work=draw(guids),
        abort_count=draw(u32),
        move_count=move_count,
        last_move_time=last_move_time,
        target_subqueue_name=draw(texts),
        origin=draw(st.none() | st.builds(Origin, guids, addresses)),
    )


seconds = u32
path_parts = st.text("abcXYZ019!#$%&'()*-./:<=>?@[]^_`{|}~", min_size=1, max_size=12)
paths = st.builds(PathName, st.just("host"), st.sampled_from((QueueKind.PRIVATE, QueueKind.PUBLIC)), path_parts)
attributes = st.builds(
    QueueAttributes,
    pathname=paths,
    label=texts,
    type_guid=guids,
    journaling=st.booleans(),
    quota=u32,
    journal_quota=u32,
    authentication=st.booleans(),
    privacy_level=st.sampled_from(QueuePrivacy),
    transactional=st.booleans(),
    multicast_address=texts,
    security=st.binary(max_size=20),
    base_priority=st.integers(-0x8000, 0x7FFF),
)
destinations = (
    private_names | public_names | direct_names | st.just(FormatName.parse("MULTICAST=234.1.1.1:8001"))
)  # fmt: skip


@st.composite
def queues(draw: st.DrawFn, parent: Queue | None = None) -> Queue:
    """A queue of this computer, or a part of `parent`."""
    given = draw(attributes)
    if parent is not None:
        given.pathname = replace(parent.pathname, subqueue=draw(path_parts | st.just("")))
    given.base_priority = base_priority(given.pathname, given.base_priority)
    qualified = replace(given.pathname, computer=ME.qualified_computer_name)
    return _dated(draw, Queue(draw(numbers), draw(guids), given, qualified, parent=parent))


@st.composite
def outgoing_queues(draw: st.DrawFn) -> OutgoingQueue:
    name = draw(destinations)
    path = destination_path(name)
    given = replace(draw(attributes), pathname=path)
    queue = OutgoingQueue(draw(numbers), draw(guids), given, path, destination_format_name=name)
    _dated(draw, queue)
    return queue


def _dated(draw: st.DrawFn, queue: Queue) -> Queue:
    queue.private_queue_number = draw(u32)
    queue.create_time, queue.modify_time = draw(seconds), draw(seconds)
    queue.scope = draw(st.sampled_from(Scope))
    queue.full_path, queue.directory_path = draw(texts), draw(texts)
    return queue


@st.composite
def prepared_transactions(draw: st.DrawFn, among: dict[int, Queue]) -> Transaction:
    """An external transaction on these queues."""
    transaction = Transaction(draw(guids), single_phase=False, is_prepared=True)
    for lookup_id in draw(st.lists(u64, unique=True, max_size=6)):
        queue, target = draw(st.sampled_from(list(among.values()))), None
        kind = draw(st.sampled_from(OperationType))
        if kind is OperationType.MOVE:
            target = draw(st.sampled_from(list(among.values())))
        operation = TransactionalOperation(kind, queue, lookup_id, draw(st.sampled_from(MessageClass)), target)
        transaction.operations[queue.number, lookup_id] = operation
    return transaction


manager_attributes = st.builds(
    QueueManagerAttributes,
    create_time=seconds,
    modify_time=seconds,
    queue_manager_quota=u32,
    journal_quota=u32,
    security=st.binary(max_size=20),
    last_domain=guids,
    directory_server_list=st.lists(texts, max_size=3).map(tuple),
    directory_integrated=st.booleans(),
    srmp_http_support=st.booleans(),
    srmp_pgm_support=st.booleans(),
    hardened_security=st.booleans(),
    initialization_retry_timer_duration=u32,
)
