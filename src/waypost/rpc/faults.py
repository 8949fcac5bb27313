"""The error of a call that ends with a fault PDU (C706 12.6.4.7, MS-RPCE 2.2.2.8), on both sides of the connection."""

from waypost.errors import ProtocolError


class RpcFault(ProtocolError):
    """A call ends with this status instead of an answer: one of FaultStatus, or any HRESULT that a method raises."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status

    def __str__(self) -> str:
        return f"the call failed with the fault 0x{self.status:08X}"
