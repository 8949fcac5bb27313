"""Access checks and ports of qm2qm and qmcomm: MS-MQQP 2.1, 3.1.4.8 and 5."""

from typing import Final

from waypost.hresult import HResult
from waypost.remote.context import RemoteHost
from waypost.rpc.authentication import Caller
from waypost.rpc.faults import RpcFault

# MS-MQQP 3.1.4.8, MS-MQMP 3.1.4.24. SPX is not served.
IP_HANDSHAKE: Final = 0
IP_READ: Final = 1


def is_refused(caller: Caller, host: RemoteHost) -> bool:
    """MS-MQQP 5, readings MQQP 3.21: whether the host asks callers for more than this one has shown."""
    settings = host.settings
    return not settings.allows_nonauthenticated_rpc and caller.level < settings.min_auth_level


def check_ready(host: RemoteHost) -> None:
    """MS-MQDMPR 3.1.1.1. Raises RpcFault."""
    if not host.manager.answers_rpc:
        raise RpcFault(HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE)


def server_port(host: RemoteHost, port_type: int) -> int:
    """The port of an interface, 0 if there is none."""
    if not host.manager.answers_rpc:
        return 0
    if port_type == IP_HANDSHAKE:
        # readings MQRR 3.35: one listener for qmcomm and RemoteRead.
        return host.remote_read_port
    return host.qm2qm_port if port_type == IP_READ else 0
