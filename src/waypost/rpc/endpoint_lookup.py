"""From an interface to its port: the one question that a client asks an endpoint mapper (C706 6.2.2 and appendix O).

The address in a tower is not believed: whoever answers on the mapper's port says on which port of the same computer the
interface is, and not on which computer.
"""

from typing import Final

from waypost.rpc.binds import NDR20
from waypost.rpc.endpoint_mapper_interface import Endpoint, EptMapReply, EptMapRequest, MapperStatus, Tower
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Interface

# The opnum of EPMAPPER that takes the question.
EPT_MAP: Final = 3

# MS-RPCE 2.2.1.2.1 answers with a status of DCE; what a Windows client makes of it is the error that MS-MQRR 3.2.4.1
# names.
EPT_S_NOT_REGISTERED: Final = 0x0000_06D9

# Of more than one, the first that can be used is taken.
MAX_ANSWERS: Final = 4


def map_request(interface: Interface) -> EptMapRequest:
    """The question. Mappers look at the interface and the protocols; NDR stands for any transfer syntax."""
    tower = Tower.of(Endpoint(interface.syntax, NDR20))
    return EptMapRequest(None, tower, max_towers=MAX_ANSWERS)


def mapped_port(interface: Interface, reply: EptMapReply) -> int:
    """The TCP port in the answer, or RpcFault: with EPT_S_NOT_REGISTERED if the mapper has none."""
    if reply.status not in (MapperStatus.OK, MapperStatus.EPT_S_NOT_REGISTERED, EPT_S_NOT_REGISTERED):
        raise RpcFault(reply.status)
    if reply.status == MapperStatus.OK:
        for endpoint in (tower.endpoint for tower in reply.towers):
            if endpoint is not None and endpoint.port and endpoint.interface.uuid == interface.uuid:
                return endpoint.port
    raise RpcFault(EPT_S_NOT_REGISTERED)
