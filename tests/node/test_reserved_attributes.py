"""MS-MQDMPR 3.1.1.12 and 3.1.1.1: attributes that only transfer assigns, and HardenedSecurity over a restart."""

from dataclasses import replace

from tests.node.rig import SEND, SETTINGS, START, Rig, direct, letter
from waypost.core.message import Message
from waypost.core.outgoing import Transport
from waypost.core.queues import OutgoingQueue
from waypost.core.serialization import deserialize_message_from_buffer, serialize_message_to_buffer
from waypost.core.system import QueueManagerAttributes
from waypost.wire.soap import CompoundMessageHeader, SoapHeader, SrmpEnvelopeHeader
from waypost.wire.user_message import UserMessage

FAR = "DIRECT=OS:far\\private$\\q"
HTTP = "DIRECT=HTTP://far/msmq/q"
MULTICAST = "MULTICAST=234.1.1.1:8001"
TRANSPORTS = {FAR: Transport.BINARY, HTTP: Transport.HTTP, MULTICAST: Transport.PGM}
SOAP = {
    "soap_envelope": "<e/>",
    "soap_compound_message": b"POST",
    "soap_body": "<b/>",
    "soap_header": "<h/>",
}
NO_SOAP = {"soap_envelope": "", "soap_compound_message": b"", "soap_body": "", "soap_header": ""}


def soap_of(message: Message) -> dict[str, object]:
    return {name: getattr(message, name) for name in SOAP}


def from_srmp() -> Message:
    """A message in a packet with all the headers of SOAP."""
    message = letter("x", destination_queue_format_name=direct("orders"), sent_time=int(START.wall))
    packet = UserMessage.decode(serialize_message_to_buffer(message))
    packet.srmp_envelope = SrmpEnvelopeHeader(data="<e/>")
    packet.compound_message = CompoundMessageHeader(data=b"POST")
    packet.soap = SoapHeader(header="<h/>", body="<b/>")
    return deserialize_message_from_buffer(packet.encode())


def outgoing(rig: Rig, name: str) -> OutgoingQueue:
    rig.open(name, SEND)
    return rig.node.manager.collection.outgoing[direct(name)]


def leaves(rig: Rig, name: str) -> bool:
    """Whether what is in this queue is given to those who transfer."""
    queue, dispatch = outgoing(rig, name), rig.node.manager.dispatch
    # Put, and not sent: no packet names a multicast address.
    message = from_srmp()
    with rig.node.kernel.operation(rig.now):
        rig.node.manager.writing.enqueue_message(queue, message, None, rig.now)
    entry = dispatch.add_message_to_dispatch_collection(queue, message.lookup_identifier, None)
    dispatch.remove_messages_from_dispatch_collection_by_queue(queue)
    return entry is not None


def serves(rig: Rig) -> tuple[bool, bool, list[str]]:
    """HardenedSecurity, whether RPC is answered, and where messages can go: the parts must agree on that."""
    manager = rig.node.manager
    moved = [name for name in TRANSPORTS if leaves(rig, name)]
    assert moved == [name for name, each in TRANSPORTS.items() if manager.accepts_transfer(each)]
    return manager.attributes.hardened_security, manager.answers_rpc, moved


def test_a_hardened_queue_manager_answers_no_rpc_and_moves_messages_over_http_alone() -> None:
    assert not QueueManagerAttributes().hardened_security
    rig = Rig()
    assert serves(rig) == (False, True, list(TRANSPORTS))
    rig.settings = replace(SETTINGS, hardened_security=True)
    rig.stop()
    rig.settings = SETTINGS
    for restart in (Rig.crash, Rig.stop, Rig.settle):
        assert serves(rig) == (True, False, [HTTP])
        restart(rig)
    rig.settings = replace(SETTINGS, hardened_security=False)
    rig.stop()
    assert serves(rig) == (False, True, list(TRANSPORTS))


def test_a_queue_manager_that_is_not_ready_serves_nobody() -> None:
    manager = Rig().node.manager
    manager.queue_manager_stopped()
    assert not manager.answers_rpc
    assert not any(manager.accepts_transfer(transport) for transport in Transport)


def test_what_an_application_gives_for_attributes_of_transfer_is_dropped() -> None:
    rig = Rig()
    given = {**SOAP, "transaction_status_queue_format_name": direct("status")}
    rig.done(rig.send(letter("one", **given)))
    call = rig.call()
    rig.handlers.messages.send_messages(call, rig.open("orders", SEND), letter("many", **given), [b"1", b"2"])
    rig.done(call.request)
    for restart in (Rig.settle, Rig.crash):
        restart(rig)
        assert rig.labels() == ["one", "many", "many"]
        for message in rig.contents():
            assert soap_of(message) == NO_SOAP
            assert message.transaction_status_queue_format_name is None


def test_what_srmp_gave_reaches_the_reader_and_is_gone_when_he_sends_it_on() -> None:
    rig = Rig()
    rig.create("next")
    with rig.node.kernel.operation(rig.now):
        rig.node.manager.writing.enqueue_message(rig.queue(), from_srmp(), None, rig.now)
    rig.settle()
    rig.crash()
    received = rig.message(rig.receive())
    assert soap_of(received) == SOAP
    rig.done(rig.send(received, "next"))
    assert [soap_of(message) for message in rig.contents(rig.queue("next"))] == [NO_SOAP]
