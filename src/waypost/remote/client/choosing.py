"""The choice between the two protocols to read a queue: MS-MQRR 3.2.4.1."""

from waypost.remote.client.conversations import Conversation
from waypost.remote.client.qm2qm import Qm2QmClient
from waypost.remote.client.reads import Opening, RemoteQueue
from waypost.remote.client.remote_read import RemoteReadClient
from waypost.rpc.client_errors import InterfaceNotSupported
from waypost.rpc.endpoint_lookup import EPT_S_NOT_REGISTERED
from waypost.rpc.faults import RpcFault


def open_remote_queue(remote_read: RemoteReadClient, qm2qm: Qm2QmClient, opening: Opening) -> Conversation[RemoteQueue]:
    """Over RemoteRead; over qm2qm where that is not registered, or not offered at the port where it should be.

    Any other failure is the result: a queue that RemoteRead does not open, qm2qm must not open either.
    """
    try:
        return (yield from remote_read.open(opening))
    except InterfaceNotSupported:
        pass
    except RpcFault as fault:
        if fault.status != EPT_S_NOT_REGISTERED:
            raise
    return (yield from qm2qm.open(opening))
