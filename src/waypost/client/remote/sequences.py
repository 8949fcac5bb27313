"""What the API asks the daemon about the sequences of transactional messages."""

from typing import Final

from waypost.client.remote.exchanges import Conversation, Decoder, get, post
from waypost.client.remote.schema import Admit, Admitted, AdmittedAddresses
from waypost.guid import guid_text, parse_guid

_admitted: Final = Decoder(Admitted)
_addresses: Final = Decoder(AdmittedAddresses)


class SequenceCalls:
    """The part of RemoteCalls for /api/sequences."""

    __slots__ = ()

    def admit_address(self, guid: bytes, address: str) -> Conversation[int]:
        answer: Admitted = _admitted((yield post("/api/sequences/admit", Admit(guid=guid_text(guid), address=address))))
        return answer.believed

    def revoke_address(self, guid: bytes, address: str) -> Conversation[None]:
        yield post("/api/sequences/revoke", Admit(guid=guid_text(guid), address=address))

    def admitted_addresses(self) -> Conversation[list[tuple[bytes, str]]]:
        answer: AdmittedAddresses = _addresses((yield get("/api/sequences/admitted")))
        return [(parse_guid(each.guid), each.address) for each in answer.addresses]
