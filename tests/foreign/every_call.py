"""Readers that make every call of the interfaces, over whatever client they are given.

They leave behind what they found, but for the queues that are filled for each of them, so that one after the
other sees the same state. Their results are compared without handles, which are never the same twice.
"""

from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from tests.foreign.site import INTERFACES, LONG_BODY, Ask, Faulted, OurClient, Site
from waypost.guid import NULL_GUID, parse_guid
from waypost.hresult import HResult
from waypost.remote.interfaces import qm2qm, qmcomm
from waypost.remote.interfaces import remote_read as table
from waypost.remote.interfaces.qm2qm import QM2QM, RemoteReadDesc, RemoteReadDesc2
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import REMOTE_READ, ReceiveAction, RemoteReadAck
from waypost.remote.remote_read.coordinator import local_token
from waypost.rpc.binds import NDR20, SyntaxId
from waypost.rpc.calls import FaultStatus
from waypost.rpc.endpoint_mapper_interface import (
    EPMAPPER,
    Endpoint,
    EptLookupHandleFreeRequest,
    EptLookupRequest,
    EptMapRequest,
    InquiryType,
    InterfaceId,
    MapperStatus,
    Tower,
    VersionOption,
)
from waypost.rpc.interface import Empty, Interface, Parameters
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.section_buffer import SectionBuffer, join_sections

RECEIVE, PEEK, MOVE = 0x01, 0x20, 0x04
DENY_NONE: Final = 0
NACK, ACK = RemoteReadAck.RR_NACK, RemoteReadAck.RR_ACK
WHOLE: Final = 0xFFFF_FFFF
NOBODY: Final = parse_guid("deadbeef-0000-4000-8000-000000000001")
BODIES: Final = [b"first", bytes(range(256)) * 3, b"third" * 100]

# The fields of REMOTEREADDESC but dwSize and lpBuffer, in the IDL and in our record.
DESC_FIELDS: Final = {
    "hRemoteQueue": "remote_queue",
    "hCursor": "cursor",
    "ulAction": "action",
    "ulTimeout": "timeout",
    "dwQueue": "queue",
    "dwRequestID": "request_id",
    "Reserved": "reserved",
    "dwArriveTime": "arrive_time",
    "eAckNack": "ack_nack",
}

# Numbers that a server gives out, other ones to each caller.
_NUMBERS: Final = frozenset({"cursor", "queue", "remote_queue", "dwp_queue", "dw_context", "move_context"})
_SOME_HANDLE: Final = ContextHandle(0, b"\xff" * 16)


def queue_format(name: str) -> QueueFormat:
    return QueueFormat.from_format_name(FormatName.parse(name if "=" in name else f"DIRECT=OS:host\\private$\\{name}"))


def comparable(value: Any) -> Any:
    """A reply whose handles and numbers only say that they are there, and whose messages were never given back."""
    if isinstance(value, ReceiveReply) and value.sections:
        return replace(value, sections=[*map(_shape, value.sections)]), _never_aborted(value.sections)
    if isinstance(value, ContextHandle):
        return value if value.is_null else replace(_SOME_HANDLE, attributes=value.attributes)
    if is_dataclass(value) and not isinstance(value, type):
        same = {field.name: comparable(getattr(value, field.name)) for field in fields(value)}
        return replace(value, **{name: bool(part) if name in _NUMBERS else part for name, part in same.items()})
    return value


def _shape(section: SectionBuffer) -> SectionBuffer:
    return replace(section, data=b"")


def _never_aborted(sections: list[SectionBuffer]) -> bytes:
    """The packet with an AbortCounter of 0: each reader before has raised it."""
    packet = RemotePacket.decode(join_sections(sections))
    assert packet.subqueue is not None
    packet.subqueue.abort_counter = 0
    return packet.encode()


class Watched:
    """An Ask that writes down what it gets, with the name of the method."""

    def __init__(self, ask: Ask) -> None:
        self.unseen: Final = ask
        self.seen: Final[list[tuple[str, Any]]] = []

    def __call__(self, interface: Interface, opnum: int, request: Parameters) -> Any:
        reply = self.unseen(interface, opnum, request)
        self.seen.append((interface.methods[opnum].name, comparable(reply)))
        return reply

    @property
    def methods(self) -> set[str]:
        return {name for name, _ in self.seen}


def fill(site: Site) -> None:
    """The queues that readers leave as they are."""
    site.manager.create_queue("orders")
    site.put("orders", *BODIES)
    site.manager.create_queue("ledger", transactional=True)
    site.put_in_transaction("ledger", *BODIES)
    for name in ("waste", "racks", "empty", "long"):
        site.manager.create_queue(name)
    site.put("long", LONG_BODY)


def everything_by_our_own_client(site: Site) -> list[tuple[str, Any]]:
    with site.asking(lambda interface: OurClient(site.endpoint(interface), [interface])) as ask:
        return everything(site, ask)


def everything(site: Site, ask: Ask) -> list[tuple[str, Any]]:
    """Every call of all interfaces; what they gave."""
    watched = Watched(ask)
    _remote_read(site, watched)
    _moving(site, watched)
    _transactions(watched)
    _qm2qm(site, watched)
    _mapper(watched)
    assert watched.methods == {method.name for interface in INTERFACES for method in interface.methods.values()}
    return watched.seen


def start(handle: ContextHandle, action: int, request_id: int, **others: int) -> table.StartReceiveRequest:
    values = {"lookup_id": 0, "cursor": 0, "timeout": 0, "max_body_size": WHOLE, "max_compound_message_size": WHOLE}
    return table.StartReceiveRequest(handle, action=action, request_id=request_id, **values | others)


def _remote_read(site: Site, ask: Watched) -> None:
    """MS-MQRR 3.1.4.1 to 3.1.4.9."""
    assert ask(REMOTE_READ, 0, Empty()).port == 2103
    handle = open_queue(ask, "orders")
    for name in (f"DIRECT=TCP:{site.address}\\private$\\orders", site.manager.queue("orders").info().format_name):
        ask(REMOTE_READ, 3, table.CloseQueueRequest(open_queue(ask, name)))
    missing = ask(REMOTE_READ, 2, table.OpenQueueRequest(queue_format("nobody"), RECEIVE, DENY_NONE))
    assert missing == Faulted(HResult.MQ_ERROR_QUEUE_NOT_FOUND)
    unknown = ask(REMOTE_READ, 2, table.OpenQueueRequest(QueueFormat(), RECEIVE, DENY_NONE))
    assert isinstance(unknown, Faulted)

    cursor = ask(REMOTE_READ, 4, table.CreateCursorRequest(handle)).cursor
    peeked = ask(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_PEEK_CURRENT, 1))
    assert peeked.hresult == HResult.MQ_OK
    for action in (ReceiveAction.MQ_ACTION_PEEK_CURRENT, ReceiveAction.MQ_ACTION_PEEK_NEXT):
        ask(REMOTE_READ, 7, start(handle, action, 1, cursor=cursor))
    second = [message.lookup_id for message in site.manager.queue("orders").browse()][1]
    for action in (action for action in ReceiveAction if action.is_lookup):
        found = ask(REMOTE_READ, 7, start(handle, action, 2, lookup_id=second))
        assert found.hresult == HResult.MQ_OK
        if not action.is_peek:
            assert ask(REMOTE_READ, 9, table.EndReceiveRequest(handle, NACK, 2)).hresult == HResult.MQ_OK
    cut = ask(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_PEEK_CURRENT, 1, max_body_size=2))
    assert len(cut.sections) == 2, "of the body, 2 bytes are in the first section and none in the second"

    assert ask(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_RECEIVE, 3)).hresult == HResult.MQ_OK
    assert ask(REMOTE_READ, 9, table.EndReceiveRequest(handle, NACK, 3)).hresult == HResult.MQ_OK
    assert ask(REMOTE_READ, 9, table.EndReceiveRequest(handle, ACK, 3)).hresult == HResult.MQ_ERROR_INVALID_HANDLE
    assert ask(REMOTE_READ, 8, table.CancelReceiveRequest(handle, 3)).hresult == HResult.STATUS_NOT_FOUND
    empty = open_queue(ask, "empty")
    waited = ask(REMOTE_READ, 7, start(empty, ReceiveAction.MQ_ACTION_RECEIVE, 4, timeout=1))
    assert (waited.hresult, waited.sections) == (HResult.MQ_ERROR_IO_TIMEOUT, [])

    for expected in (HResult.MQ_OK, HResult.STATUS_INVALID_HANDLE):
        assert ask(REMOTE_READ, 5, table.CloseCursorRequest(handle, cursor)).hresult == expected
    assert ask(REMOTE_READ, 3, table.CloseQueueRequest(handle)) == table.CloseQueueReply()
    closed = ask(REMOTE_READ, 6, table.PurgeQueueRequest(handle))
    assert closed == Faulted(FaultStatus.NCA_FAULT_CONTEXT_MISMATCH)
    assert site.bodies("orders") == BODIES


def open_queue(ask: Ask, name: str) -> ContextHandle:
    request = table.OpenQueueRequest(queue_format(name), RECEIVE, DENY_NONE, NOBODY, 1, 6, 1, 7601, 1)
    handle: ContextHandle = ask(REMOTE_READ, 2, request).context
    assert not handle.is_null
    return handle


def _moving(site: Site, ask: Watched) -> None:
    """MS-MQRR 3.1.4.6, 3.1.4.9, 3.1.4.10 and 3.1.4.11, on queues that are other ones afterwards."""
    site.put("waste", *BODIES)
    waste = open_queue(ask, "waste")
    taken = ask.unseen(REMOTE_READ, 7, start(waste, ReceiveAction.MQ_ACTION_RECEIVE, 1, max_body_size=0))
    assert taken.hresult == HResult.MQ_OK
    assert ask(REMOTE_READ, 9, table.EndReceiveRequest(waste, ACK, 1)).hresult == HResult.MQ_OK
    assert site.bodies("waste") == BODIES[1:]
    assert ask(REMOTE_READ, 6, table.PurgeQueueRequest(waste)).hresult == HResult.MQ_OK
    assert site.bodies("waste") == []

    (lookup_id,) = site.put("racks", b"to be moved")
    racks = open_queue(ask, "racks")
    late = ask(REMOTE_READ, 11, table.OpenQueueForMoveRequest(queue_format("racks;late"), MOVE, DENY_NONE))
    moved = ask(REMOTE_READ, 10, table.MoveMessageRequest(racks, late.move_context, lookup_id))
    assert moved.hresult == HResult.MQ_OK
    assert (site.bodies("racks"), site.bodies("racks;late")) == ([], [b"to be moved"])
    again = ask(REMOTE_READ, 10, table.MoveMessageRequest(racks, late.move_context, lookup_id, NOBODY))
    assert again.hresult == HResult.MQ_ERROR_TRANSACTION_USAGE
    site.manager.queue("racks;late").purge()
    for handle in (waste, racks, late.context):
        assert ask(REMOTE_READ, 3, table.CloseQueueRequest(handle)).hresult == HResult.MQ_OK


def _transactions(ask: Watched) -> None:
    """MS-MQRR 3.1.4.12 to 3.1.4.15. A daemon has no coordinator, so what is received is in no transaction."""
    ledger = open_queue(ask, "ledger")
    identifier = ledger.uuid
    for token in (b"of another coordinator", local_token(identifier)):
        enlist = table.QMEnlistRemoteTransactionRequest(identifier, token, queue_format("ledger"))
        assert ask(REMOTE_READ, 12, enlist).hresult == HResult.MQ_ERROR_DTC_CONNECT
    values = (ledger, 0, 0, ReceiveAction.MQ_ACTION_RECEIVE, 0, 5, WHOLE, WHOLE)
    refused = ask(REMOTE_READ, 13, table.StartTransactionalReceiveRequest(*values, identifier))
    assert refused.hresult == HResult.MQ_ERROR_TRANSACTION_SEQUENCE
    received = ask(REMOTE_READ, 13, table.StartTransactionalReceiveRequest(*values, NULL_GUID))
    assert received.hresult == HResult.MQ_OK
    priority_of_transactions = 7
    lookup_id = priority_of_transactions << 56 | received.sequence_id
    for user_class in (0, 0xC004):
        reject = table.SetUserAcknowledgementClassRequest(ledger, lookup_id, user_class)
        assert ask(REMOTE_READ, 14, reject).hresult == HResult.MQ_ERROR_TRANSACTION_USAGE
    for expected in (HResult.MQ_OK, HResult.MQ_ERROR_INVALID_HANDLE):
        assert ask(REMOTE_READ, 15, table.EndTransactionalReceiveRequest(ledger, NACK, 5)).hresult == expected
    assert ask(REMOTE_READ, 3, table.CloseQueueRequest(ledger)).hresult == HResult.MQ_OK


def _qm2qm(site: Site, ask: Watched) -> None:
    """MS-MQQP 3.1.4, and of MS-MQMP what goes with it."""
    assert ask(QMCOMM, 31, qmcomm.GetServerPortRequest(0)).port == 2103
    assert ask(QM2QM, 7, qm2qm.GetServerPortRequest(1)).port == 2105
    ask(QM2QM, 8, Empty())
    missing = ask(QMCOMM, 2, qmcomm.OpenRemoteQueueRequest(queue_format("nobody"), 7, RECEIVE, DENY_NONE, NOBODY, 0))
    assert missing.hresult == HResult.MQ_ERROR_QUEUE_NOT_FOUND
    ask(QMCOMM, 2, qmcomm.OpenRemoteQueueRequest(None, 7, RECEIVE, DENY_NONE, NOBODY, 0))

    orders, context, session = _open_over_qmcomm(ask, "orders")
    cursor = ask(QMCOMM, 4, qmcomm.CreateRemoteCursorRequest(orders)).cursor
    peek = RemoteReadDesc(orders, 0, ReceiveAction.MQ_ACTION_PEEK_CURRENT, 0, orders, 1)
    assert ask(QM2QM, 0, qm2qm.StartReceiveRequest(peek)).remote_read_desc.buffer is not None
    for action in (ReceiveAction.MQ_ACTION_PEEK_CURRENT, ReceiveAction.MQ_ACTION_PEEK_NEXT):
        desc = replace(peek, action=action, cursor=cursor)
        ask(QM2QM, 9, qm2qm.StartReceive2Request(RemoteReadDesc2(desc)))
    ask(QM2QM, 9, qm2qm.StartReceive2Request(RemoteReadDesc2(None)))
    receive = replace(peek, action=ReceiveAction.MQ_ACTION_RECEIVE, request_id=2)
    for opnum, request in (
        (0, qm2qm.StartReceiveRequest(receive)),
        (9, qm2qm.StartReceive2Request(RemoteReadDesc2(receive))),
    ):
        handle = ask(QM2QM, opnum, request).context
        assert ask(QM2QM, 1, qm2qm.EndReceiveRequest(handle, NACK)) == qm2qm.EndReceiveReply()
    assert ask(QM2QM, 1, qm2qm.EndReceiveRequest(ContextHandle(), NACK)).hresult == HResult.MQ_ERROR_INVALID_HANDLE
    second = [message.lookup_id for message in site.manager.queue("orders").browse()][1]
    for action in (action for action in ReceiveAction if action.is_lookup):
        desc = replace(peek, action=action)
        found = ask(QM2QM, 10, qm2qm.StartReceiveByLookupIdRequest(second, RemoteReadDesc2(desc)))
        assert found.hresult == HResult.MQ_OK
        if not action.is_peek:
            assert ask(QM2QM, 1, qm2qm.EndReceiveRequest(found.context, NACK)).hresult == HResult.MQ_OK
    ask(QM2QM, 5, qm2qm.CancelReceiveRequest(orders, orders, 2))
    for expected in (HResult.MQ_OK, HResult.MQ_ERROR_INVALID_HANDLE):
        assert ask(QM2QM, 4, qm2qm.CloseCursorRequest(orders, cursor)).hresult == expected
    assert ask(QM2QM, 3, qm2qm.CloseQueueRequest(session)) == qm2qm.CloseQueueReply()
    assert ask(QMCOMM, 3, qmcomm.CloseRemoteQueueContextRequest(context)) == qmcomm.CloseRemoteQueueContextReply()
    assert ask(QM2QM, 6, qm2qm.PurgeQueueRequest(orders)) == Faulted(HResult.MQ_ERROR_INVALID_HANDLE)
    assert site.bodies("orders") == BODIES

    site.put("waste", *BODIES)
    waste, context, session = _open_over_qmcomm(ask, "waste")
    assert ask(QM2QM, 6, qm2qm.PurgeQueueRequest(waste)).hresult == HResult.MQ_OK
    assert site.bodies("waste") == []
    assert ask(QM2QM, 3, qm2qm.CloseQueueRequest(session)).hresult == HResult.MQ_OK
    ask(QMCOMM, 3, qmcomm.CloseRemoteQueueContextRequest(context))


def _open_over_qmcomm(ask: Ask, name: str) -> tuple[int, ContextHandle, ContextHandle]:
    """The number of the queue, and the handles of qmcomm and of qm2qm for it."""
    opened = ask(QMCOMM, 2, qmcomm.OpenRemoteQueueRequest(queue_format(name), 7, RECEIVE, DENY_NONE, NOBODY, 0))
    number = opened.queue
    session = ask(QM2QM, 2, qm2qm.OpenQueueRequest(NOBODY, 0, number, number, number))
    assert (opened.hresult, session.hresult) == (HResult.MQ_OK, HResult.MQ_OK)
    return number, opened.context, session.context


def _mapper(ask: Watched) -> None:
    """C706 appendix O."""
    for interface, port in ((REMOTE_READ, 2103), (QMCOMM, 2103), (QM2QM, 2105)):
        mapped = ask(EPMAPPER, 3, EptMapRequest(NOBODY, Tower.of(Endpoint(interface.syntax, NDR20)), max_towers=4))
        assert [tower.endpoint.port for tower in mapped.towers] == [port]
    nobody = ask(EPMAPPER, 3, EptMapRequest(None, Tower.of(Endpoint(SyntaxId(NOBODY, 1), NDR20)), max_towers=4))
    assert nobody.status == MapperStatus.EPT_S_NOT_REGISTERED
    names = (InquiryType.RPC_C_EP_ALL_ELTS, None, None, VersionOption.RPC_C_VERS_ALL)
    assert len(ask(EPMAPPER, 2, EptLookupRequest(*names, max_ents=9)).entries) == 3
    first = ask(EPMAPPER, 2, EptLookupRequest(*names, max_ents=2))
    assert not first.entry_handle.is_null
    assert len(ask(EPMAPPER, 2, EptLookupRequest(*names, first.entry_handle, max_ents=2)).entries) == 1
    identifier = InterfaceId(REMOTE_READ.uuid, 1, 0)
    by_interface = (InquiryType.RPC_C_EP_MATCH_BY_IF, None, identifier, VersionOption.RPC_C_VERS_EXACT)
    assert len(ask(EPMAPPER, 2, EptLookupRequest(*by_interface, max_ents=9)).entries) == 1
    left = ask(EPMAPPER, 2, EptLookupRequest(*names, max_ents=1)).entry_handle
    ask(EPMAPPER, 4, EptLookupHandleFreeRequest(left))
