"""Any bytes, on any number of connections, are answered or end the connection: nothing else comes out of a server."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rpc.serving import ECHO, NOW, OPEN, TOY, WAIT, Octets, Peer, ToyHandler, offer, toy_server, trailer
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.binds import NDR20, NDR64, AlterContext, Auth3, Bind, ContextElement, bind_time_features
from waypost.rpc.calls import Fault, Request, Response, cut
from waypost.rpc.interface import encode_request
from waypost.rpc.pdu import FragmentReader, Header, PacketType, bare_fragment, fragment_of
from waypost.rpc.server import RpcServer
from waypost.wire.ndr import NdrSyntax

few = st.integers(0, 3)
flags = st.sampled_from([0, 1, 2, 3, 3, 3, 7, 0x13, 0x83]) | st.integers(0, 255)
tokens = st.sampled_from([b"hello alice", b"proof alice", b"hello mallory", b"?"])
levels = st.sampled_from(list(AuthLevel))
transfers = st.sampled_from([NDR20, NDR64, bind_time_features(3), TOY.syntax])
offers = st.lists(
    st.builds(ContextElement, few, st.sampled_from([TOY.syntax, NDR20]), st.lists(transfers, max_size=3)), max_size=4
)
sizes = st.sampled_from([0, 1432, 5840, 0xFFFF])
stubs = st.sampled_from([b"", bytes(4), bytes(8), bytes(20), b"\x05\0\0\0\x05\0\0\0hello"]) | st.binary(max_size=40)


@st.composite
def pdus(draw: st.DrawFn) -> bytes:
    """One fragment of any type with likely contents, perhaps with a token, perhaps with a byte that is wrong."""
    record: Any = draw(
        st.one_of(
            st.builds(Bind, sizes, sizes, st.sampled_from([0, 0, 0, 7]), offers),
            st.builds(AlterContext, sizes, sizes, few, offers),
            st.builds(Auth3),
            st.builds(Request, few, few, st.integers(0, 8), stubs),
            st.builds(Response, few, few, stubs),
            st.builds(Fault, few),
        )
    )
    fragment = fragment_of(record, draw(few), draw(flags))
    if draw(st.booleans()):
        fragment = fragment.authenticate(trailer(draw(levels), draw(st.sampled_from([9, 10, 16, 77]))), draw(tokens))
    if draw(st.integers(0, 4)) == 0:
        fragment.header.ptype = draw(st.sampled_from(list(PacketType)))
    data = bytearray(fragment.encode())
    if draw(st.integers(0, 9)) == 0:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


cancels = st.builds(bare_fragment, st.sampled_from([PacketType.CO_CANCEL, PacketType.ORPHANED]), few)
pieces = pdus() | st.binary(max_size=60) | cancels.map(lambda fragment: fragment.encode())


def drain(server: RpcServer, readers: dict[int, FragmentReader], ended: set[int]) -> None:
    """The output is PDUs of a server, and nothing after the end."""
    for number, data in server.take_output():
        assert number not in ended
        if data is None:
            ended.add(number)
            continue
        server.sent(number, len(data))
        for fragment in readers[number].feed(data):
            assert fragment.header.ptype in (
                PacketType.BIND_ACK,
                PacketType.BIND_NAK,
                PacketType.ALTER_CONTEXT_RESP,
                PacketType.RESPONSE,
                PacketType.FAULT,
            )


@given(st.lists(st.tuples(st.integers(1, 2), pieces), max_size=12), levels)
@settings(max_examples=70, deadline=None)
def test_any_sequence_of_pdus_and_bytes_is_answered_or_ends_the_connection(
    sequence: list[tuple[int, bytes]], level: AuthLevel
) -> None:
    handler = ToyHandler()
    server = toy_server(handler, level)
    readers = {number: FragmentReader() for number in (1, 2)}
    ended: set[int] = set()
    for number in readers:
        server.connected(number, "2105", "10.0.0.9", NOW)
    for number, data in sequence:
        server.received(number, data, NOW)
        drain(server, readers, ended)
    for number in list(handler.waiting):
        handler.answer(number)
    drain(server, readers, ended)
    for number in readers:
        server.closed(number, NOW)
    assert server.take_output() == []
    assert server._connections == {}
    assert all(len(endpoint.associations) == 0 for endpoint in server._endpoints.values())


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_conversation_with_bytes_that_are_wrong_is_answered_or_ended(data: st.DataObject) -> None:
    stub = encode_request(TOY.methods[ECHO], Octets(bytes(40)), NdrSyntax.NDR20)
    good = b"".join(
        fragment.encode()
        for fragment in (
            fragment_of(Bind(5840, 5840, 0, [offer(0), offer(1, NDR64)]), 1),
            fragment_of(AlterContext(5840, 5840, 0, [offer(0)]), 2),
            *cut(Request(0, 0, ECHO, stub), 3, 16),
            *cut(Request(0, 0, WAIT, bytes(4)), 4, 16),
            bare_fragment(PacketType.CO_CANCEL, 4),
            *cut(Request(0, 0, OPEN, b""), 5, 16),
        )
    )
    broken = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    server = toy_server(ToyHandler())
    readers = {1: FragmentReader()}
    ended: set[int] = set()
    server.connected(1, "2103", "10.0.0.9", NOW)
    at = data.draw(st.integers(0, len(good)))
    for part in (broken[:at], broken[at:]):
        server.received(1, bytes(part), NOW)
        drain(server, readers, ended)
    server.closed(1, NOW)


@given(st.lists(st.binary(max_size=48), max_size=4))
@settings(max_examples=100, deadline=None)
def test_sealed_requests_of_any_content_are_answered(contents: list[bytes]) -> None:
    client = Peer(toy_server(ToyHandler()))
    client.log_in()
    assert client.security is not None
    for call_id, content in enumerate(contents, 2):
        fragment = fragment_of(Request(0, 0, ECHO, content), call_id)
        answers = client.send(client.security.protect(fragment))
        assert len(answers) == 1
        if answers[0].header.ptype == PacketType.RESPONSE:
            client.security.unprotect(answers[0])
    assert not client.is_closed


def test_a_header_alone_is_waited_for() -> None:
    client = Peer(toy_server(ToyHandler()))
    header = Header(ptype=PacketType.BIND, frag_length=0xFFFF)
    assert client.send(header.encode()) == []
    assert not client.is_closed
