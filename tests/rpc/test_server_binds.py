import pytest

from tests.rpc.serving import ECHO, OTHER, TOY, Octets, Peer, ToyHandler, offer, toy_server
from waypost.guid import NULL_GUID
from waypost.rpc import presentation
from waypost.rpc.binds import (
    NDR20,
    NDR64,
    NO_SYNTAX,
    AlterContext,
    AlterContextResponse,
    Bind,
    BindAck,
    BindNak,
    BindResult,
    ContextElement,
    ContextResult,
    RejectionReason,
    RejectReason,
    SyntaxId,
    bind_time_features,
)
from waypost.rpc.calls import Fault, FaultStatus
from waypost.rpc.pdu import PFC_CONC_MPX, WHOLE, Fragment, PacketType, fragment_of
from waypost.wire.ndr import NdrSyntax

UNKNOWN_TRANSFER = SyntaxId(bytes(range(16)), 1)
ACCEPTED_NDR20 = ContextResult(BindResult.ACCEPTANCE, 0, NDR20)
ACCEPTED_NDR64 = ContextResult(BindResult.ACCEPTANCE, 0, NDR64)
NO_INTERFACE = ContextResult(BindResult.PROVIDER_REJECTION, RejectionReason.ABSTRACT_SYNTAX_NOT_SUPPORTED)
NO_TRANSFER = ContextResult(BindResult.PROVIDER_REJECTION, RejectionReason.PROPOSED_TRANSFER_SYNTAXES_NOT_SUPPORTED)


def peer(number: int = 1, listener: str = "2103") -> Peer:
    return Peer(toy_server(ToyHandler()), number, listener)


def refusal(fragments: list[Fragment]) -> int:
    (answer,) = fragments
    assert answer.header.ptype == PacketType.BIND_NAK
    nak = BindNak.decode(answer)
    assert nak.versions == [(5, 0)]
    return nak.provider_reject_reason


def altered(client: Peer, *offers: ContextElement) -> list[ContextResult]:
    (answer,) = client.send_pdu(AlterContext(5840, 5840, 0, list(offers)), 3)
    assert answer.header.call_id == 3
    assert answer.header.ptype == PacketType.ALTER_CONTEXT_RESP
    return AlterContextResponse.decode(answer).results


def test_a_bind_is_acknowledged_with_the_port_and_an_association() -> None:
    client = peer()
    ack = client.bind()
    assert ack.sec_addr == b"2103\0"
    assert ack.assoc_group_id != 0
    assert ack.results == [ACCEPTED_NDR20]
    assert not client.is_closed


@pytest.mark.parametrize(
    ("xmit", "recv", "agreed"),
    [(5840, 5840, (5840, 5840)), (4280, 2000, (2000, 4280)), (0xFFFF, 0xFFFF, (5840, 5840)), (0, 1, (1432, 1432))],
)
def test_fragment_sizes_are_the_lesser_ones_and_never_less_than_every_peer_takes(
    xmit: int, recv: int, agreed: tuple[int, int]
) -> None:
    (answer,) = peer().send_pdu(Bind(xmit, recv, 0, [offer(0)]))
    ack = BindAck.decode(answer)
    assert (ack.max_xmit_frag, ack.max_recv_frag) == agreed


@pytest.mark.parametrize("flag", [0, PFC_CONC_MPX])
def test_concurrent_multiplexing_is_agreed_on_when_it_is_offered(flag: int) -> None:
    (answer,) = peer().send_pdu(Bind(5840, 5840, 0, [offer(0)]), 1, WHOLE | flag)
    assert answer.header.pfc_flags == WHOLE | flag


def test_of_ndr_and_ndr64_in_contexts_of_their_own_one_is_accepted_and_features_are_acknowledged() -> None:
    ack = peer().bind(offer(0, NDR20), offer(1, NDR64), offer(2, bind_time_features(0xFF)))
    assert ack.results == [NO_TRANSFER, ACCEPTED_NDR64, ContextResult(BindResult.NEGOTIATE_ACK, 0x03, NO_SYNTAX)]
    assert ack.results[2].transfer.uuid == NULL_GUID


def test_only_features_that_the_client_has_are_acknowledged() -> None:
    ack = peer().bind(offer(0), offer(1, bind_time_features(0x02)), offer(2, bind_time_features(0x00)))
    assert [result.reason for result in ack.results[1:]] == [0x02, 0x00]


def test_of_the_transfer_syntaxes_of_one_context_ndr64_is_taken() -> None:
    assert peer().bind(offer(0, UNKNOWN_TRANSFER, NDR20, NDR64)).results == [ACCEPTED_NDR64]


def test_each_context_is_answered_in_its_place() -> None:
    client = peer(listener="2105")
    ack = client.bind(
        offer(0, abstract=SyntaxId(bytes(16), 1)),
        offer(7),
        offer(8, UNKNOWN_TRANSFER),
        offer(9, NDR64, abstract=OTHER.syntax),
        offer(10, bind_time_features(1), NDR20),
    )
    assert ack.results == [NO_INTERFACE, ACCEPTED_NDR20, NO_TRANSFER, ACCEPTED_NDR64, ACCEPTED_NDR20]
    assert client.ask(ECHO, Octets(b"a"), 2, context_id=7) == Octets(b"a")
    assert client.ask(ECHO, Octets(b"b"), 3, context_id=9, syntax=NdrSyntax.NDR64) == Octets(b"b")
    assert client.ask(ECHO, Octets(b"c"), 4, context_id=8) == FaultStatus.NCA_UNK_IF
    assert client.ask(ECHO, Octets(b"d"), 5, context_id=0) == FaultStatus.NCA_UNK_IF


@pytest.mark.parametrize(
    ("major", "minor", "result"),
    [
        (1, 2, ACCEPTED_NDR20),
        (1, 0, ACCEPTED_NDR20),
        (1, 3, NO_INTERFACE),
        (2, 2, NO_INTERFACE),
        (0, 2, NO_INTERFACE),
    ],
)
def test_an_interface_is_served_in_its_major_version_and_up_to_its_minor_version(
    major: int, minor: int, result: ContextResult
) -> None:
    assert peer().bind(offer(0, abstract=SyntaxId(TOY.uuid, minor << 16 | major))).results == [result]


def test_an_interface_of_another_listener_is_not_known() -> None:
    assert peer(listener="2103").bind(offer(0, abstract=OTHER.syntax)).results == [NO_INTERFACE]


def test_a_bind_without_contexts_is_acknowledged_too() -> None:
    (answer,) = peer().send_pdu(Bind(5840, 5840, 0, []))
    assert BindAck.decode(answer).results == []


def test_an_alter_context_adds_contexts() -> None:
    client = peer()
    client.bind(offer(0, NDR64))
    assert altered(client, offer(1, NDR20), offer(2, UNKNOWN_TRANSFER)) == [ACCEPTED_NDR20, NO_TRANSFER]
    assert client.ask(ECHO, Octets(b"a"), 4, context_id=0, syntax=NdrSyntax.NDR64) == Octets(b"a")
    assert client.ask(ECHO, Octets(b"b"), 5, context_id=1) == Octets(b"b")


def test_an_alter_context_response_has_no_secondary_address() -> None:
    client = peer()
    group = client.bind().assoc_group_id
    (answer,) = client.send_pdu(AlterContext(1500, 1500, 0, [offer(1)]), 3)
    response = AlterContextResponse.decode(answer)
    assert (response.sec_addr, response.assoc_group_id, response.max_xmit_frag) == (b"", group, 5840)


def test_contexts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presentation, "MAX_RPC_CONTEXTS", 2)
    client = peer()
    client.bind(offer(0))
    assert altered(client, offer(1), offer(2), offer(0)) == [
        ACCEPTED_NDR20,
        ContextResult(BindResult.PROVIDER_REJECTION, RejectionReason.LOCAL_LIMIT_EXCEEDED),
        ACCEPTED_NDR20,
    ]


def test_a_second_connection_joins_the_association() -> None:
    server = toy_server(ToyHandler())
    group = Peer(server, 1).bind().assoc_group_id
    assert Peer(server, 2).bind(group=group).assoc_group_id == group


def test_an_association_that_is_not_there_or_of_another_client_is_refused() -> None:
    server = toy_server(ToyHandler())
    group = Peer(server, 1).bind().assoc_group_id
    for number, stranger in enumerate((Peer(server, 2), Peer(server, 3, address="10.0.0.10")), 1):
        asked = group + 1 if number == 1 else group
        assert refusal(stranger.send_pdu(Bind(5840, 5840, asked, [offer(0)]))) == RejectReason.REASON_NOT_SPECIFIED
        assert stranger.is_closed


def test_a_second_bind_on_a_connection_is_refused_and_ends_it() -> None:
    client = peer()
    client.bind()
    assert refusal(client.send_pdu(Bind(5840, 5840, 0, [offer(0)]), 2)) == RejectReason.REASON_NOT_SPECIFIED
    assert client.is_closed


def test_a_bind_of_another_protocol_version_is_refused_with_those_that_are_known() -> None:
    for place, value in ((0, 4), (1, 1)):
        client = peer()
        data = bytearray(fragment_of(Bind(5840, 5840, 0, [offer(0)]), 9).encode())
        data[place] = value
        answers = client.send(bytes(data))
        assert refusal(answers) == RejectReason.PROTOCOL_VERSION_NOT_SUPPORTED
        assert answers[0].header.call_id == 9
        assert client.is_closed


def test_a_bind_that_is_cut_short_is_refused() -> None:
    client = peer()
    fragment = fragment_of(Bind(5840, 5840, 0, [offer(0)]), 1)
    fragment.body = fragment.body[:-1]
    assert refusal(client.send(fragment.encode())) == RejectReason.PROTOCOL_VERSION_NOT_SUPPORTED
    assert client.is_closed


@pytest.mark.parametrize(
    "ptype", [PacketType.ALTER_CONTEXT, PacketType.REQUEST, PacketType.AUTH3, PacketType.CO_CANCEL, PacketType.ORPHANED]
)
def test_a_connection_begins_with_a_bind(ptype: PacketType) -> None:
    client = peer()
    fragment = fragment_of(Bind(5840, 5840, 0, [offer(0)]), 6)
    fragment.header.ptype = ptype
    (answer,) = client.send(fragment.encode())
    assert (answer.header.ptype, answer.header.call_id) == (PacketType.FAULT, 6)
    assert Fault.decode(answer).status == 0x1C01000B
    assert client.is_closed


@pytest.mark.parametrize("ptype", [PacketType.RESPONSE, PacketType.FAULT, PacketType.BIND_ACK, PacketType.SHUTDOWN])
def test_what_only_servers_send_ends_the_connection(ptype: PacketType) -> None:
    client = peer()
    client.bind()
    (answer,) = client.tell(ptype, 4)
    assert Fault.decode(answer).status == FaultStatus.NCA_PROTO_ERROR
    assert client.is_closed
