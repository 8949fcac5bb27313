"""scapy as a client of RPC."""

# mypy: allow-untyped-calls

from typing import Any, Final, Self

from scapy.layers.dcerpc import (
    DCE_C_AUTHN_LEVEL,
    DceRpc5,
    DceRpc5Bind,
    DceRpc5Fault,
    DceRpc5Request,
    DCERPC_Transport,
    find_dcerpc_interface,
)
from scapy.layers.msrpce.rpcclient import DCERPC_Client
from scapy.layers.ntlm import NTLMSSP
from scapy.layers.spnego import SPNEGOSSP

from tests.foreign.scapy_records import correct_definitions, reply_record, request_packet
from tests.foreign.site import DOMAIN, PASSWORD, SECONDS, USER, Faulted
from waypost.rpc.authentication import AuthLevel, AuthType
from waypost.rpc.interface import Interface, Parameters
from waypost.wire.ndr import NdrSyntax

# mypy takes it for an abstract class.
_spnego: Final[Any] = SPNEGOSSP

# The names of the interfaces in scapy.
_NAMES: Final = {"RemoteRead": "RemoteRead", "qm2qm": "qm2qm", "qmcomm": "qmcomm", "epmapper": "ept"}


class _Client(DCERPC_Client):
    """Names an association group in its bind, says that it can have several calls open, and keeps the last answer."""

    group = 0
    last: Any = None

    def sr1(self, pkt: Any, **options: Any) -> Any:
        if DceRpc5Bind in pkt:
            pkt.assoc_group_id = self.group
            options["pfc_flags"] = options.get("pfc_flags", "PFC_FIRST_FRAG+PFC_LAST_FRAG") + "+PFC_CONC_MPX"
        self.last = super().sr1(pkt, timeout=SECONDS, **options)
        assert self.last is not None, "no answer comes"
        return self.last


class ScapyClient:
    """A connection with one interface bound to it at a time."""

    def __init__(
        self,
        endpoint: tuple[str, int],
        interface: Interface,
        level: AuthLevel = AuthLevel.NONE,
        syntax: NdrSyntax = NdrSyntax.NDR20,
        *,
        auth_type: AuthType = AuthType.NTLM,
        group: int = 0,
    ) -> None:
        correct_definitions()
        options: dict[str, Any] = {}
        if level is not AuthLevel.NONE:
            package: Any = NTLMSSP(UPN=f"{USER}@{DOMAIN}", PASSWORD=PASSWORD)
            options["ssp"] = _spnego([package]) if auth_type is AuthType.SPNEGO else package
            options["auth_level"] = DCE_C_AUTHN_LEVEL(level)
        is_ndr64 = syntax is NdrSyntax.NDR64
        self._client: Final[Any] = _Client(DCERPC_Transport.NCACN_IP_TCP, ndr64=is_ndr64, verb=False, **options)
        self._client.group = group
        self._client.connect(endpoint[0], port=endpoint[1], timeout=SECONDS)
        self._calls: dict[int, tuple[Interface, int]] = {}
        self.bind(interface)
        # Of a bind with security, it is the answer to the last leg that has one.
        self.bind_answer: Final = self._client.last
        self.group: Final[int] = self._client.session.assoc_group_id
        assert self._client.ndr64 is is_ndr64

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def bind(self, interface: Interface) -> None:
        """The first one with a bind, another one by altering the context."""
        self._interface = find_dcerpc_interface(_NAMES[interface.name])
        assert self._client.bind_or_alter(self._interface)

    def ask(self, interface: Interface, opnum: int, request: Parameters) -> Any:
        """The reply, or Faulted."""
        return _reply(interface, opnum, self._client.sr1_req(self._packet(interface, opnum, request)))

    def begin(self, interface: Interface, opnum: int, request: Parameters) -> int:
        """Sends a call; its number."""
        packet = self._packet(interface, opnum, request)
        packet.ndr64 = self._client.ndr64
        session = self._client.session
        self._client.send(DceRpc5Request(cont_id=session.cont_id, alloc_hint=len(packet)) / packet)
        number: int = self._client.call_ids[session.assoc_group_id]
        self._calls[number] = interface, opnum
        return number

    def finish(self) -> tuple[int, Any]:
        """The number of the next call that ends, and its reply or Faulted."""
        answer = None
        while answer is None:
            answer = self._client.sock.recv()
        number = answer[DceRpc5].call_id
        is_fault = DceRpc5Fault in answer
        return number, _reply(*self._calls.pop(number), answer if is_fault else answer.payload.payload)

    def give_up(self, number: int) -> None:
        """C706 12.6.4.8: sends an orphaned for a call."""
        del self._calls[number]
        self._client.sock.ins.sendall(bytes(DceRpc5(ptype=19, call_id=number)))

    def _packet(self, interface: Interface, opnum: int, request: Parameters) -> Any:
        assert self._interface.name == _NAMES[interface.name], "another interface is bound"
        return request_packet(self._interface.opnums[opnum].request, request)


def _reply(interface: Interface, opnum: int, answer: Any) -> Any:
    if DceRpc5Fault in answer:
        return Faulted(answer[DceRpc5Fault].status)
    response = find_dcerpc_interface(_NAMES[interface.name]).opnums[opnum].response
    assert isinstance(answer, response), answer
    assert not answer.payload, "scapy has not understood all of the answer"
    return reply_record(interface.methods[opnum], answer)
