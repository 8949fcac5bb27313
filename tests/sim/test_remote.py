"""Remote readers in the simulator: their simulations, the ear on the wire, and what of it is compared."""

from random import Random

import pytest

from waypost.core import serialization
from waypost.core.message import Message
from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import REMOTE_READ, EndReceiveRequest, StartReceiveRequest
from waypost.rpc.client import ClientConnection
from waypost.rpc.interface import Empty
from waypost.sim.local.arguments import Draft, format_name
from waypost.sim.marks import Marks
from waypost.sim.model.records import Answer, ModelMessage
from waypost.sim.model.remote import Line, RemoteCall, key_of
from waypost.sim.remote.pdus import Kind, Pdu, take_pdus
from waypost.sim.remote.replies import check_reply, packet_of
from waypost.sim.run import run_seed
from waypost.sim.swarm import draw
from waypost.sim.violation import Violation
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat
from waypost.wire.receive_reply import BodyLimits, ReceiveReply
from waypost.wire.remote_packet import Origin, RemotePacket

SEEDS = [seed for seed in range(200) if draw(seed, Random(seed)).readers is not None]
SEED = SEEDS[0]
DUE = ModelMessage(Draft(7), 100, recoverable=True, transactional=False, lookup_id=0x0400_0000_0000_0003)
HANDLE = ContextHandle(0, b"h" * 16)


def call() -> RemoteCall:
    start = StartReceiveRequest(HANDLE, 0, 0, 0, 0, 1, 0, 0)
    return RemoteCall(1, Line(-1, "10.0.0.1"), 2, REMOTE_READ, 7, start)


def reply(uid: int, lookup_id: int = DUE.lookup_id, aborts: int = 0) -> ReceiveReply:
    packet = RemotePacket.of(user_message(uid), Origin(b"q" * 16))
    assert packet.subqueue is not None
    packet.subqueue.abort_counter = aborts
    return ReceiveReply.of(packet.encode(), lookup_id, 1, BodyLimits(1000, 1000))


def user_message(uid: int) -> bytes:
    draft = Draft(uid)
    return serialization.packet_of(Message(body=draft.mark, destination_queue_format_name=format_name("q1")))


def test_some_simulations_have_remote_readers_and_the_others_have_none() -> None:
    assert 20 < len(SEEDS) < 100


def test_a_simulation_with_remote_readers_tells_what_they_do() -> None:
    outcomes = [run_seed(seed, Marks()) for seed in SEEDS[:5]]
    assert [each.violation for each in outcomes] == [None] * 5
    told = [line for each in outcomes for line in each.trace.lines()]
    assert any("asks R_StartReceive on connection" in line for line in told)
    assert any("asks RemoteQMStartReceive2 on connection" in line for line in told)
    assert any("loses a connection" in line for line in told)


def test_it_is_the_same_simulation_each_time() -> None:
    assert run_seed(SEED, Marks()).digest == run_seed(SEED, Marks(), interval=1).digest


def test_the_wire_is_read_pdu_by_pdu_in_pieces_of_any_size() -> None:
    client = ClientConnection((REMOTE_READ,), assoc_group_id=77)
    client.start()
    data = client.take_output()
    buffer = bytearray()
    pdus: list[Pdu] = []
    for at in range(len(data)):
        buffer += data[at : at + 1]
        pdus += take_pdus(buffer)
    assert [(pdu.kind, pdu.group_id, pdu.is_last) for pdu in pdus] == [(Kind.BIND, 77, True)]
    assert not buffer


def test_several_pdus_come_out_of_one_piece() -> None:
    client = ClientConnection((REMOTE_READ,))
    client.start()
    first = client.take_output()
    buffer = bytearray(first + first + first[:5])
    assert len(list(take_pdus(buffer))) == 2
    assert buffer == first[:5]


@pytest.mark.parametrize("key", ["q1", "q1;journal", "q1;late", ";journal", ";deadletter", ";deadxact"])
def test_a_queue_is_known_by_what_a_reader_calls_it(key: str) -> None:
    assert key_of(QueueFormat.from_format_name(format_name(key))) == key


def test_the_message_of_a_reply_is_the_one_that_was_due() -> None:
    due = Answer(messages=(DUE,), counts=((2, 0),))
    check_reply(call(), due, reply(7, aborts=2))
    with pytest.raises(Violation, match="but found another message"):
        check_reply(call(), due, reply(8, aborts=2))
    with pytest.raises(Violation, match="has the wrong number 0x4"):
        check_reply(call(), due, reply(7, DUE.lookup_id + 1, aborts=2))
    with pytest.raises(Violation, match="expected the abort and move counts"):
        check_reply(call(), due, reply(7, aborts=1))
    with pytest.raises(Violation, match="but found no message"):
        check_reply(call(), due, ReceiveReply(hresult=HResult.MQ_OK))
    with pytest.raises(Violation, match="expected no message, but found a message"):
        check_reply(call(), Answer(), reply(7))


def test_what_is_no_read_brings_no_message() -> None:
    assert packet_of(Empty()) == b""
    assert packet_of(EndReceiveRequest(HANDLE, 2, 1)) == b""
