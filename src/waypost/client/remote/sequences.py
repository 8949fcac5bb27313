"""What the API asks the daemon about the sequences of transactional messages."""

from typing import Final

from waypost.client.remote.exchanges import Conversation, Decoder, post
from waypost.client.remote.schema import Admit, Admitted
from waypost.guid import guid_text

_admitted: Final = Decoder(Admitted)


class SequenceCalls:
    """The part of RemoteCalls for /api/sequences."""

    __slots__ = ()

    def admit_address(self, guid: bytes, address: str) -> Conversation[int]:
        answer: Admitted = _admitted((yield post("/api/sequences/admit", Admit(guid=guid_text(guid), address=address))))
        return answer.believed
